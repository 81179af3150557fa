"""Reads documents from WikiText, the corpus of Merity et al. (2016). Pure."""

import re
from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import TEXT_ALONE, Columns
from beambert.pipelines.corpus.documents import Document, Reject, decode_document
from beambert.pipelines.corpus.format_base import BEFORE_TEXT, LineFormat
from beambert.pipelines.corpus.remains import clean_wikitext

# WikiText writes a title as " = Title = " and a heading as " = = Heading = = ".
_TITLE = re.compile(rb"\s*= [^=](.*[^=])? =\s*$")
_HEADING = re.compile(rb"\s*= = .* = =\s*$")


class WikiText(LineFormat):
    """WikiText: articles that begin with ` = Title = `."""

    name = "wikitext"
    beginning = re.compile(BEFORE_TEXT + rb"= [^=\n]+ =[ \r]*\n")

    def starts_document(self, line: bytes) -> bool:
        """Returns whether the line is the title of an article."""
        return _TITLE.match(line) is not None

    def read_lines(
        self,
        lines: Iterable[bytes],
        columns: Columns = TEXT_ALONE,
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Reject]:
        """Yields the articles, without their headings and with their words joined."""
        body: list[bytes] | None = None
        start = 1
        for number, line in enumerate(lines, 1):
            if self.starts_document(line):
                if body is not None:
                    yield _article(b"".join(body), start, assumed)
                body, start = [], number + 1
            elif body is not None or line.strip():
                if body is None:
                    body, start = [], number
                # A blank line replaces the heading, so that line numbers stay right.
                body.append(b"\n" if _HEADING.match(line) else line)
        if body is not None:
            yield _article(b"".join(body), start, assumed)


def _article(raw: bytes, start: int, assumed: Assumed) -> Document | Reject:
    found = decode_document(raw, start, assumed=assumed)
    return found.clean(clean_wikitext) if isinstance(found, Document) else found
