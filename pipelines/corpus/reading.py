"""Files and their parts -> documents, and what could not be read of them."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator

from beambert.pipelines.corpus import parts
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.format_base import Format
from beambert.pipelines.corpus.formats import AUTO, FORMATS, SAMPLE_BYTES, recognise
from beambert.pipelines.corpus.parts import FilePart
from beambert.pipelines.jobs.compression import CorruptFileError, decompress
from beambert.pipelines.jobs.input_files import InputFile
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.progress import ProgressTally


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How files become documents.

    Attributes:
      format: the files' format, a key of `formats.FORMATS` or `formats.AUTO`.
      text_column: the column that holds the documents, in formats that have columns.
      progress_folder: where a `ProgressDisplay` looks, or None.
    """

    format: str = AUTO
    text_column: str = "text"
    progress_folder: str | None = None


def split_file(file: InputFile, options: ReadOptions) -> list[FilePart]:
    """Divides a file into parts; small ones, and formats that don't allow it, stay whole.

    Raises:
      InputError: the file, or one that belongs to it, can't be used.
    """
    if file.bytes < 2 * parts.PART_BYTES:
        return [FilePart(file, options.format)]
    return _format_of(file, options.format).split(file, options.text_column)


def _format_of(file: InputFile, name: str) -> Format:
    """Returns the format of that name, or with `AUTO` the one that the file begins like."""
    if name != AUTO:
        return FORMATS[name]
    sample = b""
    with file.open() as stored:
        opened = decompress(file.path, stored)
        # Reading it will meet any damage again, and reject it.
        with contextlib.suppress(CorruptFileError):
            while len(sample) < SAMPLE_BYTES and (chunk := opened.read(4096)):
                sample += chunk
    return recognise(sample)


def read_part(
    part: FilePart, options: ReadOptions, progress: ProgressTally
) -> Iterator[Document | Skip | Reject]:
    """Streams a part's documents; where a file is corrupt, a last reject says so.

    Raises:
      InputError: the file can't be opened or used.
    """
    told = 0

    def tell(done: int) -> None:
        nonlocal told
        done = max(told, min(done, part.bytes))
        progress.add(bytes=done - told)
        told = done

    found = _format_of(part.file, part.format)
    with part.file.open() as stored:
        yield from found.read(part, stored, options.text_column, tell)
    tell(part.bytes)


def reject_row(part: FilePart, reject: Reject) -> str:
    """Returns the line of the rejects file."""
    row = {"file": part.file.path, **dataclasses.asdict(reject)}
    if part.start and part.sections is None:
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
