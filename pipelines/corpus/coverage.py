"""Notices parts of files that were read twice or not at all, without a list of them. Pure.

Each place of a file, its path and a position, has a random-looking number. A part gives the number
of its end minus that of its start. If the parts of a file follow each other, all numbers but those
of the file's own start and end cancel out, in whatever order they are added up. Those two are known
before anything is read. A part that was read twice, or never, changes the sum.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

from beambert.pipelines.corpus.parts import FilePart

if TYPE_CHECKING:
    from beambert.pipelines.files.input_files import InputFile


def expected_coverage(files: Iterable["InputFile"]) -> int:
    """Returns the sum of `coverage` over all parts of some files."""
    return sum(_number(file.path, None) - _number(file.path, 0) for file in files)


def coverage(part: FilePart) -> int:
    """Returns the number of a part; the numbers of all parts add up."""
    return _number(part.file.path, part.end) - _number(part.file.path, part.start)


def _number(path: str, position: int | None) -> int:
    place = f"{position} {path}".encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(place, digest_size=16).digest())
