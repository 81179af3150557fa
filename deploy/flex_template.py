"""Dataflow Flex Templates of the Beam commands: their parameters are the commands' flags.

python -m beambert.deploy.flex_template      writes deploy/dataflow/COMMAND.json again
"""

import argparse
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from beambert.pipelines import create_pretraining_data, create_vocabulary, verify

FOLDER = pathlib.Path(__file__).parent / "dataflow"
PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "vocab": create_vocabulary.build_parser,
    "data": create_pretraining_data.build_parser,
    "verify": verify.build_parser,
}
# Of no use in a job: they end before there is one.
LEFT_OUT = ("help", "dry_run", "vcpu_hour_price")
# What Dataflow's console checks before it starts anything.
PARAMETER_TYPES = {"vocab_file": "GCS_READ_FILE"}


def metadata(command: str) -> dict[str, Any]:
    """Returns a template's metadata.json."""
    parser = PARSERS[command]()
    parameters = [_parameter(action) for action in _actions(parser)]
    return {
        "name": f"beambert {command}",
        "description": parser.description,
        "parameters": parameters,
    }


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.dest not in LEFT_OUT]


def _parameter(action: argparse.Action) -> dict[str, Any]:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    if _takes_many(action):
        text += " (several: with spaces between)"
    is_required = action.required or not action.option_strings
    parameter: dict[str, Any] = {
        "name": action.dest,
        "label": action.dest,
        "helpText": text,
        "isOptional": not is_required,
        "paramType": PARAMETER_TYPES.get(action.dest, "TEXT"),
    }
    if action.nargs == 0:
        parameter["regexes"] = ["^(true|false)$"]
    elif action.choices:
        parameter["regexes"] = [f"^({'|'.join(map(str, action.choices))})$"]
    return parameter


def _takes_many(action: argparse.Action) -> bool:
    return action.nargs == "+" or isinstance(action, argparse._AppendAction)


def to_arguments(command: str, given: Sequence[str]) -> list[str]:
    """Returns the command line that a template's `--parameter=value`s stand for.

    Args:
      command: of BeamBERT.
      given: by Dataflow's launcher, Beam's own flags among them.
    """
    actions = {action.dest: action for action in _actions(PARSERS[command]())}
    positional, arguments = [], []
    for argument in given:
        name, _, value = argument.removeprefix("--").partition("=")
        action = actions.get(name)
        if action is None:
            arguments.append(argument)
        elif not action.option_strings:
            positional += value.split()
        elif action.nargs == 0:
            arguments += [f"--{name}"] if value == "true" else []
        elif action.nargs == "+":
            arguments += [f"--{name}", *value.split()]
        elif _takes_many(action):
            arguments += [f"--{name}={each}" for each in value.split()]
        else:
            arguments.append(argument)
    # After a flag that takes many they would be taken for its values.
    return [command, *positional, *arguments]


def serialize(value: dict[str, Any]) -> str:
    """Returns what a metadata file holds."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in PARSERS:
        (FOLDER / f"{name}.json").write_text(serialize(metadata(name)), encoding="utf-8")
