"""Reads documents from JSON Lines. Pure."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import NO_LANGUAGE, TEXT_ALONE, Columns, with_language
from beambert.pipelines.corpus.documents import NO_TEXT, Document, Reject, Skip, decode_document
from beambert.pipelines.corpus.format_base import BEFORE_TEXT, LineFormat

_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLines(LineFormat):
    """JSON Lines: one object a line, with its document under the key `columns.text`."""

    name = "jsonl"
    has_columns = True
    beginning = re.compile(BEFORE_TEXT + rb'\{\s*"')

    def starts_document(self, line: bytes) -> bool:
        """Returns True, because every line is a document."""
        return True

    def read_lines(
        self,
        lines: Iterable[bytes],
        columns: Columns = TEXT_ALONE,
        assumed: Assumed = NOTHING_ASSUMED,
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
                yield _row_document(row, number, columns, decoded.encoding)


def _row_document(
    row: Any, number: int, columns: Columns, encoding: str
) -> Document | Skip | Reject:
    found = _text_of(row, number, columns.text, encoding)
    if not columns.language or isinstance(found, Reject):
        return found
    if columns.language not in row:
        return _lacks(row, number, NO_LANGUAGE, columns.language, "--language_column")
    return with_language(found, row[columns.language], "line", number, columns)


def _text_of(row: Any, number: int, text_column: str, encoding: str) -> Document | Skip | Reject:
    text = row.get(text_column) if isinstance(row, dict) else None
    if isinstance(text, str):
        if _SURROGATE.search(text):
            detail = f"line {number} has an escape that is half of a surrogate pair"
            return Reject(number, "not_utf8", detail)
        return Document(text, encoding=encoding)
    if isinstance(row, dict) and text_column in row and text is None:
        return Skip("null_text")
    return _lacks(row, number, NO_TEXT, text_column, "--text_column")


def _lacks(row: Any, number: int, reason: str, column: str, flag: str) -> Reject:
    detail = f'line {number} has no string under "{column}" ({flag})'
    if isinstance(row, dict):
        detail += f"; its columns are {', '.join(list(row)[:20]) or 'none'}"
    return Reject(number, reason, detail)
