"""The results of reading: documents, skipped ones, and rejects with their reasons. Pure."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping

from beambert.pipelines.corpus import charsets
from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed

# Reason of a row without the column of texts.
NO_TEXT = "no_text"


@dataclasses.dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
      text: paragraphs (or, if `is_split`, sentences) separated by line feeds.
      is_split: True if each line is one sentence already.
      encoding: encoding of the file's bytes.
      cleaned: number of remains that were removed from the text, by reason.
      language: code of its language, see `language_codes.language_of`; "" if the file names none.
    """

    text: str
    is_split: bool = False
    encoding: str = "utf-8"
    cleaned: Mapping[str, int] = dataclasses.field(default_factory=dict, compare=False)
    language: str = ""

    def clean(self, rule: Callable[[str], tuple[str, Mapping[str, int]]]) -> "Document":
        """Returns the document with the text and the counts that a rule gives for its text."""
        if self.text.isspace():  # Many pages of a wiki have nothing below their title.
            return self
        text, counts = rule(self.text)
        return dataclasses.replace(self, text=text, cleaned=counts) if counts else self


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


def count_read(row: Document | Skip | Reject, counts: Counter[str]) -> None:
    """Counts a result of reading.

    Args:
      row: the result.
      counts: counts to add to. Each result adds 1 to "read". A skipped part adds 1 to "dropped "
        and its reason, and a reject to "rejected " and its reason. A document adds 1 to "encoding "
        and the name of its encoding, and its removed remains to "cleaned " and their reasons.
    """
    counts["read"] += 1
    if isinstance(row, Reject):
        counts["rejected " + row.reason] += 1
    elif isinstance(row, Skip):
        counts["dropped " + row.reason] += 1
    else:
        counts["encoding " + row.encoding] += 1
        for reason, count in row.cleaned.items():
            counts["cleaned " + reason] += count


def undecodable(
    raw: bytes,
    line: int,
    error: UnicodeDecodeError,
    assumed: Assumed = NOTHING_ASSUMED,
    is_file: bool = False,
) -> Reject:
    """Returns the reject for bytes that cannot be decoded; they start on line `line`.

    Args:
      raw: the bytes.
      line: number of their first line.
      error: the exception of decoding them as UTF-8.
      assumed: what was assumed for them.
      is_file: True if they are a whole file, in which other encodings were looked for.
    """
    bad_line = line + raw.count(b"\n", 0, error.start)
    detail = f"byte 0x{raw[error.start]:02x} on line {bad_line} is not {error.encoding.upper()}"
    if mixed := charsets.utf8_lines_of_mixed(raw):
        detail += (
            f", but {mixed:,} lines with letters beyond ASCII are: the text mixes encodings, or is "
            "damaged; convert its lines to UTF-8"
        )
    elif assumed.encoding:
        name = charsets.web_name(assumed.encoding)
        if not charsets.can_decode(raw, assumed.encoding):
            detail += f" or {name}"
        elif charsets.is_damaged_utf8(raw):
            detail += ", as most others are"
        else:
            detail += (
                f", and no other encoding is certain (the files beside it are {name}); give "
                "--encoding="
            )
    elif is_file:
        detail += ", and no other encoding is certain; give --encoding="
    return Reject(bad_line, "not_utf8", detail)


def decode_file(raw: bytes, assumed: Assumed = NOTHING_ASSUMED) -> Document | Reject:
    """Returns the text of a file that is one document, or a reject if no encoding is certain.

    An encoding other than UTF-8 is used if the text shows it, or if it is assumed.
    """
    try:
        text, encoding = charsets.decode(raw, assumed)
        return Document(text, encoding=encoding)
    except UnicodeDecodeError as error:
        return undecodable(raw, 1, error, assumed, is_file=True)


def decode_document(
    raw: bytes, line: int, is_split: bool = False, assumed: Assumed = NOTHING_ASSUMED
) -> Document | Reject:
    """Returns the document in bytes that start on line `line`, or a reject if none is certain.

    A document of a larger file is UTF-8 or in the encoding that is assumed for the file. It may be
    too short to show any other.
    """
    try:
        text, encoding = charsets.decode_utf8(raw, assumed)
        return Document(text, is_split, encoding)
    except UnicodeDecodeError as error:
        is_legacy = assumed.is_given or not charsets.is_damaged_utf8(raw)
        if assumed.encoding and is_legacy and charsets.can_decode(raw, assumed.encoding):
            return Document(raw.decode(assumed.encoding), is_split, assumed.encoding)
        return undecodable(raw, line, error, assumed)
