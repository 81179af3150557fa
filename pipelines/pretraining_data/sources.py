"""The sources of a corpus are the patterns of --input: an encyclopaedia's, and that of books.

Documents of a source are alike in kind. Records of several sources have pairs whose A and B are of
different kinds, and `beambert verify` says how many.
"""

import os
import re
from collections.abc import Mapping, Sequence

from apache_beam.io.filesystem import FileSystem

from beambert.pipelines.jobs.input_files import InputFile
from beambert.pipelines.storage.claims import absolute


def find_sources(
    patterns: Sequence[str], inputs: Sequence[InputFile]
) -> tuple[list[str], Mapping[str, int]]:
    """Returns the names of the sources, and the number of the source of each file.

    A pattern is a source. Files that are given without a wildcard, as a shell gives them, are
    sources by their folder. A file that several patterns match is of the first of them.

    Args:
      patterns: patterns of --input.
      inputs: files that match them.

    Returns:
      names; and path -> index of a name, which is empty if there is one source only.
    """
    names = {pattern: _source_of(pattern) for pattern in patterns}
    sources = list(dict.fromkeys(names.values()))
    if len(sources) < 2:
        return sources, {}
    return sources, {file.path: sources.index(_name_of(file.path, names)) for file in inputs}


def _name_of(path: str, names: Mapping[str, str]) -> str:
    """Returns the source of a file: a name of its own may have brackets, as patterns do."""
    for pattern, name in names.items():
        whole = absolute(pattern)
        if path == whole or re.fullmatch(FileSystem.translate_pattern(whole), path):
            return name
    raise ValueError(f"{path}: matches no pattern of --input")


def _source_of(pattern: str) -> str:
    return pattern if set(pattern) & set("*?[") else os.path.dirname(pattern) or "."
