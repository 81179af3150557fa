"""Reads files that are one document each, such as books. Pure."""

from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus import charsets
from beambert.pipelines.corpus.documents import Document, Reject, not_utf8
from beambert.pipelines.corpus.format_base import LineFormat
from beambert.pipelines.corpus.gutenberg import strip_gutenberg
from beambert.pipelines.corpus.paragraphs import unwrap


class PlainText(LineFormat):
    """Plain text: each file is one document."""

    name = "text"
    is_divisible = False

    def recognises(self, sample: bytes) -> bool:
        """Returns True: a file of no other format is plain text."""
        return True

    def read_lines(
        self, lines: Iterable[bytes], text_column: str = "text"
    ) -> Iterator[Document | Reject]:
        """Yields one document, made of all lines.

        An encoding other than UTF-8 is used if it is certain. The licence of Project Gutenberg
        around a book is removed. Hard-wrapped lines are joined into paragraphs.
        """
        raw = b"".join(lines)
        try:
            text, encoding = charsets.decode(raw)
        except UnicodeDecodeError as error:
            yield not_utf8(raw, 1, error)
            return
        del raw  # A file may have hundreds of megabytes.
        text = unwrap(strip_gutenberg("\n".join(text.splitlines())))
        yield Document(text, encoding=encoding)
