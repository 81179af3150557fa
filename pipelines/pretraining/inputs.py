"""The sources of a corpus are those of --source, or the patterns of --input.

An encyclopaedia is one, and books are another.

Documents of a source are alike in kind. Records of several sources have pairs whose A and B are of
different kinds, and `beambert verify` says how many.
"""

import dataclasses
import glob
import os
import re
from collections.abc import Mapping, Sequence

from beambert import io
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.io import (
    absolute,
    absolute_pattern,
    expression_of,
    has_wildcard,
    read_bytes,
)
from beambert.pipelines.input_files import INPUTS_FILE, InputFile, read_list
from beambert.pipelines.records.contract import INFO_FILE, RecordsInfo


@dataclasses.dataclass(frozen=True)
class Sources:
    """The sources of a corpus.

    A pattern is a source. Files that are given without a wildcard, as a shell gives them, are
    sources by their folder. A file that several patterns match is of the first of them.

    Attributes:
      names: names of the sources.
      paths: absolute path of a pattern -> its place among all patterns, and number of its source.
      expressions: the same of the patterns with wildcards, by their regular expression.
    """

    names: Sequence[str] = ()
    paths: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    expressions: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, patterns: Sequence[str]) -> "Sources":
        """Returns the sources of the patterns of --input."""
        found = {pattern: _source_of(pattern) for pattern in patterns}
        return cls._of(found, list(dict.fromkeys(found.values())))

    @classmethod
    def named(cls, given: Mapping[str, Sequence[str]]) -> "Sources":
        """Returns the sources of --source, of name -> patterns."""
        found: dict[str, str] = {}
        for name, patterns in given.items():
            for pattern in patterns:
                found.setdefault(pattern, name)
        # A source whose patterns all belong to earlier ones is still one of them.
        return cls._of(found, list(given))

    @classmethod
    def _of(cls, found: Mapping[str, str], names: Sequence[str]) -> "Sources":
        """Returns the sources of pattern -> name."""
        paths, expressions = {}, {}
        for place, (pattern, name) in enumerate(found.items()):
            entry = place, names.index(name)
            paths.setdefault(absolute(pattern), entry)
            if has_wildcard(pattern):
                expressions.setdefault(expression_of(absolute_pattern(pattern)), entry)
        return cls(names, paths, expressions)

    def number_of(self, path: str) -> int:
        """Returns the number of the source of a file, the index of its name.

        Raises:
          ValueError: no pattern matches the file.
        """
        if len(self.names) < 2:
            return 0
        # A name of its own may have brackets, as patterns do.
        found = [self.paths[path]] if path in self.paths else []
        found += [
            expression for text, expression in self.expressions.items() if re.fullmatch(text, path)
        ]
        if not found:
            raise ValueError(f"{path}: matches no pattern of --input")
        return min(found)[1]

    def check_each_has_files(self, paths: Sequence[str]) -> None:
        """Refuses a source of --source that has none of the files at some paths.

        Raises:
          InputError: there is one.
        """
        there = set(map(self.number_of, paths))
        for number, name in enumerate(self.names):
            if number not in there:
                raise InputError(
                    f"--source={name}: has no file to read, because an earlier source or "
                    "--leave_out takes them all; leave it out"
                )


def _source_of(pattern: str) -> str:
    return pattern if has_wildcard(pattern) else os.path.dirname(pattern) or "."


# Finds the files of a growing corpus that no earlier run has read.


def new_inputs(inputs: Sequence[InputFile], since: Sequence[str], output: str) -> list[InputFile]:
    """Returns the files from which no finished records folder was made.

    A file with another size or date than before is new.

    Args:
      inputs: all input files.
      since: patterns of records folders, or of the folders above them.
      output: path of the folder to make. If the patterns match it, its finished folders (one of
        several sequence lengths) are ignored.

    Raises:
      InputError: a pattern matches no finished records folder.
    """
    taken: set[InputFile] = set()
    for pattern in since:
        infos = _finished_infos(pattern.rstrip("/"))
        if not infos:
            raise InputError(
                f"--since={pattern}: no finished records folder there; check the path, or leave "
                "the flag out to take every file"
            )
        for folder, info in infos:
            if f"{absolute(folder)}/".startswith(f"{absolute(output)}/"):
                continue
            taken.update(_inputs_of(folder, info))
    return [file for file in inputs if file not in taken]


def _inputs_of(folder: str, info: RecordsInfo) -> Sequence[InputFile]:
    """Returns the files that the records in a folder were made of."""
    if isinstance(info.inputs, Mapping):  # They are too many for info.json.
        return read_list(f"{folder}/{INPUTS_FILE}")
    return [
        InputFile(one_input["path"], one_input["bytes"], one_input["modified"])
        for one_input in info.inputs
    ]


def _finished_infos(pattern: str) -> list[tuple[str, RecordsInfo]]:
    """Returns the finished folders that match a pattern, each with its info.json.

    They are the matching folders themselves, and the folders of each sequence length in them.
    """
    infos = []
    is_name = not has_wildcard(pattern) or io.exists(pattern)
    start = glob.escape(pattern) if is_name else pattern
    for below in ("", "/*"):
        remedy = "check the path and your access"
        found = io.match_files(f"{start}{below}/{INFO_FILE}", f"--since={pattern}", remedy)
        for file in found:
            folder = os.path.dirname(file.path)
            if io.exists(f"{folder}/{MARKER_FILE}"):
                text = read_bytes(file.path, "--since").decode(errors="replace")
                infos.append((folder, RecordsInfo.from_json(text, file.path)))
    return infos
