"""Parsing and checking a command's flags."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, TypeVar

from beambert.pipelines.shared.errors import InputError

Job = TypeVar("Job")


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag of a command.

    Attributes:
      name: name of the flag without dashes, or of a positional argument.
      is_positional: True if only its value stands on the command line.
      is_required: True if the command refuses to run without it.
      takes_value: False for a flag without a value, such as `--dry_run`.
      takes_several: True if several values may follow the name.
      is_repeatable: True if the flag may be given several times, each time with a value.
      choices: allowed values; None for any value.
      default: default value.
      help: text about the flag in `--help`.
    """

    name: str
    is_positional: bool
    is_required: bool
    takes_value: bool
    takes_several: bool
    is_repeatable: bool
    choices: Sequence[Any] | None
    default: Any
    help: str


class FlagGroup(Protocol):
    """A parser, or a group of its flags, to which flags can be added."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Adds a flag; see `argparse`."""


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
        self._known: dict[str, Flag] = {}
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
        """The flags by name, without `--help`, in the order in which it shows them."""
        return dict(self._known)

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Adds a flag; see `argparse`."""
        return self._note(super().add_argument(*names, **settings), settings)

    def add_argument_group(self, *title: str) -> FlagGroup:
        """Adds a group of flags that `--help` shows under a heading; see `argparse`."""
        group = super().add_argument_group(*title)
        add = group.add_argument
        # The flags of a group also belong to the parser.
        group.add_argument = lambda *names, **settings: self._note(
            add(*names, **settings), settings
        )
        return group

    def _note(self, added: argparse.Action, settings: dict[str, Any]) -> argparse.Action:
        """Records an added flag in the list of flags."""
        if settings.get("action") != "help":
            is_positional = not added.option_strings
            self._known[added.dest] = Flag(
                name=added.dest,
                is_positional=is_positional,
                is_required=added.required or is_positional,
                takes_value=added.nargs != 0,
                takes_several=added.nargs == "+",
                is_repeatable=settings.get("action") in ("append", "extend"),
                choices=None if added.choices is None else tuple(added.choices),
                default=added.default,
                help=added.help or "",
            )
        return added

    def error(self, message: str) -> NoReturn:
        """Refuses flags that argparse cannot parse.

        Raises:
          InputError: always.
        """
        flag, _, problem = message.removeprefix("argument ").partition(": ")
        if flag == "the following arguments are required":
            flag, problem = problem, "missing"
        raise InputError(f"{flag}: {problem}; see --help")


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


def read_job(job_type: type[Job], flags: argparse.Namespace) -> Job:
    """Returns a job with the values of the flags that are named as its fields; lists as tuples."""
    given = {field.name: getattr(flags, field.name) for field in dataclasses.fields(job_type)}
    return job_type(**{n: tuple(v) if isinstance(v, list) else v for n, v in given.items()})


def check_minimum(flags: object, minimum: int, *names: str) -> None:
    """Refuses integers below a minimum; None passes.

    Args:
      flags: parsed flags or a job, whose attributes are checked.
      minimum: the least value that is allowed.
      *names: names of the attributes.

    Raises:
      InputError: a value is less than the minimum.
    """
    for name in names:
        value = getattr(flags, name)
        if value is not None and value < minimum:
            raise InputError(f"--{name}={value}: must be at least {minimum}")


def check_shares(flags: object, *names: str) -> None:
    """Refuses numbers that are not at least 0 and less than 1.

    Args:
      flags: parsed flags or a job, whose attributes are checked.
      *names: names of the attributes.

    Raises:
      InputError: a value is not such a share.
    """
    for name in names:
        value = getattr(flags, name)
        if not 0.0 <= value < 1.0:
            raise InputError(f"--{name}={value}: must be at least 0 and less than 1")


# Arguments for a flag that means True when it is named without a value; it may also have a value.
SWITCH = {"type": parse_bool, "nargs": "?", "const": True, "default": False, "metavar": "BOOL"}
# Arguments of the flag --trust_model.
TRUST_MODEL = SWITCH | {
    "help": "run the model's graph whatever it does, such as reading and writing files; without "
    "it only graphs like those of `beambert finetune` run"
}
