"""Reads files of plain text, Markdown, and the input format of BERT's original release. Pure.

Plain text loses the licences of Project Gutenberg, the marks of transcribers and the headings of
wikis, and its hard-wrapped lines are joined into paragraphs.
"""

import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from beambert.pipelines.corpus.base import (
    BEFORE_TEXT,
    PLAIN_FORMATS,
    TEXT_ALONE,
    Declared,
    LineFormat,
)
from beambert.pipelines.corpus.documents import Document, Reject, decode_document

if TYPE_CHECKING:
    from markdown_it.token import Token

# Stands where markup was cut out of a text, until `close_gaps` removes it. The tokenizer drops
# this character from text.
GAP = "\x01"
# MediaWiki has two to six signs on either side (mediawiki.org, "Help:Formatting"). Spaces separate
# them in the plain text that it gives of a page.
_WIKI_HEADING = re.compile(r"^(={2,6}) [^=\s](?:[^\n]*[^=\s])? \1[ \t]*(?:\n|\Z)", re.MULTILINE)
# Transcribers' marks in books.
_ILLUSTRATION = re.compile(r"\[Illustration(?::[^\[\]]{0,2000})?\]")
_ORNAMENT = re.compile(r"^[ \t]*(?:\*[ \t]*){3,}$", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w_])_(?=[^\s_])([^_\n]{1,300})(?<=[^\s_])_(?![\w_])")

# Project Gutenberg marks the ends of its licences, in the wordings of its files since 1991.
# Newer files have "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***", where a long title takes
# several lines. In older files "***START**THE SMALL PRINT!**" and "*END*THE SMALL PRINT!" enclose
# the licence.
_LICENCE_MARKS = re.compile(
    r"""^\ *(?:
      (?P<start>
        \*{3}\ ?START\ OF\ (?:THE|THIS)\ PROJECT\ GUTENBERG\b[^*]{0,300}\*{3}
        | \*END[ *]+THE\ SMALL\ PRINT!.*
      )
      | (?P<end>
        \*{3}\ ?END\ OF\ (?:THE|THIS)\ PROJECT\ GUTENBERG\b[^*]{0,300}\*{3}
        | (?:This\ is\ the\ )?End\ of\ (?:the\ |this\ )?Project\ Gutenberg
            (?:['’]s\b|\ e(?:text|book)\b).*
      )
    )[ \t]*$""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
# Twice the length of the longest header or licence, in characters. A longer piece of text is kept,
# whatever the marks say.
_MOST_OF_A_LICENCE = 40_000
# Credits of the people who made the file: separate paragraphs between the mark and the book.
_CREDITS = re.compile(
    r"""\A(?:\s*(?:
      (?:(?:This\ )?e-?(?:text|book)\ (?:was\ )?(?:prepared|produced)|Produced|Transcribed|Scanned)
        \ (?:by|from)\b [^\n]* (?:\n[^\n]+){0,9}
      | \[Transcriber['’]s\ note[^][]{0,2000}\]
    )[ \t]*(?=\n[ \t]*\n|\Z))*""",
    re.VERBOSE | re.IGNORECASE,
)

# Printed pages wrap at 60 to 80 characters. A few longer lines, such as tables, may occur.
_MOST_OF_A_LINE = 100
_SHORT_LINES = 0.95
# Least share of lines that continue the one before, which shows in a lower-case first letter. It is
# 0.6 to 0.9 in wrapped prose of languages with cases, and nearly 0 in verse, in lists, and in text
# with one paragraph a line.
_LEAST_CONTINUED = 0.2
_ENDS_SENTENCE = re.compile(r"[.!?:…。！？][\"'”’»)\]_*]*$")
_ENDS_WITH_HYPHEN = re.compile(r"\w-$")

# YAML between two lines of dashes, or TOML between lines of plus signs, at the beginning.
_FRONT_MATTER = re.compile(
    r"\A(---|\+\+\+)[ \t]*\n(?:(?:#.*|[ \t]*)\n)*(?=[\w\"'][^\n:=]{0,80}[:=])"
)
_FOOTNOTE = re.compile(r"^ {0,3}\[\^[^\]\s]{1,100}\]:", re.MULTILINE)
_FOOTNOTE_MARK = re.compile(r"\[\^[^\]\s]{1,100}\]")
_DEFINITION = re.compile(r"^[ \t]*:[ \t]+", re.MULTILINE)
# Most paragraphs have no sign of markup inside, and their parsing takes more than half of the time.
_INLINE_MARK = re.compile(r"[\\`*_\[\]<&~]")
_BREAK = re.compile(r"<br\b", re.IGNORECASE)
# Signs that may begin or end markup or a block. Each costs the parser up to 160 microseconds and
# two kilobytes. In prose it is one character of 30 to 60.
_MARKS = re.compile(r"[\n!#$%&*+:<=>@\[\\\]^_`{|}~-]")
_MOST_MARKS = 200_000
# Pieces of HTML that may have no end, which is then looked for up to the end of the paragraph.
_OPEN_HTML = re.compile(r"<[!?]")
_MOST_LOOKED_AT = 50_000_000
# Greatest number of blocks inside of each other. A list and its items count as two.
_DEEPEST = 100
# Type of a token -> reason under which it is counted.
_REASONS = {
    "em_open": "emphasis",
    "strong_open": "emphasis",
    "s_open": "emphasis",
    "link_open": "link",
    "image": "image",
    "code_inline": "code_mark",
    "fence": "code",
    "html_inline": "html",
    "html_block": "html",
    "hr": "ornament",
    "heading_open": "block_mark",
    "list_item_open": "block_mark",
    "blockquote_open": "block_mark",
    "tr_open": "block_mark",
}


class PlainText(LineFormat):
    """Plain text: each file is one document."""

    name = "text"
    is_divisible = False

    def recognises(self, sample: bytes) -> bool:
        """Returns True: a file of no other format is plain text."""
        return True

    def read_lines(
        self, lines: Iterable[bytes], declared: Declared = TEXT_ALONE
    ) -> Iterator[Document | Reject]:
        """Yields one document, made of all lines.

        The licence of Project Gutenberg around a book is removed, and so are the headings of wikis.
        Hard-wrapped lines are joined into paragraphs. Transcribers' marks are removed.
        """
        found = decode_document(b"".join(lines), 1)
        if isinstance(found, Reject):
            yield found
            return
        text, headings = drop_headings(strip_gutenberg("\n".join(found.text.splitlines())))
        text, counts = clean_book(unwrap(text))
        yield Document(text, cleaned=counts + headings)


class SentenceLines(LineFormat):
    """Sentence lines: one sentence a line, and a blank line between documents."""

    name = "lines"

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file has this format rather than plain text.

        In this format most lines end a sentence, few lines hold several sentences (as paragraphs
        do), and documents have several lines.
        """
        text = re.sub(rb"\A" + BEFORE_TEXT, b"", sample).strip()
        if _WIKI_HEADING.search("\n".join(text.decode("utf-8", "replace").splitlines())):
            return False  # It is a page of a wiki.
        blocks = [block.splitlines() for block in re.split(rb"(?:\r?\n[ \t]*){2,}", text)]
        lines = [line.rstrip() for block in blocks for line in block]
        if len(blocks) < 2 or statistics.median(len(block) for block in blocks) < 2:
            return False
        final = tuple(mark.encode() for mark in '.!?"”。')
        ends = sum(line.endswith(final) for line in lines)
        # The share of such lines is 0.1 in the original release's sample, and 0.4 or more where
        # each line is a paragraph.
        paragraphs = sum(re.search(rb"[.!?][\"')]* +[A-Z]", line) is not None for line in lines)
        return ends >= 0.6 * len(lines) and paragraphs <= 0.3 * len(lines)

    def starts_document(self, line: bytes) -> bool:
        """Returns whether the line is blank; a blank line belongs to the document after it.

        White space is that of Unicode, which includes U+3000 of Chinese text, as in the original.
        """
        content = line.strip()
        # Most lines start with an ASCII letter, so only the other ones are decoded.
        return not content or not (
            content[:1].isalnum() or content.decode("utf-8", "replace").strip()
        )

    def read_lines(
        self, lines: Iterable[bytes], declared: Declared = TEXT_ALONE
    ) -> Iterator[Document | Reject]:
        """Yields documents that are split into sentences already."""
        body: list[bytes] = []
        number = 0
        for number, line in enumerate(lines, 1):
            if not self.starts_document(line):
                body.append(line)
            elif body:
                yield decode_document(b"".join(body), number - len(body), True)
                body = []
        if body:
            yield decode_document(b"".join(body), number - len(body) + 1, True)


class Markdown(LineFormat):
    """Markdown: each file is one document. Its content may be that of plain text."""

    name = "markdown"
    is_divisible = False
    endings = (".md", ".markdown")
    # Tables between bars may have commas, and many files begin with a piece of HTML.
    weaker = (*PLAIN_FORMATS, "csv", "tsv", "html", "xml")

    def recognises(self, sample: bytes) -> bool:
        """Returns False: any text is Markdown, so only the name of a file shows it."""
        return False

    def read_lines(
        self, lines: Iterable[bytes], declared: Declared = TEXT_ALONE
    ) -> Iterator[Document | Reject]:
        """Yields one document, made of all lines. Each of its blocks is a paragraph."""
        found = decode_document(b"".join(lines), 1)
        if isinstance(found, Reject):
            yield found
            return
        plain = strip_gutenberg("\n".join(found.text.splitlines()))
        try:
            text, counts = clean_markdown(plain)
        except TangledError as error:
            detail = f"the file {error}; divide it, or give --format=text to read it as it is"
            yield Reject(1, "tangled_markup", detail)
            return
        yield Document(text, cleaned=counts)


def strip_gutenberg(text: str) -> str:
    """Returns the books in a file without Project Gutenberg's headers, licences and credits.

    Args:
      text: content of the file; its lines end with line feeds alone.
    """
    marks = list(_LICENCE_MARKS.finditer(text))
    if not marks:
        return text
    kept = []
    for before, after in zip([None, *marks], [*marks, None], strict=True):
        piece = text[before.end() if before else 0 : after.start() if after else len(text)]
        # A licence comes before a start or after an end. All other text is a book.
        is_book = not (before and before["end"]) and not (after and after["start"])
        if is_book and before:
            piece = _CREDITS.sub("", piece)
        if piece.strip() and (is_book or len(piece) > _MOST_OF_A_LICENCE):
            kept.append(piece)
    return "\n\n".join(kept)


def clean_book(text: str) -> tuple[str, Counter[str]]:
    """Returns a book without its transcribers' marks, and what was cleaned by reason."""
    counts: Counter[str] = Counter()
    if "[Illustration" in text:
        text = substitute(_ILLUSTRATION, "", text, counts, "illustration")
    if "*" in text:
        text = substitute(_ORNAMENT, "", text, counts, "ornament")
    if "_" in text:
        text = substitute(_EMPHASIS, r"\1", text, counts, "emphasis")
    return text, counts


def drop_headings(text: str) -> tuple[str, Counter[str]]:
    """Returns a text without the headings of a wiki (`== Heading ==`), and their number.

    A blank line takes the place of each where blank lines separate paragraphs.
    """
    counts: Counter[str] = Counter()
    if "==" in text and _WIKI_HEADING.search(text):
        separator = "\n" if "\n\n" in text else ""
        text = substitute(_WIKI_HEADING, separator, text, counts, "heading")
    return text, counts


def close_gaps(text: str) -> str:
    """Returns a text without its gaps, and without the brackets, commas and spaces around them.

    Each pattern matches from the start of a run of such characters, so that the time grows only
    linearly with the length of the run.
    """
    if GAP not in text:
        return text
    text = re.sub(rf"\([\s;,{GAP}]*\)", GAP, text)
    text = re.sub(rf"\([\s;,:]*{GAP}[\s;,:{GAP}]*", "(", text)
    text = re.sub(rf"(?<![\s;,:{GAP}])[\s;,:{GAP}]*{GAP}[\s;,:]*\)", ")", text)
    text = re.sub(rf"([,;])(?:[ \xa0]*{GAP}[ \xa0{GAP}]*[,;])+", r"\1", text)
    before = rf"(?<![ \xa0{GAP}])({GAP}*)"
    text = re.sub(rf"{before}[ \xa0]+{GAP}[ \xa0{GAP}]*(?=[,.;:])", r"\1", text)
    text = re.sub(rf"^[ {GAP}]*{GAP}[ ]*[,.;:]", "", text, flags=re.MULTILINE)
    return text.replace(GAP, "")


def substitute(
    pattern: re.Pattern[str],
    new: str | Callable[[re.Match[str]], str],
    text: str,
    counts: Counter[str],
    reason: str,
) -> str:
    """Returns a text after a substitution, and counts what was replaced under a reason."""
    text, count = pattern.subn(new, text)
    if count:
        counts[reason] += count
    return text


def unwrap(text: str) -> str:
    """Returns the text with one paragraph a line and without blank lines.

    If the lines aren't hard-wrapped, each stays a line. Otherwise their text is joined, so that no
    sentence is cut at the end of a line. A new paragraph starts:

    - after a blank line;
    - after a line that ends a sentence although the next word had room on it;
    - before an indented line, if the line above it ends a sentence.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    if not _is_wrapped(lines):
        return "\n".join(line.strip() for line in lines if line)
    width = statistics.quantiles([len(line) for line in lines if line], n=20)[-2]
    paragraphs: list[list[str]] = []
    previous = ""
    for line in lines:
        if line and previous and not _starts_paragraph(previous, line, width):
            paragraphs[-1].append(line.strip())
        elif line:
            paragraphs.append([line.strip()])
        previous = line
    return "\n".join(map(_join, paragraphs))


def _is_wrapped(lines: list[str]) -> bool:
    """Returns whether lines are hard-wrapped.

    Nearly all lines must be short. Also, blank lines must separate paragraphs, or enough lines must
    begin with a lower-case letter.
    """
    filled = [line for line in lines if line]
    short = sum(len(line) <= _MOST_OF_A_LINE for line in filled)
    if len(filled) < 2 or short < _SHORT_LINES * len(filled):
        return False
    if len(filled) < len(lines):
        return True
    continued = sum(line.lstrip()[:1].islower() for line in filled[1:])
    return continued >= _LEAST_CONTINUED * (len(filled) - 1)


def _starts_paragraph(previous: str, line: str, width: float) -> bool:
    if line.lstrip()[0].islower():
        return False
    has_room = len(previous) + 1 + len(line.split(maxsplit=1)[0]) <= width
    if _ENDS_SENTENCE.search(previous):
        return has_room or _indentation(line) > _indentation(previous)
    # A heading in capitals stands above or below prose.
    return has_room and previous.isupper() != line.isupper()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join(lines: list[str]) -> str:
    """Joins lines with spaces, and without a space after a hyphen that breaks a word."""
    joined = lines[0]
    for line in lines[1:]:
        is_word = _ENDS_WITH_HYPHEN.search(joined[-2:]) and line[0].isalpha()
        joined += line if is_word else f" {line}"
    return joined


class TangledError(Exception):
    """A text has more markup than can be parsed in a bounded time, or blocks that are too deep."""


def clean_markdown(text: str) -> tuple[str, Counter[str]]:
    """Returns the paragraphs of Markdown, one a line, and what was removed by reason.

    It is CommonMark with tables, task lists and struck text. Front matter, footnotes and lists of
    definitions, which CommonMark doesn't have, are known, too. Text that is indented as code is
    read as text, since lists are indented in many ways.

    Each heading, item of a list, definition and row of a table is a paragraph. Pictures, blocks of
    code and HTML are dropped.

    Raises:
      TangledError: the text has too much markup.
    """
    # The parser of a command's flags lists the formats, and should not load the library.
    from markdown_it import MarkdownIt

    counts: Counter[str] = Counter()
    text = _drop_front_matter(text, counts)
    text, footnotes = _FOOTNOTE.subn("\n", text)
    text, marks = _FOOTNOTE_MARK.subn("", text)
    counts["footnote_mark"] += footnotes + marks
    if sum(1 for _ in _MARKS.finditer(text)) > _MOST_MARKS:
        raise TangledError(f"has over {_MOST_MARKS:,} signs of markup and line ends")

    blocks = MarkdownIt("commonmark", {"maxNesting": _DEEPEST, "tasklists": True})
    blocks.enable("table").disable("code")
    # The text of one paragraph at a time is parsed, so that its tokens can go.
    blocks.core.ruler.disable(["inline", "text_join"])
    inlines = MarkdownIt("commonmark").enable("strikethrough")
    paragraphs: list[str] = []
    row: list[str] | None = None
    # The destinations of links stand anywhere in a text.
    destinations: dict[str, Any] = {}
    for token in blocks.parse(text, destinations):
        if token.level >= _DEEPEST - 1:
            raise TangledError("has lists or quotations that are too deep inside of each other")
        if token.type in _REASONS:
            counts[_REASONS[token.type]] += 1
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close" and row is not None:
            paragraphs.append(" ".join(row))
            row = None
        elif token.type == "inline":
            if len(_OPEN_HTML.findall(token.content)) * len(token.content) > _MOST_LOOKED_AT:
                raise TangledError("has too many comments in one paragraph")
            shown = token.content
            if _INLINE_MARK.search(shown):
                inside: list[Token] = []
                inlines.inline.parse(shown, inlines, destinations, inside)
                shown = _visible(inside, counts)
            pieces = _DEFINITION.split(shown)
            counts["block_mark"] += len(pieces) - 1
            (paragraphs if row is None else row).extend(" ".join(piece.split()) for piece in pieces)
    return "\n".join(filter(None, paragraphs)), +counts


def _drop_front_matter(text: str, counts: Counter[str]) -> str:
    beginning = _FRONT_MATTER.match(text)
    if not beginning:
        return text
    end = re.compile(rf"^(?:{re.escape(beginning[1])}|\.\.\.)[ \t]*$", re.MULTILINE)
    closing = end.search(text, beginning.end())
    if not closing:
        return text
    counts["front_matter"] += 1
    return text[closing.end() :]


def _visible(tokens: Sequence["Token"], counts: Counter[str]) -> str:
    """Returns the text of a paragraph, in which a line feed stands for the end of a line."""
    parts = []
    for token in tokens:
        if token.type in _REASONS:
            counts[_REASONS[token.type]] += 1
        if token.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif token.type == "html_inline":
            parts.append("\n" if _BREAK.match(token.content) else "")
        elif token.type == "text_special":
            # An entity, or a sign of markup behind a backslash.
            counts["entity" if token.info == "entity" else "backslash"] += 1
            parts.append(token.content)
        elif token.type != "image":
            parts.append(token.content)
    return "".join(parts)
