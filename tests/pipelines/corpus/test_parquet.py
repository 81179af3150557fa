"""Parquet files that pyarrow wrote are read back, whole and by row groups; damage is rejected."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.corpus.base import ReadOptions
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.formats import recognise
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
