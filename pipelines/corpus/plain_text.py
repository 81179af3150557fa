"""Files that are one document each, such as books -> documents. Pure."""

from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus import charsets
from beambert.pipelines.corpus.documents import Document, Reject, not_utf8
from beambert.pipelines.corpus.format_base import LineFormat
from beambert.pipelines.corpus.gutenberg import strip_gutenberg
from beambert.pipelines.corpus.paragraphs import unwrap


class PlainText(LineFormat):
    """One document a file."""

    name = "text"
    is_divisible = False

    def recognises(self, sample: bytes) -> bool:
        """Whatever is no other format is text."""
        return True

    def read_lines(
        self, lines: Iterable[bytes], text_column: str = "text"
    ) -> Iterator[Document | Reject]:
        """Reads all lines as one document.

        Other encodings than UTF-8 are told where that is certain; what Project Gutenberg puts
        around a book is dropped; hard-wrapped lines are joined into paragraphs.
        """
        raw = b"".join(lines)
        try:
            text, encoding = charsets.decode(raw)
        except UnicodeDecodeError as error:
            yield not_utf8(raw, 1, error)
            return
        del raw  # a book may have hundreds of megabytes
        text = unwrap(strip_gutenberg("\n".join(text.splitlines())))
        yield Document(text, encoding=encoding)
