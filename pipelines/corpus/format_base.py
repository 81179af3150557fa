"""Base classes of formats: how files are recognised, divided among workers, and read. Pure."""

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
# Start of a regular expression for the beginning of a text file: a byte order mark and white space.
BEFORE_TEXT = rb"(?:\xef\xbb\xbf)?\s*"
BYTES_BETWEEN_TALLIES = 1 << 18


class Format:
    """A format of corpus files. Each format is a subclass.

    Attributes:
      name: value of --format.
      beginning: regular expression that matches the beginning of its files.
    """

    name: str
    beginning: re.Pattern[bytes]

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file has this format, by its first (decompressed) bytes."""
        return self.beginning.match(sample) is not None

    def split(self, file: "InputFile", text_column: str) -> list[FilePart]:
        """Divides a large file into parts; by default it stays whole.

        Raises:
          InputError: the file, or another file that belongs to it, cannot be used.
        """
        return [FilePart(file, self.name)]

    def read(
        self, part: FilePart, stored: BinaryIO, text_column: str, tell: Callable[[int], None]
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of a part.

        Args:
          part: the part to read.
          stored: the part's file, open and seekable, with its bytes as stored.
          text_column: column that holds the documents, in formats that have columns.
          tell: function that is called with the number of bytes of the part read so far, as stored.

        Raises:
          InputError: the file cannot be used.
        """
        raise NotImplementedError


class LineFormat(Format):
    """A format whose documents consist of lines. Its files may be compressed.

    Attributes:
      is_divisible: True if a file may be cut before the lines that `starts_document` finds.
    """

    is_divisible: bool = True

    def starts_document(self, line: bytes) -> bool:
        """Returns whether a file may be cut before this line.

        `read_lines` must find the same documents in a whole file as in its parts.
        """
        raise NotImplementedError

    def read_lines(
        self, lines: Iterable[bytes], text_column: str = "text"
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents in some lines, which still have their line feeds."""
        raise NotImplementedError

    def split(self, file: "InputFile", text_column: str) -> list[FilePart]:
        """Divides an uncompressed file into even parts."""
        if self.is_divisible and not file.is_compressed:
            return split_evenly(file, self.name)
        return super().split(file, text_column)

    def lines(self, part: FilePart, stored: BinaryIO) -> Iterator[bytes]:
        """Yields the lines of a part's documents; `stored` is the open file."""
        lines: Iterator[bytes]
        if part.is_whole or part.file.is_compressed:
            stored.seek(part.start)
            # The chain keeps the file open when the caller stops reading half-way.
            lines = chain(decompress(part.file.path, stored, part.end))
        else:
            lines = lines_of_part(stored, part.start, part.end, self.starts_document)
        if not part.start and (first := next(lines, b"").removeprefix(BYTE_ORDER_MARK)):
            yield first
        yield from lines

    def read(
        self, part: FilePart, stored: BinaryIO, text_column: str, tell: Callable[[int], None]
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of a part. If the file is corrupt, the last result is a reject."""
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
            # The caller stops half-way and needs the number of bytes read so far.
            tell(stored.tell() - part.start)
            raise
