"""Base classes of formats: how files are recognised, divided among workers, and read. Pure."""

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from beambert.pipelines.corpus import charsets, line_reading
from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import TEXT_ALONE, Columns
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.line_reading import (
    CountedLines,
    TooLargeError,
    has_returns_alone,
    lines_after_returns,
    lines_of,
    utf8_lines,
)
from beambert.pipelines.corpus.parts import FilePart, lines_of_part, split_evenly
from beambert.pipelines.files.compression import CorruptFileError, decompress

if TYPE_CHECKING:
    from beambert.pipelines.files.input_files import InputFile

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Start of a regular expression for the beginning of a text file: byte order marks and white space.
BEFORE_TEXT = rb"(?:\xef\xbb\xbf)*\s*"
# Names of the formats that fit almost any text, so that the ending of a name counts more.
PLAIN_FORMATS = ("lines", "text")


class Format:
    """A format of corpus files. Each format is a subclass.

    Attributes:
      name: value of --format.
      beginning: regular expression that matches the beginning of its files.
      is_utf8: True if programs write its files, and always as UTF-8. Other files may have any
        encoding.
      endings: endings of names that decide where the content shows one of the weaker formats.
      weaker: names of the formats that count less than an ending.
      has_columns: True if documents stand in a column beside others.
    """

    name: str
    beginning: re.Pattern[bytes]
    is_utf8: bool = True
    endings: tuple[str, ...] = ()
    weaker: tuple[str, ...] = PLAIN_FORMATS
    has_columns: bool = False

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file has this format, by its first (decompressed) bytes."""
        return self.beginning.match(sample) is not None

    def split(self, file: "InputFile", columns: Columns) -> list[FilePart]:
        """Divides a large file into parts; by default it stays whole.

        Raises:
          InputError: the file, or another file that belongs to it, cannot be used.
        """
        return [FilePart(file, self.name)]

    def read(
        self,
        part: FilePart,
        stored: BinaryIO,
        columns: Columns,
        tell: Callable[[int], None],
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of a part.

        Args:
          part: the part to read.
          stored: the part's file, open and seekable, with its bytes as stored.
          columns: columns of the documents, in formats that have columns.
          tell: function that is called with the number of bytes of the part read so far, as stored.
          assumed: encoding of text that isn't UTF-8.

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
        self,
        lines: Iterable[bytes],
        columns: Columns = TEXT_ALONE,
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents in some lines, which still have their line feeds."""
        raise NotImplementedError

    def split(self, file: "InputFile", columns: Columns) -> list[FilePart]:
        """Divides an uncompressed file into even parts."""
        if self.is_divisible and not file.is_compressed:
            return split_evenly(file, self.name)
        return super().split(file, columns)

    def lines(
        self,
        part: FilePart,
        stored: BinaryIO,
        lines_in: Callable[[BinaryIO], Iterator[bytes]] = lines_of,
    ) -> Iterator[bytes]:
        """Yields the lines of a part's documents.

        Args:
          part: the part to read.
          stored: the part's file, open and seekable.
          lines_in: function that yields the lines of an open file that isn't divided.
        """
        if not (part.is_whole or part.file.is_compressed):
            lines = lines_of_part(stored, part.start, part.end, self.starts_document)
        else:
            stored.seek(part.start)
            # The chain keeps the file open when the caller stops reading half-way.
            lines = chain(lines_in(decompress(part.file.path, stored, part.end)))
        if not part.start:
            first = next(lines, b"")
            while first.startswith(BYTE_ORDER_MARK):
                first = first.removeprefix(BYTE_ORDER_MARK)
            if first:
                yield first
        yield from lines

    def read(
        self,
        part: FilePart,
        stored: BinaryIO,
        columns: Columns,
        tell: Callable[[int], None],
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of a part. If the file is corrupt, the last result is a reject."""
        if self.is_utf8 and not assumed.is_given:
            assumed = NOTHING_ASSUMED
        beginning = b"" if part.start else _beginning(part, stored)
        wide, lines_in = charsets.wide_encoding(beginning, assumed), lines_of
        if wide:
            assumed = Assumed("utf-8", is_given=True)  # The lines are UTF-8 now.
            lines_in = functools.partial(utf8_lines, encoding=wide)
        elif has_returns_alone(beginning):
            lines_in = lines_after_returns
        lines = CountedLines(
            self.lines(part, stored, lines_in), lambda: tell(stored.tell() - part.start)
        )
        try:
            for found in self._read_bounded(lines, columns, assumed):
                is_wide = wide and isinstance(found, Document)
                yield dataclasses.replace(found, encoding=wide) if is_wide else found
        except CorruptFileError as error:
            detail = f"unreadable after line {lines.number} ({error})"
            yield Reject(lines.number + 1, "corrupt_file", detail)
        except UnicodeDecodeError as error:
            detail = f"the text after line {lines.number} is not {error.encoding.upper()}"
            yield Reject(lines.number + 1, "not_utf8", detail)
        except GeneratorExit:
            # The caller stops half-way and needs the number of bytes read so far.
            tell(stored.tell() - part.start)
            raise

    def _read_bounded(
        self, lines: CountedLines, columns: Columns, assumed: Assumed
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents in lines; one that is too large is rejected, and the next read."""
        before, has_more = 0, True
        while has_more:
            try:
                for found in self.read_lines(lines, columns, assumed):
                    lines.pending = 0
                    if before and isinstance(found, Reject):
                        detail = f"{found.detail}, counted from line {before + 1:,}"
                        found = dataclasses.replace(found, line=before + found.line, detail=detail)
                    yield found
                return
            except TooLargeError:
                limit = line_reading.MOST_DOCUMENT_BYTES
                detail = f"the document that reaches line {lines.number} has over {limit:,} bytes"
                yield Reject(lines.number, "too_large", detail)
                has_more = self.is_divisible and lines.skip_to(self.starts_document)
                before = lines.number


def _beginning(part: FilePart, stored: BinaryIO) -> bytes:
    """Returns the first bytes of a part at the beginning of a file, decompressed."""
    beginning = b""
    with contextlib.suppress(CorruptFileError):  # The reader meets the damage again.
        beginning = decompress(part.file.path, stored, part.end).read(charsets.SAMPLE_BYTES)
    stored.seek(0)
    return beginning
