"""Gathers the summary for the report from the demo's output folders."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from beambert.demo.corpus import FINISHED_FILE
from beambert.demo.report import DemoSummary, ShownStep, read_metrics
from beambert.demo.steps import LONG_LENGTH, SENTENCE, SHORT_LENGTH, Done, read_json
from beambert.pipelines.records.contract import INFO_FILE
from beambert.pipelines.storage.claims import BLESSED, METRICS_FILE, NOT_BLESSED
from beambert.pipelines.storage.model_files import CURVES_FILE, RESULTS_FILE, TRAINING_FILE


def gather(folder: Path, done: Sequence[Done]) -> DemoSummary:
    """Returns the summary of the finished steps."""
    corpus = read_json(folder / "corpus" / FINISHED_FILE)
    records, long_records = (
        read_json(folder / "records" / str(length) / INFO_FILE)
        for length in (SHORT_LENGTH, LONG_LENGTH)
    )
    pretraining = read_json(folder / "encoder" / RESULTS_FILE)
    phases = read_json(folder / "encoder" / TRAINING_FILE)["phases"]
    pretrained = read_json(folder / "classifier" / RESULTS_FILE)
    random = read_json(folder / "classifier-random" / RESULTS_FILE)
    evaluation = read_json(folder / "evaluation" / METRICS_FILE)
    curve = read_metrics(folder / "encoder" / CURVES_FILE)
    step_seconds = sorted(line["seconds_per_step"] for line in curve if "seconds_per_step" in line)
    counts = records["counts"]
    results = {
        "corpus": f"{corpus['documents']:,} documents, {corpus['bytes_after'] / 1e6:.1f} MB",
        "vocabulary": f"{records['vocabulary']['size']:,} word pieces",
        "records": (
            f"{counts['instances']:,} instances of {SHORT_LENGTH} tokens, "
            f"{long_records['counts']['instances']:,} of {LONG_LENGTH}; "
            f"IsNext in {counts['is_next_share']:.1%} of the short ones"
        ),
        "pre-training": (
            f"masked LM {pretraining['masked_lm_accuracy']:.1%}, "
            f"next sentence {pretraining['next_sentence_accuracy']:.1%} held out, "
            f"at {LONG_LENGTH} tokens"
        ),
        "fine-tuning": f"accuracy {pretrained['accuracy']:.1%}",
        "fine-tuning, random weights": f"accuracy {random['accuracy']:.1%}",
        "evaluation": verdict(evaluation),
        "export": "a SavedModel that takes raw text",
    }
    return DemoSummary(
        steps=[
            ShownStep(
                name=step.command.name,
                command=step.command.line,
                seconds=step.seconds,
                output=str(step.command.output),
                result=results[step.command.name],
            )
            for step in done
        ],
        machine={
            "cores": str(os.cpu_count()),
            "Python": platform.python_version(),
            "TensorFlow": version("tensorflow"),
            "Keras": version("keras"),
            "Apache Beam": version("apache-beam"),
        },
        corpus={
            "documents": f"{corpus['documents']:,}",
            "before filtering": f"{corpus['bytes_before'] / 1e6:.1f} MB",
            "after filtering": f"{corpus['bytes_after'] / 1e6:.1f} MB",
        },
        vocabulary_size=records["vocabulary"]["size"],
        lengths=(SHORT_LENGTH, LONG_LENGTH),
        last_short_step=phases[0]["last_step"],
        instances=counts["instances"],
        is_next_share=counts["is_next_share"],
        fill=counts["filled_share"],
        pretraining=curve,
        commonest_token_accuracy=pretraining["commonest_token_accuracy"],
        seconds_per_step=step_seconds[len(step_seconds) // 2],
        finetuning_pretrained=read_metrics(folder / "classifier" / CURVES_FILE),
        finetuning_random=read_metrics(folder / "classifier-random" / CURVES_FILE),
        pretrained_accuracy=pretrained["accuracy"],
        random_accuracy=random["accuracy"],
        majority_accuracy=pretrained["baseline_accuracy"],
        verdict=verdict(evaluation),
        slices=slices(evaluation),
        sentence=SENTENCE,
        answer=answer(done),
        seconds=sum(step.seconds for step in done),
    )


def slices(evaluation: Mapping[str, Any]) -> list[tuple[str, int, float]]:
    """Returns (slice, examples, accuracy) from an evaluation's metrics.json, overall first."""
    parts = {"overall": evaluation["overall"]}
    for column, values in evaluation["slices"].items():
        parts |= {f"{column} {value}": part for value, part in values.items()}
    return [(name, part["example_count"], part["accuracy"]) for name, part in parts.items()]


def verdict(evaluation: Mapping[str, Any]) -> str:
    """Returns BLESSED or NOT_BLESSED, the name of the evaluation's marker file."""
    return BLESSED if evaluation["blessed"] else NOT_BLESSED


def answer(done: Sequence[Done]) -> list[tuple[str, float]]:
    """Returns (label, probability) pairs that the step `export` printed; none if it did not run."""
    printed = [line for step in done if step.command.name == "export" for line in step.printed]
    found = (re.fullmatch(r" +([0-9.]+)%  (.+)", line) for line in printed)
    return [(match[2], float(match[1]) / 100) for match in found if match]
