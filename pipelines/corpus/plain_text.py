"""Reads files that are one document each, such as books. Pure."""

import dataclasses
from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus import charsets
from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.documents import Document, Reject, undecodable
from beambert.pipelines.corpus.format_base import LineFormat
from beambert.pipelines.corpus.gutenberg import strip_gutenberg
from beambert.pipelines.corpus.paragraphs import unwrap
from beambert.pipelines.corpus.remains import clean_book


class PlainText(LineFormat):
    """Plain text: each file is one document."""

    name = "text"
    is_divisible = False
    is_utf8 = False

    def recognises(self, sample: bytes) -> bool:
        """Returns True: a file of no other format is plain text."""
        return True

    def read_lines(
        self, lines: Iterable[bytes], text_column: str = "text", assumed: Assumed = NOTHING_ASSUMED
    ) -> Iterator[Document | Reject]:
        """Yields one document, made of all lines.

        An encoding other than UTF-8 is used if the text shows it, or if it is assumed. The licence
        of Project Gutenberg around a book is removed. Hard-wrapped lines are joined into
        paragraphs. Transcribers' marks are removed.
        """
        raw = b"".join(lines)
        try:
            text, encoding = charsets.decode(raw, assumed)
        except UnicodeDecodeError as error:
            reject = undecodable(raw, 1, error, assumed)
            if not assumed.encoding:
                detail = f"{reject.detail}, and no other encoding is certain; give --encoding="
                reject = dataclasses.replace(reject, detail=detail)
            yield reject
            return
        del raw  # A file may have hundreds of megabytes.
        text = unwrap(strip_gutenberg("\n".join(text.splitlines())))
        yield Document(text, encoding=encoding).clean(clean_book)
