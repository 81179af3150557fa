"""Parsing and checking a command's flags."""

import argparse
import dataclasses
from typing import NoReturn, TypeVar

from beambert.pipelines.shared.errors import InputError

Job = TypeVar("Job")


class FlagParser(argparse.ArgumentParser):
    """A parser of a command's flags whose errors are one sentence, as all others."""

    def error(self, message: str) -> NoReturn:
        """Refuses what can't be parsed.

        Raises:
          InputError: always.
        """
        raise InputError(f"{message}; see --help")


def parse_bool(text: str) -> bool:
    """Reads a flag's value as absl does (`--do_lower_case=False`), for argparse's `type=`."""
    lowered = text.lower()
    if lowered in ("true", "t", "1", "yes"):
        return True
    if lowered in ("false", "f", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")


def read_job(job_type: type[Job], flags: argparse.Namespace) -> Job:
    """Makes a job of the flags that have the names of its fields; lists become tuples."""
    given = {field.name: getattr(flags, field.name) for field in dataclasses.fields(job_type)}
    return job_type(**{n: tuple(v) if isinstance(v, list) else v for n, v in given.items()})


def check_minimum(flags: object, minimum: int, *names: str) -> None:
    """Refuses integers below a minimum among the attributes of flags or a job; None passes.

    Raises:
      InputError: naming the flag.
    """
    for name in names:
        value = getattr(flags, name)
        if value is not None and value < minimum:
            raise InputError(f"--{name}={value}: must be at least {minimum}")


def check_shares(flags: object, *names: str) -> None:
    """Refuses attributes of flags or a job that aren't shares of something.

    Raises:
      InputError: naming the flag.
    """
    for name in names:
        value = getattr(flags, name)
        if not 0.0 <= value < 1.0:
            raise InputError(f"--{name}={value}: must be at least 0 and less than 1")


# Arguments of a flag that is on where it is named, and may have a value all the same.
SWITCH = {"type": parse_bool, "nargs": "?", "const": True, "default": False, "metavar": "BOOL"}
