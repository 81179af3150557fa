"""Reads files of plain text, Markdown, and the input format of BERT's original release. Pure."""

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from beambert.pipelines.corpus.base import (
    BEFORE_TEXT,
    PLAIN_FORMATS,
    TEXT_ALONE,
    LineFormat,
    Lines,
    ReadOptions,
    Rows,
)
from beambert.pipelines.corpus.cleaning import (
    NO_SPACES,
    PARAGRAPHS,
    QUOTED,
    SENTENCE_ENDS,
    SENTENCES,
    WIKI_HEADING,
    ends_sentence,
    substitute,
    wrapped_width,
)
from beambert.pipelines.corpus.documents import Document, Reject, decode_document

if TYPE_CHECKING:
    from markdown_it.token import Token

# The end of a sentence inside of a line, and the letter behind it.
_END_INSIDE = re.compile(
    rf"(?:[{re.escape(SENTENCE_ENDS.replace(':', ''))}][\"'”’»)\]]* +[\"“„«(¿¡]*"
    r"|[。！？｡][”’」』）】]*)([^\W\d_])"
)
# Marks that close a quotation, in any language.
_CLOSING = '"”“’»«」』'
# YAML between two lines of dashes, or TOML between lines of plus signs, at the beginning.
_FRONT_MATTER = re.compile(
    r"\A(---|\+\+\+)[ \t]*\n(?:(?:#[^\n]*|[ \t]*)\n)*(?=[\w\"'][^\n:=]{0,80}[:=])"
    r".*?^(?:\1|\.\.\.)[ \t]*$",
    re.MULTILINE | re.DOTALL,
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
# Greatest number of blocks inside of each other. A list and its items count as two.
_DEEPEST = 100
# Type of a token -> reason under which it is counted.
_REASONS = {
    **dict.fromkeys(("em_open", "strong_open", "s_open"), "emphasis"),
    **dict.fromkeys(("heading_open", "list_item_open", "blockquote_open", "tr_open"), "block_mark"),
    **dict.fromkeys(("html_inline", "html_block"), "html"),
    **{"link_open": "link", "image": "image", "hr": "ornament"},
    **{"code_inline": "code_mark", "fence": "code"},
}


class PlainText(LineFormat):
    """Plain text: each file is one document."""

    name = "text"
    is_divisible = False

    def recognises(self, sample: bytes) -> bool:
        """Returns True: a file of no other format is plain text."""
        return True

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields one document, made of all lines."""
        yield decode_document(b"".join(lines), 1)


def has_blocks(text: bytes) -> bool:
    """Returns whether blank lines divide a text, most of whose pieces have several lines."""
    blocks = [block.splitlines() for block in re.split(rb"(?:\r?\n[ \t]*){2,}", text.strip())]
    return len(blocks) > 1 and statistics.median(map(len, blocks)) > 1


class SentenceLines(LineFormat):
    """Sentence lines: one sentence a line, and a blank line between documents."""

    name = "lines"
    layout = SENTENCES

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file has this format rather than plain text.

        In this format most lines end a sentence, few lines hold several sentences (as paragraphs
        do), and documents have several lines.
        """
        text = re.sub(rb"\A" + BEFORE_TEXT, b"", sample).strip()
        if not has_blocks(text):
            return False
        lines = list(map(str.rstrip, text.decode("utf-8", "ignore").split("\n")))
        # Pages of a wiki, quoted mail, and wrapped paragraphs of a few lines may look the same.
        joined = "\n".join(lines)
        if WIKI_HEADING.search(joined) or QUOTED.search(joined) or wrapped_width(lines):
            return False
        lines = list(filter(None, lines))
        ends = sum(ends_sentence(line) or line[-1] in _CLOSING for line in lines)
        # The share of such lines is 0.1 in the original release's sample, and 0.4 or more where
        # each line is a paragraph.
        has_capitals = any(line != line.lower() for line in lines)
        paragraphs = sum(
            any(not (has_capitals and match[1].islower()) for match in _END_INSIDE.finditer(line))
            for line in lines
        )
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

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields the documents between blank lines."""
        body: list[bytes] = []
        for number, line in enumerate(chain(lines, [b"\n"]), 1):
            if not self.starts_document(line):
                body.append(line)
            elif body:
                yield decode_document(b"".join(body), number - len(body), self.layout == SENTENCES)
                body = []


class ParagraphLines(SentenceLines):
    """Paragraph lines: one paragraph a line, and a blank line between documents (CC-100, OSCAR)."""

    name = "paragraphs"
    layout = PARAGRAPHS

    def recognises(self, sample: bytes) -> bool:
        """Returns False: plain text may look the same, so it must be named."""
        return False


class Markdown(LineFormat):
    """Markdown: each file is one document. Its content may be that of plain text."""

    name = "markdown"
    is_divisible = False
    layout = PARAGRAPHS
    endings = (".md", ".markdown")
    # Tables between bars may have commas, and many files begin with a piece of HTML.
    weaker = (*PLAIN_FORMATS, "csv", "tsv", "html", "xml")

    def recognises(self, sample: bytes) -> bool:
        """Returns False: any text is Markdown, so only the name of a file shows it."""
        return False

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields one document, made of all lines. Each of its blocks is a paragraph."""
        found = decode_document(b"".join(lines), 1)
        if isinstance(found, Reject):
            yield found
            return
        try:
            text, counts = clean_markdown("\n".join(found.text.splitlines()))
        except TangledError as error:
            detail = f"the file {error}; divide it, or give --format=text to read it as it is"
            yield Reject(1, "tangled_markup", detail)
            return
        yield Document(text, cleaned=counts)


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
    text = substitute(_FRONT_MATTER, "", text, counts, "front_matter")
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
            shown = token.content
            if _INLINE_MARK.search(shown):
                inside: list[Token] = []
                inlines.inline.parse(shown, inlines, destinations, inside)
                shown = _visible(inside, counts)
            pieces = _DEFINITION.split(NO_SPACES.sub("", shown))
            counts["block_mark"] += len(pieces) - 1
            (paragraphs if row is None else row).extend(" ".join(piece.split()) for piece in pieces)
    return "\n".join(filter(None, paragraphs)), +counts


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
