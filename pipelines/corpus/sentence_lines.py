"""The original release's input, one sentence a line -> documents. Pure."""

import re
import statistics
from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus.documents import Document, Reject, decode_document
from beambert.pipelines.corpus.format_base import BYTE_ORDER_MARK, LineFormat


class SentenceLines(LineFormat):
    """One sentence a line, a blank line between documents."""

    name = "lines"

    def recognises(self, sample: bytes) -> bool:
        """Tells it from plain text by its lines.

        Most lines end a sentence, few hold several (paragraphs would), and documents have several
        lines.
        """
        text = sample.removeprefix(BYTE_ORDER_MARK).strip()
        blocks = [block.splitlines() for block in re.split(rb"(?:\r?\n[ \t]*){2,}", text)]
        lines = [line.rstrip() for block in blocks for line in block]
        if len(blocks) < 2 or statistics.median(len(block) for block in blocks) < 2:
            return False
        final = tuple(mark.encode() for mark in '.!?"”。')
        ends = sum(line.endswith(final) for line in lines)
        # 0.1 of the original release's sample, 0.4 and more where each line is a paragraph.
        paragraphs = sum(re.search(rb"[.!?][\"')]* +[A-Z]", line) is not None for line in lines)
        return ends >= 0.6 * len(lines) and paragraphs <= 0.3 * len(lines)

    def starts_document(self, line: bytes) -> bool:
        """Whether the line is blank: a separator counts to the document after it.

        Its white space is Unicode's (U+3000 in Chinese text), as to the original.
        """
        content = line.strip()
        # Most lines start with an ASCII letter; the others are decoded.
        return not content or not (
            content[:1].isalnum() or content.decode("utf-8", "replace").strip()
        )

    def read_lines(
        self, lines: Iterable[bytes], text_column: str = "text"
    ) -> Iterator[Document | Reject]:
        """Reads documents whose sentences are split already."""
        body: list[bytes] = []
        number = 0
        for number, line in enumerate(lines, 1):
            if not self.starts_document(line):
                body.append(line)
            elif body:
                yield decode_document(b"".join(body), number - len(body), is_split=True)
                body = []
        if body:
            yield decode_document(b"".join(body), number - len(body) + 1, is_split=True)
