"""Lines of a corpus file -> documents. Pure: no Beam, no file system.

A document is text whose paragraphs are separated by line feeds. Every reader takes an iterable of
lines (bytes, with their ends) so that a file of any size streams through, and yields each document
or the reason why it cannot be used.
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator


@dataclasses.dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
      text: paragraphs (or, if `is_split`, sentences) separated by line feeds.
      is_split: each line is one sentence already.
    """

    text: str
    is_split: bool = False


@dataclasses.dataclass(frozen=True)
class Skip:
    """What is in the file but isn't a document to learn from, such as a redirect.

    Attributes:
      reason: one of a few words that are counted by.
    """

    reason: str


@dataclasses.dataclass(frozen=True)
class Reject:
    """What could not be read as a document.

    Attributes:
      line: where it starts in the file, from 1.
      reason: one of a few words that are counted by.
      detail: what a person needs to mend it.
    """

    line: int
    reason: str
    detail: str


# WikiText's headings have spaces around and between their equals signs.
_TITLE = re.compile(rb"\s*= [^=](.*[^=])? =\s*$")
_HEADING = re.compile(rb"\s*= = .* = =\s*$")


def _decode(raw: bytes, line: int, is_split: bool = False) -> Document | Reject:
    try:
        return Document(raw.decode("utf-8"), is_split)
    except UnicodeDecodeError as error:
        bad_line = line + raw.count(b"\n", 0, error.start)
        detail = f"byte 0x{raw[error.start]:02x} on line {bad_line} is not UTF-8"
        return Reject(bad_line, "not_utf8", detail)


def read_wikiextractor(lines: Iterable[bytes]) -> Iterator[Document | Reject]:
    """Reads WikiExtractor's `<doc id= url= title=>` … `</doc>`; the repeated title is dropped."""
    body: list[bytes] | None = None
    start, title, is_outside = 0, b"", False
    for number, line in enumerate(lines, 1):
        if line.startswith(b"<doc "):
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


def read_lines(lines: Iterable[bytes]) -> Iterator[Document | Reject]:
    """Reads the original's format: one sentence a line, a blank line between documents."""
    body: list[bytes] = []
    number = 0
    for number, line in enumerate(lines, 1):
        if line.strip():
            body.append(line)
        elif body:
            yield _decode(b"".join(body), number - len(body), is_split=True)
            body = []
    if body:
        yield _decode(b"".join(body), number - len(body) + 1, is_split=True)


def read_jsonl(lines: Iterable[bytes]) -> Iterator[Document | Reject]:
    """Reads JSON Lines: one object a line, its document under "text"."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except UnicodeDecodeError:
            yield Reject(number, "not_utf8", f"line {number} is not UTF-8")
        except (ValueError, RecursionError) as error:
            yield Reject(number, "not_json", f"line {number} is not JSON ({error})")
        else:
            if isinstance(row, dict) and isinstance(row.get("text"), str):
                yield Document(row["text"])
            else:
                yield Reject(number, "no_text", f'line {number} has no string under "text"')


def read_wikitext(lines: Iterable[bytes]) -> Iterator[Document | Reject]:
    """Reads WikiText (Merity et al. 2016): ` = Title = ` starts an article; headings go."""
    body: list[bytes] | None = None
    start = 1
    for number, line in enumerate(lines, 1):
        if _TITLE.match(line):
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
    """Reads a file that is one document; hard-wrapped lines are joined into paragraphs."""
    decoded = _decode(b"".join(lines), 1)
    yield decoded if isinstance(decoded, Reject) else Document(unwrap(decoded.text))


def unwrap(text: str) -> str:
    """Joins hard-wrapped lines into paragraphs, one a line.

    Text is taken as wrapped when blank lines separate its paragraphs and nearly all of its lines
    are short; otherwise each line is a paragraph already.
    """
    lines = [line.strip() for line in text.splitlines()]
    filled = [len(line) for line in lines if line]
    if not filled or len(filled) == len(lines):
        return "\n".join(lines)
    # Printed pages wrap at 60 to 80 characters; a few long lines (tables, links) don't matter.
    short_lines = sum(length <= 100 for length in filled)
    if short_lines < 0.95 * len(filled):
        return "\n".join(line for line in lines if line)
    paragraphs = re.split(r"\n{2,}", "\n".join(lines))
    return "\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)
