"""Files and their parts -> documents, and what could not be read of them."""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from typing import BinaryIO

from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.formats import (
    BYTE_ORDER_MARK,
    DOCUMENT_STARTS,
    PARQUET,
    READERS,
    SAMPLE_BYTES,
    detect_format,
)
from beambert.pipelines.corpus.mediawiki import starts_mediawiki
from beambert.pipelines.corpus.multistream import index_path, stream_offsets
from beambert.pipelines.corpus.parts import (
    PART_BYTES,
    FilePart,
    lines_of_part,
    split_at,
    split_evenly,
    split_row_groups,
)
from beambert.pipelines.jobs.input_files import CorruptFileError, InputFile, decompress, open_stored
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.progress import ProgressTally

BYTES_BETWEEN_TALLIES = 1 << 18


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How files become documents.

    Attributes:
      format: a key of `formats.READERS`, `formats.PARQUET`, or "auto".
      text_column: of JSON Lines and Parquet.
      progress_folder: of a `ProgressDisplay`, or None.
    """

    format: str = "auto"
    text_column: str = "text"
    progress_folder: str | None = None


def split_file(file: InputFile, options: ReadOptions) -> list[FilePart]:
    """Divides a file into parts; small ones, and formats that don't allow it, stay whole.

    Raises:
      InputError: the file, or the index of a multistream dump, can't be read.
    """
    if file.bytes < 2 * PART_BYTES:
        return [FilePart(file, options.format)]
    format_name = _format_of(file, options)
    if format_name == PARQUET:
        return split_row_groups(file, format_name, _row_group_bytes(file, options.text_column))
    if file.is_compressed:
        return split_at(file, format_name, _stream_offsets(file))
    if format_name in DOCUMENT_STARTS:
        return split_evenly(file, format_name)
    return [FilePart(file, format_name)]


def _format_of(file: InputFile, options: ReadOptions) -> str:
    if options.format != "auto":
        return options.format
    sample = b""
    with open_stored(file.path) as stored:
        opened = decompress(file.path, stored)
        # Reading it will meet any damage again, and reject it.
        with contextlib.suppress(CorruptFileError):
            while len(sample) < SAMPLE_BYTES and (chunk := opened.read(4096)):
                sample += chunk
    return detect_format(sample)


@contextlib.contextmanager
def _naming(file: InputFile) -> Iterator[None]:
    """Puts the file's name before what a reader says that has no name."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from error


def _row_group_bytes(file: InputFile, text_column: str) -> list[int]:
    from beambert.pipelines.corpus.parquet import (  # pyarrow's reader is slow to load
        DAMAGE,
        row_group_bytes,
    )

    with open_stored(file.path) as stored, contextlib.suppress(*DAMAGE), _naming(file):
        return row_group_bytes(stored, text_column)
    return []  # reading it will meet the damage again, and reject it


def _stream_offsets(file: InputFile) -> list[int]:
    """Returns where a compressed file may be cut: nowhere, unless an index says so."""
    index = index_path(file.path)
    if index is None or not FileSystems.exists(index):
        return []
    try:
        with open_stored(index) as stored:
            offsets = stream_offsets(decompress(index, stored))
    except (ValueError, CorruptFileError) as error:
        raise InputError(
            f"{index}: not the index of {file.path} ({error}); mend it, or delete it and the dump "
            "is read by one worker"
        ) from error
    if offsets and offsets[-1] >= file.bytes:
        raise InputError(
            f"{index}: not the index of {file.path}, which has no byte {offsets[-1]}; fetch both "
            "again, or delete it and the dump is read by one worker"
        )
    return offsets


def read_part(
    part: FilePart, options: ReadOptions, progress: ProgressTally
) -> Iterator[Document | Skip | Reject]:
    """Streams a part's documents; where a compressed file is corrupt, a last reject says so.

    Raises:
      InputError: the file can't be opened.
    """
    file, told, lines_read = part.file, 0, 0
    format_name = part.format if part.format != "auto" else _format_of(file, options)

    def tell(done: int) -> None:
        nonlocal told
        done = max(told, min(done, part.bytes))
        progress.add(bytes=done - told)
        told = done

    def counted(lines: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal lines_read
        untold = 0
        for line in lines:
            lines_read += 1
            yield line
            untold += len(line)
            if untold >= BYTES_BETWEEN_TALLIES:
                tell(stored.tell() - part.start)
                untold = 0

    with open_stored(file.path) as stored:
        try:
            if format_name == PARQUET:
                from beambert.pipelines.corpus.parquet import count_rows, read_parquet

                rows = count_rows(stored, part.row_groups)
                documents = read_parquet(stored, options.text_column, part.row_groups)
                with _naming(file):
                    for number, document in enumerate(documents, 1):
                        tell(part.bytes * number // max(rows, number))
                        yield document
            else:
                reader = READERS[format_name]
                if format_name == "jsonl":
                    reader = functools.partial(reader, text_column=options.text_column)
                yield from reader(counted(_lines(part, format_name, stored)))
        except CorruptFileError as error:
            detail = f"unreadable after line {lines_read} ({error})"
            yield Reject(lines_read + 1, "corrupt_file", detail)
        except GeneratorExit:
            # Who stops half-way wants to know how far that was.
            if format_name != PARQUET:
                tell(stored.tell() - part.start)
            raise
    tell(part.bytes)


def _lines(part: FilePart, format_name: str, stored: BinaryIO) -> Iterator[bytes]:
    """Yields the lines that make a part's documents; `stored` is the open file."""
    path, is_dump = part.file.path, format_name == "mediawiki"
    if part.is_whole or part.file.is_compressed:
        stored.seek(part.start)
        # In a chain, or who stops reading closes the file through it.
        lines = chain(decompress(path, stored, part.end))
    else:
        starts_document = DOCUMENT_STARTS[format_name]
        lines = lines_of_part(stored, part.start, part.end, starts_document)
    first = next(lines, b"")
    if not part.start:
        first = first.removeprefix(BYTE_ORDER_MARK)
    elif is_dump and first:
        # As one line with the first, so that lines are counted from the part's own.
        first = _before_pages(path) + first
    if first:
        yield first
    yield from lines
    if is_dump and part.end is not None:
        yield b"</mediawiki>\n"
    elif is_dump and part.start and not first:
        # A last part without a page: the end of the dump was passed over with the page before it,
        # whose reader doesn't look for it.
        stored.seek(part.start)
        yield from (line.rpartition(b"page>")[2] for line in stored)


def _before_pages(path: str) -> bytes:
    """Returns a dump's beginning, which names its namespaces."""
    with open_stored(path) as stored:
        lines = decompress(path, stored)
        return b"".join(takewhile(lambda line: not starts_mediawiki(line), lines))


def reject_row(part: FilePart, reject: Reject) -> str:
    """Returns the line of the rejects file."""
    row = {"file": part.file.path, **dataclasses.asdict(reject)}
    if part.start and part.row_groups is None:
        row["detail"] += f", counted from byte {part.start:,} of the file"
    return json.dumps(row, ensure_ascii=False)


def check_rejects(rows: list[str], read: int, limit: float, remedy: str) -> None:
    """Fails the job if too much could not be read.

    Args:
      rows: see `reject_row`.
      read: documents in all.
      limit: the share of them that may be rejected.
      remedy: what to do about them.

    Raises:
      InputError: naming the first file.
    """
    if len(rows) > limit * read:
        row = json.loads(rows[0])
        raise InputError(
            f"{row['file']}: {row['detail']}; {len(rows)} of {read} documents cannot be "
            f"read: {remedy}, or allow a share with --max_reject_fraction"
        )
