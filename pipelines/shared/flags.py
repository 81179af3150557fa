"""Parsing and checking a command's flags."""

import argparse
from typing import NoReturn

from beambert.pipelines.shared.errors import InputError


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


def check_minimum(flags: argparse.Namespace, minimum: int, *names: str) -> None:
    """Refuses integer flags below a minimum; None passes.

    Raises:
      InputError: naming the flag.
    """
    for name in names:
        value = getattr(flags, name)
        if value is not None and value < minimum:
            raise InputError(f"--{name}={value}: must be at least {minimum}")


def check_shares(flags: argparse.Namespace, *names: str) -> None:
    """Refuses flags that aren't shares of something.

    Raises:
      InputError: naming the flag.
    """
    for name in names:
        value = getattr(flags, name)
        if not 0.0 <= value < 1.0:
            raise InputError(f"--{name}={value}: must be at least 0 and less than 1")


# Arguments of a flag that is on where it is named, and may have a value all the same.
SWITCH = {"type": parse_bool, "nargs": "?", "const": True, "default": False, "metavar": "BOOL"}
