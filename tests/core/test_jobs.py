"""What the fields of jobs may be given as."""

import pathlib

import pytest

import beambert
from beambert.errors import InputError

TASK = beambert.find_task("sst-2")


@pytest.mark.parametrize(
    "kind, as_given, meant",
    [
        (
            beambert.PretrainingDataJob,
            {"vocab_file": pathlib.Path("v.txt"), "output": pathlib.Path("o"), "input": "a*"}
            | {"max_seq_length": 64, "max_predictions_per_seq": 9, "scrub": ["email"]},
            {"vocab_file": "v.txt", "output": "o", "input": ("a*",)}
            | {"max_seq_length": (64,), "max_predictions_per_seq": (9,), "scrub": ("email",)},
        ),
        (
            beambert.EvaluationJob,
            {"task": TASK, "data_dir": pathlib.Path("d"), "model": "m", "output": "e"}
            | {"thresholds": beambert.Threshold("accuracy")},
            {"task": TASK, "data_dir": "d", "model": "m", "output": "e"}
            | {"thresholds": (beambert.Threshold("accuracy"),)},
        ),
    ],
)
def test_jobs_are_those_of_the_tuples(kind, as_given, meant):
    job = kind(**as_given)
    assert job == kind(**meant)
    assert {name: getattr(job, name) for name in meant} == meant


@pytest.mark.parametrize(
    "given, meant",
    [
        ({"num_shards": "four"}, "--num_shards=four"),
        ({"eval_fraction": "0.1"}, "--eval_fraction=0.1"),
        ({"do_lower_case": "True"}, "--do_lower_case=True"),
        ({"max_seq_length": ["32"]}, "--max_seq_length=32"),
    ],
)
def test_a_text_is_no_number(given, meant):
    with pytest.raises(InputError, match=f"^{meant}:"):
        beambert.PretrainingDataJob(vocab_file="vocab.txt", output="out", **given)
