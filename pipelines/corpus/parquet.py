"""Reads the documents in a column of Parquet files, a batch of rows at a time."""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from beambert.errors import InputError
from beambert.pipelines.corpus import line_reading
from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import TEXT_ALONE, Columns, with_language
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.format_base import Format
from beambert.pipelines.corpus.parquet_pages import Pages, pages_of
from beambert.pipelines.corpus.parts import FilePart, split_sections
from beambert.pipelines.files.compression import CorruptFileError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from beambert.pipelines.files.input_files import InputFile

# Greatest number of rows and of their bytes to decode at a time.
_BATCH_ROWS = 1000
_BATCH_BYTES = 16 << 20
# Texts that grow more than this many times and take more than these bytes are a bomb: one page of
# them could be larger than memory, or one text of a dictionary stand in millions of rows.
_MOST_GROWTH = 200
_MOST_GROWN_BYTES = 1 << 28


class Parquet(Format):
    """Parquet: a table with the documents in one column. Its row groups are the sections."""

    name = "parquet"
    has_columns = True
    beginning = re.compile(rb"PAR1")

    def split(self, file: "InputFile", columns: Columns) -> list[FilePart]:
        """Divides a file between row groups.

        Raises:
          InputError: the file has no such column, or the column holds no text.
        """
        sizes: list[int] = []
        # Damage is ignored here. The reader meets it again and rejects it.
        with file.open() as stored, contextlib.suppress(CorruptFileError), _naming(file):
            sizes = row_group_bytes(stored, columns)
        return split_sections(file, self.name, sizes)

    def read(
        self,
        part: FilePart,
        stored: BinaryIO,
        columns: Columns,
        tell: Callable[[int], None],
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of a part's row groups, see `read_parquet`."""
        rows = count_rows(stored, part.sections)
        with _naming(part.file):
            documents = read_parquet(stored, columns, part.sections)
            for number, document in enumerate(documents, 1):
                tell(part.bytes * number // max(rows, number))
                yield document


@contextlib.contextmanager
def _naming(file: "InputFile") -> Iterator[None]:
    """Adds the name of the file to the message of an `InputError`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from error


@contextlib.contextmanager
def _opened(file: BinaryIO, text_column: str = "") -> Iterator["pq.ParquetFile"]:
    """Opens a Parquet file for reading. Equal texts of a dictionary share their memory.

    Raises:
      CorruptFileError: the file is damaged or cut off.
    """
    # pyarrow is slow to load.
    import pyarrow as pa
    import pyarrow.parquet as pq

    options = {"read_dictionary": [text_column]} if text_column else {}
    try:
        # The buffer keeps a row group from being read as a whole.
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20, **options) as parquet:
            yield parquet
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(str(error)) from error


def read_parquet(
    file: BinaryIO, columns: Columns = TEXT_ALONE, row_groups: range | None = None
) -> Iterator[Document | Skip | Reject]:
    """Yields the documents in a file's row groups; a null is skipped.

    The line of a reject is the number of its row in the file, from 1.

    Args:
      file: the open file, seekable.
      columns: columns of the documents.
      row_groups: numbers of the row groups to read, from 0; None for all.

    Raises:
      InputError: the file has no such column, or the column holds no text.
    """
    row = texts = 0
    try:
        with _opened(file) as parquet:
            _check_columns(parquet, columns)
            groups = range(parquet.num_row_groups) if row_groups is None else row_groups
            found = [_pages(file, parquet.metadata, group, columns) for group in groups]
        has_dictionary = any(isinstance(each, Pages) and each.has_dictionary for each in found)
        pages = Pages()
        with _opened(file, columns.text if has_dictionary else "") as parquet:
            for group, each in zip(groups, found, strict=True):
                row = sum(parquet.metadata.row_group(g).num_rows for g in range(group))
                if isinstance(each, CorruptFileError):
                    raise each
                pages += each
                most = max(_MOST_GROWTH * pages.stored, _MOST_GROWN_BYTES)
                if each.grown > most or each.largest > _MOST_GROWN_BYTES:
                    grown = f"{each.grown:,} bytes of the texts after row {row}"
                    yield Reject(row + 1, "too_large", f"the {grown} are {each.stored:,} here")
                    continue
                batches = parquet.iter_batches(_rows_at_once(each), [group], columns.names())
                for value, language in itertools.chain.from_iterable(
                    _values(batch, columns) for batch in batches
                ):
                    row += 1
                    document = _row_document(value, row)
                    if columns.language:
                        document = with_language(document, _text(language), "row", row, columns)
                    texts += len(document.text) if isinstance(document, Document) else 0
                    if texts > most:
                        detail = f"the texts up to row {row} are {pages.stored:,} bytes here"
                        yield Reject(row, "too_large", f"over {most:,} characters of {detail}")
                        break
                    yield document
    except CorruptFileError as error:
        yield Reject(row + 1, "corrupt_file", f"unreadable after row {row} ({error})")


def _pages(
    file: BinaryIO, metadata: "pq.FileMetaData", group: int, columns: Columns
) -> Pages | CorruptFileError:
    """Returns the sizes of the pages of the texts in a row group, or why they can't be read."""
    chunks = _chunks(metadata, group, columns.names())
    try:
        return sum((pages_of(file, chunk) for chunk in chunks), Pages())
    except CorruptFileError as error:
        return error


def _rows_at_once(pages: Pages) -> int:
    """Returns the number of rows whose texts fit in memory, whatever the footer says of them."""
    # A text that shares its beginning with the one before may be as long as the page.
    most = pages.largest if pages.has_prefixes else pages.a_value
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(most, 1)))


def row_group_bytes(file: BinaryIO, columns: Columns = TEXT_ALONE) -> list[int]:
    """Returns the number of compressed bytes that the texts of each row group take.

    Raises:
      InputError: the file has no such column, or the column holds no text.
      CorruptFileError: the file is damaged or cut off.
    """
    with _opened(file) as parquet:
        _check_columns(parquet, columns)
        groups = range(parquet.num_row_groups)
        found = (_chunks(parquet.metadata, group, [columns.text]) for group in groups)
        return [sum(chunk.total_compressed_size for chunk in chunks) for chunks in found]


def _chunks(
    metadata: "pq.FileMetaData", group: int, names: Sequence[str]
) -> list["pq.ColumnChunkMetaData"]:
    """Returns the parts of some columns that a row group has."""
    chunks = map(metadata.row_group(group).column, range(metadata.num_columns))
    return [chunk for chunk in chunks if chunk.path_in_schema in names]


def _values(
    batch: "pa.RecordBatch", columns: Columns
) -> Iterator[tuple["pa.Scalar", "pa.Scalar | None"]]:
    """Yields the text and the language of each row."""
    languages = batch.column(columns.language) if columns.language else itertools.repeat(None)
    return zip(batch.column(columns.text), languages, strict=False)


def _text(value: "pa.Scalar") -> str | None:
    """Returns the text of a value; what isn't UTF-8 as what is no language."""
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return "?"


def count_rows(file: BinaryIO, row_groups: range | None = None) -> int:
    """Returns the number of rows in some row groups (None for all); 0 if the file is damaged."""
    try:
        with _opened(file) as parquet:
            groups = range(parquet.num_row_groups) if row_groups is None else row_groups
            return sum(parquet.metadata.row_group(group).num_rows for group in groups)
    except CorruptFileError:
        return 0


def _check_columns(parquet: "pq.ParquetFile", columns: Columns) -> None:
    _check_column(parquet, columns.text, "--text_column")
    if columns.language:
        _check_column(parquet, columns.language, "--language_column")


def _check_column(parquet: "pq.ParquetFile", column: str, flag: str) -> None:
    import pyarrow as pa

    schema = parquet.schema_arrow
    if column not in schema.names:
        listed = ", ".join(schema.names)
        raise InputError(f"{flag}={column}: no such column; name one of {listed}")
    if schema.names.count(column) > 1:
        raise InputError(f"{flag}={column}: two columns have that name; rename one")
    kind = schema.field(column).type
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = pa.types.is_string(value) or pa.types.is_large_string(value)
    if not (is_text or pa.types.is_string_view(value)):
        raise InputError(f"{flag}={column}: holds {kind}, not text; name another")


def _row_document(value: "pa.Scalar", row: int) -> Document | Skip | Reject:
    try:
        text = value.as_py()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        return Reject(row, "not_utf8", f"byte 0x{byte:02x} in row {row} is not UTF-8")
    if text is None:
        return Skip("null_text")
    if len(text) > line_reading.MOST_DOCUMENT_BYTES:
        most = line_reading.MOST_DOCUMENT_BYTES
        detail = f"the document in row {row} has over {most:,} characters"
        return Reject(row, "too_large", detail)
    return Document(text)
