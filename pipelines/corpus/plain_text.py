"""Reads files that are one document each, such as books. Pure."""

from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import TEXT_ALONE, Columns
from beambert.pipelines.corpus.documents import Document, Reject, decode_file
from beambert.pipelines.corpus.format_base import LineFormat
from beambert.pipelines.corpus.gutenberg import strip_gutenberg
from beambert.pipelines.corpus.paragraphs import unwrap
from beambert.pipelines.corpus.remains import clean_book, drop_headings


class PlainText(LineFormat):
    """Plain text: each file is one document."""

    name = "text"
    is_divisible = False
    is_utf8 = False

    def recognises(self, sample: bytes) -> bool:
        """Returns True: a file of no other format is plain text."""
        return True

    def read_lines(
        self,
        lines: Iterable[bytes],
        columns: Columns = TEXT_ALONE,
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Reject]:
        """Yields one document, made of all lines.

        The licence of Project Gutenberg around a book is removed, and so are the headings of wikis.
        Hard-wrapped lines are joined into paragraphs. Transcribers' marks are removed.
        """
        found = decode_file(b"".join(lines), assumed)
        if isinstance(found, Reject):
            yield found
            return
        text, headings = drop_headings(strip_gutenberg("\n".join(found.text.splitlines())))
        text, counts = clean_book(unwrap(text))
        yield Document(text, encoding=found.encoding, cleaned=counts + headings)
