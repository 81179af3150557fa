"""The names in Python and the page of the documents about them; embedding in Beam."""

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

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.typehints.decorators import TypeCheckError

import beambert
from beambert.pipelines import running
from beambert.trainer.embedding.embedder import embed

DOCS = pathlib.Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", beambert.__all__)
def test_every_name_is_defined_in_its_module(name):
    """Found in the source: loading all of them takes ten seconds."""
    path = pathlib.Path(importlib.util.find_spec(beambert._MODULES[name]).origin)
    body = ast.parse(path.read_text("utf-8")).body
    (found,) = [node for node in body if getattr(node, "name", None) == name]
    assert ast.get_docstring(found)


def test_the_page_names_all_that_is_there():
    page = (DOCS / "python.md").read_text("utf-8")
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
    options_of = running.on_this_machine(lambda job, options: options)
    found = options_of(None, given)
    assert found.view_as(StandardOptions).runner == "FnApiRunner"
    assert found.view_as(GoogleCloudOptions).temp_location == "gs://b/tmp"
    assert given.view_as(StandardOptions).runner is None
    named = PipelineOptions(runner="FlinkRunner")
    assert options_of(None, named) is named
    assert options_of(None).view_as(StandardOptions).runner == "FnApiRunner"


def state() -> dict[str, object]:
    """What a library may leave changed."""
    return {
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, warnings.showwarning),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "streams": (sys.stdout, sys.stderr, os.fstat(1).st_ino, os.fstat(2).st_ino),
        "logging": (logging.root.level, list(logging.root.handlers), list(logging.root.filters)),
        "folder": os.getcwd(),
    }


def run(name: str, blocks: list[str]) -> dict[str, object]:
    """Runs blocks of code one after the other; returns their names."""
    names = {"__name__": "documentation"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{name}, block {number}", "exec"), names)
    return names


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "python.md").read_text("utf-8")
    run("python.md", re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    assert (tmp_path / "records" / "_SUCCESS").exists()


@pytest.mark.slow
def test_the_notebook_runs_and_leaves_the_process_as_it_was(tmp_path, monkeypatch, capfd):
    """In a thread of its own, where no signal handler can be set."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads((DOCS / "python.ipynb").read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    done = []
    thread = threading.Thread(target=lambda: done.append(run("python.ipynb", code)))
    gc.unfreeze()
    before = state()
    thread.start()
    thread.join()
    assert state() == before
    (names,) = done
    printed = capfd.readouterr().out
    assert "0 faults" in printed and "--model=nowhere: no such folder" in printed
    assert names["results"] and names["found"]["examples"] == 32


GOLDEN = pathlib.Path(__file__).parent / "trainer"
MODEL = str(GOLDEN / "golden_sentences" / "mean")


@pytest.mark.slow
def test_embed():
    """Texts and columns with their vectors, those without a text with the reason."""
    rows = ["a river", {"text": "b", "id": 7}, " ", {"body": "a"}, {"text": 5}]
    made = beambert.Embed(beambert.EmbeddingJob(MODEL, prefix="a ", normalize=True))
    expected = embed(MODEL, ["a river", "b"], prefix="a ", normalize=True)

    def told(row):
        vector = row.pop("embedding", np.zeros(0, np.float32))
        assert vector.dtype == np.float32
        return row, np.round(vector.astype(float), 4).tolist()

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | beam.Create(rows) | made | beam.Map(told)
        vectors = [np.round(each.astype(float), 4).tolist() for each in expected]
        reasons = [
            ({"text": " "}, "has an empty 'text'; fill it in"),
            ({"body": "a"}, "has no column 'text' (it has body); name another"),
            ({"text": 5}, "has no text in 'text'; write one"),
        ]
        assert_that(
            found,
            equal_to(
                [({"text": "a river"}, vectors[0]), ({"text": "b", "id": 7}, vectors[1])]
                + [(row | {"reason": f"a row: {why}"}, []) for row, why in reasons]
            ),
        )


def test_embed_refuses_at_once(tmp_path):
    with pytest.raises(beambert.InputError, match="--max_seq_length=900: must be from 3 to"):
        beambert.Embed(beambert.EmbeddingJob(MODEL, max_seq_length=900))
    with pytest.raises(beambert.InputError, match="--model=.*none"):
        beambert.Embed(beambert.EmbeddingJob(str(tmp_path / "none")))
    with pytest.raises(TypeCheckError):
        beam.Pipeline() | beam.Create([1]) | beambert.Embed(beambert.EmbeddingJob(MODEL))
