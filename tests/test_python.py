"""The package from Python: what it offers, and that a function leaves the process as it was."""

import ast
import gc
import importlib.util
import json
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import warnings

import pytest
from support.sample_text import WORDS

import beambert
from beambert.pipelines import running

PACKAGE = pathlib.Path(beambert.__file__)


@pytest.mark.parametrize("name", beambert.__all__)
def test_every_name_is_defined_in_its_module(name):
    """Found in the source: loading all of them takes ten seconds."""
    path = pathlib.Path(importlib.util.find_spec(beambert._MODULES[name]).origin)
    body = ast.parse(path.read_text("utf-8")).body
    (found,) = [node for node in body if getattr(node, "name", None) == name]
    assert ast.get_docstring(found)


def test_the_page_names_all_that_is_there():
    page = (PACKAGE.parents[1] / "docs" / "python.md").read_text("utf-8")
    assert set(beambert.__all__) <= set(re.findall(r"\w+", page))
    assert set(re.findall(r"beambert\.(\w+)\(", page)) <= set(beambert.__all__)


def test_a_name_is_loaded_when_it_is_asked_for():
    code = """
import sys, beambert
job = beambert.PretrainingDataJob(vocab_file="vocab.txt", output="records")
beambert.find_task("sst-2")
try:
    beambert.LoopConfig(0)
except beambert.InputError as error:
    print(error)
print({"apache_beam", "tensorflow", "keras", "pyarrow"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["--train_batch_size=0: must be at least 1", "set()"]


def test_an_evaluation_needs_no_threshold():
    task = beambert.find_task("sst-2")
    job = beambert.EvaluationJob(task, "SST-2", "model", "evaluation")
    assert (job.split, job.thresholds) == ("dev", (beambert.Threshold("accuracy"),))
    chosen = (beambert.Threshold("accuracy", 0.8),)
    given = beambert.EvaluationJob(task, "SST-2", "model", "evaluation", thresholds=chosen)
    assert given.thresholds == chosen


def test_options_that_name_no_runner_get_this_process():
    """Beam's own default would first try to download another runner."""
    from apache_beam.options.pipeline_options import (
        GoogleCloudOptions,
        PipelineOptions,
        StandardOptions,
    )

    given = PipelineOptions(temp_location="gs://b/tmp")
    found = running._with_runner(given)
    assert found.view_as(StandardOptions).runner == "FnApiRunner"
    assert found.view_as(GoogleCloudOptions).temp_location == "gs://b/tmp"
    assert given.view_as(StandardOptions).runner is None
    named = PipelineOptions(runner="FlinkRunner")
    assert running._with_runner(named) is named
    assert running._with_runner(None).view_as(StandardOptions).runner == "FnApiRunner"


def state() -> dict[str, object]:
    """All of a process that a library may leave changed."""
    loggers = {None: logging.root, **logging.root.manager.loggerDict}
    return {
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "hooks": (sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook),
        "filters": list(warnings.filters),
        "warnings": warnings.showwarning,
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug()),
        "streams": (sys.stdout, sys.stderr, os.fstat(1).st_ino, os.fstat(2).st_ino),
        "folder": os.getcwd(),
        "loggers": {
            name: (
                logger.level,
                logger.disabled,
                logger.propagate,
                list(logger.handlers),
                list(logger.filters),
            )
            for name, logger in loggers.items()
            if isinstance(logger, logging.Logger)
        },
    }


def write_texts(folder: pathlib.Path) -> None:
    for i in range(40):
        sentences = (" ".join(WORDS[(i + j) % 60 : (i + j) % 60 + 8]) + "." for j in range(6))
        (folder / f"{i}.txt").write_text("\n".join(sentences))
    (folder / "reviews").mkdir()
    for split in ("train", "dev"):
        rows = "".join(f"{' '.join(WORDS[i : i + 3])}\t{i % 2}\n" for i in range(32))
        (folder / "reviews" / f"{split}.tsv").write_text(f"sentence\tlabel\n{rows}")
    (folder / "texts.jsonl").write_text(json.dumps({"sentence": "a good film"}) + "\n")


def jobs():
    """Every function with small work, in an order in which each finds what it needs."""
    task = beambert.find_task("sst-2")
    loop, folders = beambert.LoopConfig(train_batch_size=8), beambert.TrainingFolders
    yield (
        beambert.learn_vocabulary,
        beambert.VocabularyJob(output="vocab.txt", input="[0-9]*.txt", vocab_size=150),
    )
    yield (
        beambert.create_pretraining_data,
        beambert.PretrainingDataJob(
            vocab_file="vocab.txt",
            output="records",
            input="[0-9]*.txt",
            max_seq_length=(32,),
            num_shards=1,
        ),
    )
    yield beambert.verify_records, beambert.VerificationJob(inputs="records")
    yield (
        beambert.pretrain,
        beambert.PretrainingJob(
            data="records",
            model="tiny",
            output=folders("encoder"),
            optimizer=beambert.OptimizerConfig(1e-3, num_train_steps=2, num_warmup_steps=1),
            loop=loop,
        ),
    )
    yield (
        beambert.finetune,
        beambert.FinetuningJob(
            task=task,
            data_dir="reviews",
            init="encoder",
            output=folders("model"),
            num_train_epochs=0.5,
            loop=loop,
        ),
    )
    yield beambert.evaluate, beambert.EvaluationJob(task, "reviews", "model", "evaluation")
    yield beambert.predict, beambert.PredictionJob("model", "texts.jsonl", "answers")


def call(function, *given):
    """Calls a function in a thread of its own, where no signal handler can be set."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function(*given)))
    thread.start()
    thread.join()
    assert found, f"{function.__name__} raised"
    return found[0]


@pytest.mark.release
def test_a_function_leaves_the_process_as_it_was(tmp_path, monkeypatch):
    """From another thread first, which does the work; again from this one, which finds it done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a notebook, without those of pytest
    write_texts(tmp_path)
    gc.unfreeze()
    for function, job in [*jobs(), (beambert.export, "model")]:
        given = (job, "serving") if function is beambert.export else (job,)
        before = state()
        results = call(function, *given)
        after = state()
        # Libraries that are loaded for the first time bring loggers and filters of their own.
        after["loggers"] = {name: after["loggers"][name] for name in before["loggers"]}
        after["filters"] = [each for each in after["filters"] if each in before["filters"]]
        assert after == before, function.__name__
        if function is not beambert.verify_records:
            again = function(*given)
            assert again == results or function is beambert.export  # It has a new version.
    for folder in ("records", "encoder", "model", "answers"):
        assert (tmp_path / folder / "_SUCCESS").exists()
