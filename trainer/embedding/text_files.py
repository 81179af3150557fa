"""The texts of files, each with its place: a text on each line, or a column of a table."""

import dataclasses
import glob
import os
import pathlib
from collections.abc import Iterator, Sequence

from beambert import storage
from beambert.errors import InputError
from beambert.pipelines.tasks.tables import BadRow, filled, lines, read_rows, read_text
from beambert.trainer.embedding.passages import passages

# Endings of the files that are tables; all others have a text on each line.
TABLES = (".csv", ".tsv", ".jsonl")
TEXT_COLUMN = "text"
LINE, FILE = "line", "file"


@dataclasses.dataclass(frozen=True)
class TextRow:
    """A text of a file.

    Attributes:
      file: path of the file.
      line: its line, counted from 1; in a table the one on which its row begins.
      id: its identifier; "" without a column of identifiers.
      start: first character of the passage in its text, counted from 0.
      text: the text, or a passage of it.
    """

    file: str
    line: int
    id: str
    start: int
    text: str


@dataclasses.dataclass(frozen=True)
class TextReading:
    """How files are read.

    Attributes:
      text_column: column of the texts in tables.
      id_column: column of the identifiers in tables; "" for none.
      title_column: column of the titles in tables, which stand before the texts; "" for none.
      encoding: value of --encoding, see `pipelines.corpus.encodings.parse_encodings`.
      unit: what is a text in files that are no tables, `LINE` or `FILE`.
      passage_words: greatest number of words of a passage; 0 to leave texts whole.
    """

    text_column: str = TEXT_COLUMN
    id_column: str = ""
    title_column: str = ""
    encoding: str = "utf-8"
    unit: str = LINE
    passage_words: int = 0


def match_files(patterns: Sequence[str], flag: str = "--input") -> list[str]:
    """Returns the paths of files here or on gs://, sorted.

    Raises:
      InputError: a pattern matches no file, or the storage doesn't answer.
    """
    found = set()
    for pattern in patterns:
        if os.path.isdir(pattern):
            files = f"{pattern.rstrip('/')}/*"
            raise InputError(f"{flag}={pattern}: is a folder; name its files: '{files}'")
        if storage.is_local(pattern):
            paths = [path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path)]
        else:
            paths = storage.match(pattern)
        if not paths:
            raise InputError(f"{flag}={pattern}: no file matches; check the path")
        for path in paths:
            storage.check_regular(path, flag)
        found.update(paths)
    return sorted(found)


def read_texts(paths: Sequence[str], reading: TextReading, home: str = "") -> Iterator[TextRow]:
    """Yields the texts of files in their order, or their passages; see `_read_whole`."""
    for row in _read_whole(paths, reading, home):
        for start, text in passages(row.text, reading.passage_words):
            yield dataclasses.replace(row, start=start, text=text)


def _read_whole(paths: Sequence[str], reading: TextReading, home: str) -> Iterator[TextRow]:
    """Yields the texts of files in their order; blank lines of text files are no texts.

    Args:
      paths: paths of the files.
      reading: how they are read.
      home: folder that relative paths begin in; "" for the current one.

    Raises:
      InputError: a file cannot be read, a table lacks a column, or a text in it is blank.
    """
    named = ("text_column", "id_column", "title_column")
    columns = [(flag, column) for flag in named if (column := getattr(reading, flag))]
    for path in paths:
        where = os.path.join(home, path) if storage.is_local(path) else path
        # One file is here at a time, however many there are on gs://.
        with storage.local_copy(where) as here:
            is_table = path.endswith(TABLES)
            rows = _rows_of(here, reading, columns) if is_table else _texts_of(here, reading)
            for row in rows:
                yield dataclasses.replace(row, file=path)


def _texts_of(path: str, reading: TextReading) -> Iterator[TextRow]:
    """Yields the texts of a file that is no table."""
    content = read_text(pathlib.Path(path), reading.encoding)
    for number, line in lines(content) if reading.unit == LINE else [(1, content)]:
        if text := line.rstrip() if reading.unit == FILE else line.strip():
            yield TextRow(path, number, "", 0, text)


def _rows_of(
    path: str, reading: TextReading, columns: Sequence[tuple[str, str]]
) -> Iterator[TextRow]:
    """Yields the texts of a table; `columns` has the flags of its columns, and their names."""
    file = pathlib.Path(path)
    for number, row in read_rows(file, encoding=reading.encoding):
        if isinstance(row, BadRow):
            raise row
        for flag, column in columns:
            if column not in row:
                raise InputError(
                    f"--{flag}={column}: {path}, line {number:,}, has no such column (it has "
                    f"{', '.join(row) or 'none'}); name one of its columns"
                )
        text = _text_of(file, number, row, reading)
        id = filled(file, number, row, reading.id_column) if reading.id_column else ""
        yield TextRow(path, number, id, 0, text)


def _text_of(file: pathlib.Path, line: int, row: dict[str, str], reading: TextReading) -> str:
    """Returns the text of a row, behind its title if it has one; one of both may be empty."""
    names = filter(None, (reading.title_column, reading.text_column))
    parts = [filled(file, line, row, name) for name in names if row[name].strip()]
    return " ".join(parts) or filled(file, line, row, reading.text_column)
