"""Recognises files that hold their text in another form, and rejects them with advice. Pure.

Without these formats, --format=auto would take the tags of a page for words to learn. They are no
values of --format: a format that is named there reads such a file as it is.
"""

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from beambert.file_kinds import BEGINNING_BYTES, not_text
from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import Columns
from beambert.pipelines.corpus.documents import Reject
from beambert.pipelines.corpus.format_base import BEFORE_TEXT, Format
from beambert.pipelines.corpus.parts import FilePart
from beambert.pipelines.files.compression import decompress

# Elements of HTML with which a page, or a piece of one, begins (HTML standard, section 4).
_HTML = (
    rb"html|head|body|title|meta|link|script|style|base|main|article|section|nav|header|footer"
    rb"|aside|div|p|span|a|h[1-6]|ul|ol|li|dl|table|tr|td|th|img|br|hr|pre|blockquote|center|font"
    rb"|b|i|em|strong|form|iframe|noscript|figure"
)
# Nothing is given back of it: several comments could be one long comment in many ways.
_COMMENTS = rb"(?>(?:<!--.{0,20000}?-->\s*|<\?xml\b[^<>]*>\s*)*)"
_BEFORE_MARKUP = BEFORE_TEXT + _COMMENTS
# Comments, lines of one tag and blank lines among lines of columns. Nothing is given back of them.
_BETWEEN_COLUMNS = rb"(?>(?:#[^\r\n]*\r?\n|<\w+>[ \t]*\r?\n|\s+)*)"
# Five lines of words in columns, the last of which has a label of a word (Tjong Kim Sang and De
# Meulder 2003).
_LABELLED = (
    rb"(?:" + _BETWEEN_COLUMNS + rb"\S+(?:[ \t]+\S+)*[ \t]+(?:O|[BIES]-[\w-]+)[ \t]*\r?\n){5}"
)
# The first word of a sentence in the ten columns of CoNLL-X and CoNLL-U, of which the seventh is
# the number of its head (universaldependencies.org, "CoNLL-U Format").
_WORD_OF_TREE = (
    rb"(?:1(?:-\d+)?|0\.1)\t(?:[^\t\r\n]+\t){5}(?:\d+|_)\t(?:[^\t\r\n]+\t){2}[^\t\r\n]+\r?\n"
)
_CONLL = (
    rb"(?>"
    + BEFORE_TEXT
    + rb")(?:#[ \t]*global\.columns[ \t]*=|"
    + _BETWEEN_COLUMNS
    + _WORD_OF_TREE
    + rb"|"
    + _LABELLED
    + rb")"
)
# Names of header fields (RFC 5322, section 3.6; RFC 5536, section 3), and others that programs add.
_MAIL_NAMES = (
    rb"(?:Return-Path|Received|Message-ID|Delivered-To|Deliver(?:y|ed)-Date|Posted-Date|MIME-Version"
    rb"|Newsgroups|Path|Xref|From|To|Cc|Bcc|Reply-To|In-Reply-To|Errors-To|Envelope-To|Subject|Date"
    rb"|Organization|Sender|References|Lines|Content-[\w-]+|List-[\w-]+|Mailing-List|Precedence"
    rb"|Resent-[\w-]+|User-Agent|DKIM-Signature|Authentication-Results|X-[\w-]+):"
)
_FIELD_BODY = rb"(?:[ \t][^\r\n]*)?\r?\n(?:[ \t]+\S[^\r\n]*\r?\n)*"
# Three header fields with such names (RFC 5322, section 2.2), with others before and between them,
# after the line that begins a message of an mbox file.
_MAIL = (
    BEFORE_TEXT
    + rb"(?:From \S+[^\r\n]*\r?\n)?(?:(?>(?:(?!"
    + _MAIL_NAMES
    + rb")[!-9;-~]+:"
    + _FIELD_BODY
    + rb")*)(?>"
    + _MAIL_NAMES
    + _FIELD_BODY
    + rb")){3}"
)

# Two marks of reStructuredText: a directive, a label or a substitution that begins a line, or an
# inline role (docutils, "reStructuredText Markup Specification"). Nothing is given back of them.
_RST_MARK = (
    rb"(?:(?<![^\n])[ \t]*\.\. "
    rb"(?:[a-z][\w:+.-]*::|_[^\r\n]+:[ \t]*\r?\n|\|[^|\r\n]+\| [\w-]+::)"
    rb"|:[a-z][a-z:+-]{1,30}:`[^`\r\n])"
)
_RST = rb"(?>.*?" + _RST_MARK + rb"){2}"


class Foreign(Format):
    """A format whose files are recognised only to be rejected."""

    def __init__(self, name: str, beginning: bytes, detail: str, endings: tuple[str, ...] = ()):
        """Takes the attributes, and what the files are and what to do."""
        self.name = name
        self.endings = endings
        self.beginning = re.compile(beginning, re.IGNORECASE | re.DOTALL)
        self._detail = detail

    def read(
        self,
        part: FilePart,
        stored: BinaryIO,
        columns: Columns,
        tell: Callable[[int], None],
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Reject]:
        """Yields the reject of the whole file."""
        yield Reject(1, self.name, self._detail)


class NotText(Foreign):
    """Files that `not_text` names, such as PDF documents and archives."""

    def __init__(self) -> None:
        """Takes nothing: the first bytes of each file say what it is."""
        self.name = "not_text"

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file is no text, by its first (decompressed) bytes."""
        return not_text(sample) != ""

    def read(
        self,
        part: FilePart,
        stored: BinaryIO,
        columns: Columns,
        tell: Callable[[int], None],
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Reject]:
        """Yields the reject of the whole file, with its kind."""
        beginning = decompress(part.file.path, stored).read(BEGINNING_BYTES)
        yield Reject(1, self.name, not_text(beginning))


FOREIGN = (
    Foreign(
        "html",
        _BEFORE_MARKUP + rb"<(?:!doctype\s+html|html\b|(?:" + _HTML + rb")\b[^<>]*>.*</[a-z])",
        "is HTML; take the text out of it with a tool such as trafilatura, or give --format=text "
        "to learn from its tags, too",
    ),
    Foreign(
        "xml",
        # A chat log may begin with a name in such brackets, but it closes none.
        BEFORE_TEXT
        + rb"(?:<\?xml\b|<!doctype\s|"
        + _COMMENTS
        + rb"<[a-z][\w:.-]*\b[^<>]*>.*</[a-z])",
        "is XML and no MediaWiki dump; take the text out of it, or give --format=text to learn "
        "from its tags, too",
    ),
    Foreign(
        "conll",
        _CONLL,
        "has words in columns with labels, for a task; take its words out of it, or give "
        "--format=text to learn from its labels, too",
    ),
    Foreign(
        "mail",
        _MAIL,
        "is mail; take the text out of its messages, or give --format=text to learn from their "
        "headers, too",
    ),
    Foreign(
        "latex",
        BEFORE_TEXT + rb"(?:%[^\r\n]*\r?\n\s*)*\\(?:document(?:class|style)|begin\{document\})",
        "is LaTeX; take the text out of it with a tool such as pandoc, or give --format=text to "
        "learn from its commands, too",
    ),
    Foreign(
        "rst",
        _RST,
        "is reStructuredText; take the text out of it with a tool such as pandoc, or give "
        "--format=text to learn from its marks, too",
        (".rst",),
    ),
    Foreign(
        "gettext",
        BEFORE_TEXT + rb"(?:#[^\r\n]*\r?\n\s*)*msgid[ \t]+\"",
        "is a list of translations (gettext); take the text out of it, or give --format=text to "
        "learn from its keywords, too",
    ),
    Foreign(
        "subtitles",
        BEFORE_TEXT + rb"(?:WEBVTT\b|\d+\s*\r?\n(?:\d+:)?\d\d:\d\d[,.]\d{3}[ \t]+-->)",
        "has subtitles; take the text out of it, or give --format=text to learn from its times",
    ),
    NotText(),
)
# It is tried before JSON Lines, which begins as it does.
JSON = Foreign(
    "json",
    BEFORE_TEXT + rb'(?:\[\s*\{\s*"|\[\s*"(?:[^"\\]|\\.)*"\s*(?:,\s*"|\]\s*\Z)|\{[ \t]*\r?\n\s*")',
    "is JSON, but not JSON Lines; write each object on a line of its own (jq -c '.[]' does it for "
    "an array, jq -c . for an object)",
)
