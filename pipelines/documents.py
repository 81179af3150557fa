"""Bytes of a corpus file -> documents. Pure: no Beam, no file system.

A document is text whose paragraphs are separated by line feeds. Every reader takes an iterable of
lines (bytes, with their ends) so that a file of any size streams through, and yields each document
or the reason why it cannot be used.
"""

import dataclasses
import json
import re
import statistics
from collections.abc import Callable, Iterable, Iterator

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Enough to tell the formats apart; read before the file is read.
SAMPLE_BYTES = 1 << 16


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


READERS: dict[str, Callable[[Iterable[bytes]], Iterator[Document | Reject]]] = {
    "wikiextractor": read_wikiextractor,
    "lines": read_lines,
    "jsonl": read_jsonl,
    "text": read_text,
}


def detect_format(sample: bytes) -> str:
    """Names the format of a file by its first bytes: a key of `READERS`.

    One sentence a line in blank-line separated documents ("lines") is told from plain text by its
    lines: most end a sentence, few hold several (paragraphs would), and documents have several.
    """
    sample = sample.removeprefix(BYTE_ORDER_MARK).lstrip()
    if sample.startswith(b"<doc "):
        return "wikiextractor"
    if re.match(rb'\{\s*"', sample):
        return "jsonl"
    blocks = [block.splitlines() for block in re.split(rb"(?:\r?\n[ \t]*){2,}", sample.strip())]
    if not blocks or not blocks[0]:
        return "text"
    lines = [line.rstrip() for block in blocks for line in block]
    final = tuple(mark.encode() for mark in '.!?"”。')
    ends = sum(line.endswith(final) for line in lines)
    lines_a_block = statistics.median(len(block) for block in blocks)
    # 0.1 of the original release's sample, 0.4 and more where each line is a paragraph.
    paragraphs = sum(re.search(rb"[.!?][\"')]* +[A-Z]", line) is not None for line in lines)
    is_presplit = ends >= 0.6 * len(lines) and paragraphs <= 0.3 * len(lines)
    return "lines" if len(blocks) > 1 and lines_a_block >= 2 and is_presplit else "text"
