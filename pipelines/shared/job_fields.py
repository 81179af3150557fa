"""What the fields of a job may be given as."""

import dataclasses
import os
from collections.abc import Iterable
from typing import Any


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Returns a tuple of several values, or of a single one, with texts in the place of paths."""
    is_single = isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable)
    return tuple(map(_as_text, (value,) if is_single else value))


def settle_fields(job: Any) -> None:
    """Makes tuples of single values and lists, and texts of paths, in a frozen dataclass.

    Otherwise the letters of a single pattern would pass for patterns.

    Args:
      job: dataclass; its fields whose types have a tuple get tuples, unless they are None.
    """
    for field in dataclasses.fields(job):
        value = getattr(job, field.name)
        if "tuple[" in str(field.type) and value is not None:
            object.__setattr__(job, field.name, as_tuple(value))
        else:
            object.__setattr__(job, field.name, _as_text(value))


def _as_text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
