"""Reads documents from JSON Lines. Pure."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.documents import NO_TEXT, Document, Reject, Skip, decode_document
from beambert.pipelines.corpus.format_base import BEFORE_TEXT, LineFormat

_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLines(LineFormat):
    """JSON Lines: one object a line, with its document under the key `text_column`."""

    name = "jsonl"
    beginning = re.compile(BEFORE_TEXT + rb'\{\s*"')

    def starts_document(self, line: bytes) -> bool:
        """Returns True, because every line is a document."""
        return True

    def read_lines(
        self, lines: Iterable[bytes], text_column: str = "text", assumed: Assumed = NOTHING_ASSUMED
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the documents of the objects; a null is skipped."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            # Given bytes, `loads` would also accept UTF-16 and halves of surrogate pairs.
            decoded = decode_document(line, number, assumed=assumed)
            if isinstance(decoded, Reject):
                yield decoded
                continue
            try:
                row = json.loads(decoded.text)
            except (ValueError, RecursionError) as error:
                yield Reject(number, "not_json", f"line {number} is not JSON ({error})")
            else:
                yield _row_document(row, number, text_column, decoded.encoding)


def _row_document(
    row: Any, number: int, text_column: str, encoding: str
) -> Document | Skip | Reject:
    text = row.get(text_column) if isinstance(row, dict) else None
    if isinstance(text, str):
        if _SURROGATE.search(text):
            detail = f"line {number} has an escape that is half of a surrogate pair"
            return Reject(number, "not_utf8", detail)
        return Document(text, encoding=encoding)
    if isinstance(row, dict) and text_column in row and text is None:
        return Skip("null_text")
    detail = f'line {number} has no string under "{text_column}" (--text_column)'
    if isinstance(row, dict):
        detail += f"; its columns are {', '.join(list(row)[:20]) or 'none'}"
    return Reject(number, NO_TEXT, detail)
