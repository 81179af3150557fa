"""Reads JSON objects that others have written."""

import json
import re
from collections.abc import Iterable
from typing import Any


def parse_object(data: bytes | str) -> dict[str, Any]:
    """Returns a JSON object.

    Raises:
      ValueError: the data is not JSON, is nested too deeply, names a key twice or is no object.
    """
    try:
        value = json.loads(data, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}, not an object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the key {twice!r} twice")
    return value


def check_names(names: Iterable[Any]) -> None:
    """Refuses files of a list that are not in the folder of the list.

    Args:
      names: the names, each a path from the folder.

    Raises:
      ValueError: a path leaves the folder, or is that of no file.
    """
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"(?:\w[\w.-]*/)*\w[\w.-]*", name):
            raise ValueError(f"it names {name!r}, which is no file in its folder")
