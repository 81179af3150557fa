"""Files that are not plain text: known by their first bytes, with advice. Pure."""

import re
from collections.abc import Sequence

# Number of first bytes that `not_text` looks at: the name of a TAR archive's format ends at 262.
BEGINNING_BYTES = 512

_EXPORT = "export it as text"
_AS_TABLE = "write it as Parquet or JSON Lines"
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
    (b"PAR1", "a Parquet file", "export its text column as CSV or JSON Lines (`data` reads it)"),
    (b"ARROW1\x00\x00", "an Arrow (Feather) file", _AS_TABLE),
    (b"\xff\xff\xff\xff", "an Arrow file, as the library datasets writes", _AS_TABLE),
    (b"FEA1\x00\x00", "an Arrow (Feather) file", _AS_TABLE),
    (b"ORC\n", "an ORC file", _AS_TABLE),
    (b"Obj\x01", "an Avro file", _AS_TABLE),
    (b"\x93NUMPY", "an array of NumPy", _AS_TABLE),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", _AS_TABLE),
    (b"\x80\x04\x95", "a pickle", _AS_TABLE),
    (b"\x80\x05\x95", "a pickle", _AS_TABLE),
    (b"%!PS", "a PostScript document", _EXPORT),
    (b"AT&TFORM", "a DjVu document", _EXPORT),
    (b"filedesc://", "an ARC file of web pages", "take the text out with trafilatura"),
    (b"SQLite format 3\x00", "an SQLite database", "export its text column as CSV or JSON Lines"),
    (b"\x7fELF", "a program", "leave it out"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (b"\xfd7zXZ\x00", "compressed with xz", _UNPACK),
    (b"\x04\x22\x4d\x18", "compressed with LZ4", _UNPACK),
    (b"\x1f\x9d", "compressed with compress", _UNPACK),
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

# Comments of HTML. The group is atomic: several comments could otherwise be one long comment in
# many ways, and all would be tried.
_COMMENTS = rb"(?>(?:<!--.{0,20000}?-->\s*|<\?xml\b[^<>]*>\s*)*)"
# Comments, lines of one tag and blank lines among lines of columns.
_BETWEEN_COLUMNS = rb"(?>(?:#[^\r\n]*\r?\n|<\w+>[ \t]*\r?\n|\s+)*)"
# Five lines of words in columns, the last of which has the label of a word (Tjong Kim Sang and De
# Meulder 2003).
_LABELLED = (
    rb"(?:" + _BETWEEN_COLUMNS + rb"\S+(?:[ \t]+\S+)*[ \t]+(?:O|[BIES]-[\w-]+)[ \t]*\r?\n){5}"
)
# The first word of a sentence in the ten columns of CoNLL-X and CoNLL-U, of which the seventh is
# the number of its head (universaldependencies.org, "CoNLL-U Format").
_WORD_OF_TREE = (
    rb"(?:1(?:-\d+)?|0\.1)\t(?:[^\t\r\n]+\t){5}(?:\d+|_)\t(?:[^\t\r\n]+\t){2}[^\t\r\n]+\r?\n"
)
# Text whose markup would be learned as words: name, regular expression of its beginning, and what
# it is with the advice. Byte order marks and white space may stand before it.
TEXT_KINDS: Sequence[tuple[str, bytes, str]] = (
    (
        "html",
        _COMMENTS + rb"<(?:!doctype\s+html|html\b|(?:head|body|div|p|span|a|h[1-6]|ul"
        rb"|ol|table|br|pre|section|article|main)\b[^<>]*>.*</[a-z])",
        "is HTML; take the text out of it with a tool such as trafilatura",
    ),
    (
        "xml",
        # A chat log may begin with a name in such brackets, but it closes none.
        rb"(?:<\?xml\b|<!doctype\s|<[a-z][\w:.-]*\b[^<>]*>.*</[a-z])",
        "is XML and not a MediaWiki dump; take the text out of it",
    ),
    (
        "conll",
        rb"(?:#[ \t]*global\.columns[ \t]*=|"
        + _BETWEEN_COLUMNS
        + rb"(?:"
        + _WORD_OF_TREE
        + rb"|"
        + _LABELLED
        + rb")|\(\s*\(?(?:S|TOP|ROOT|SBARQ|FRAG)\s*\("
        # Words with tags, "The/DT ship_NN".
        rb"|(?:\S+[/_](?:[A-Za-z][\w$*+-]{0,9}|[^\w\s]+)\s+){8})",
        "has words in columns with labels, for a task; take its words out of it",
    ),
    (
        "references",
        rb"(?:%[^\n]*\n\s*)*@(?:article|\w*book|\w*proceedings|misc|\w*thesis|techreport|comment"
        rb"|string|preamble|online|incollection)\s*[{(]"
        rb"|TY {2}- [A-Z]|PMID- ?\d|%0 [A-Z]|FN (?:Clarivate|Thomson|ISI)\b",
        "is a list of references (BibTeX, RIS, MEDLINE); take the abstracts out of it, or fetch "
        "PubMed's XML, which is read",
    ),
    (
        "labels",
        rb"(?:###\d+\s*\n)?(?-i:(?:[A-Z]{3,}\t[^\t\n]+\n){3})|__label__\S",
        "has a label before each sentence, for a task; take the labels away",
    ),
    (
        "numbered",
        rb"(?:\d+\t[^\t\r\n]+\r?\n){3}",
        "has a number and a tab before each sentence, as the Leipzig corpora have; take them "
        "away (cut -f2)",
    ),
    (
        "mail",
        # Three fields of RFC 5322, of which one is common, perhaps behind mbox's "From " line.
        rb"(?:From \S+[^\n]*\n)?(?=(?:[^\n]+\n){0,9}(?:From|Message-ID|Received|Path|Xref):)"
        rb"(?:[A-Z][\w-]*:[ \t][^\n]*\n(?:[ \t]+\S[^\n]*\n)*){3}",
        "is mail; take the text out of its messages",
    ),
    (
        "markup",
        rb"(?:%[^\n]*\n\s*)*\\(?:document(?:class|style)|begin\{document\}|input texinfo)"
        rb"|['.]\\\"|(?:\.[a-z]\w? [^\n]*\n)*(?-i:\.(?:TH|Dd|SH)[ \t])"
        rb"|(?:#[^\n]*\n|\s)*msgid \"|\#\+TITLE:|= [^\n]+\n:[\w-]+:"
        rb"|(?:[^\n]*\n){0,200}?\.\. [\w:-]+::(?:\s[^\n]*)?\n",
        "is LaTeX, Texinfo, troff, gettext, Org, AsciiDoc or reStructuredText; take the text "
        "out of it with a tool such as pandoc",
    ),
    (
        "subtitles",
        rb"(?:WEBVTT\b|\[Script Info\]|\{\d+\}\{\d+\}|\[(?:ti|ar|al|by|\d\d):[^\n]*\]"
        rb"|\d:\d\d:\d\d\.\d{3},\d:\d\d:\d\d\.\d{3}"
        rb"|\d+\s*\r?\n(?:\d+:)?\d\d:\d\d[,.]\d{3}[ \t]+-->)",
        "has subtitles; take the text out of it",
    ),
    (
        "log",
        # A date and a time stand in each of the first lines.
        rb"(?:(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "
        rb"|\S+ \S+ \S+ \[\d\d/\w{3}/\d{4}:)[^\n]*\n){3}",
        "is a log; take the text out of it",
    ),
)
# The group is atomic, so that no text with much white space is looked at many times.
_BEFORE_TEXT = rb"(?>(?:\xef\xbb\xbf)*\s*)"


def text_kind_pattern(beginning: bytes) -> re.Pattern[bytes]:
    """Returns the compiled regular expression of an entry of `TEXT_KINDS`."""
    return re.compile(_BEFORE_TEXT + rb"(?:" + beginning + rb")", re.IGNORECASE | re.DOTALL)


def not_text(beginning: bytes) -> str:
    """Returns what a file is and what to do, if it is certainly not text; else "".

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
