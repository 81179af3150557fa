"""Readers of the formats whose documents are lines of text."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from beambert.pipelines.corpus import charsets
from beambert.pipelines.corpus.documents import Document, Reject, Skip, _decode, not_utf8
from beambert.pipelines.corpus.gutenberg import strip_gutenberg
from beambert.pipelines.corpus.paragraphs import unwrap

# WikiText's headings have spaces around and between their equals signs.
_TITLE = re.compile(rb"\s*= [^=](.*[^=])? =\s*$")
_HEADING = re.compile(rb"\s*= = .* = =\s*$")
_SURROGATE = re.compile("[\ud800-\udfff]")


def starts_wikiextractor(line: bytes) -> bool:
    """Whether a document of `read_wikiextractor` starts on this line."""
    return line.startswith(b"<doc ")


def read_wikiextractor(lines: Iterable[bytes]) -> Iterator[Document | Reject]:
    """Reads WikiExtractor's `<doc id= url= title=>` … `</doc>`; the repeated title is dropped."""
    body: list[bytes] | None = None
    start, title, is_outside = 0, b"", False
    for number, line in enumerate(lines, 1):
        if starts_wikiextractor(line):
            if body is not None:
                yield _cut_off(start)
            body, start, is_outside = [], number + 1, False
            match = re.search(rb' title="(.*)">\s*$', line)
            title = match[1] if match else b""
        elif body is None:
            if line.strip() and not is_outside:
                is_outside = True  # one reject a stretch, however many lines it has
                yield Reject(number, "outside_doc", f"line {number} is outside <doc> … </doc>")
        elif line.startswith(b"</doc>"):
            if body and body[0].strip() == title.strip():
                body[0] = b"\n"
            yield _decode(b"".join(body), start)
            body = None
        else:
            body.append(line)
    if body is not None:
        yield _cut_off(start)


def _cut_off(start: int) -> Reject:
    return Reject(start, "cut_off", f"the document that starts on line {start} has no </doc>")


def starts_lines(line: bytes) -> bool:
    """Whether a document of `read_lines` starts after this line: the separator counts to it.

    Its white space is Unicode's (U+3000 in Chinese text), as to the original.
    """
    content = line.strip()
    # Most lines start with an ASCII letter; the others are decoded.
    return not content or not (content[:1].isalnum() or content.decode("utf-8", "replace").strip())


def read_lines(lines: Iterable[bytes]) -> Iterator[Document | Reject]:
    """Reads the original's format: one sentence a line, a blank line between documents."""
    body: list[bytes] = []
    number = 0
    for number, line in enumerate(lines, 1):
        if not starts_lines(line):
            body.append(line)
        elif body:
            yield _decode(b"".join(body), number - len(body), is_split=True)
            body = []
    if body:
        yield _decode(b"".join(body), number - len(body) + 1, is_split=True)


def read_jsonl(
    lines: Iterable[bytes], text_column: str = "text"
) -> Iterator[Document | Skip | Reject]:
    """Reads JSON Lines: one object a line, its document under `text_column`; null has none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            # Of bytes, `loads` would take UTF-16 and halves of surrogate pairs, too.
            row = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            yield not_utf8(line, number, error)
        except (ValueError, RecursionError) as error:
            yield Reject(number, "not_json", f"line {number} is not JSON ({error})")
        else:
            yield _row_document(row, number, text_column)


def _row_document(row: Any, number: int, text_column: str) -> Document | Skip | Reject:
    text = row.get(text_column) if isinstance(row, dict) else None
    if isinstance(text, str):
        if _SURROGATE.search(text):
            detail = f"line {number} has an escape that is half of a surrogate pair"
            return Reject(number, "not_utf8", detail)
        return Document(text)
    if isinstance(row, dict) and text_column in row and text is None:
        return Skip("null_text")
    detail = f'line {number} has no string under "{text_column}" (--text_column)'
    return Reject(number, "no_text", detail)


def starts_wikitext(line: bytes) -> bool:
    """Whether this line is the title of an article of `read_wikitext`."""
    return _TITLE.match(line) is not None


def read_wikitext(lines: Iterable[bytes]) -> Iterator[Document | Reject]:
    """Reads WikiText (Merity et al. 2016): ` = Title = ` starts an article; headings go."""
    body: list[bytes] | None = None
    start = 1
    for number, line in enumerate(lines, 1):
        if starts_wikitext(line):
            if body is not None:
                yield _decode(b"".join(body), start)
            body, start = [], number + 1
        elif body is not None or line.strip():
            # A blank line in place of a heading keeps the line numbers.
            if body is None:
                body, start = [], number
            body.append(b"\n" if _HEADING.match(line) else line)
    if body is not None:
        yield _decode(b"".join(body), start)


def read_text(lines: Iterable[bytes]) -> Iterator[Document | Reject]:
    """Reads a file that is one document.

    Other encodings than UTF-8 are told where that is certain; what Project Gutenberg puts around a
    book is dropped; hard-wrapped lines are joined into paragraphs.
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
