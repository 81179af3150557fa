"""What the fields of a job may be given as."""

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from beambert.errors import InputError

# Types of fields that a text cannot be -> what the sentence asks for.
_NUMBERS = {"int": "a whole number", "float": "a number", "bool": "True or False"}


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Returns a tuple of several values, or of a single one, with texts in the place of paths."""
    is_single = isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable)
    return tuple(map(_as_text, (value,) if is_single else value))


def settle_fields(job: Any) -> None:
    """Makes tuples of single values and lists, and texts of paths, in a frozen dataclass.

    Otherwise the letters of a single pattern would pass for patterns.

    Args:
      job: dataclass; its fields whose types have a tuple get tuples, unless they are None.

    Raises:
      InputError: a number or a truth value is given as a text.
    """
    for field in dataclasses.fields(job):
        value = getattr(job, field.name)
        kind = field.type.__name__ if isinstance(field.type, type) else str(field.type)
        is_several = kind.startswith("tuple[")
        if is_several and value is not None:
            value = as_tuple(value)
        of = kind.removeprefix("tuple[").replace(",", " ").split()[0]
        for each in value if is_several and value else [value]:
            if of in _NUMBERS and isinstance(each, str):
                raise InputError(f"--{field.name}={each}: is a text; give {_NUMBERS[of]}")
        object.__setattr__(job, field.name, _as_text(value))


def _as_text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
