"""Settings of jobs: a field of a job's dataclass declares a flag with its type, help and limits.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class CountingJob:
        input: tuple[str, ...] = setting(metavar="GLOB", help="files to read")
        least: int = setting(1, minimum=0, metavar="N", help="least number of words")

        def __post_init__(self) -> None:
            check_settings(self)

    add_settings(parser, CountingJob)
    job = read_settings(CountingJob, parser.parse_args(argv))

makes the flags --input and --least=1 with their help, and checks the values, wherever they come
from. The type of the field decides how a value is parsed: str, int, float, bool, a tuple of one of
them, or one of these or None.
"""

import argparse
import dataclasses
import math
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from beambert.errors import InputError
from beambert.flags import FlagParser, parse_bool

Job = TypeVar("Job")

REQUIRED = dataclasses.MISSING
# Type of a value -> what a message asks for.
_KINDS = {
    int: "an integer, such as 1000",
    float: "a number, such as 0.5",
    bool: "True or False",
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a field declares besides its name, type and default; see `setting`."""

    help: str
    group: str
    choices: tuple[Any, ...]
    metavar: str | None
    parse: Callable[[str], Any] | None
    minimum: float | None
    maximum: float | None
    above: float | None
    below: float | None
    is_positional: bool

    def check(self, name: str, value: Any) -> None:
        """Raises InputError unless a value has an allowed value.

        Args:
          name: the flag with its dashes.
          value: number or string.
        """
        if self.choices and value not in self.choices:
            raise InputError(f"{name}={value}: must be one of {', '.join(map(str, self.choices))}")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{name}={value}: must be a number, such as 0.5")
        if isinstance(value, int) and abs(value) > sys.maxsize:
            raise InputError(f"{name}={value}: must have at most 18 digits")
        limits = (
            ("at least", self.minimum, lambda least: value >= least),
            ("more than", self.above, lambda bound: value > bound),
            ("at most", self.maximum, lambda most: value <= most),
            ("less than", self.below, lambda bound: value < bound),
        )
        given = [limit for limit in limits if limit[1] is not None]
        if not all(is_met(bound) for _, bound, is_met in given):
            words = " and ".join(f"{word} {bound:,}" for word, bound, _ in given)
            raise InputError(f"{name}={value}: must be {words}")


def setting(
    default: Any = REQUIRED,
    *,
    help: str,
    group: str = "",
    choices: Iterable[Any] = (),
    metavar: str | None = None,
    parse: Callable[[str], Any] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    is_positional: bool = False,
) -> Any:
    """Returns a field of a job's dataclass that is also a flag.

    Args:
      default: default value; `REQUIRED` for none.
      help: text of `--help`. The default is added unless it says "(default".
      group: heading in `--help` of this flag and those after it.
      choices: allowed values; empty for any.
      metavar: name of the value in `--help`. DIR, FILE and PATH must not be empty.
      parse: function of the whole string; None for the way of the type.
      minimum, maximum: least and greatest value that is allowed; None for no limit.
      above, below: limits that are not allowed themselves.
      is_positional: True if only the value stands on the command line.
    """
    made = Setting(
        help, group, tuple(choices), metavar, parse, minimum, maximum, above, below, is_positional
    )
    return dataclasses.field(default=default, metadata={"setting": made})


def same_setting(job_type: type, name: str) -> Any:
    """Returns a field like that of another dataclass of settings."""
    (field,) = (each for each in dataclasses.fields(job_type) if each.name == name)
    return dataclasses.field(default=field.default, metadata=field.metadata)


def _type_of(field: dataclasses.Field) -> tuple[type, bool]:
    """Returns the type of a field's values, and whether it has several."""
    kind = field.type
    if isinstance(kind, types.UnionType):
        (kind,) = (each for each in typing.get_args(kind) if each is not types.NoneType)
    if typing.get_origin(kind) is tuple:
        return typing.get_args(kind)[0], True
    return kind, False


def _reader(name: str, kind: type, several: bool) -> Callable[[str], Any]:
    """Returns the function that reads the value of a flag."""

    def read(text: str) -> Any:
        try:
            if several:
                return tuple(kind(each) for each in text.split(","))
            return parse_bool(text) if kind is bool else kind(text)
        except (ValueError, argparse.ArgumentTypeError) as error:
            wanted = _KINDS[kind] + (", or several with commas between them" if several else "")
            raise InputError(f"{name}={text}: must be {wanted}") from error

    return read


def add_settings(
    parser: FlagParser,
    job_type: type,
    *,
    leave_out: Collection[str] = (),
    defaults: Mapping[str, Any] = types.MappingProxyType({}),
    default_texts: Mapping[str, str] = types.MappingProxyType({}),
    condition: str = "",
) -> None:
    """Adds the flags of a job's settings to a parser, under their headings.

    Args:
      parser: parser of a command.
      job_type: dataclass of the job.
      leave_out: names of settings that are no flags of this command.
      defaults: name -> default in place of the field's.
      default_texts: name -> what `--help` has in place of the default.
      condition: beginning of their help that says when the flags apply; "" for always.
    """
    group: Any = parser
    for field in dataclasses.fields(job_type):
        declared = field.metadata.get("setting")
        if declared is None or field.name in leave_out:
            continue
        if declared.group:
            group = parser.add_argument_group(declared.group)
        default = defaults.get(field.name, field.default)
        arguments = _arguments(field, declared, default, default_texts.get(field.name))
        arguments["help"] = condition + arguments["help"]
        group.add_argument(field.name if declared.is_positional else f"--{field.name}", **arguments)


def _arguments(
    field: dataclasses.Field, declared: Setting, default: Any, default_text: str | None
) -> dict[str, Any]:
    """Returns the arguments of `add_argument` for a setting."""
    kind, several = _type_of(field)
    is_required = default is REQUIRED
    made: dict[str, Any] = {"help": declared.help, "default": None if is_required else default}
    is_shown = not is_required and default is not False and default not in (None, "", ())
    if default_text is None and is_shown:
        default_text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
    if default_text is not None and "(default" not in declared.help:
        made["help"] += f" (default: {default_text})".replace("%", "%%")
    made["metavar"] = declared.metavar
    if declared.choices and not declared.parse and (kind is str or not several):
        made["choices"] = declared.choices
    if declared.parse:
        made["type"] = declared.parse
    elif several and kind is str:
        is_optional = declared.is_positional and not is_required
        made |= {"nargs": "*" if is_optional else "+", "action": "extend"}
        made["default"] = None if is_required else list(default or ())
    elif kind is not str:
        made["type"] = _reader(f"--{field.name}", kind, several)
        if kind is bool:
            made |= {"nargs": "?", "const": True, "metavar": declared.metavar or "BOOL"}
    if is_required and not declared.is_positional:
        made["required"] = True
    return made


def settings_parser(
    job_types: type | Sequence[type],
    command: str,
    description: str,
    examples: str,
    defaults: Mapping[str, Any] = types.MappingProxyType({}),
) -> FlagParser:
    """Returns the parser of a command whose flags are all settings of dataclasses.

    Args:
      job_types: dataclass of the job, or several dataclasses.
      command: name of the command.
      description: what it does.
      examples: the end of `--help`.
      defaults: name -> default in place of the field's.
    """
    parser = FlagParser(f"beambert {command}", description, examples)
    for job_type in job_types if isinstance(job_types, Sequence) else [job_types]:
        add_settings(parser, job_type, defaults=defaults)
    return parser


def read_settings(job_type: type[Job], flags: argparse.Namespace, **given: Any) -> Job:
    """Returns a job with the values of the flags that are named as its fields.

    Args:
      job_type: dataclass of the job.
      flags: parsed flags.
      **given: values of fields that are no flags, or that follow from several.

    Raises:
      InputError: a value cannot be used.
    """
    names = {field.name for field in dataclasses.fields(job_type)}
    values = {name: value for name, value in vars(flags).items() if name in names} | given
    return job_type(**values)


class Settings:
    """Base class of dataclasses of settings that are checked when they are made."""

    def __post_init__(self) -> None:
        """Checks the values."""
        check_settings(self)


def check_settings(job: Any) -> None:
    """Checks the values of a job, and makes tuples of lists and single values, strings of paths.

    Raises:
      InputError: a value is of another type, out of range, or not one of the choices.
    """
    for field in dataclasses.fields(job):
        value = getattr(job, field.name)
        kind, several = _type_of(field)
        if several and value is not None:
            value = as_tuple(value)
        value = _as_string(value)
        declared = field.metadata.get("setting")
        if declared and declared.parse and isinstance(value, str) and kind is not str:
            value = declared.parse(value)
        for each in value if several and value else (value,):
            if kind in _KINDS and isinstance(each, str):
                raise InputError(f"--{field.name}={each}: must be {_KINDS[kind]}, not a string")
            if declared and each not in (None, ()) and value != field.default:
                declared.check(f"--{field.name}", each)
        object.__setattr__(job, field.name, value)


def refuse_given(job: Any, names: Collection[str], reason: str) -> None:
    """Refuses settings with another value than their default, where they would have no effect.

    Raises:
      InputError: there is one.
    """
    for field in dataclasses.fields(job):
        value = getattr(job, field.name)
        if field.name in names and value != field.default:
            given = ",".join(map(str, as_tuple(value)))
            raise InputError(f"--{field.name}={given}: {reason}; leave it out")


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Returns a tuple of several values, or of a single one, with strings in place of paths."""
    is_single = isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable)
    return tuple(map(_as_string, (value,) if is_single else value))


def _as_string(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
