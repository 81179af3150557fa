"""Reads documents from a column of a table: JSON Lines, CSV, tab-separated values and Parquet."""

import contextlib
import csv
import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from beambert.compression import CorruptFileError
from beambert.errors import InputError
from beambert.pipelines.corpus import base
from beambert.pipelines.corpus.base import (
    BEFORE_TEXT,
    TEXT_ALONE,
    FilePart,
    Format,
    LineFormat,
    Lines,
    ReadOptions,
    Report,
    Rows,
    split_sections,
)
from beambert.pipelines.corpus.documents import (
    NO_TEXT,
    NOT_UTF8,
    Document,
    Found,
    Reject,
    Skip,
    decode_document,
    language_of,
)
from beambert.pipelines.corpus.encodings import SAMPLE_BYTES
from beambert.pipelines.corpus.pages import html_text
from beambert.pipelines.corpus.wiki_files import extracted_article

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from beambert.pipelines.input_files import InputFile

# Reasons of rows whose language is missing, and of those whose value is not a language.
NO_LANGUAGE, UNKNOWN_LANGUAGE = "no_language", "unknown_language"
# Number of characters of a value, and of column names, that a message shows.
_SHOWN, _LISTED = 40, 20
_SURROGATE = re.compile("[\ud800-\udfff]")
# Name of a column in a header; a sentence is longer or ends otherwise.
_NAME = re.compile(r"[#\w](?:[^\t\n,;.!?\"]{0,38}[^\s,;.!?\"])?")
# Excel takes the separator from such a first line.
_STATED_SEPARATOR = re.compile(r"sep=([,;\t|])\r?\n")
# Fewest rows, with the header, that show a table in a file whose name doesn't.
FEWEST_ROWS = 3
# The fields of a row, or what is wrong with it.
Row = list[str] | csv.Error
# Number of rows to decode from Parquet at a time. A row may be a book.
_BATCH_ROWS = 16


def with_language(found: Found, value: Any, unit: str, number: int, options: ReadOptions) -> Found:
    """Returns a row's document with its language, or a reject if the value is not a language.

    A null and an empty string leave the language open.

    Args:
      found: what was read in the column of texts.
      value: value in the column of languages.
      unit: what the number counts, for a message: "line" or "row".
      number: number of the row.
      options: the columns.
    """
    if not isinstance(found, Document) or value is None or value == "":
        return found
    language = language_of(value) if isinstance(value, str) else ""
    if not language:
        shown = repr(value)[:_SHOWN]
        detail = (
            f"{unit} {number} has {shown} under {options.language_column!r} (--language_column)"
        )
        detail += ", which is not a language; give its code, such as en, zh-Hant or tha"
        return Reject(number, UNKNOWN_LANGUAGE, detail)
    return dataclasses.replace(found, language=language)


class JsonLines(LineFormat):
    """JSON Lines: one object a line, with its document under the key `options.text_column`."""

    name = "jsonl"
    has_columns = True
    endings = (".jsonl", ".ndjson")
    beginning = re.compile(BEFORE_TEXT + rb'\{\s*"')

    def starts_document(self, line: bytes) -> bool:
        """Returns True, because every line is a document."""
        return True

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields the documents of the objects; a null is skipped."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            # Given bytes, `loads` would also accept UTF-16 and halves of surrogate pairs.
            decoded = decode_document(line, number)
            if isinstance(decoded, Reject):
                yield decoded
                continue
            try:
                row = json.loads(decoded.text)
            except (ValueError, RecursionError) as error:
                yield Reject(number, "not_json", f"line {number} is not JSON ({error})")
            else:
                yield _json_document(row, number, options)


def _json_document(row: Any, number: int, options: ReadOptions) -> Found:
    column, of_language = options.text_column, options.language_column
    is_object = isinstance(row, dict)
    text = row.get(column) if is_object else None
    found = _wiki_row(row, text) if is_object else None
    if not found and isinstance(text, str):
        if _SURROGATE.search(text):
            detail = f"line {number} has an escape that is half of a surrogate pair"
            return Reject(number, NOT_UTF8, detail)
        # WikiExtractor --json writes such rows.
        is_article = "curid=" in str(row.get("url")) and isinstance(row.get("title"), str)
        found = extracted_article(text, row["title"]) if is_article else Document(text)
    if not found and is_object and column in row and text is None:
        found = Skip("null_text")
    if not found:
        return _lacks(row, number, NO_TEXT, column, "--text_column")
    if of_language and of_language not in row:
        return _lacks(row, number, NO_LANGUAGE, of_language, "--language_column")
    return with_language(found, row.get(of_language), "line", number, options)


def _wiki_row(row: dict[str, Any], text: Any) -> Found | None:
    """Returns the article in a row of a dump of rendered text, if the row is of such a dump.

    Those of CirrusSearch have an entry of the index before each page; those of Wikimedia
    Enterprise have HTML.
    """
    if row.keys() == {"index"}:
        return Skip("index_entry")
    if isinstance(row.get("article_body"), dict) and text is None:
        namespace = row.get("namespace")
        number = namespace.get("identifier") if isinstance(namespace, dict) else namespace
        html = row["article_body"].get("html")
    elif "namespace" in row and "opening_text" in row:
        number, html = row["namespace"], None
    else:
        return None
    if number not in (0, None):
        return Skip("not_an_article")
    return Document(html_text(html)) if isinstance(html, str) else None


def _lacks(row: Any, number: int, reason: str, column: str, flag: str) -> Reject:
    detail = f'line {number} has no string under "{column}" ({flag})'
    if isinstance(row, dict):
        detail += f"; its columns are {', '.join(list(row)[:_LISTED]) or 'none'}"
    return Reject(number, reason, detail)


class _Table(LineFormat):
    """A table with a header, one row a document. A row may have several lines."""

    is_divisible = False
    has_columns = True

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file is a table: a header of names, and rows of as many fields."""
        lines = sample.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
        found = [row for _, row in self._rows(map(_readable, lines))]
        if len(sample) >= SAMPLE_BYTES:
            found = found[:-1]  # It may be cut.
        rows = [row for row in found if isinstance(row, list) and any(row)]
        if len(rows) < FEWEST_ROWS or any(isinstance(row, csv.Error) for row in found):
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

    def read(self, part: FilePart, stored: BinaryIO, options: ReadOptions, report: Report) -> Rows:
        """Yields the documents of a file.

        Raises:
          InputError: the file has no such column, or two of them.
        """
        with _naming(part.file):
            yield from super().read(part, stored, options, report)

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields the documents of the rows.

        Raises:
          InputError: there is no such column, or there are two.
        """
        rows = self._rows(map(_readable, lines))
        names: list[str] = []
        for number, row in rows:
            if isinstance(row, csv.Error):
                yield _not_csv(number, row)
                return
            if any(row):
                names = [_bytes(name).decode("utf-8", "replace") for name in row]
                break
        else:
            return
        advice = ", or give --format=text"
        if "\ufffd" in "".join(names):
            advice += f"; these are not in --encoding={','.join(options.encodings)}"
        at = find_column(names, options.text_column, "--text_column", advice)
        of_language = None
        if options.language_column:
            of_language = find_column(names, options.language_column, "--language_column")
        for number, row in rows:
            if isinstance(row, csv.Error):
                yield _not_csv(number, row)
            elif len(row) == len(names):
                language = None if of_language is None else row[of_language]
                found = decode_document(_bytes(row[at]), number)
                yield with_language(found, language, "line", number, options)
            elif row:
                detail = f"line {number} has {len(row)} fields, and the header has {len(names)}"
                yield Reject(number, "wrong_fields", detail)


def find_column(names: Sequence[str], column: str, flag: str, advice: str = "") -> int:
    """Returns the number of a column.

    Raises:
      InputError: there is no such column, or there are two.
    """
    if names.count(column) == 1:
        return names.index(column)
    has = "two columns have that name; rename one"
    if column not in names:
        listed = ", ".join(names[:_LISTED]) + ", …" * (len(names) > _LISTED)
        has = f"no such column; name one of {listed}{advice}"
        if len(names) == 1 and "\t" in names[0]:
            has = "no such column; the first line has tabs: give --format=tsv or text"
    raise InputError(f"{flag}={column}: {has}")


def delimiter_of(header: str) -> str:
    """Returns what separates the fields of a CSV file: semicolons if its header has more of them.

    Spreadsheets write these where a comma is part of numbers.
    """
    return ";" if header.count(";") > header.count(",") else ","


class Csv(_Table):
    """CSV with a header: fields between commas or semicolons, in double quotes if need be."""

    name = "csv"
    endings = (".csv",)

    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[int, Row]]:
        csv.field_size_limit(base.MOST_DOCUMENT_BYTES)
        lines = iter(lines)
        header, skipped = next(lines, ""), 0
        delimiter = delimiter_of(header)
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


def _not_csv(line: int, error: csv.Error) -> Reject:
    return Reject(line, "not_csv", f"the row that begins on line {line} is not CSV ({error})")


def _readable(line: bytes) -> str:
    """Returns a line as text, also if it isn't UTF-8; `_bytes` gives the bytes again."""
    return line.decode("utf-8", "surrogateescape")


def _bytes(field: str) -> bytes:
    return field.encode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _naming(file: "InputFile") -> Iterator[None]:
    """Adds the name of the file to the message of an `InputError`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from error


class Parquet(Format):
    """Parquet: a table with the documents in one column. Its row groups are the sections."""

    name = "parquet"
    has_columns = True
    is_utf8 = True
    beginning = re.compile(rb"PAR1")

    def split(self, file: "InputFile", options: ReadOptions, beginning: bytes) -> list[FilePart]:
        """Divides a file between row groups.

        Raises:
          InputError: the file has no such column, or the column holds no text.
        """
        groups = 0
        # Damage is ignored here. The reader meets it again and rejects it.
        with (
            file.open() as stored,
            contextlib.suppress(CorruptFileError),
            _naming(file),
            _opened(stored, options) as parquet,
        ):
            groups = parquet.num_row_groups
        return split_sections(file, self.name, groups)

    def read(self, part: FilePart, stored: BinaryIO, options: ReadOptions, report: Report) -> Rows:
        """Yields the documents of a part's row groups, see `read_parquet`."""
        if part.file.is_compressed:
            detail = "is a Parquet file that was compressed as a whole; decompress it"
            yield Reject(1, "compressed_parquet", detail)
            return
        with _naming(part.file):
            for share, found in read_parquet(stored, options, part.sections):
                report(int(part.bytes * share))
                yield found


def read_parquet(
    file: BinaryIO, options: ReadOptions = TEXT_ALONE, row_groups: range | None = None
) -> Iterator[tuple[float, Found]]:
    """Yields the share of the rows that are read, and a document; a null is skipped.

    The line of a reject is the number of its row in the file, from 1.

    Args:
      file: the open file, seekable.
      options: columns of the documents.
      row_groups: numbers of the row groups to read, from 0; None for all.

    Raises:
      InputError: the file has no such column, or the column holds no text.
    """
    row, text, language = 0, options.text_column, options.language_column
    try:
        with _opened(file, options) as parquet:
            sizes = [parquet.metadata.row_group(n).num_rows for n in range(parquet.num_row_groups)]
            groups = range(len(sizes)) if row_groups is None else row_groups
            before = row = sum(sizes[: groups.start])
            total = sum(sizes[group] for group in groups)
            for group in groups:
                for batch in parquet.iter_batches(_BATCH_ROWS, [group], options.columns):
                    languages = batch.column(language) if language else itertools.repeat(None)
                    for value, of_language in zip(batch.column(text), languages, strict=False):
                        row += 1
                        yield (
                            (row - before) / total,
                            _row_document(value, of_language, row, options),
                        )
    except CorruptFileError as error:
        yield 1.0, Reject(row + 1, "corrupt_file", f"unreadable after row {row} ({error})")


@contextlib.contextmanager
def _opened(file: BinaryIO, options: ReadOptions) -> Iterator["pq.ParquetFile"]:
    """Opens a Parquet file for reading.

    Raises:
      InputError: the file has no such column, or the column holds no text.
      CorruptFileError: the file is damaged or cut off, here or in the body of the `with`.
    """
    # pyarrow is slow to load.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # The buffer keeps a row group from being read as a whole.
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20) as parquet:
            _check_column(parquet, options.text_column, "--text_column")
            if options.language_column:
                _check_column(parquet, options.language_column, "--language_column")
            yield parquet
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(str(error)) from error


def _check_column(parquet: "pq.ParquetFile", column: str, flag: str) -> None:
    import pyarrow as pa

    schema = parquet.schema_arrow
    kind = schema.field(find_column(schema.names, column, flag)).type
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = pa.types.is_string(value) or pa.types.is_large_string(value)
    if not (is_text or pa.types.is_string_view(value)):
        raise InputError(f"{flag}={column}: holds {kind}, not text; name another")


def _row_document(
    value: "pa.Scalar", of_language: "pa.Scalar | None", row: int, options: ReadOptions
) -> Found:
    try:
        text, language = value.as_py(), of_language and of_language.as_py()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        return Reject(row, NOT_UTF8, f"byte 0x{byte:02x} in row {row} is not UTF-8")
    if text is None:
        return Skip("null_text")
    if len(text) > base.MOST_DOCUMENT_BYTES:
        most = base.MOST_DOCUMENT_BYTES
        detail = f"the document in row {row} has over {most:,} characters"
        return Reject(row, "too_large", detail)
    return with_language(Document(text), language, "row", row, options)
