"""Divides files into parts that workers read independently. Pure: works on any open file.

In a file of lines, a part is a range of bytes. It owns the documents whose first line starts in
that range. The reader of the part looks for the first such line, so a file is divided without
reading it.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO

from beambert.pipelines.corpus.line_reading import lines_of

if TYPE_CHECKING:
    from beambert.pipelines.files.input_files import InputFile

# Size of a part in bytes. Parts are small enough that a few files keep all workers equally busy,
# and large enough that opening a file and finding the first document take little of the time. On
# object storage, opening takes requests, each of which costs time and money.
PART_BYTES = 4 << 20
STORED_PART_BYTES = 32 << 20


@dataclasses.dataclass(frozen=True)
class FilePart:
    """A part of a file, which one worker reads.

    Attributes:
      file: the whole file.
      format: format of the file, a key of `formats.FORMATS` or `formats.AUTO`.
      start: position of the part's first byte, as stored; in a compressed file the start of a
        stream.
      end: position after the part's last byte; None for the end of the file.
      sections: numbers of the part's sections, from 0, in a format whose files have sections
        instead of lines (Parquet's row groups); None for all.
    """

    file: "InputFile"
    format: str
    start: int = 0
    end: int | None = None
    sections: range | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the part is the whole file."""
        return self.start == 0 and self.end is None

    @property
    def bytes(self) -> int:
        """Size of the part in bytes, as stored."""
        return (self.file.bytes if self.end is None else self.end) - self.start


def part_bytes(file: "InputFile") -> int:
    """Returns the size of the parts that a file is divided into, in bytes."""
    return STORED_PART_BYTES if "://" in file.path else PART_BYTES


def split_evenly(file: "InputFile", format_name: str) -> list[FilePart]:
    """Returns parts of about `part_bytes` each; the file may be cut anywhere."""
    size = part_bytes(file)
    cuts = range(size, file.bytes - size // 2, size)
    return split_at(file, format_name, cuts)


def split_at(file: "InputFile", format_name: str, offsets: Sequence[int]) -> list[FilePart]:
    """Returns parts of at least `part_bytes` each that start at some of the ascending offsets."""
    starts = [0]
    for offset in offsets:
        if offset - starts[-1] >= part_bytes(file):
            starts.append(offset)
    ends = [*starts[1:], None]
    return [FilePart(file, format_name, *cut) for cut in zip(starts, ends, strict=True)]


def split_sections(file: "InputFile", format_name: str, sizes: Sequence[int]) -> list[FilePart]:
    """Returns parts of at least `part_bytes` each, cut between sections.

    Args:
      file: the file to divide.
      format_name: format of the file.
      sizes: size of each section in bytes.
    """
    parts, first, start = [], 0, 0
    for index, end in enumerate(accumulate(sizes), 1):
        if end - start >= part_bytes(file) or index == len(sizes):
            last = None if index == len(sizes) else end
            parts.append(FilePart(file, format_name, start, last, range(first, index)))
            first, start = index, end
    return parts or [FilePart(file, format_name)]


def lines_of_part(
    opened: BinaryIO, start: int, end: int | None, starts_document: Callable[[bytes], bool]
) -> Iterator[bytes]:
    """Yields the lines of the documents that a part owns.

    Args:
      opened: the open file, seekable.
      start: position of the part's first byte.
      end: position after the part's last byte; None for the end of the file.
      starts_document: function that returns whether a document starts with a line.
    """
    position = start
    if start:
        # Reading starts one byte earlier. So a line that starts exactly here isn't passed over.
        opened.seek(start - 1)
        for piece in lines_of(opened):
            position += len(piece)
            if piece.endswith(b"\n"):
                break
        position -= 1
    is_owned = start == 0
    for line in lines_of(opened):
        if end is not None and position >= end and (not is_owned or starts_document(line)):
            return
        is_owned = is_owned or starts_document(line)
        if is_owned:
            yield line
        position += len(line)
