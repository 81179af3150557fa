"""The results of reading: documents, skipped ones, and rejects with their reasons. Pure."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
      text: paragraphs (or, if `is_split`, sentences) separated by line feeds.
      is_split: True if each line is one sentence already.
      encoding: encoding of the file's bytes.
    """

    text: str
    is_split: bool = False
    encoding: str = "utf-8"


@dataclasses.dataclass(frozen=True)
class Skip:
    """A readable part of a file that is no document to learn from, such as a redirect.

    Attributes:
      reason: a word or two, under which info.json counts it.
    """

    reason: str


@dataclasses.dataclass(frozen=True)
class Reject:
    """A part of a file that cannot be read as a document.

    Attributes:
      line: number of its first line in the file, from 1.
      reason: a word or two, under which info.json counts it.
      detail: message that helps a person to mend it.
    """

    line: int
    reason: str
    detail: str


def not_utf8(raw: bytes, line: int, error: UnicodeDecodeError) -> Reject:
    """Returns the reject for bytes that cannot be decoded; they start on line `line`."""
    bad_line = line + raw.count(b"\n", 0, error.start)
    detail = f"byte 0x{raw[error.start]:02x} on line {bad_line} is not {error.encoding.upper()}"
    return Reject(bad_line, "not_utf8", detail)


def decode_document(raw: bytes, line: int, is_split: bool = False) -> Document | Reject:
    """Returns the document in bytes that start on line `line`, or a reject if they aren't UTF-8."""
    try:
        return Document(raw.decode("utf-8"), is_split)
    except UnicodeDecodeError as error:
        return not_utf8(raw, line, error)
