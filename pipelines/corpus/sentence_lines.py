"""Reads the input format of BERT's original release, which has one sentence a line. Pure."""

import re
import statistics
from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import TEXT_ALONE, Columns
from beambert.pipelines.corpus.documents import Document, Reject, decode_document
from beambert.pipelines.corpus.format_base import BEFORE_TEXT, LineFormat
from beambert.pipelines.corpus.remains import WIKI_HEADING


class SentenceLines(LineFormat):
    """Sentence lines: one sentence a line, and a blank line between documents."""

    name = "lines"
    is_utf8 = False

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file has this format rather than plain text.

        In this format most lines end a sentence, few lines hold several sentences (as paragraphs
        do), and documents have several lines.
        """
        text = re.sub(rb"\A" + BEFORE_TEXT, b"", sample).strip()
        if WIKI_HEADING.search("\n".join(text.decode("utf-8", "replace").splitlines())):
            return False  # It is a page of a wiki.
        blocks = [block.splitlines() for block in re.split(rb"(?:\r?\n[ \t]*){2,}", text)]
        lines = [line.rstrip() for block in blocks for line in block]
        if len(blocks) < 2 or statistics.median(len(block) for block in blocks) < 2:
            return False
        final = tuple(mark.encode() for mark in '.!?"”。')
        ends = sum(line.endswith(final) for line in lines)
        # The share of such lines is 0.1 in the original release's sample, and 0.4 or more where
        # each line is a paragraph.
        paragraphs = sum(re.search(rb"[.!?][\"')]* +[A-Z]", line) is not None for line in lines)
        return ends >= 0.6 * len(lines) and paragraphs <= 0.3 * len(lines)

    def starts_document(self, line: bytes) -> bool:
        """Returns whether the line is blank; a blank line belongs to the document after it.

        White space is that of Unicode, which includes U+3000 of Chinese text, as in the original.
        """
        content = line.strip()
        # Most lines start with an ASCII letter, so only the other ones are decoded.
        return not content or not (
            content[:1].isalnum() or content.decode("utf-8", "replace").strip()
        )

    def read_lines(
        self,
        lines: Iterable[bytes],
        columns: Columns = TEXT_ALONE,
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Reject]:
        """Yields documents that are split into sentences already."""
        body: list[bytes] = []
        number = 0
        for number, line in enumerate(lines, 1):
            if not self.starts_document(line):
                body.append(line)
            elif body:
                yield decode_document(b"".join(body), number - len(body), True, assumed)
                body = []
        if body:
            yield decode_document(b"".join(body), number - len(body) + 1, True, assumed)
