"""What a parser says about wrong flags, and what fields of jobs may be given as."""

import pathlib

import pytest

import beambert
from beambert.cli import COMMANDS
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.pipelines.running import beam_options


def refusal(command: str, *arguments: str) -> str:
    """What a command says about arguments that it refuses, as its `main` parses them."""
    parser = COMMANDS[command].build_parser()
    with pytest.raises(InputError) as error:
        if COMMANDS[command].needs_beam:
            _, others = parser.parse_known_args(arguments)
            beam_options(others, parser.flags)
        else:
            parser.parse_args(arguments)
    return str(error.value)


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("vocab", ["--inptu", "x"], "--inptu: no such flag; did you mean --input?"),
        (
            "vocab",
            ["--input=x", "--output=y", "--vocab=9"],
            "--vocab=9: no such flag; did you",
        ),
        (
            "vocab",
            ["--input=x", "--output=y", "--runer=R"],
            "--runer=R: no such flag; did you",
        ),
        ("finetune", ["--epochs=3"], "--epochs=3: no such flag; did you mean --num_train_epochs?"),
        ("vocab", ["--input=x", "--output=y", "z.txt"], "z.txt: is neither a flag nor the value"),
        ("vocab", ["--input=x", "--output=y", "-qqqqq"], "-qqqqq: no such flag; see --help"),
        ("vocab", ["--input=y", "--region=us-east1"], "--output: missing; see --help"),
        ("vocab", ["--input", "a", "gs:/b", "--output=c"], "--input=gs:/b: lacks a slash"),
        ("vocab", ["--vocab_size=1e4"], "--vocab_size=1e4: must be an integer"),
        ("vocab", ["--output=o", "--input"], "--input: needs a value; see --help"),
        ("verify", ["--input", "y"], "--input: no such flag; give the inputs without a flag"),
        ("pretrain", ["--gpus=2", "--model_dir=y"], "--data: missing, and --gpus=2 is no flag of"),
        ("pretrain", ["--data=a", "--model_dir="], "--model_dir=: is empty; give a path"),
        ("index", ["--embeddings=a", "--output=//"], "--output=//: is the root; give a path"),
    ],
)
def test_a_wrong_flag_is_named_with_the_nearest(command, arguments, message):
    assert refusal(command, *arguments).startswith(message)


@pytest.mark.parametrize("name", ["output", "fraction"])
def test_two_dashes_are_no_value(name):
    parser = FlagParser(prog="x")
    parser.add_argument("--output")
    parser.add_argument("--fraction", type=float)
    for parse in (parser.parse_args, parser.parse_known_args):
        with pytest.raises(InputError, match=f"^--{name}: -- is no value; see --help$"):
            parse([f"--{name}=--"])


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
