"""Parsing and checking a command's flags."""

import argparse
import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from beambert.errors import InputError

# Least similarity (difflib's ratio) of a flag to a known one that it is probably meant to be. No
# flag of Beam but --label is so similar to a flag of ours. A flag that nobody knows may be less
# similar.
SIMILAR, LESS_SIMILAR = 0.75, 0.6
# A path whose scheme has lost a slash would be a folder on this machine.
_ONE_SLASH = re.compile(r"(gs|s3|hdfs):/(?!/)")
# Metavars of files and folders, and the last words of their flags' names. An empty one, or a slash
# alone, is mostly a variable of the shell that is not set.
_OF_PATHS = ("DIR", "FILE", "PATH")
# Part of argparse's message about required flags.
_MISSING = "the following arguments are required"


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag of a command.

    Attributes:
      is_positional: True if only its value stands on the command line.
      takes_value: False for a flag without a value, such as `--dry_run`.
      takes_several: True if several values may follow the name.
      is_repeatable: True if the flag may be given several times, each time with a value.
    """

    is_positional: bool
    takes_value: bool
    takes_several: bool
    is_repeatable: bool


class FlagParser(argparse.ArgumentParser):
    """A parser of a command's flags that lists them and raises its errors as `InputError`."""

    def __init__(
        self,
        prog: str | None = None,
        description: str | None = None,
        examples: str | None = None,
        add_help: bool = True,
    ):
        """Makes a parser without flags.

        Args:
          prog: name of the command on the command line.
          description: description of the command.
          examples: text at the end of `--help`, whose lines stay as they are.
          add_help: True to add the flag `--help`.
        """
        # Whether Beam has flags beside these.
        self._takes_others = True
        super().__init__(
            prog=prog,
            description=description,
            epilog=examples,
            add_help=add_help,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    @property
    def flags(self) -> dict[str, Flag]:
        """The flags by name (no dashes), without `--help`, in the order in which it shows them."""
        return {
            each.dest: Flag(
                is_positional=not each.option_strings,
                takes_value=each.nargs != 0,
                takes_several=each.nargs == "+",
                is_repeatable=isinstance(each, argparse._AppendAction),
            )
            for each in self._actions
            if each.dest != "help" and each.nargs != argparse.PARSER
        }

    def parse_args(self, args: Sequence[str], namespace: Any = None) -> argparse.Namespace:
        """Returns the values of the flags; see `argparse`.

        Raises:
          InputError: a flag is unknown or missing, or has a value that it does not take.
        """
        self._takes_others = False
        flags, unknown = self.parse_known_args(args, namespace)
        if unknown:
            raise unknown_flag(unknown[0], self.flags)
        return flags

    def parse_known_args(
        self, args: Sequence[str], namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Returns the values of the flags, and the arguments that are none; see `argparse`.

        Raises:
          InputError: a flag is missing, or has a value that it does not take.
        """
        for word in args:
            # Up to Python 3.12 argparse drops this value and gives an empty list.
            if word.startswith("--") and word.endswith("=--"):
                raise InputError(f"{word.removesuffix('=--')}: -- is no value; see --help")
        self._given = list(args)
        flags, others = super().parse_known_args(self._given, namespace)
        given = {word.partition("=")[0] for word in self._given}
        of_paths = {
            each.dest
            for each in self._actions
            if (each.metavar or each.dest.upper().rpartition("_")[2]) in _OF_PATHS
            and given.intersection(each.option_strings)
        }
        for name, value in vars(flags).items():
            for path in value if isinstance(value, list) else [value]:
                if not isinstance(path, str):
                    continue
                if name in of_paths and not path.strip("/"):
                    what = "is the root" if path else "is empty"
                    raise InputError(f"--{name}={path}: {what}; give a path")
                if scheme := _ONE_SLASH.match(path):
                    raise InputError(f"--{name}={path}: lacks a slash; write {scheme[1]}://")
        return flags, others

    def error(self, message: str) -> NoReturn:
        """Refuses flags that argparse cannot parse.

        Raises:
          InputError: always.
        """
        flag, _, problem = message.removeprefix("argument ").partition(": ")
        if flag == _MISSING:
            # A flag that is written wrong may be the one that is missing.
            given = [word for word in self._given if word.startswith("--")]
            known = self._option_string_actions
            unknown = [word for word in given if word.partition("=")[0] not in known]
            for word in unknown:
                if not self._takes_others or _nearest(word, self.flags, SIMILAR):
                    raise unknown_flag(word, self.flags)
            flag, problem = problem, "missing"
        if found := re.fullmatch(r"invalid choice: '(.*)' \(choose from (.*)\)", problem):
            value, choices = found.groups()
            raise InputError(f"{flag}={value}: choose one of {choices.replace(chr(39), '')}")
        if problem.startswith("expected "):  # one argument, or at least one
            problem = "needs a value"
        raise InputError(f"{flag}: {problem}; see --help")


def unknown_flag(
    argument: str, flags: Mapping[str, Flag], others: Iterable[str] = ()
) -> InputError:
    """Returns the error for an argument that no parser knows.

    Args:
      argument: argument as it was given.
      flags: flags of the command.
      others: names of other flags that the command takes, without dashes.
    """
    if not argument.startswith("-"):
        return InputError(f"{argument}: is neither a flag nor the value of one; see --help")
    nearest = _nearest(argument, [*flags, *others], LESS_SIMILAR)
    if nearest is None:
        advice = "see --help"
    elif nearest in flags and flags[nearest].is_positional:
        advice = f"give the {nearest} without a flag"
    else:
        advice = f"did you mean --{nearest}?"
    return InputError(f"{argument}: no such flag; {advice}")


def meant(name: str, names: Iterable[str]) -> str | None:
    """Returns the name that is probably meant by one that nobody knows; None if none is alike."""
    return next(iter(difflib.get_close_matches(name.lower(), list(names), 1, LESS_SIMILAR)), None)


def _nearest(argument: str, names: Iterable[str], similarity: float) -> str | None:
    """Returns the name that an argument resembles most; None if it resembles none."""
    name = argument.partition("=")[0].lstrip("-").replace("-", "_").lower()
    names = list(names)
    found = difflib.get_close_matches(name, names, 1, similarity)
    longer = [flag for flag in names if name and f"_{name}_" in f"_{flag}_"]
    return next(iter([*found, *longer]), None)


def parse_bool(text: str) -> bool:
    """Returns the Boolean value of a flag, spelled as in absl (`--do_lower_case=False`).

    Raises:
      ArgumentTypeError: the text is no Boolean value; argparse names the flag.
    """
    lowered = text.lower()
    if lowered in ("true", "t", "1", "yes"):
        return True
    if lowered in ("false", "f", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")


# Help of the flag --trust_model.
TRUST_MODEL = (
    "run the model's graph whatever it does, such as reading and writing files; without it only "
    "graphs like those of `beambert finetune` run"
)
