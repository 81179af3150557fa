"""What readers yield: documents, and what is none and why. Pure."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
      text: paragraphs (or, if `is_split`, sentences) separated by line feeds.
      is_split: each line is one sentence already.
      encoding: what the file's bytes were decoded from.
    """

    text: str
    is_split: bool = False
    encoding: str = "utf-8"


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


def not_utf8(raw: bytes, line: int, error: UnicodeDecodeError) -> Reject:
    """Returns the reject for bytes that start on a line and don't decode."""
    bad_line = line + raw.count(b"\n", 0, error.start)
    detail = f"byte 0x{raw[error.start]:02x} on line {bad_line} is not {error.encoding.upper()}"
    return Reject(bad_line, "not_utf8", detail)


def decode_document(raw: bytes, line: int, is_split: bool = False) -> Document | Reject:
    """Returns the document in bytes that start on a line, or the reject if they aren't UTF-8."""
    try:
        return Document(raw.decode("utf-8"), is_split)
    except UnicodeDecodeError as error:
        return not_utf8(raw, line, error)
