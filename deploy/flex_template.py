"""Dataflow Flex Templates of the Beam commands. Their parameters are the flags of the commands.

python -m beambert.deploy.flex_template FOLDER     writes FOLDER/COMMAND.json of each
"""

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from beambert.cli import COMMANDS
from beambert.flags import Flag

TEMPLATES = ("vocab", "data", "verify")
# Flags without a parameter: they end the command before it starts a job.
LEFT_OUT = ("dry_run",)
# Types of parameters that Dataflow's console checks before it starts a job.
PARAMETER_TYPES = {"vocab_file": "GCS_READ_FILE"}


def metadata(command: str) -> dict[str, Any]:
    """Returns the metadata.json of a command's template."""
    return {
        "name": f"beambert {command}",
        "description": COMMANDS[command].build_parser().description,
        "parameters": [_parameter(flag) for flag in _flags(command).values()],
    }


def _flags(command: str) -> dict[str, Flag]:
    """Returns the flags that are parameters of the template, by name."""
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
    """Returns the command line for the parameters of a template.

    Args:
      command: name of the command.
      given: arguments from Dataflow's launcher, `--parameter=value` each, and Beam's own flags.
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
    # Positional arguments come first, as a flag with several values would take them.
    return [command, *positional, *arguments]


if __name__ == "__main__":
    for name in TEMPLATES:
        path = pathlib.Path(sys.argv[1], f"{name}.json")
        path.write_text(json.dumps(metadata(name), indent=2, ensure_ascii=False), encoding="utf-8")
