"""What a format is: how its files are recognised, divided among workers, and read. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.parts import FilePart, lines_of_part, split_evenly
from beambert.pipelines.jobs.compression import CorruptFileError, decompress

if TYPE_CHECKING:
    from beambert.pipelines.jobs.input_files import InputFile

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The start of a regular expression: what may precede the first characters of a text file.
BEFORE_TEXT = rb"(?:\xef\xbb\xbf)?\s*"
BYTES_BETWEEN_TALLIES = 1 << 18


class Format:
    """A format of corpus files; a subclass is one format.

    Attributes:
      name: the value of --format.
      beginning: matches what its files begin with.
    """

    name: str
    beginning: re.Pattern[bytes]

    def recognises(self, sample: bytes) -> bool:
        """Whether a file that begins with these bytes (decompressed) has this format."""
        return self.beginning.match(sample) is not None

    def split(self, file: "InputFile", text_column: str) -> list[FilePart]:
        """Divides a large file where a reader may start; here it stays whole.

        Raises:
          InputError: the file, or one that belongs to it, can't be used.
        """
        return [FilePart(file, self.name)]

    def read(
        self, part: FilePart, stored: BinaryIO, text_column: str, tell: Callable[[int], None]
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of a part.

        Args:
          part: to read.
          stored: its file, open and seekable, with the bytes as they are stored.
          text_column: the column that holds the documents, in formats that have columns.
          tell: is called with the number of bytes of the part, as stored, that are read.

        Raises:
          InputError: the file can't be used.
        """
        raise NotImplementedError


class LineFormat(Format):
    """A format whose documents are lines; its files may be compressed.

    Attributes:
      is_divisible: whether a file may be cut before the lines that `starts_document` finds.
    """

    is_divisible: bool = True

    def starts_document(self, line: bytes) -> bool:
        """Whether a file may be cut before this line.

        `read_lines` must find the same documents in the whole and in the parts from such a line up
        to another.
        """
        raise NotImplementedError

    def read_lines(
        self, lines: Iterable[bytes], text_column: str = "text"
    ) -> Iterator[Document | Skip | Reject]:
        """Yields each document of some lines (with their ends), or why it cannot be used."""
        raise NotImplementedError

    def split(self, file: "InputFile", text_column: str) -> list[FilePart]:
        """Divides a file that isn't compressed into even parts."""
        if self.is_divisible and not file.is_compressed:
            return split_evenly(file, self.name)
        return super().split(file, text_column)

    def lines(self, part: FilePart, stored: BinaryIO) -> Iterator[bytes]:
        """Yields the lines that make a part's documents; `stored` is the open file."""
        lines: Iterator[bytes]
        if part.is_whole or part.file.is_compressed:
            stored.seek(part.start)
            # In a chain, or who stops reading closes the file through it.
            lines = chain(decompress(part.file.path, stored, part.end))
        else:
            lines = lines_of_part(stored, part.start, part.end, self.starts_document)
        if not part.start and (first := next(lines, b"").removeprefix(BYTE_ORDER_MARK)):
            yield first
        yield from lines

    def read(
        self, part: FilePart, stored: BinaryIO, text_column: str, tell: Callable[[int], None]
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of a part; where the file is corrupt, a last reject says so."""
        lines_read = 0

        def counted(lines: Iterable[bytes]) -> Iterator[bytes]:
            nonlocal lines_read
            untold = 0
            for line in lines:
                lines_read += 1
                yield line
                untold += len(line)
                if untold >= BYTES_BETWEEN_TALLIES:
                    tell(stored.tell() - part.start)
                    untold = 0

        try:
            yield from self.read_lines(counted(self.lines(part, stored)), text_column)
        except CorruptFileError as error:
            detail = f"unreadable after line {lines_read} ({error})"
            yield Reject(lines_read + 1, "corrupt_file", detail)
        except GeneratorExit:
            # Who stops half-way wants to know how far that was.
            tell(stored.tell() - part.start)
            raise
