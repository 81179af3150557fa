"""Dataflow Flex Templates of the Beam commands: their parameters are the commands' flags.

python -m beambert.deploy.flex_template      writes deploy/dataflow/COMMAND.json again
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from beambert.commands import COMMANDS
from beambert.pipelines.shared.flags import Flag

FOLDER = pathlib.Path(__file__).parent / "dataflow"
TEMPLATES = ("vocab", "data", "verify")
# Of no use in a job: they end before there is one.
LEFT_OUT = ("dry_run", "vcpu_hour_price")
# What Dataflow's console checks before it starts anything.
PARAMETER_TYPES = {"vocab_file": "GCS_READ_FILE"}


def metadata(command: str) -> dict[str, Any]:
    """Returns a template's metadata.json."""
    return {
        "name": f"beambert {command}",
        "description": COMMANDS[command].build_parser().description,
        "parameters": [_parameter(flag) for flag in _flags(command).values()],
    }


def _flags(command: str) -> dict[str, Flag]:
    """Returns the flags that a template has."""
    flags = COMMANDS[command].build_parser().flags
    return {name: flag for name, flag in flags.items() if name not in LEFT_OUT}


def _parameter(flag: Flag) -> dict[str, Any]:
    text = flag.help.replace("%(default)s", str(flag.default)).replace("%%", "%")
    if flag.takes_several or flag.is_repeatable:
        text += " (several: with spaces between)"
    parameter: dict[str, Any] = {
        "name": flag.name,
        "label": flag.name,
        "helpText": text,
        "isOptional": not flag.is_required,
        "paramType": PARAMETER_TYPES.get(flag.name, "TEXT"),
    }
    if not flag.takes_value:
        parameter["regexes"] = ["^(true|false)$"]
    elif flag.choices:
        parameter["regexes"] = [f"^({'|'.join(map(str, flag.choices))})$"]
    return parameter


def to_arguments(command: str, given: Sequence[str]) -> list[str]:
    """Returns the command line that a template's `--parameter=value`s stand for.

    Args:
      command: of BeamBERT.
      given: by Dataflow's launcher, Beam's own flags among them.
    """
    flags = _flags(command)
    positional, arguments = [], []
    for argument in given:
        name, _, value = argument.removeprefix("--").partition("=")
        flag = flags.get(name)
        if flag is None:
            arguments.append(argument)
        elif flag.is_positional:
            positional += value.split()
        elif not flag.takes_value:
            arguments += [f"--{name}"] if value == "true" else []
        elif flag.takes_several:
            arguments += [f"--{name}", *value.split()]
        elif flag.is_repeatable:
            arguments += [f"--{name}={each}" for each in value.split()]
        else:
            arguments.append(argument)
    # After a flag that takes many they would be taken for its values.
    return [command, *positional, *arguments]


def serialize(value: dict[str, Any]) -> str:
    """Returns what a metadata file holds."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in TEMPLATES:
        (FOLDER / f"{name}.json").write_text(serialize(metadata(name)), encoding="utf-8")
