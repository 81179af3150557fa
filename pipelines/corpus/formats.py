"""The formats of a corpus: their names, their readers, and how to tell them apart. Pure."""

import re
import statistics
from collections.abc import Callable, Iterable, Iterator

from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.line_readers import (
    read_jsonl,
    read_lines,
    read_text,
    read_wikiextractor,
    read_wikitext,
    starts_lines,
    starts_wikiextractor,
    starts_wikitext,
)
from beambert.pipelines.corpus.mediawiki import read_mediawiki, starts_mediawiki

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Enough to tell the formats apart; read before the file is read.
SAMPLE_BYTES = 1 << 16

# What a Parquet file begins and ends with; it has columns, not lines, so it isn't in `READERS`.
PARQUET, PARQUET_MARK = "parquet", b"PAR1"

READERS: dict[str, Callable[[Iterable[bytes]], Iterator[Document | Skip | Reject]]] = {
    "wikiextractor": read_wikiextractor,
    "mediawiki": read_mediawiki,
    "wikitext": read_wikitext,
    "lines": read_lines,
    "jsonl": read_jsonl,
    "text": read_text,
}

# The lines where a file may be cut into parts: a reader finds the same documents in the whole and
# in the parts from such a line up to another. Parts of a MediaWiki dump need its lines before the
# first page in front and `</mediawiki>` behind. Text is one document.
DOCUMENT_STARTS: dict[str, Callable[[bytes], bool]] = {
    "wikiextractor": starts_wikiextractor,
    "mediawiki": starts_mediawiki,
    "wikitext": starts_wikitext,
    "lines": starts_lines,
    "jsonl": lambda line: True,
}


def detect_format(sample: bytes) -> str:
    """Names the format of a file by its first bytes: `PARQUET` or a key of `READERS`.

    One sentence a line in blank-line separated documents ("lines") is told from plain text by its
    lines: most end a sentence, few hold several (paragraphs would), and documents have several.
    """
    if sample.startswith(PARQUET_MARK):
        return PARQUET
    sample = sample.removeprefix(BYTE_ORDER_MARK).lstrip()
    if sample.startswith(b"<doc "):
        return "wikiextractor"
    if re.match(rb"(<\?xml[^>]*>\s*)?<mediawiki", sample):
        return "mediawiki"
    if re.match(rb"= [^=\n]+ =[ \r]*\n", sample):
        return "wikitext"
    # An array of objects is no JSON Lines; their reader says so, where text would be made of it.
    if re.match(rb'(\[\s*)?\{\s*"', sample):
        return "jsonl"
    blocks = [block.splitlines() for block in re.split(rb"(?:\r?\n[ \t]*){2,}", sample.strip())]
    if not blocks or not blocks[0]:
        return "text"
    lines = [line.rstrip() for block in blocks for line in block]
    final = tuple(mark.encode() for mark in '.!?"”。')
    ends = sum(line.endswith(final) for line in lines)
    lines_a_block = statistics.median(len(block) for block in blocks)
    # 0.1 of the original release's sample, 0.4 and more where each line is a paragraph.
    paragraphs = sum(re.search(rb"[.!?][\"')]* +[A-Z]", line) is not None for line in lines)
    is_presplit = ends >= 0.6 * len(lines) and paragraphs <= 0.3 * len(lines)
    return "lines" if len(blocks) > 1 and lines_a_block >= 2 and is_presplit else "text"
