"""Reads tables in text files: CSV, and tab-separated values. Pure."""

import csv
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from beambert.errors import InputError
from beambert.pipelines.corpus import line_reading
from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, SAMPLE_BYTES, Assumed
from beambert.pipelines.corpus.columns import TEXT_ALONE, Columns, with_language
from beambert.pipelines.corpus.documents import Document, Reject, Skip, decode_document
from beambert.pipelines.corpus.format_base import LineFormat
from beambert.pipelines.corpus.parts import FilePart

# Name of a column in a header; a sentence is longer or ends otherwise.
_NAME = re.compile(r"[#\w](?:[^\t\n,;.!?\"]{0,38}[^\s,;.!?\"])?")
# Excel takes the separator from such a first line.
_STATED_SEPARATOR = re.compile(r"sep=([,;\t|])\r?\n")
# Fewest rows, with the header, that show a table in a file whose name doesn't.
_FEWEST_ROWS = 3
# Number of column names that a message lists.
_LISTED = 20
# The fields of a row, or what is wrong with it.
Row = list[str] | csv.Error


class _Table(LineFormat):
    """A table with a header, one row a document. A row may have several lines."""

    is_divisible = False
    is_utf8 = False
    has_columns = True

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file is a table: a header of names, and rows of as many fields."""
        lines = sample.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
        found = [row for _, row in self._rows(map(_readable, lines))]
        if len(sample) >= SAMPLE_BYTES:
            found = found[:-1]  # It may be cut.
        rows = [row for row in found if isinstance(row, list) and any(row)]
        if len(rows) < _FEWEST_ROWS or any(isinstance(row, csv.Error) for row in found):
            return False
        header = rows[0]
        return (
            len({len(row) for row in rows}) == 1
            and len(header) > 1
            and len({*header}) == len(header)
            and all(self._is_name(name, at) for at, name in enumerate(header))
            and not self._is_prose(rows[1:])
        )

    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[int, Row]]:
        """Yields (number of a row's first line, its fields or the error about it)."""
        raise NotImplementedError

    def _is_name(self, field: str, at: int) -> bool:
        """Returns whether a field may be the name of a column."""
        return bool(_NAME.fullmatch(field)) and not field.isdecimal()

    def _is_prose(self, rows: list[list[str]]) -> bool:
        """Returns whether the separators are those of prose."""
        return False

    def read(
        self,
        part: FilePart,
        stored: BinaryIO,
        columns: Columns,
        tell: Callable[[int], None],
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of a file.

        Raises:
          InputError: the file has no such column, or two of them.
        """
        try:
            yield from super().read(part, stored, columns, tell, assumed)
        except InputError as error:
            raise InputError(f"{part.file.path}: {error}") from error

    def read_lines(
        self,
        lines: Iterable[bytes],
        columns: Columns = TEXT_ALONE,
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of the rows.

        Raises:
          InputError: there is no such column, or there are two.
        """
        rows = self._rows(map(_readable, lines))
        names: list[str] = []
        for number, row in rows:
            if isinstance(row, csv.Error):
                yield _no_row(number, row)
                return
            if any(row):
                names = [_bytes(name).decode("utf-8", "replace") for name in row]
                break
        else:
            return
        at = self._find(names, columns.text, "--text_column")
        of_language = None
        if columns.language:
            of_language = self._find(names, columns.language, "--language_column")
        for number, row in rows:
            if isinstance(row, csv.Error):
                yield _no_row(number, row)
            elif len(row) == len(names):
                found = decode_document(_bytes(row[at]), number, assumed=assumed)
                if of_language is not None:
                    found = with_language(found, row[of_language], "line", number, columns)
                yield found
            elif row:
                detail = f"line {number} has {len(row)} fields, and the header has {len(names)}"
                yield Reject(number, "wrong_fields", detail)

    def _find(self, names: list[str], column: str, flag: str) -> int:
        """Returns the number of a column.

        Raises:
          InputError: there is no such column, or there are two.
        """
        if names.count(column) != 1:
            has = "two columns have that name; rename one"
            if column not in names:
                listed = ", ".join(names[:_LISTED]) + ", …" * (len(names) > _LISTED)
                has = f"no such column; name one of {listed}, or give --format=text"
                if self.name == "csv" and len(names) == 1 and "\t" in names[0]:
                    has = "no such column; the first line has tabs: give --format=tsv or text"
            raise InputError(f"{flag}={column}: {has}")
        return names.index(column)


class Csv(_Table):
    """CSV with a header: fields between commas or semicolons, in double quotes if need be."""

    name = "csv"
    endings = (".csv",)

    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[int, Row]]:
        csv.field_size_limit(line_reading.MOST_DOCUMENT_BYTES)
        lines = iter(lines)
        header, skipped = next(lines, ""), 0
        delimiter = ";" if header.count(";") > header.count(",") else ","
        if stated := _STATED_SEPARATOR.fullmatch(header):
            header, skipped, delimiter = next(lines, ""), 1, stated[1]
        reader = csv.reader(itertools.chain([header], lines), delimiter=delimiter, strict=True)
        while True:
            number = skipped + reader.line_num + 1
            try:
                yield number, next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield number, error

    def _is_name(self, field: str, at: int) -> bool:
        # pandas leaves the name of its index empty.
        return super()._is_name(field, at) or not (field or at)

    def _is_prose(self, rows: list[list[str]]) -> bool:
        fields = [field for row in rows for field in row[1:]]
        return 2 * sum(field.startswith(" ") for field in fields) > len(fields)


class Tsv(_Table):
    """Tab-separated values with a header. Quotes are literal, and a row is a line."""

    name = "tsv"
    endings = (".tsv", ".tab")

    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[int, Row]]:
        for number, line in enumerate(lines, 1):
            plain = line.rstrip("\r\n")
            yield number, plain.split("\t") if plain else []


def _no_row(line: int, error: csv.Error) -> Reject:
    return Reject(line, "not_csv", f"the row that begins on line {line} is not CSV ({error})")


def _readable(line: bytes) -> str:
    """Returns a line of any encoding as text, from which `_bytes` gives the bytes again."""
    return line.decode("utf-8", "surrogateescape")


def _bytes(field: str) -> bytes:
    return field.encode("utf-8", "surrogateescape")
