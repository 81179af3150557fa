"""The values of --eval_data: a folder, or the folder of each source by its name."""

import os
import re
from collections.abc import Sequence

from beambert.errors import InputError

# A value of --eval_data that names its source, as `beambert data --source` does.
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)")


def parse_eval_data(given: Sequence[str]) -> dict[str, str]:
    """Returns name -> folder of the values of --eval_data; the name of a single folder may be "".

    Raises:
      InputError: several folders lack names, or a name is there twice.
    """
    found: dict[str, str] = {}
    for text in given:
        named = None if os.path.isdir(text) else _NAMED.fullmatch(text)
        name, folder = named.groups() if named else ("", text)
        if not name and len(given) > 1:
            raise InputError(
                f"--eval_data={text}: has no name, but there are several; give each as NAME=DIR"
            )
        if name in found:
            raise InputError(f"--eval_data={text}: there are two {name}; name each once")
        found[name] = folder
    return found
