"""Reads documents from files and their parts, and reports what cannot be read."""

import contextlib
import dataclasses
import json
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from beambert.pipelines.corpus import charsets, encodings, parts
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.encodings import Encodings
from beambert.pipelines.corpus.format_base import Format
from beambert.pipelines.corpus.formats import AUTO, FORMATS, SAMPLE_BYTES, recognise
from beambert.pipelines.corpus.line_reading import wide_encoding
from beambert.pipelines.corpus.parts import FilePart
from beambert.pipelines.jobs.compression import CorruptFileError, decompress
from beambert.pipelines.jobs.input_files import InputFile
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.file_kinds import not_text
from beambert.pipelines.shared.progress import ProgressTally


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How files become documents.

    Attributes:
      format: format of the files, a key of `formats.FORMATS` or `formats.AUTO`.
      text_column: column that holds the documents, in formats that have columns.
      progress_folder: folder of a `ProgressDisplay`, or None.
      encodings: how text that isn't UTF-8 is decoded.
    """

    format: str = AUTO
    text_column: str = "text"
    progress_folder: str | None = None
    encodings: Encodings = Encodings()


def split_file(file: InputFile, options: ReadOptions) -> list[FilePart]:
    """Divides a file into parts. A small file, or one of some formats, stays whole.

    Raises:
      InputError: the file, or another file that belongs to it, cannot be used.
    """
    if file.bytes < 2 * parts.PART_BYTES:
        return [FilePart(file, options.format)]
    beginning = _beginning(file)
    found = _format_of(beginning, options.format)
    if wide_encoding(beginning, options.encodings.of(file.path)):
        return [FilePart(file, found.name)]
    return found.split(file, options.text_column)


def find_encodings(
    files: Sequence[InputFile], format_name: str, given: str
) -> tuple[Encodings, list[str]]:
    """Returns how text that isn't UTF-8 is decoded, and the lines that say what is assumed.

    It reads the beginnings of a limited number of files.

    Args:
      files: all files of the corpus.
      format_name: see `ReadOptions`.
      given: the value of --encoding.

    Raises:
      InputError: there is no such encoding, or a file cannot be opened.
    """
    charsets.check_encoding(given)
    if given != charsets.AUTO:
        return Encodings(charsets.python_name(given)), []
    if format_name != AUTO and FORMATS[format_name].is_utf8:
        return Encodings(), []

    recognised: dict[str, str] = {}

    def begin(file: InputFile) -> bytes:
        beginning = _beginning(file)
        format_ = _format_of(beginning, format_name)
        if not_text(beginning):  # The reader rejects it.
            return b""
        recognised[file.path] = format_.name
        return b"" if format_.is_utf8 else beginning

    found, notes = encodings.decide(files, begin)
    return found, [*describe_formats(recognised), *notes]


def describe_formats(recognised: Mapping[str, str]) -> list[str]:
    """Returns the line about files that were taken for several formats; none if all are of one.

    Args:
      recognised: path -> name of the format.
    """
    counts = Counter(recognised.values()).most_common()
    if len(counts) < 2:
        return []
    parts = []
    for name, count in counts:
        example = min(path for path, format_name in recognised.items() if format_name == name)
        parts.append(f"{count:,} {name}, such as {posixpath.basename(example)}")
    return [f"assumed formats: {'; '.join(parts)}; give --format= to decide"]


def _beginning(file: InputFile) -> bytes:
    """Returns the first `SAMPLE_BYTES` bytes of a file, decompressed."""
    sample = b""
    with file.open() as stored:
        opened = decompress(file.path, stored)
        # Damage is ignored here. The reader meets it again and rejects it.
        with contextlib.suppress(CorruptFileError):
            while len(sample) < SAMPLE_BYTES and (chunk := opened.read(4096)):
                sample += chunk
    return sample


def _format_of(beginning: bytes, name: str) -> Format:
    """Returns the format of a name; with `AUTO`, the format that the file's beginning shows."""
    return recognise(beginning) if name == AUTO else FORMATS[name]


def read_part(
    part: FilePart, options: ReadOptions, progress: ProgressTally
) -> Iterator[Document | Skip | Reject]:
    """Yields the documents of a part. If the file is corrupt, the last result is a reject.

    Raises:
      InputError: the file cannot be opened or used.
    """
    told = 0

    def tell(done: int) -> None:
        nonlocal told
        done = max(told, min(done, part.bytes))
        progress.add(bytes=done - told)
        told = done

    beginning = b"" if part.start else _beginning(part.file)
    if kind := not_text(beginning):
        yield Reject(1, "not_text", kind)
        tell(part.bytes)
        return
    found = _format_of(beginning, part.format)
    assumed = options.encodings.of(part.file.path)
    with part.file.open() as stored:
        yield from found.read(part, stored, options.text_column, tell, assumed)
    tell(part.bytes)


def reject_row(part: FilePart, reject: Reject) -> str:
    """Returns a reject as a line of the rejects file, in JSON."""
    row = {"file": part.file.path, **dataclasses.asdict(reject)}
    if part.start and part.sections is None:
        row["detail"] += f", counted from byte {part.start:,} of the file"
    return json.dumps(row, ensure_ascii=False)


def counts_by_reason(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Returns reason -> count for the counts whose names are a prefix and the reason."""
    named = {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)}
    return {reason: count for reason, count in sorted(named.items()) if count}


def check_rejects(rows: list[str], read: int, limit: float, remedy: str) -> None:
    """Fails the job if it rejected too many documents.

    Args:
      rows: lines of the rejects file, see `reject_row`.
      read: number of all documents, rejected or not.
      limit: share of the documents that may be rejected.
      remedy: advice for the message.

    Raises:
      InputError: more were rejected; the message names the first one.
    """
    if len(rows) > limit * read:
        row = json.loads(rows[0])
        share = f"{len(rows):,} of {read:,} documents cannot be read"
        if len(rows) < read:
            remedy += ", or allow a share with --max_reject_fraction"
        raise InputError(f"{row['file']}: {row['detail']} ({share}); {remedy}")
