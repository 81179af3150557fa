"""What a parser says about flags that are written wrong."""

import argparse

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beambert import flags as shared_flags
from beambert.cli import COMMANDS
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.pipelines.running import beam_options

OF_BEAM = [name for name, command in COMMANDS.items() if command.needs_beam]


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
        ("vocab", ["--inptu=x", "--output=y"], "--inptu=x: no such flag; did you mean --input?"),
        ("vocab", ["--input=x", "--outptu=y"], "--outptu=y: no such flag; did you mean --output?"),
        ("features", ["--output=y", "--task=MRPC"], "--data_dir: missing; see --help"),
        (
            "pretrain",
            ["--gpus=2", "--model_dir=y"],
            "--data: missing, and --gpus=2 is no flag of this command; see --help",
        ),
        ("vocab", ["--input=y", "--region=us-east1"], "--output: missing; see --help"),
        (
            "vocab",
            ["--input=x", "--output=y", "--vocab-size=9"],
            "--vocab-size=9: no such flag; did you mean --vocab_size?",
        ),
        (
            "vocab",
            ["--input=x", "--output=y", "--vocab=9"],
            "--vocab=9: no such flag; did you mean --vocab_size?",
        ),
        (
            "vocab",
            ["--input=x", "--output=y", "--runer=FnApiRunner"],
            "--runer=FnApiRunner: no such flag; did you mean --runner?",
        ),
        (
            "vocab",
            ["--input=x", "--output=y", "z.txt"],
            "z.txt: is neither a flag nor the value of one; see --help",
        ),
        ("vocab", ["--input=x", "--output=y", "-qqqqq"], "-qqqqq: no such flag; see --help"),
        ("verify", ["--inputs=x", "y"], "--inputs=x: no such flag; give the inputs without a flag"),
        ("verify", ["--input", "y"], "--input: no such flag; give the inputs without a flag"),
        ("vocab", ["--vocab_size=1e4"], "--vocab_size=1e4: must be an integer, such as 1000"),
        ("data", ["--eval_fraction=5%"], "--eval_fraction=5%: must be a number, such as 0.5"),
        (
            "pretrain",
            ["--data=a", "--model_dir="],
            "--model_dir=: is empty; give a path",
        ),
        (
            "data",
            ["--input=a", "--vocab_file=v", "--output=b", "--blocklist", ""],
            "--blocklist=: is empty; give a path",
        ),
        (
            "data",
            ["--input=a", "--vocab_file=", "--output=b"],
            "--vocab_file=: is empty; give a path",
        ),
        (
            "vocab",
            ["--input", "a", "gs:/bucket/b", "--output=c"],
            "--input=gs:/bucket/b: lacks a slash; write gs://",
        ),
        ("export", ["--model=m", "--output=o", "--text"], "--text: needs a value; see --help"),
        ("vocab", ["--output=o", "--input"], "--input: needs a value; see --help"),
        ("pretrain", ["--dta=x"], "--dta=x: no such flag; did you mean --data?"),
        (
            "pretrain",
            ["--data=x", "--model_dir=y", "--batch_size=3"],
            "--batch_size=3: no such flag; did you mean --train_batch_size?",
        ),
    ],
)
def test_a_wrong_flag_is_named_with_the_nearest(command, arguments, message):
    assert refusal(command, *arguments) == message


@pytest.mark.parametrize("command", OF_BEAM)
def test_no_flag_of_beam_is_taken_for_one_of_ours(command):
    """A flag of Beam beside a missing one of ours is no typo."""
    of_beam = argparse.ArgumentParser(add_help=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(of_beam)
    ours = COMMANDS[command].build_parser().flags
    for option in of_beam._option_string_actions.keys() - {"--label"}:
        found = shared_flags._nearest(option, ours, shared_flags.SIMILAR)
        assert found is None or f"--{found}" == option, option


@pytest.mark.parametrize("name", ["output", "fraction"])
def test_two_dashes_are_no_value(name):
    parser = FlagParser(prog="x")
    parser.add_argument("--output")
    parser.add_argument("--fraction", type=float)
    for parse in (parser.parse_args, parser.parse_known_args):
        with pytest.raises(InputError, match=f"^--{name}: -- is no value; see --help$"):
            parse([f"--{name}=--"])
