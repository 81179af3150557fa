"""Parquet, the column of languages of all formats, and their codes."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.corpus.base import ReadOptions
from beambert.pipelines.corpus.documents import (
    LANGUAGES,
    Document,
    Reject,
    Skip,
    check_language,
    language_of,
)
from beambert.pipelines.corpus.formats import FORMATS, recognise
from beambert.pipelines.corpus.tables import read_parquet as rows_of

exact = settings(derandomize=True, max_examples=50, deadline=None, database=None)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def written(table: pa.Table, **options) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    file.seek(0)
    return file


def read_parquet(*given) -> list:
    return [found for _, found in rows_of(*given)]


def expected(rows: list[str | None]) -> list[Document | Skip]:
    return [Skip("null_text") if row is None else Document(row) for row in rows]


@exact
@given(st.lists(st.none() | texts, max_size=20), st.integers(1, 7), st.data())
def test_row_groups_are_the_whole(rows, group_rows, data):
    table = pa.table({"id": range(len(rows)), "text": pa.array(rows, pa.string())})
    file = written(table, row_group_size=group_rows)
    assert list(read_parquet(file)) == expected(rows)
    groups = pq.ParquetFile(file).num_row_groups
    cut = data.draw(st.integers(0, groups))
    parts = [
        *read_parquet(file, ReadOptions(), range(cut)),
        *read_parquet(file, ReadOptions(), range(cut, groups)),
    ]
    assert parts == expected(rows)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
def test_kinds_of_text(kind, compression):
    rows = ["One", None, "Two", "Two"]
    table = pa.table({"body": pa.array(rows).cast(kind)})
    file = written(table, compression=compression)
    assert recognise(file.getvalue()[:100]).name == "parquet"
    assert list(read_parquet(file, ReadOptions(text_column="body"))) == expected(rows)


def test_no_such_column():
    file = written(pa.table({"id": [1], "body": ["x"]}))
    with pytest.raises(InputError, match=r"--text_column=text: .* one of id, body"):
        read_parquet(file)


@pytest.mark.parametrize("values", [[1, 2], [["a"]], [b"bytes"]])
def test_a_column_of_something_else(values):
    with pytest.raises(InputError, match=r"--text_column=text: holds .*, not text"):
        list(read_parquet(written(pa.table({"text": values}))))


def test_invalid_utf8_is_rejected_alone():
    bad = pa.Array.from_buffers(
        pa.string(), 3, pa.array([b"One", b"b\xffd", b"Two"], pa.binary()).buffers()
    )
    file = written(pa.table({"text": pa.concat_arrays([bad, bad])}), row_group_size=3)
    reject = Reject(5, "not_utf8", "byte 0xff in row 5 is not UTF-8")
    assert list(read_parquet(file, ReadOptions(), range(1, 2))) == [
        Document("One"),
        reject,
        Document("Two"),
    ]


def test_cut_off_or_empty():
    data = written(pa.table({"text": ["One"] * 1000})).getvalue()
    for size in (0, 3, 4, 100, len(data) - 1):
        (reject,) = read_parquet(io.BytesIO(data[:size]))
        assert (reject.line, reject.reason) == (1, "corrupt_file")


def test_damage_in_the_second_row_group():
    rows = [f"A sentence with the number {i}." for i in range(4000)]
    file = written(pa.table({"text": rows}), row_group_size=2000, use_dictionary=False)
    column = pq.ParquetFile(file).metadata.row_group(1).column(0)
    data = bytearray(file.getvalue())
    start = column.data_page_offset
    data[start : start + 200] = b"\xff" * 200
    *found, reject = read_parquet(io.BytesIO(data))
    assert found == expected(rows[:2000])
    assert (reject.line, reject.reason) == (2001, "corrupt_file")


def test_two_columns_of_the_name():
    column = pa.array(["a"])
    file = written(pa.Table.from_arrays([column, column], ["text", "text"]))
    with pytest.raises(InputError, match=r"^--text_column=text: two columns have that name"):
        list(read_parquet(file))


def test_large_rows_are_read_a_few_at_a_time():
    texts = [str(n) * 1_000_000 for n in range(60)]
    # A page is decoded as a whole, so pages are small here.
    file = written(pa.table({"text": texts}), use_dictionary=False, write_batch_size=1)
    before = pa.total_allocated_bytes()
    for document, text in zip(read_parquet(file), texts, strict=True):
        assert document.text == text
        assert pa.total_allocated_bytes() - before < 60_000_000


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


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("de", "de"),
        ("EN", "en"),
        ("zh-Hant-TW", "zh"),
        ("pt_BR", "pt"),
        # FineWeb-2 and HPLT write ISO 639-3 and the script, in which Mandarin and Standard Arabic
        # have codes of their own.
        ("tha_Thai", "th"),
        ("cmn_Hani", "zh"),
        ("arb_Arab", "ar"),
        ("deu", "de"),
        # Cebuano has no code of ISO 639-1.
        ("ceb", "ceb"),
    ],
)
def test_tags(tag, code):
    assert language_of(tag) == code


@pytest.mark.parametrize("tag", ["", "xx", "English", "klingon", "zh-", "12", "de,en", "русский"])
def test_what_is_no_tag(tag):
    assert language_of(tag) == ""


def test_every_language_has_a_code_of_its_own():
    """ISO 639-1 has 183 languages and no two of them share a code of ISO 639-3."""
    assert len(LANGUAGES) == 183 and all(language_of(code) == code for code in LANGUAGES)


@pytest.mark.parametrize("language", ["us", "english", "zh-Hant", "deu", ""])
def test_the_flag_takes_codes_alone(language):
    with pytest.raises(InputError, match=f"^--language={language}: is not an ISO 639-1 code; give"):
        check_language(language)
