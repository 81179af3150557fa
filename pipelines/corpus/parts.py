"""Files -> parts that workers read on their own. Pure: works on any open file.

A part of a file of lines is a range of bytes, and owns the documents whose first line starts in
it. Its reader looks for the first such line by itself, so that nobody has to read the file to
divide it.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from beambert.pipelines.jobs.input_files import InputFile

# Bytes of a part: small enough that a few files use all workers alike, and large enough that
# opening and looking for the first document cost nothing beside reading it.
PART_BYTES = 4 << 20


@dataclasses.dataclass(frozen=True)
class FilePart:
    """What one worker reads.

    Attributes:
      file: the file that it is a part of.
      format: the file's format, a key of `formats.FORMATS` or `formats.AUTO`.
      start: the first byte, as stored (compressed files: the start of a stream).
      end: the byte after the last; None for the rest of the file.
      sections: numbers, from 0, of the sections that make the part, in a format whose files have
        sections instead of lines (Parquet's row groups); None for all.
    """

    file: "InputFile"
    format: str
    start: int = 0
    end: int | None = None
    sections: range | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the file."""
        return self.start == 0 and self.end is None

    @property
    def bytes(self) -> int:
        """Its size, as stored."""
        return (self.file.bytes if self.end is None else self.end) - self.start


def split_evenly(file: "InputFile", format_name: str) -> list[FilePart]:
    """Returns parts of about `PART_BYTES` of a file that may be cut anywhere."""
    cuts = range(PART_BYTES, file.bytes - PART_BYTES // 2, PART_BYTES)
    return split_at(file, format_name, cuts)


def split_at(file: "InputFile", format_name: str, offsets: Sequence[int]) -> list[FilePart]:
    """Returns parts of at least `PART_BYTES` that start at some of the offsets (ascending)."""
    starts = [0]
    for offset in offsets:
        if offset - starts[-1] >= PART_BYTES:
            starts.append(offset)
    ends = [*starts[1:], None]
    return [FilePart(file, format_name, *cut) for cut in zip(starts, ends, strict=True)]


def split_sections(file: "InputFile", format_name: str, sizes: Sequence[int]) -> list[FilePart]:
    """Returns parts of at least `PART_BYTES` of a file of sections.

    Args:
      file: the file to divide.
      format_name: its format.
      sizes: bytes of each section.
    """
    parts, first, start = [], 0, 0
    for index, end in enumerate(accumulate(sizes), 1):
        if end - start >= PART_BYTES or index == len(sizes):
            last = None if index == len(sizes) else end
            parts.append(FilePart(file, format_name, start, last, range(first, index)))
            first, start = index, end
    return parts or [FilePart(file, format_name)]


def lines_of_part(
    opened: BinaryIO, start: int, end: int | None, starts_document: Callable[[bytes], bool]
) -> Iterator[bytes]:
    """Yields the lines of the documents that a part owns.

    Args:
      opened: the file, seekable.
      start: of the part.
      end: of the part, or None.
      starts_document: whether a document can start with a line.
    """
    position = start
    if start:
        # One byte before: if the part starts with a line, only the line feed before it is passed.
        opened.seek(start - 1)
        position += len(opened.readline()) - 1
    is_owned = start == 0
    for line in opened:
        if end is not None and position >= end and (not is_owned or starts_document(line)):
            return
        is_owned = is_owned or starts_document(line)
        if is_owned:
            yield line
        position += len(line)
