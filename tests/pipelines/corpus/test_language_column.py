"""The column that names the language of each document, in every format that has columns."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beambert.errors import InputError
from beambert.pipelines.corpus.base import ReadOptions
from beambert.pipelines.corpus.documents import Document, Reject
from beambert.pipelines.corpus.formats import FORMATS
from beambert.pipelines.corpus.tables import read_parquet as rows_of

ROWS = [("Ein Text.", "de"), ("一个文本。", "zh-Hans"), ("เรื่อง", "tha_Thai"), ("A text.", None)]
CODES = ["de", "zh", "th", ""]
COLUMNS = ReadOptions(text_column="body", language_column="lang")


def read(name: str, rows, columns=COLUMNS):
    """Rows of text and language, written in a format and read again."""
    table = [{"id": 1, "body": text, "lang": language} for text, language in rows]
    if name == "parquet":
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(table), file)
        return [found for _, found in rows_of(file, columns)]
    if name == "jsonl":
        data = "".join(json.dumps(row) + "\n" for row in table)
    else:
        between = "," if name == "csv" else "\t"
        cells = [["id", "body", "lang"], *([1, text, lang or ""] for text, lang in rows)]
        data = "".join(between.join(map(str, row)) + "\n" for row in cells)
    return list(FORMATS[name].read_lines(io.BytesIO(data.encode()), columns))


FORMATS_WITH_COLUMNS = ["jsonl", "parquet", "csv", "tsv"]


def test_these_formats_have_columns():
    assert {name for name, each in FORMATS.items() if each.has_columns} == {*FORMATS_WITH_COLUMNS}


@pytest.mark.parametrize("name", FORMATS_WITH_COLUMNS)
def test_the_languages_of_documents(name):
    expected = [Document(text, language=code) for (text, _), code in zip(ROWS, CODES, strict=True)]
    assert read(name, ROWS) == expected
    # Without the column the documents are those of before.
    assert read(name, ROWS, ReadOptions(text_column="body")) == [Document(text) for text, _ in ROWS]


@pytest.mark.parametrize("name", FORMATS_WITH_COLUMNS)
@pytest.mark.parametrize("language", ["klingon", "xx", "English (US)"])
def test_what_is_no_language_is_rejected_with_its_place(name, language):
    first, reject, last = read(name, [ROWS[0], ("x", language), ROWS[1]])
    assert isinstance(reject, Reject) and reject.reason == "unknown_language"
    assert repr(language) in reject.detail and "(--language_column)" in reject.detail
    assert reject.line == {"csv": 3, "tsv": 3}.get(name, 2)
    assert (first.language, last.language) == ("de", "zh")


@pytest.mark.parametrize("name", ["parquet", "csv", "tsv"])
def test_a_column_that_is_missing_is_refused(name):
    with pytest.raises(InputError, match=r"--language_column=code: no such column; name one of id"):
        read(name, ROWS, ReadOptions(text_column="body", language_column="code"))


def test_a_json_row_without_the_column_is_rejected():
    (reject,) = read("jsonl", ROWS[:1], ReadOptions(text_column="body", language_column="code"))
    assert reject.reason == "no_language" and "its columns are id, body, lang" in reject.detail


def test_a_language_of_another_type_is_rejected():
    data = b'{"body": "a", "lang": 5}\n{"body": "a", "lang": ["de"]}\n'
    found = FORMATS["jsonl"].read_lines(io.BytesIO(data), COLUMNS)
    assert [reject.reason for reject in found] == ["unknown_language"] * 2
    file = io.BytesIO()
    pq.write_table(pa.table({"body": ["a"], "lang": [5]}), file)
    with pytest.raises(InputError, match="--language_column=lang: holds int64, not text"):
        list(rows_of(file, COLUMNS))


def test_dictionaries_of_languages_are_read():
    """As pandas and `datasets` write categories."""
    texts = pa.array([text for text, _ in ROWS] * 50)
    languages = pa.array([language for _, language in ROWS] * 50).dictionary_encode()
    file = io.BytesIO()
    pq.write_table(pa.table({"lang": languages, "body": texts}), file, row_group_size=30)
    assert [
        document.language for document in (found for _, found in rows_of(file, COLUMNS))
    ] == CODES * 50
