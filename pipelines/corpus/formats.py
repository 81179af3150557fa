"""The formats of a corpus, and how a file's format is recognised. Pure.

CONTRIBUTING.md says how to add one.
"""

import codecs
import re
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from beambert.compression import decompress, plain_name
from beambert.file_kinds import BEGINNING_BYTES, TEXT_KINDS, not_text, text_kind_pattern
from beambert.pipelines.corpus.base import BEFORE_TEXT, FilePart, Format, ReadOptions, Report, Rows
from beambert.pipelines.corpus.documents import Reject
from beambert.pipelines.corpus.encodings import DEFAULT_ENCODING, UTF8, encoding_of_beginning
from beambert.pipelines.corpus.pages import Epub, PubMed, WebArchive
from beambert.pipelines.corpus.tables import FEWEST_ROWS, Csv, JsonLines, Parquet, Tsv
from beambert.pipelines.corpus.text_files import Markdown, ParagraphLines, PlainText, SentenceLines
from beambert.pipelines.corpus.wiki_files import MediaWiki, WikiExtractor, WikiText


class Foreign(Format):
    """A format whose files are recognised only to be rejected with advice.

    Without these, --format=auto would take the tags of a page for words to learn. They are not
    values of --format: a format that is named there reads such a file as it is.
    """

    def __init__(self, name: str, find: Callable[[bytes], Any], detail: str = ""):
        """Takes the name, what finds such a file by its first bytes, and what to do.

        Without `detail`, the function returns it.
        """
        self.name = name
        self._find = find
        self._detail = detail

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file has this format, by its first (decompressed) bytes."""
        return bool(self._find(sample))

    def read(self, part: FilePart, stored: BinaryIO, options: ReadOptions, report: Report) -> Rows:
        """Yields the reject of the whole file."""
        detail = self._detail
        if not detail:
            beginning = decompress(part.file.path, stored).read(BEGINNING_BYTES)
            detail = self._find(beginning.lstrip(codecs.BOM_UTF8))
        yield Reject(1, self.name, detail)


def _has_columns(sample: bytes) -> bool:
    """Returns whether the lines, of which there are a few, have as many tabs."""
    lines = sample.splitlines()[: 2 * FEWEST_ROWS]
    return len(lines) >= FEWEST_ROWS and all(
        not line[:1].isspace() and line.count(b"\t") == lines[0].count(b"\t") > 0 for line in lines
    )


# Rows without a header, such as pairs of sentences.
_COLUMNS = Foreign(
    "columns",
    _has_columns,
    "has columns between tabs and no header that names them; take that of the text (cut -f2), or "
    "learn them all: --format=text",
)
_JSON = Foreign(
    "json",
    re.compile(
        BEFORE_TEXT
        + rb'(?:\[\s*\{\s*"|\[\s*"(?:[^"\\]|\\.)*"\s*(?:,\s*"|\]\s*\Z)|\{[ \t]*\r?\n\s*")',
        re.DOTALL,
    ).match,
    "is JSON, but not JSON Lines; write one object on each line (jq -c '.[]' does it for "
    "an array, jq -c . for an object)",
)
_FOREIGN = (
    *(
        Foreign(name, text_kind_pattern(start).match, f"{what}, or learn its markup: --format=text")
        for name, start, what in TEXT_KINDS
    ),
    Foreign("not_text", not_text),
)
# The formats in the order in which they are tried on a file. The last one recognises any file.
# JSON is tried before JSON Lines, which may begin in the same way.
_TRIED: tuple[Format, ...] = (
    Parquet(),
    Epub(),
    WebArchive(),
    PubMed(),
    WikiExtractor(),
    MediaWiki(),
    WikiText(),
    _JSON,
    JsonLines(),
    *_FOREIGN,
    Csv(),
    Tsv(),
    _COLUMNS,
    Markdown(),
    SentenceLines(),
    ParagraphLines(),
    PlainText(),
)
# The formats by their names.
FORMATS = {found.name: found for found in _TRIED}
# The values of --format that name one.
CHOICES = [found.name for found in _TRIED if not isinstance(found, Foreign)]
# Formats that are reported even if all files have them.
TO_REPORT = {"csv", "tsv", "lines", *(found.name for found in _TRIED if isinstance(found, Foreign))}


def recognise(sample: bytes, encodings: Sequence[str] = UTF8, path: str = "") -> Format:
    """Returns the format of a file.

    Args:
      sample: its first `SAMPLE_BYTES` bytes; the last character may be cut.
      encodings: encodings that the user declares.
      path: path of the file, whose ending counts where the content shows plain text.
    """
    text = sample if not_text(sample) else to_utf8(sample, encodings)
    found = next(found for found in FORMATS.values() if found.recognises(text))
    name = plain_name(path).lower()
    by_name = (other for other in FORMATS.values() if name.endswith(other.endings))
    return next((other for other in by_name if found.name in other.weaker), found)


def to_utf8(sample: bytes, encodings: Sequence[str]) -> bytes:
    """Returns the first bytes of a file in UTF-8, and with line feeds."""
    encoding = encoding_of_beginning(sample, encodings)
    if encoding != DEFAULT_ENCODING:
        sample = sample.decode(encoding, "ignore").encode()
    return sample if b"\n" in sample else sample.replace(b"\r", b"\n")
