"""Parquet files that pyarrow wrote are read back, whole and by row groups; damage is rejected."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.corpus import parquet, parquet_pages
from beambert.pipelines.corpus.columns import Columns
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.formats import recognise
from beambert.pipelines.corpus.parquet import read_parquet, row_group_bytes
from beambert.pipelines.corpus.parquet_pages import pages_of
from beambert.pipelines.corpus.wikiextractor import WikiExtractor
from beambert.pipelines.files.compression import CorruptFileError

exact = settings(derandomize=True, max_examples=50, deadline=None, database=None)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def written(table: pa.Table, **options) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    file.seek(0)
    return file


def expected(rows: list[str | None]) -> list[Document | Skip]:
    return [Skip("null_text") if row is None else Document(row) for row in rows]


@exact
@given(st.lists(st.none() | texts, max_size=20), st.integers(1, 7), st.data())
def test_row_groups_are_the_whole(rows, group_rows, data):
    table = pa.table({"id": range(len(rows)), "text": pa.array(rows, pa.string())})
    file = written(table, row_group_size=group_rows)
    assert list(read_parquet(file)) == expected(rows)
    groups = len(row_group_bytes(file))
    cut = data.draw(st.integers(0, groups))
    parts = [
        *read_parquet(file, Columns(), range(cut)),
        *read_parquet(file, Columns(), range(cut, groups)),
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
    assert list(read_parquet(file, Columns("body"))) == expected(rows)


def test_no_such_column():
    file = written(pa.table({"id": [1], "body": ["x"]}))
    for read in (row_group_bytes, lambda *given: list(read_parquet(*given))):
        with pytest.raises(InputError, match=r"--text_column=text: .* one of id, body"):
            read(file, Columns())


@pytest.mark.parametrize("values", [[1, 2], [["a"]], [b"bytes"]])
def test_a_column_of_something_else(values):
    with pytest.raises(InputError, match=r"--text_column=text: holds .*, not text"):
        list(read_parquet(written(pa.table({"text": values}))))


def test_row_group_bytes_are_those_of_the_texts():
    table = pa.table({"text": ["a" * 10, "b" * 10_000], "other": ["x" * 50_000, "y"]})
    file = written(table, row_group_size=1, compression="none", use_dictionary=False)
    small, large = row_group_bytes(file)
    assert 10 < small < 100
    assert 10_000 < large < 10_300


def test_invalid_utf8_is_rejected_alone():
    bad = pa.Array.from_buffers(
        pa.string(), 3, pa.array([b"One", b"b\xffd", b"Two"], pa.binary()).buffers()
    )
    file = written(pa.table({"text": pa.concat_arrays([bad, bad])}), row_group_size=3)
    reject = Reject(5, "not_utf8", "byte 0xff in row 5 is not UTF-8")
    assert list(read_parquet(file, Columns(), range(1, 2))) == [
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


def test_equal_large_texts_share_their_memory():
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 250, pa.int32()), ["a" * 1_000_000])
    file = written(pa.table({"text": texts}), compression="zstd")
    assert len(file.getvalue()) < 10_000
    before = pa.total_allocated_bytes()
    for document in read_parquet(file):
        assert len(document.text) == 1_000_000
        assert pa.total_allocated_bytes() - before < 50_000_000


@pytest.mark.slow
def test_a_row_group_that_would_not_fit_is_rejected():
    table = pa.table({"text": ["a" * 10_000_000] * 30})
    file = written(table, compression="zstd", use_dictionary=False, row_group_size=29)
    reject, document = read_parquet(file)
    assert (reject.line, reject.reason) == (1, "too_large")
    assert len(document.text) == 10_000_000


def test_large_rows_are_read_a_few_at_a_time():
    texts = [str(n) * 1_000_000 for n in range(60)]
    # A page is decoded as a whole, so pages are small here.
    file = written(pa.table({"text": texts}), use_dictionary=False, write_batch_size=1)
    before = pa.total_allocated_bytes()
    for document, text in zip(read_parquet(file), texts, strict=True):
        assert document.text == text
        assert pa.total_allocated_bytes() - before < 60_000_000


def test_real_articles(shared_data):
    with (shared_data / "wiki_extracted" / "wiki_00").open("rb") as file:
        documents = list(WikiExtractor().read_lines(file))
    table = pa.table({"text": [document.text for document in documents]})
    assert list(read_parquet(written(table, row_group_size=700))) == documents


def unsigned(number: int) -> bytes:
    """Thrift's variable-length number."""
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY"])
def test_the_sizes_of_pages_are_those_of_the_footer(codec, version, encoding):
    """pyarrow's sums count the headers, too."""
    rows = [f"A text with the number {n % 700}." * (n % 9) for n in range(5000)]
    options = {"use_dictionary": encoding == "RLE_DICTIONARY", "data_page_version": version}
    if encoding != "RLE_DICTIONARY":
        options["column_encoding"] = {"text": encoding}
    options |= {"data_page_size": 2000, "write_batch_size": 100}
    file = written(pa.table({"text": rows}), compression=codec, **options)
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    pages = pages_of(file, column)
    headers = column.total_compressed_size - pages.stored
    assert 0 < headers < 30_000
    assert pages.grown == column.total_uncompressed_size - headers
    assert 2000 <= pages.largest < pages.grown
    is_dictionary = encoding == "RLE_DICTIONARY"
    assert pages.has_dictionary == is_dictionary
    assert pages.a_value < 10 if is_dictionary else 10 < pages.a_value < 300
    assert pages.has_prefixes == (encoding == "DELTA_BYTE_ARRAY")
    assert list(read_parquet(file)) == expected(rows)


def test_a_footer_that_hides_the_size_of_a_page(monkeypatch):
    monkeypatch.setattr(parquet, "_MOST_GROWN_BYTES", 1_000_000)
    table = pa.table({"text": ["a" * 400_000] * 3})
    file = written(table, compression="zstd", use_dictionary=False, write_statistics=False)
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    told = unsigned(column.total_uncompressed_size << 1)
    data = file.getvalue()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # The number 1, written with as many bytes.
    one = bytes([0x82, *[0x80] * (len(told) - 2), 0])
    file = io.BytesIO(data[:start] + data[start:].replace(told, one))
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    assert column.total_uncompressed_size == 1
    (reject,) = read_parquet(file)
    assert (reject.line, reject.reason) == (1, "too_large")
    assert reject.detail.startswith("the 1,2")


@pytest.mark.parametrize("rows_of_a_group", [4, 1000])
def test_a_text_that_a_dictionary_repeats(monkeypatch, rows_of_a_group):
    """The bytes of its pages are few, those of all its rows are not."""
    monkeypatch.setattr(parquet, "_MOST_GROWN_BYTES", 10_000_000)
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["a" * 1_000_000])
    table = pa.table({"text": texts})
    file = written(table, compression="zstd", row_group_size=rows_of_a_group)
    assert len(file.getvalue()) < 200_000
    documents = []
    for found in read_parquet(file):
        if isinstance(found, Reject):
            assert (found.line, found.reason) == (len(documents) + 1, "too_large")
            break
        documents.append(found)
    assert documents == [Document("a" * 1_000_000)] * len(documents)
    # The dictionary of each row group takes some bytes.
    assert 10 <= len(documents) < 1000


def test_beginnings_that_texts_share_take_little_memory():
    texts = ["a" * 200_000 + str(n) for n in range(200)]
    table, encoding = pa.table({"text": texts}), {"text": "DELTA_BYTE_ARRAY"}
    file = written(table, use_dictionary=False, column_encoding=encoding, write_statistics=False)
    assert len(file.getvalue()) < 1_000_000
    before = pa.total_allocated_bytes()
    for document, text in zip(read_parquet(file), texts, strict=True):
        assert document.text == text
        assert pa.total_allocated_bytes() - before < 60_000_000


def test_a_second_size_of_another_type():
    """Arrow skips it, so it must not hide the first."""
    kind, grown, stored = bytes([0x15, 0]), b"\x15" + unsigned(2000), b"\x15" + unsigned(20)
    again = bytes([0x06, 4]) + unsigned(2)  # field 2 as a number of 64 bits
    header = kind + grown + again + stored + b"\0"
    fields, size = parquet_pages._struct(header + bytes(9), 0)
    assert (fields[parquet_pages._GROWN], fields[parquet_pages._STORED]) == (1000, 10)
    assert size == len(header)


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 100, b"\x1c" * 5000, bytes(200), b"\x15" + b"\xff" * 500]
)
def test_headers_of_pages_that_cannot_be_read(data):
    column = pq.ParquetFile(written(pa.table({"text": ["a"]}))).metadata.row_group(0).column(0)
    with pytest.raises(CorruptFileError):
        parquet_pages.pages_of(io.BytesIO(data), column)
