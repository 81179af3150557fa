"""Reads documents from the output of WikiExtractor. Pure."""

import re
from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import TEXT_ALONE, Columns
from beambert.pipelines.corpus.documents import Document, Reject, Skip, decode_document
from beambert.pipelines.corpus.format_base import BEFORE_TEXT, LineFormat
from beambert.pipelines.corpus.remains import clean_wikiextractor

# The lines before and after an article begin with these.
_START, _END = b"<doc ", b"</doc>"
_TAGS = (_START, _END)
_TITLE = re.compile(rb' title="(.*)">\s*$')
_REDIRECT = re.compile(rb"\s*#REDIRECT", re.IGNORECASE)


class WikiExtractor(LineFormat):
    """WikiExtractor's format: articles between `<doc id= url= title=>` and `</doc>`."""

    name = "wikiextractor"
    beginning = re.compile(BEFORE_TEXT + rb"<doc ")

    def starts_document(self, line: bytes) -> bool:
        """Returns whether an article starts on this line."""
        return line.startswith(_START)

    def read_lines(
        self,
        lines: Iterable[bytes],
        columns: Columns = TEXT_ALONE,
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the prose of articles, without the title that each repeats as its first line."""
        body: list[bytes] | None = None
        start, title, is_outside = 0, b"", False
        for number, line in enumerate(lines, 1):
            if body is not None and not line.startswith(_TAGS):
                body.append(line)
            elif line.startswith(_START):
                if body is not None:
                    yield _cut_off(start)
                body, start, is_outside = [], number + 1, False
                match = _TITLE.search(line)
                title = match[1] if match else b""
            elif body is None:
                if line.strip() and not is_outside:
                    is_outside = True  # Adjacent lines outside of articles make one reject.
                    yield Reject(number, "outside_doc", f"line {number} is outside <doc> … </doc>")
            else:
                if body and body[0].strip() == title.strip():
                    body[0] = b"\n"
                yield _article(b"".join(body), start, assumed)
                body = None
        if body is not None:
            yield _cut_off(start)


def _article(raw: bytes, start: int, assumed: Assumed) -> Document | Skip | Reject:
    if _REDIRECT.match(raw):
        return Skip("redirect")
    found = decode_document(raw, start, assumed=assumed)
    return found.clean(clean_wikiextractor) if isinstance(found, Document) else found


def _cut_off(start: int) -> Reject:
    return Reject(start, "cut_off", f"the document that starts on line {start} has no </doc>")
