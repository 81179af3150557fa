"""Reads the rows of .tsv, .csv and .jsonl files with their line numbers.

A line that is not a row gives an error that names the file and the line.
"""

import collections
import csv
import io
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from beambert.errors import InputError, one_line
from beambert.file_kinds import not_text
from beambert.io import read_chunks
from beambert.pipelines.corpus import encodings
from beambert.pipelines.corpus.encodings import (
    DEFAULT_ENCODING,
    WrongEncodingError,
    parse_encodings,
)
from beambert.pipelines.corpus.tables import delimiter_of

ENDINGS = (".tsv", ".csv", ".jsonl")


class BadRow(InputError):
    """An error about one row that cannot be used; the other rows of the file can."""

    def __init__(self, path: pathlib.PurePath, line: int, reason: str, remedy: str):
        """Takes the place of the row, the reason in the form `has …`, and the remedy."""
        super().__init__(path, line, reason, remedy)
        self.reason, self.remedy = reason, remedy

    def __str__(self) -> str:
        """Returns the message."""
        path, line, reason, remedy = self.args
        return one_line(f"{path}, line {line}: {reason}; {remedy}")


class JsonText(str):
    """A list or an object of a JSON row, as JSON, which must not pass as a text."""


class TableRow(dict[str, str]):
    """The fields of a row by column, and the file and line where it stands."""

    def __init__(self, path: pathlib.PurePath, line: int, fields: Mapping[str, str]):
        """Takes the place and the fields."""
        super().__init__(fields)
        self._path, self._line = path, line

    def bad(self, reason: str, remedy: str) -> BadRow:
        """Returns the error about the row, see `BadRow`."""
        return BadRow(self._path, self._line, reason, remedy)

    def lacks_column(self, reason: str, remedy: str) -> InputError:
        """Returns the error about a missing column.

        In JSON Lines it concerns the row, as rows may have different columns; in tables the whole
        file.
        """
        bad = self.bad(reason, remedy)
        return bad if self._path.suffix == ".jsonl" else InputError(str(bad))

    def field(self, name: str) -> str:
        """Returns a field, which may be empty.

        Raises:
          InputError: there is no such column.
        """
        if name not in self:
            reason = f"has no column {name!r} (it has {', '.join(self) or 'none'})"
            remedy = (
                "rename the column or, if the data is your own, name yours with --text_columns or "
                "--label_column"
            )
            if self._path.suffix != ".jsonl":
                remedy += "; the first line has the names"
            raise self.lacks_column(reason, remedy)
        return self[name]

    def filled(self, name: str) -> str:
        """Returns a field that must not be empty.

        Raises:
          BadRow: the field is empty, or a list or an object of JSON.
          InputError: there is no such column.
        """
        if isinstance(self.get(name), JsonText):
            reason = f"has a list or an object in {name!r}"
            raise self.bad(reason, "write one text, or a column for each")
        if not self.field(name).strip():
            raise self.bad(f"has an empty {name!r}", "fill it in or delete the row")
        return self[name]

    def unknown_label(self, label: str, labels: Sequence[str]) -> BadRow:
        """Returns the error about a label that is not among the known labels."""
        return unknown_label(self._path, self._line, label, labels)


def unknown_label(path: pathlib.PurePath, line: int, label: str, labels: Sequence[str]) -> BadRow:
    """Returns the error about a row whose label is not among the known labels."""
    reason = f"has the label {label!r}, which is not one of {', '.join(labels)}"
    remedy = "correct the row, add the label to --labels, or train with it first"
    return BadRow(path, line, reason, remedy)


Row = tuple[int, TableRow | BadRow]


def read_rows(
    path: pathlib.Path, headerless_columns: tuple[str, ...] = (), encoding: str = DEFAULT_ENCODING
) -> Iterator[Row]:
    """Yields the rows of a file: (line number, fields by column or the error about the row).

    Args:
      path: path of the file; files that are neither .csv nor .jsonl are tab-separated.
      headerless_columns: names of the columns if the file has no header line.
      encoding: see `read_text`.

    Raises:
      InputError: the file has no header line, is in none of the encodings, or is not CSV.
    """
    yield from rows_of(path, read_text(path, encoding), headerless_columns)


def rows_of(
    path: pathlib.Path, text: str, headerless_columns: tuple[str, ...] = ()
) -> Iterator[Row]:
    """Yields the rows of a file's text, see `read_rows`."""
    if path.suffix == ".jsonl":
        yield from _json_rows(path, text)
        return
    records = comma_separated(path, text) if path.suffix == ".csv" else _tab_separated(text)
    records = ((n, fields) for n, fields in records if len(fields) > 1 or "".join(fields).strip())
    columns = headerless_columns
    if not columns:
        _, header = next(records, (0, None))
        if header is None:
            raise InputError(
                f"{path}: is empty; it needs a header line and one row for each example"
            )
        columns = tuple(header)
        counts = collections.Counter(columns)
        # Spreadsheets write empty columns without a name; nothing can ask for them.
        if repeated := [name for name in counts if name and counts[name] > 1]:
            raise InputError(
                f"{path}: has two columns named {repeated[0]!r}; rename one of them or, if the "
                "first line is an example, put a line with the names of the columns before it"
            )
    for number, fields in records:
        if len(fields) == len(columns):
            yield number, TableRow(path, number, dict(zip(columns, fields, strict=True)))
        else:
            reason = f"needs {len(columns)} fields ({', '.join(columns)}) but has {len(fields)}"
            yield number, BadRow(path, number, reason, "correct the row")


def read_text(path: pathlib.Path, encoding: str = DEFAULT_ENCODING) -> str:
    """Returns a file's text without a byte order mark.

    Args:
      path: path of the file.
      encoding: value of --encoding, see `parse_encodings`.

    Raises:
      InputError: the file cannot be read, or is in none of the encodings.
    """
    return decode(path, b"".join(read_chunks(str(path))), encoding)


def decode(path: pathlib.PurePath, content: bytes, encoding: str = DEFAULT_ENCODING) -> str:
    """Returns a file's content as text without a byte order mark.

    Args:
      path: path of the file, for messages.
      content: the whole file.
      encoding: value of --encoding, see `parse_encodings`.

    Raises:
      InputError: the content is not text, or in none of the encodings.
    """
    if problem := not_text(content):
        raise InputError(f"{path}: {problem}")
    try:
        text, _ = encodings.decode(content, parse_encodings(encoding))
    except WrongEncodingError as error:
        raise InputError(f"{path}: {error}; or convert the file to UTF-8") from error
    return text


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, line); only line feeds end a line."""
    parts = text.split("\n")
    if parts[-1] == "":
        parts.pop()
    for number, line in enumerate(parts, start=1):
        yield number, line.removesuffix("\r")


def _tab_separated(text: str) -> Iterator[tuple[int, list[str]]]:
    # Quotes in GLUE's files are literal; a reader that interprets them merges rows of MRPC.
    for number, line in lines(text):
        yield number, line.split("\t")


def comma_separated(path: pathlib.PurePath, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, fields) of each row of a CSV file's text.

    Raises:
      InputError: it is not CSV.
    """
    # The standard library limits a field to 128 KiB; texts can be longer.
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    delimiter = delimiter_of(text.partition("\n")[0])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    first_line = 1
    try:
        for record in reader:
            yield first_line, record
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}, line {first_line}: not CSV ({error}); put the field in double quotes and "
            "double the quotes inside it"
        ) from error


def _json_rows(path: pathlib.PurePath, text: str) -> Iterator[Row]:
    for number, line in lines(text):
        if line.strip():
            yield number, _json_row(path, number, line)


def _json_row(path: pathlib.PurePath, number: int, line: str) -> TableRow | BadRow:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = f"is not JSON ({getattr(error, 'msg', error)})"
        return BadRow(path, number, reason, "put one object on each line")
    if not isinstance(row, dict):
        return BadRow(path, number, "is not a JSON object", "write one on each line")
    fields = {name: _json_field(value) for name, value in row.items()}
    try:
        "".join([*fields, *fields.values()]).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        return BadRow(path, number, f"has half a character ({half})", "correct the row")
    return TableRow(path, number, fields)


def _json_field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return JsonText(text) if isinstance(value, list | dict) else text
