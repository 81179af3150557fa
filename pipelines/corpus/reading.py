"""Reads documents from files and their parts, and reports what cannot be read."""

import contextlib
import dataclasses
import heapq
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any

from beambert.compression import CorruptFileError
from beambert.console import ProgressTally, counted
from beambert.errors import InputError
from beambert.io import is_local, write_bytes
from beambert.pipelines.corpus import base
from beambert.pipelines.corpus.base import FilePart, Format, LineFormat, ReadOptions
from beambert.pipelines.corpus.cleaning import AUTO, SENTENCES, clean
from beambert.pipelines.corpus.documents import NO_TEXT, Document, Found, Reject
from beambert.pipelines.corpus.encodings import DEFAULT_ENCODING, UTF8
from beambert.pipelines.corpus.formats import FORMATS, TO_REPORT, Foreign, recognise, to_utf8
from beambert.pipelines.corpus.pages import clean_page
from beambert.pipelines.corpus.remains import EXTRACTED_MARK, clean_extracted
from beambert.pipelines.corpus.tables import NO_LANGUAGE
from beambert.pipelines.corpus.text_files import PlainText, SentenceLines, has_blocks
from beambert.pipelines.input_files import InputFile

# Number of files of which texts are sampled, and of texts of each.
_SAMPLED_FILES = 8
_TEXTS_OF_A_FILE = 100
# Greatest number of files whose formats are looked at before a job, on this machine and elsewhere.
# A file elsewhere takes a request of up to 16 MiB.
_RECOGNISED_FILES = 1000
_RECOGNISED_FILES_ELSEWHERE = 64
# Number of bytes in which a file's first `SAMPLE_BYTES` bytes are found, also if it is compressed.
BEGINNING_BYTES = 1 << 19
# Number of rejects that a job lists. All are counted.
MOST_REJECTS = 10_000
# A title of WikiText, as a document of its own.
_TITLE_ALONE = re.compile(r"= [^=](?:.*[^=])? =")


def split_file(file: InputFile, options: ReadOptions) -> list[FilePart]:
    """Divides a file into parts. A small file, or one of some formats, stays whole.

    Raises:
      InputError: the file, or another file that belongs to it, cannot be used.
    """
    if file.bytes < 2 * base.part_bytes(file):
        return [FilePart(file, options.format)]
    beginning = _beginning(file)
    found = _format_of(file, beginning, options)
    return found.split(file, options, beginning)


def read_part(part: FilePart, options: ReadOptions, progress: ProgressTally) -> Iterator[Found]:
    """Yields the documents of a part. If the file is corrupt, the last result is a reject.

    Raises:
      InputError: the file cannot be opened or used.
    """
    reported = 0

    def report(done: int) -> None:
        nonlocal reported
        done = max(reported, min(done, part.bytes))
        progress.add(bytes=done - reported)
        reported = done

    with part.file.open(part.end) as stored:
        beginning = base.read_beginning(part.file.path, stored) if part.format == AUTO else b""
        found = _format_of(part.file, beginning, dataclasses.replace(options, format=part.format))
        for row in found.read(part, stored, options, report):
            yield _clean(row, found, options)
    report(part.bytes)


def _clean(row: Found, of_format: Format, options: ReadOptions) -> Found:
    if not isinstance(row, Document):
        return row
    if of_format.has_columns:
        row = clean_page(row)
        if EXTRACTED_MARK in row.text:  # Rows hold what WikiExtractor wrote.
            row = row.clean(clean_extracted)
    return clean(row, options.layout if of_format.layout == AUTO else of_format.layout)


@dataclasses.dataclass(frozen=True)
class Sample:
    """The first documents of a file.

    Attributes:
      path: path of the file.
      format: its format.
      documents: the documents.
      has_blocks: whether it is plain text that blank lines divide, see `has_blocks`.
    """

    path: str
    format: Format
    documents: list[Document]
    has_blocks: bool


def sample_files(files: Sequence[InputFile], options: ReadOptions) -> list[Sample]:
    """Returns the beginnings of a few files, those that can be read.

    Args:
      files: all files of the corpus.
      options: how files become documents.

    Raises:
      InputError: there are rows, and none has the column of texts, or they are no documents.
    """
    samples, without_text = [], []
    for file in spread(files, _SAMPLED_FILES):
        # What else cannot be read is met again by the reader.
        with contextlib.suppress(InputError, CorruptFileError):
            beginning = _beginning(file)
            found = _format_of(file, beginning, options)
            is_divided = isinstance(found, PlainText) and has_blocks(beginning)
            sample = Sample(file.path, found, [], is_divided)
            samples.append(sample)
            for each in islice(_first_rows(file, found, beginning, options), _TEXTS_OF_A_FILE):
                row = _clean(each, found, options)
                if isinstance(row, Document):
                    sample.documents.append(row)
                elif isinstance(row, Reject) and row.reason in (NO_TEXT, NO_LANGUAGE):
                    without_text.append(f"{file.path}: {row.detail}")
    texts = [document.text for sample in samples for document in sample.documents]
    if without_text and not texts:
        raise InputError(without_text[0])
    if any(map(_TITLE_ALONE.fullmatch, texts)) and not any("\n" in text for text in texts):
        raise InputError(
            "--input: rows hold single lines of WikiText, so that each would be a document; write "
            "them to a text file, one after the other, and give --format=wikitext"
        )
    return samples


def layout_notes(samples: Sequence[Sample], options: ReadOptions) -> list[str]:
    """Returns the lines that say what was found of the lines of texts, unless a flag decides.

    Others name flags without effect on the files of the sample.
    """
    wrapped, others, divided = [], [], []
    for sample in samples:
        texts = [each for each in sample.documents if not each.is_split]
        joined = sum("wrapped_line" in each.cleaned for each in texts)
        apart = sum("\n" in each.text and "wrapped_line" not in each.cleaned for each in texts)
        if sample.format.layout == AUTO and joined + apart:
            (wrapped if joined >= apart else others).append(sample.path)
        if sample.has_blocks and not joined:
            divided.append(sample.path)
    of_all = f"of {counted(len(samples), 'file')} sampled, such as"
    notes = []
    if options.layout == AUTO and wrapped + others:
        found = (("hard-wrapped", wrapped), ("each a paragraph", others))
        parts = [f"{what} in {len(some)} {of_all} {some[0]}" for what, some in found if some]
        notes.append(f"lines: {'; '.join(parts)}; --layout= decides otherwise")
    if options.format == AUTO and divided:
        notes.append(
            f"lines: blank lines divide the text of {len(divided)} {of_all} {divided[0]}, each of "
            "which is one document; --format=lines or paragraphs divides there"
        )
    formats = [sample.format for sample in samples]
    for flag, value, has_effect in (
        ("text_column", options.text_column, any(each.has_columns for each in formats)),
        ("language_column", options.language_column, any(each.has_columns for each in formats)),
        ("encoding", ",".join(options.encodings), not all(each.is_utf8 for each in formats)),
    ):
        if formats and not has_effect and value not in ("", "text", DEFAULT_ENCODING):
            of_all = ", ".join(sorted({each.name for each in formats}))
            notes.append(f"--{flag}={value}: has no effect on the files sampled ({of_all})")
    return notes


def _first_rows(
    file: InputFile, found: Format, beginning: bytes, options: ReadOptions
) -> Iterator[Found]:
    if not isinstance(found, LineFormat):
        with file.open() as stored:
            part = FilePart(file, found.name)
            yield from found.read(part, stored, options, lambda _: None)
        return
    beginning = to_utf8(beginning, UTF8 if found.is_utf8 else options.encodings)
    whole_lines = beginning[: beginning.rfind(b"\n") + 1] or beginning
    yield from found.read_lines(io.BytesIO(whole_lines), options)


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """Returns some of the items, such as files, spread evenly over all of them."""
    step = max(1.0, len(items) / most)
    return [items[int(n * step)] for n in range(min(most, len(items)))]


def recognise_formats(files: Sequence[InputFile], options: ReadOptions) -> list[str]:
    """Returns the line about files that were taken for several formats, or for a table.

    There is none if a format is named, or all files are of one that cannot be mistaken. The
    beginnings of a limited number of files are read.

    Args:
      files: all files of the corpus.
      options: how files become documents.

    Raises:
      InputError: a file cannot be opened.
    """
    if options.format != AUTO:
        return []
    is_here = all(is_local(file.path) for file in files)
    chosen = spread(files, _RECOGNISED_FILES if is_here else _RECOGNISED_FILES_ELSEWHERE)
    # Most of the time is spent waiting for files elsewhere.
    with ThreadPoolExecutor(16) as pool:
        found = pool.map(lambda file: _format_of(file, _beginning(file), options).name, chosen)
        recognised = dict(zip((file.path for file in chosen), found, strict=True))
    counts = Counter(recognised.values()).most_common()
    if len(counts) < 2 and not any(name in TO_REPORT for name, _ in counts):
        return []
    parts = []
    for name, count in counts:
        example = min(path for path, format_name in recognised.items() if format_name == name)
        name += " (not read)" if isinstance(FORMATS[name], Foreign) else ""
        parts.append(f"{count:,} {name}, such as {example}")
    looked_at = f" of the {counted(len(recognised), 'file')} looked at"
    of_all = looked_at if len(recognised) < len(files) else ""
    return [f"assumed formats{of_all}: {'; '.join(parts)}; give --format= to decide"]


def _beginning(file: InputFile) -> bytes:
    """Returns the first `SAMPLE_BYTES` bytes of a file, decompressed."""
    with file.open(end=BEGINNING_BYTES) as stored:
        return base.read_beginning(file.path, stored)


def _format_of(file: InputFile, beginning: bytes, options: ReadOptions) -> Format:
    """Returns the format that is named; with `AUTO`, that of the file by its beginning.

    Raises:
      InputError: the layout that is named has no effect on it.
    """
    if options.format != AUTO:
        return FORMATS[options.format]
    found = recognise(beginning, options.encodings, file.path)
    if isinstance(found, SentenceLines) and options.layout not in (AUTO, SENTENCES):
        return FORMATS[PlainText.name]
    found.check_layout(options.layout, file.path)
    return found


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


def total_of_reasons(counts: Mapping[str, int], prefix: str) -> int:
    """Returns the sum of `counts_by_reason`."""
    return sum(counts_by_reason(counts, prefix).values())


def first_rejects(parts: Iterable[Sequence[str]]) -> list[str]:
    """Returns the first `MOST_REJECTS` rows of several lists, in the order of their text."""
    return heapq.nsmallest(MOST_REJECTS, chain.from_iterable(parts))


def write_rejects(
    rows: Sequence[str], counts: Mapping[str, int], limit: float, path: str, path_of_failed: str
) -> None:
    """Writes the list of a job's rejects, if there are any, and refuses too many.

    Args:
      rows: some of the rejects, see `reject_row`.
      counts: counts of what was read, see `count_read`.
      limit: share of the documents that may be rejected.
      path: file to write the list to.
      path_of_failed: file to write it to if the job fails and there are several.

    Raises:
      InputError: more were rejected; the message names the first one.
    """
    rejected, read = total_of_reasons(counts, "rejected "), counts["read"]
    listed = "".join(row + "\n" for row in rows).encode()
    if rejected <= limit * read:
        if rows:
            write_bytes(path, listed)
        return
    first, message = json.loads(rows[0]), f"{rejected:,} of {read:,} documents cannot be read"
    if len(rows) > 1:
        write_bytes(path_of_failed, listed)
        message += f", see {path_of_failed}"
    remedy = "fix the input"
    if rejected < read:
        remedy += ", or raise --max_reject_fraction"
    raise InputError(f"{first['file']}: {first['detail']} ({message}); {remedy}")
