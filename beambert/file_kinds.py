"""Files that are no text, recognised by their first bytes, with advice. Pure."""

from collections.abc import Sequence

# Number of first bytes that `not_text` looks at: the name of a TAR archive's format ends at 262.
BEGINNING_BYTES = 512

_EXPORT = "export it as text"
_UNPACK = "unpack it"
_COMPRESSED = "unpack it (`vocab`, `data` and `predict` read it if its name ends in {})"
# First bytes, the kind, and the advice. The bytes are those of the formats' specifications, as
# file(1) lists them.
_KINDS: Sequence[tuple[bytes, str, str]] = (
    (b"%PDF-", "a PDF document", _EXPORT),
    (b"{\\rtf", "an RTF document", _EXPORT),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Microsoft Office", _EXPORT),
    (b"\x89PNG\r\n\x1a\n", "a picture (PNG)", "give its text"),
    (b"\xff\xd8\xff", "a picture (JPEG)", "give its text"),
    (b"GIF87a", "a picture (GIF)", "give its text"),
    (b"GIF89a", "a picture (GIF)", "give its text"),
    (b"II*\x00", "a picture (TIFF)", "give its text"),
    (b"MM\x00*", "a picture (TIFF)", "give its text"),
    (b"SQLite format 3\x00", "an SQLite database", "export its text column as CSV or JSON Lines"),
    (b"\x7fELF", "a program", "leave it out"),
    (b'.\\"', "a page of troff", "print it to a file with man -P cat"),
    (b"'\\\"", "a page of troff", "print it to a file with man -P cat"),
    (b".TH ", "a page of troff", "print it to a file with man -P cat"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (b"\xfd7zXZ\x00", "compressed with xz", _UNPACK),
    (b"\x1f\x8b\x08", "compressed with gzip", _COMPRESSED.format(".gz")),
    (b"BZh", "compressed with bzip2", _COMPRESSED.format(".bz2")),
    (b"\x28\xb5\x2f\xfd", "compressed with Zstandard", _COMPRESSED.format(".zst")),
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
# Kinds of ZIP archives, by the names of their first files.
_IN_ZIP = (
    (b"word/", "a Word document"),
    (b"xl/", "an Excel table"),
    (b"ppt/", "a PowerPoint document"),
    (b"application/epub+zip", "an EPUB book"),
    (b"application/vnd.oasis.opendocument", "an OpenDocument file"),
    (b"[Content_Types].xml", "a document of Microsoft Office"),
)
_TAR, _TAR_AT = b"ustar", 257
# Compressed text of bzip2 has this after the level, which is a digit.
_BZIP2_BLOCK = b"1AY&SY"


def not_text(beginning: bytes) -> str:
    """Returns what a file is and what to do, if it is certainly no text; else "".

    Args:
      beginning: at least the first `BEGINNING_BYTES` bytes, or the whole file.
    """
    if beginning.startswith(_ZIP):
        found = (kind for mark, kind in _IN_ZIP if mark in beginning[:BEGINNING_BYTES])
        kind = next(found, "")
        return f"is {kind}; {_EXPORT}" if kind else f"is a ZIP archive; {_UNPACK}"
    if beginning[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return f"is a TAR archive; {_UNPACK}"
    if beginning.startswith(b"BZh") and beginning[4:10] != _BZIP2_BLOCK:
        return ""
    for mark, kind, advice in _KINDS:
        if beginning.startswith(mark):
            return f"is {kind}; {advice}"
    return ""
