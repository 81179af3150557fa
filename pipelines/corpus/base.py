"""How corpus files are divided into parts, and their lines read: the base of all formats. Pure.

In a file of lines, a part is a range of bytes. It owns the documents whose first line starts in
that range. The reader of the part looks for the first such line, so a file is divided without
reading it. A file that isn't UTF-8 stays whole, and is converted to UTF-8 while it is read.
"""

import codecs
import contextlib
import dataclasses
import functools
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from beambert.compression import CorruptFileError, decompress
from beambert.errors import InputError
from beambert.io import is_local
from beambert.pipelines.corpus.cleaning import AUTO
from beambert.pipelines.corpus.documents import Document, Found, Reject
from beambert.pipelines.corpus.encodings import (
    DEFAULT_ENCODING,
    MARK_ERRORS,
    READS_AS_WINDOWS,
    SAMPLE_BYTES,
    UTF8,
    WrongEncodingError,
    check_beginning,
    choose_encoding,
    find_mark,
    web_name,
)

if TYPE_CHECKING:
    from beambert.pipelines.input_files import InputFile

# Lines of a file, the results of reading them, and what is called with the number of bytes read.
Lines, Rows, Report = Iterable[bytes], Iterator[Found], Callable[[int], None]
# Size of a part in bytes. Parts are small enough that a few files keep all workers equally busy,
# and large enough that opening a file and finding the first document take little of the time. On
# object storage, opening takes requests, each of which costs time and money.
PART_BYTES = 4 << 20
STORED_PART_BYTES = 32 << 20
# Greatest size of a document in bytes. Its reader needs about six times as much memory.
MOST_DOCUMENT_BYTES = 1 << 27
# How far a reader gets between two reports of its progress.
BYTES_BETWEEN_TALLIES = 1 << 18
# Number of bytes that are converted to UTF-8, or checked, at a time.
_PIECE_BYTES = 1 << 16
_BYTE_ORDER_MARK = codecs.BOM_UTF8
# Start of a regular expression for the beginning of a text file: byte order marks and white space.
BEFORE_TEXT = rb"(?:\xef\xbb\xbf)*\s*"
# Names of the formats that fit almost any text, so that the ending of a name counts more.
PLAIN_FORMATS = ("lines", "text")


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How files become documents.

    Attributes:
      format: format of the files, a key of `formats.FORMATS` or `AUTO`.
      text_column: column that holds the documents, in formats that have columns.
      progress_folder: folder of a `ProgressDisplay`, or None.
      encodings: encodings of text files, see `encodings.parse_encodings`.
      language_column: column that names the language of each, in these formats; "" for none.
      layout: how the lines of a text are read, see `cleaning.clean`.
    """

    format: str = AUTO
    text_column: str = "text"
    progress_folder: str | None = None
    encodings: tuple[str, ...] = UTF8
    language_column: str = ""
    layout: str = AUTO

    @property
    def columns(self) -> list[str]:
        """The names of the columns to read, each once."""
        return list(dict.fromkeys(filter(None, (self.text_column, self.language_column))))


TEXT_ALONE = ReadOptions()


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
      encoding: encoding of the file; "" if it has not been determined yet.
    """

    file: "InputFile"
    format: str
    start: int = 0
    end: int | None = None
    sections: range | None = None
    encoding: str = ""

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
    return PART_BYTES if is_local(file.path) else STORED_PART_BYTES


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


def split_sections(file: "InputFile", format_name: str, count: int) -> list[FilePart]:
    """Returns parts of about `part_bytes` each, of a file with sections that are equally large."""
    size = file.bytes // max(count, 1)
    most = max(1, part_bytes(file) // max(size, 1))
    return [
        FilePart(
            file,
            format_name,
            first * size,
            (first + most) * size if first + most < count else None,
            range(first, min(first + most, count)),
        )
        for first in range(0, count, most)
    ] or [FilePart(file, format_name)]


def expected_coverage(files: Iterable["InputFile"]) -> int:
    """Returns the sum of `coverage` over all parts of some files.

    The sum shows whether parts were read twice or not at all, without a list of them. Each position
    in a file has a random-looking number, and a part gives that of its end minus that of its start.
    If the parts of a file follow each other, all numbers but those of the file's own start and end
    cancel out, in whatever order they are added up.
    """
    return sum(_number(file.path, None) - _number(file.path, 0) for file in files)


def coverage(part: FilePart) -> int:
    """Returns the number of a part, see `expected_coverage`."""
    return _number(part.file.path, part.end) - _number(part.file.path, part.start)


def _number(path: str, position: int | None) -> int:
    at = f"{position} {path}".encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(at, digest_size=16).digest())


class TooLargeError(Exception):
    """A document has more than `MOST_DOCUMENT_BYTES` bytes."""


def lines_of(opened: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of an open file; a line above the greatest size comes in pieces."""
    return iter(functools.partial(opened.readline, MOST_DOCUMENT_BYTES + 1), b"")


def has_old_line_ends(beginning: bytes) -> bool:
    """Returns whether the lines of a file end with carriage returns alone."""
    return b"\r" in beginning and b"\n" not in beginning


def utf8_lines(opened: BinaryIO, encoding: str, has_old_ends: bool = False) -> Iterator[bytes]:
    """Yields the lines of a file in another encoding, as UTF-8; a line too long comes in pieces.

    Bytes that form no character become half of a surrogate pair, which UTF-8 cannot have, so that
    their document is rejected.
    """
    plain = codecs.getincrementaldecoder(encoding)(MARK_ERRORS)
    decoder, held = io.IncrementalNewlineDecoder(plain, has_old_ends), ""
    for data in chain(_pieces(opened), [b""]):
        *lines, held = (held + decoder.decode(data, final=not data)).split("\n")
        yield from (f"{line}\n".encode("utf-8", "surrogatepass") for line in lines)
        if len(held) > MOST_DOCUMENT_BYTES or held and not data:
            yield held.encode("utf-8", "surrogatepass")
            held = ""


def _pieces(opened: BinaryIO) -> Iterator[bytes]:
    return iter(functools.partial(opened.read, _PIECE_BYTES), b"")


def lines_of_part(
    opened: BinaryIO, start: int, end: int | None, starts_document: Callable[[bytes], bool]
) -> Iterator[bytes]:
    """Yields the lines of the documents that a part owns.

    Args:
      opened: the open file, seekable.
      start: position of the part's first byte.
      end: position after the part's last byte; None for the end of the file.
      starts_document: function that returns whether a line starts a document.
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


def xml_elements(lines: Iterable[bytes], name: bytes) -> Iterator[tuple[int, bytes, bool] | Reject]:
    """Yields the elements of a name in lines of XML, and what stands outside of them.

    Each is (number of its first line, its bytes, whether it is an element), or the reject of an
    element without an end. In the text of an element < is escaped, so that a damaged one doesn't
    affect the others.
    """
    tag = re.compile(rb"(?=<%s[ >])|(?<=</%s>)" % (name, name))
    starts, end = (b"<%s>" % name, b"<%s " % name), b"</%s>" % name
    element: list[bytes] | None = None
    start = 0
    for number, line in enumerate(lines, 1):
        # A line is split only where it has a tag inside.
        for piece in tag.split(line) if name in line else [line]:
            if piece.startswith(starts):
                if element is not None:
                    yield cut_off(start, end)
                element, start = [], number
            if element is None:
                yield number, piece, False
                continue
            element.append(piece)
            if piece.endswith(end):
                yield start, b"".join(element), True
                element = None
    if element is not None:
        yield cut_off(start, end)


def cut_off(line: int, end: bytes) -> Reject:
    """Returns the reject of an element that starts on a line and lacks its end."""
    detail = f"the element that starts on line {line} has no {end.decode()}"
    return Reject(line, "cut_off", detail)


class CountedLines:
    """Lines that are counted, and whose bytes since the last document are bounded.

    Attributes:
      number: number of lines so far.
      pending: number of bytes since the caller has last set it to 0.
    """

    def __init__(self, lines: Iterable[bytes], report: Callable[[], None]):
        """Takes the lines, and a function that is called every `BYTES_BETWEEN_TALLIES` bytes."""
        self._lines = iter(lines)
        self._report = report
        self.number = 0
        self.pending = 0
        self._last = b""

    def __iter__(self) -> Iterator[bytes]:
        """Yields the lines that are left.

        Raises:
          TooLargeError: too many bytes are pending.
        """
        unreported = 0
        for line in self._lines:
            size = len(line)
            self.number += 1
            self.pending += size
            if self.pending > MOST_DOCUMENT_BYTES:
                self._last = line
                raise TooLargeError
            yield line
            unreported += size
            if unreported >= BYTES_BETWEEN_TALLIES:
                self._report()
                unreported = 0

    def skip_to(self, starts_document: Callable[[bytes], bool]) -> bool:
        """Passes over the lines before the next document; returns False if there is none.

        The rest of the last line, which may have come in pieces, belongs to the document before.
        """
        self.pending = 0
        is_whole = self._last.endswith(b"\n")
        for line in self._lines:
            if is_whole and starts_document(line):
                self._lines = chain([line], self._lines)
                return True
            self.number += is_whole
            is_whole = line.endswith(b"\n")
        return False


class Format:
    """A format of corpus files. Each format is a subclass.

    Attributes:
      name: value of --format.
      beginning: regular expression that matches the beginning of its files.
      is_utf8: True if its files are always UTF-8, whatever --encoding names.
      endings: endings of names that decide where the content shows one of the weaker formats.
      weaker: names of the formats that count less than an ending.
      has_columns: True if documents stand in one column of a table.
      layout: how the lines of its texts are read, if the format decides that and not --layout.
    """

    name: str
    beginning: re.Pattern[bytes]
    is_utf8: bool = False
    endings: tuple[str, ...] = ()
    weaker: tuple[str, ...] = PLAIN_FORMATS
    has_columns: bool = False
    layout: str = AUTO

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file has this format, by its first (decompressed) bytes."""
        return self.beginning.match(sample) is not None

    def check_layout(self, layout: str, where: str) -> None:
        """Checks that a value of --layout has an effect on a file or a value of --format.

        Raises:
          InputError: the format decides otherwise how lines are read.
        """
        if self.layout != AUTO and layout not in (AUTO, self.layout):
            raise InputError(
                f"--layout={layout}: has no effect on {where}, since lines of {self.name} are "
                f"{self.layout}; leave it out, or give another --format"
            )

    def split(self, file: "InputFile", options: ReadOptions, beginning: bytes) -> list[FilePart]:
        """Divides a large file into parts; by default it stays whole.

        Args:
          file: the file.
          options: columns and encodings of the files.
          beginning: the first (decompressed) bytes of the file.

        Raises:
          InputError: the file, or another file that belongs to it, cannot be used.
        """
        return [FilePart(file, self.name)]

    def read(self, part: FilePart, stored: BinaryIO, options: ReadOptions, report: Report) -> Rows:
        """Yields the documents of a part.

        Args:
          part: the part to read.
          stored: the part's file, open and seekable, with its bytes as stored.
          options: columns and encodings of the files.
          report: function that is called with the number of bytes of the part (as stored) that
            have been read.

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

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields the documents in lines of UTF-8, which still have their line feeds."""
        raise NotImplementedError

    def split(self, file: "InputFile", options: ReadOptions, beginning: bytes) -> list[FilePart]:
        """Divides a file into parts, unless it isn't UTF-8."""
        if not self.is_divisible or has_old_line_ends(beginning):
            return [FilePart(file, self.name)]
        encoding = ""
        # The reader meets an error again and rejects the file.
        with contextlib.suppress(CorruptFileError, WrongEncodingError), file.open() as stored:
            whole = FilePart(file, self.name)
            encoding = self._encoding_of(whole, stored, beginning, options.encodings)
        if encoding != DEFAULT_ENCODING:
            return [FilePart(file, self.name, encoding=encoding)]
        return [dataclasses.replace(part, encoding=encoding) for part in self.split_utf8(file)]

    def split_utf8(self, file: "InputFile") -> list[FilePart]:
        """Divides a file that is UTF-8: an uncompressed one into even parts."""
        return [FilePart(file, self.name)] if file.is_compressed else split_evenly(file, self.name)

    def lines(
        self,
        part: FilePart,
        stored: BinaryIO,
        lines_in: Callable[[BinaryIO], Iterator[bytes]] = lines_of,
    ) -> Iterator[bytes]:
        """Returns the lines of a part's documents.

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
        if part.start:
            return lines
        first = next(lines, b"")
        while first.startswith(_BYTE_ORDER_MARK):
            first = first.removeprefix(_BYTE_ORDER_MARK)
        return chain(filter(None, [first]), lines)

    def read(self, part: FilePart, stored: BinaryIO, options: ReadOptions, report: Report) -> Rows:
        """Yields the documents of a part. If the file is corrupt, the last result is a reject.

        A file that is in none of the encodings is one reject. If one encoding is given, or the
        file is damaged UTF-8, each document that isn't in it is a reject.
        """
        beginning = b"" if part.start else read_beginning(part.file.path, stored, part.end)
        lines = CountedLines((), lambda: None)
        try:
            encoding = self._encoding_of(part, stored, beginning, options.encodings)
            lines_in = lines_of
            is_old = has_old_line_ends(beginning)
            if encoding != DEFAULT_ENCODING or is_old:
                lines_in = functools.partial(utf8_lines, encoding=encoding, has_old_ends=is_old)
            lines = CountedLines(
                self.lines(part, stored, lines_in), lambda: report(stored.tell() - part.start)
            )
            for found in self._read_bounded(lines, options):
                yield found if encoding == DEFAULT_ENCODING else _in_encoding(found, encoding)
        except WrongEncodingError as error:
            yield Reject(error.line, _not_in(options.encodings), str(error))
        except CorruptFileError as error:
            detail = f"unreadable after line {lines.number} ({error})"
            yield Reject(lines.number + 1, "corrupt_file", detail)
        except GeneratorExit:
            # The caller stops half-way and needs the number of bytes read so far.
            report(stored.tell() - part.start)
            raise

    def _encoding_of(
        self, part: FilePart, stored: BinaryIO, beginning: bytes, encodings: Sequence[str]
    ) -> str:
        """Returns the encoding of a part's file.

        Raises:
          WrongEncodingError: it is in none of the declared encodings.
          CorruptFileError: the file cannot be decompressed.
        """

        def open_pieces() -> Iterator[bytes]:
            stored.seek(0)
            # The chain keeps the file open.
            return chain(_pieces(decompress(part.file.path, stored)))

        encoding = part.encoding or find_mark(beginning)
        if not encoding:
            encoding = choose_encoding(open_pieces, UTF8 if self.is_utf8 else encodings)
        if not part.start:
            check_beginning(beginning, encoding)
        stored.seek(0)
        return encoding.removesuffix("-sig")

    def _read_bounded(self, lines: CountedLines, options: ReadOptions) -> Iterator[Found]:
        """Yields the documents in lines; one that is too large is rejected, and the next read."""
        before, has_more = 0, True
        while has_more:
            try:
                for found in self.read_lines(lines, options):
                    lines.pending = 0
                    if before and isinstance(found, Reject):
                        detail = f"{found.detail}, counted from line {before + 1:,}"
                        found = dataclasses.replace(found, line=before + found.line, detail=detail)
                    yield found
                return
            except TooLargeError:
                limit = MOST_DOCUMENT_BYTES
                detail = f"the document that reaches line {lines.number} has over {limit:,} bytes"
                if not self.is_divisible:
                    detail += (
                        f", since {self.name} is one document a file; divide the file, or give "
                        "--format=lines or paragraphs if blank lines divide its documents"
                    )
                yield Reject(lines.number, "too_large", detail)
                has_more = self.is_divisible and lines.skip_to(self.starts_document)
                before = lines.number


def read_beginning(path: str, stored: BinaryIO, end: int | None = None) -> bytes:
    """Returns the first `SAMPLE_BYTES` bytes of an open file, decompressed, and rewinds it."""
    sample = b""
    opened = decompress(path, stored, end)
    # What precedes damage is read little by little, and a plain file by one request.
    size = SAMPLE_BYTES if opened is stored else 4096
    with contextlib.suppress(CorruptFileError):  # The reader meets the damage again.
        while len(sample) < SAMPLE_BYTES and (chunk := opened.read(size)):
            sample += chunk
    stored.seek(0)
    return sample


def _in_encoding(found: Found, encoding: str) -> Found:
    """Returns what was read of a file after its conversion from an encoding to UTF-8."""
    if isinstance(found, Document):
        return dataclasses.replace(found, encoding=encoding)
    if isinstance(found, Reject) and READS_AS_WINDOWS in found.detail:
        detail = f"line {found.line} has bytes that are not {web_name(encoding)}"
        return dataclasses.replace(found, reason=_not_in([encoding]), detail=detail)
    return found


def _not_in(encodings: Sequence[str]) -> str:
    """Returns the reason of a reject that is in none of some encodings, such as "not_utf8"."""
    names = (name.replace("-", "_").replace("utf_", "utf") for name in encodings)
    return f"not_{'_or_'.join(names)}"
