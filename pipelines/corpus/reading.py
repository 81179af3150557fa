"""Reads documents from files and their parts, and reports what cannot be read."""

import contextlib
import dataclasses
import heapq
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import BinaryIO

from beambert.console import counted
from beambert.errors import InputError
from beambert.pipelines.corpus import charsets, encodings, parts
from beambert.pipelines.corpus.columns import NO_LANGUAGE, Columns
from beambert.pipelines.corpus.documents import NO_TEXT, Document, Reject, Skip
from beambert.pipelines.corpus.encodings import Encodings
from beambert.pipelines.corpus.foreign import Foreign
from beambert.pipelines.corpus.format_base import Format, LineFormat
from beambert.pipelines.corpus.formats import AUTO, FORMATS, TO_TELL, recognise
from beambert.pipelines.corpus.line_reading import has_returns_alone
from beambert.pipelines.corpus.parts import FilePart
from beambert.pipelines.files.compression import CorruptFileError, decompress
from beambert.pipelines.files.input_files import InputFile
from beambert.progress import ProgressTally

# Number of files of which texts are sampled, and of texts of each.
_SAMPLED_TEXTS = 8
_TEXTS_OF_A_FILE = 100
# Number of bytes in which a file's first `SAMPLE_BYTES` bytes are found, also if it is compressed.
BEGINNING_BYTES = 1 << 19
# Number of rejects that a job lists. All are counted.
MOST_REJECTS = 10_000


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How files become documents.

    Attributes:
      format: format of the files, a key of `formats.FORMATS` or `formats.AUTO`.
      text_column: column that holds the documents, in formats that have columns.
      language_column: column that names the language of each, in these formats; "" for none.
      progress_folder: folder of a `ProgressDisplay`, or None.
      encodings: how text that isn't UTF-8 is decoded.
    """

    format: str = AUTO
    text_column: str = "text"
    progress_folder: str | None = None
    encodings: Encodings = Encodings()
    language_column: str = ""

    @property
    def columns(self) -> Columns:
        """The columns to read."""
        return Columns(self.text_column, self.language_column)


def split_file(file: InputFile, options: ReadOptions) -> list[FilePart]:
    """Divides a file into parts. A small file, or one of some formats, stays whole.

    Raises:
      InputError: the file, or another file that belongs to it, cannot be used.
    """
    if file.bytes < 2 * parts.part_bytes(file):
        return [FilePart(file, options.format)]
    beginning = _beginning(file)
    assumed = options.encodings.of(file.path)
    found = _format_of(file, beginning, options)
    if charsets.wide_encoding(beginning, assumed) or has_returns_alone(beginning):
        return [FilePart(file, found.name)]
    return found.split(file, options.columns)


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

    options = ReadOptions(format_name)
    recognised: dict[str, str] = {}

    def begin(file: InputFile) -> bytes:
        beginning = _beginning(file)
        format_ = _format_of(file, beginning, options)
        recognised[file.path] = format_.name
        return b"" if format_.is_utf8 else beginning

    found, notes = encodings.decide(files, begin)
    looked_at = len(recognised) if len(recognised) < len(files) else 0
    return found, [*describe_formats(recognised, looked_at), *notes]


def sample_documents(files: Sequence[InputFile], options: ReadOptions) -> list[Document]:
    """Returns documents from the beginnings of a few files.

    Args:
      files: all files of the corpus.
      options: how files become documents.

    Raises:
      InputError: there are rows, and none has the column of texts.
    """
    documents, without_text = [], []
    for file in encodings.choose_files(files, _SAMPLED_TEXTS):
        # What else cannot be read is met again by the reader.
        with contextlib.suppress(InputError, CorruptFileError):
            for row in islice(_first_rows(file, options), _TEXTS_OF_A_FILE):
                if isinstance(row, Document):
                    documents.append(row)
                elif isinstance(row, Reject) and row.reason in (NO_TEXT, NO_LANGUAGE):
                    without_text.append(f"{file.path}: {row.detail}")
    if without_text and not documents:
        raise InputError(without_text[0])
    return documents


def _first_rows(file: InputFile, options: ReadOptions) -> Iterator[Document | Skip | Reject]:
    beginning = _beginning(file)
    found = _format_of(file, beginning, options)
    assumed = options.encodings.of(file.path)
    if not isinstance(found, LineFormat):
        with file.open() as stored:
            part = FilePart(file, found.name)
            yield from found.read(part, stored, options.columns, lambda _: None, assumed)
        return
    if wide := charsets.find_mark(beginning) or charsets.wide_encoding(beginning, assumed):
        beginning = beginning.decode(wide, "ignore").encode()
    whole_lines = beginning[: beginning.rfind(b"\n") + 1] or beginning
    yield from found.read_lines(io.BytesIO(whole_lines), options.columns, assumed)


def describe_formats(recognised: Mapping[str, str], looked_at: int = 0) -> list[str]:
    """Returns the line about files that were taken for several formats, or for a table.

    There is none if all files are of one format that cannot be mistaken.

    Args:
      recognised: path -> name of the format.
      looked_at: number of files that were looked at; 0 if these were all.
    """
    counts = Counter(recognised.values()).most_common()
    if len(counts) < 2 and not any(name in TO_TELL for name, _ in counts):
        return []
    parts = []
    for name, count in counts:
        example = min(path for path, format_name in recognised.items() if format_name == name)
        name += " (not read)" if isinstance(FORMATS[name], Foreign) else ""
        parts.append(f"{count:,} {name}, such as {example}")
    of_all = f" of the {counted(looked_at, 'file')} looked at" if looked_at else ""
    return [f"assumed formats{of_all}: {'; '.join(parts)}; give --format= to decide"]


def _beginning(file: InputFile) -> bytes:
    """Returns the first `charsets.SAMPLE_BYTES` bytes of a file, decompressed."""
    with file.open(end=BEGINNING_BYTES) as stored:
        return _sample(file.path, stored)


def _sample(path: str, stored: BinaryIO) -> bytes:
    """Returns the first `charsets.SAMPLE_BYTES` bytes of an open file, decompressed."""
    sample = b""
    opened = decompress(path, stored)
    # Damage is ignored here. The reader meets it again and rejects it.
    with contextlib.suppress(CorruptFileError):
        while len(sample) < charsets.SAMPLE_BYTES and (chunk := opened.read(4096)):
            sample += chunk
    return sample


def _format_of(file: InputFile, beginning: bytes, options: ReadOptions) -> Format:
    """Returns the format that is named; with `AUTO`, that of the file by its beginning."""
    if options.format != AUTO:
        return FORMATS[options.format]
    return recognise(beginning, options.encodings.of(file.path), file.path)


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

    assumed = options.encodings.of(part.file.path)
    with part.file.open(part.end) as stored:
        beginning = _sample(part.file.path, stored) if part.format == AUTO else b""
        stored.seek(0)
        found = _format_of(part.file, beginning, dataclasses.replace(options, format=part.format))
        yield from found.read(part, stored, options.columns, tell, assumed)
    tell(part.bytes)


def reject_row(part: FilePart, reject: Reject) -> str:
    """Returns a reject as a line of the rejects file, in JSON."""
    row = {"file": part.file.path, **dataclasses.asdict(reject)}
    if part.start and part.sections is None:
        row["detail"] += f", counted from byte {part.start:,} of the file"
    # An escape in a file may be half of a character, which cannot be written.
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def counts_by_reason(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Returns reason -> count for the counts whose names are a prefix and the reason."""
    named = {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)}
    return {reason: count for reason, count in sorted(named.items()) if count}


def first_rejects(parts: Iterable[Sequence[str]]) -> list[str]:
    """Returns the first `MOST_REJECTS` rows of several lists, in the order of their text."""
    return heapq.nsmallest(MOST_REJECTS, chain.from_iterable(parts))


def check_rejects(rows: Sequence[str], rejected: int, read: int, limit: float, remedy: str) -> None:
    """Fails the job if it rejected too many documents.

    Args:
      rows: some of the rejects, see `reject_row`.
      rejected: number of rejected documents.
      read: number of all documents, rejected or not.
      limit: share of the documents that may be rejected.
      remedy: advice for the message.

    Raises:
      InputError: more were rejected; the message names the first one.
    """
    if rejected > limit * read:
        row = json.loads(rows[0])
        share = f"{rejected:,} of {read:,} documents cannot be read"
        if rejected < read:
            remedy += ", or allow a share with --max_reject_fraction"
        raise InputError(f"{row['file']}: {row['detail']} ({share}); {remedy}")
