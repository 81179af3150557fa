"""Removes what programs and transcribers leave in a text that is none of it. Pure.

Each rule is tried only on a text that has its characters: to look for a single one is many times as
fast as any regular expression. It takes time in proportion to the
length of the text, whatever is in it. A text without remains stays as it is.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator

from beambert.pipelines.corpus.mending import GAP, mend

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# HTML elements, and those of MediaWiki's extensions, whose content isn't prose.
_NO_PROSE = ("ref", "math", "gallery", "timeline", "score", "imagemap", "syntaxhighlight")
_TAG = re.compile(
    r"</?(?:abbr|b|big|blockquote|br|caption|center|cite|code|dd|del|div|dl|dt|em|font|gallery|hr|i"
    r"|includeonly|ins|li|math|noinclude|nowiki|ol|onlyinclude|p|poem|ref|references|s|section"
    r"|small|span|strike|strong|sub|sup|table|td|templatestyles|th|tr|tt|u|ul)\b[^<>]{0,500}>",
    re.IGNORECASE,
)
_BREAK = re.compile(r"<br\b[^<>]{0,100}>", re.IGNORECASE)
_MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")
# WikiExtractor writes these for formulas and code.
_PLACEHOLDER = re.compile(r"\b(?:formula|codice)_\d+")
_BRACKETS = re.compile(r"\[\[|\]\]")
_BRACES = re.compile(r"\{\{|\}\}")
# Links deeper than a picture's caption in a picture's caption don't occur.
_DEEPEST_LINK = 8
_OUTSIDE_LINK = re.compile(r"\[(?:https?:)?//[^\s\[\]<>]*(?:[ \xa0]([^\[\]\n]*))?\]")
# Links to pictures and categories show no text. A title with a colon has a space after it.
_NO_TEXT_LINK = re.compile(r"[^\W\d_]+:(?! )")
# Brackets without a space before them are those of a function's name.
_EMPTY_BRACKETS = re.compile(r" \([ \xa0,;:]*\)")
_OPENING = re.compile(r"\([ \xa0,;:)]")
_OPENING_COMMAS = re.compile(r"\([ \xa0]*[,;][ \xa0,;:]*")
_CLOSING_COMMA = re.compile(r"[,;][ \xa0]+\)")
_COMMAS = re.compile(r",(?:[ \xa0]*,)+")
_TABLE_LINE = re.compile(r"^(?:\{?\||!)", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)]*$")
# Transcribers' marks in books.
_ILLUSTRATION = re.compile(r"\[Illustration(?::[^\[\]]{0,2000})?\]")
_ORNAMENT = re.compile(r"^[ \t]*(?:\*[ \t]*){3,}$", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w_])_(?=[^\s_])([^_\n]{1,300})(?<=[^\s_])_(?![\w_])")
# MediaWiki has two to six signs on either side (mediawiki.org, "Help:Formatting"). Spaces separate
# them in the plain text that it gives of a page.
WIKI_HEADING = re.compile(r"^(={2,6}) [^=\s](?:[^\n]*[^=\s])? \1[ \t]*(?:\n|\Z)", re.MULTILINE)
# WikiText's way to write signs between the digits and letters of one word.
_JOINED = re.compile(r" @([-,.])@ ")


def unescape(text: str, counts: Counter[str]) -> str:
    """Returns a text with the characters that its HTML entities stand for.

    WikiExtractor escapes a text whose entities were escaped already, so there are two levels.
    """
    for _ in range(2):
        if "&" in text:
            text = _substitute(
                _ENTITY, lambda match: html.unescape(match[0]), text, counts, "entity"
            )
    return text


def clean_wikiextractor(text: str) -> tuple[str, Counter[str]]:
    """Returns the prose of an article that WikiExtractor wrote, and what was cleaned by reason."""
    counts: Counter[str] = Counter()
    text = unescape(text, counts)
    if "<" in text:
        text = _clean_tags(text, counts)
    if ("|" in text or "!" in text) and _TABLE_LINE.search(text):
        text = _drop_tables(text, counts)
    if "{" in text or "}" in text:
        text = _drop_templates(text, counts)
    if "[" in text or "]" in text:
        text = _show_links(text, counts)
        text = _substitute(_OUTSIDE_LINK, r"\1", text, counts, "link")
    if "_" in text and "__" in text:
        text = _substitute(_MAGIC_WORD, "", text, counts, "magic_word")
    if "_" in text and ("formula_" in text or "codice_" in text):
        text = _substitute(_PLACEHOLDER, GAP, text, counts, "formula")
    if "=" in text and "\n=" in text:
        text = _drop_lines(text, _is_heading, counts, "heading")
    text = mend(text)
    if _OPENING.search(text):
        text = _substitute(_EMPTY_BRACKETS, "", text, counts, "empty_brackets")
        text = _substitute(_OPENING_COMMAS, "(", text, counts, "empty_brackets")
    text = _substitute(_COMMAS, ",", text, counts, "commas")
    if " )" in text:
        text = _substitute(_CLOSING_COMMA, ")", text, counts, "empty_brackets")
    return text, counts


def clean_book(text: str) -> tuple[str, Counter[str]]:
    """Returns a book without its transcribers' marks, and what was cleaned by reason."""
    counts: Counter[str] = Counter()
    if "[Illustration" in text:
        text = _substitute(_ILLUSTRATION, "", text, counts, "illustration")
    if "*" in text:
        text = _substitute(_ORNAMENT, "", text, counts, "ornament")
    if "_" in text:
        text = _substitute(_EMPHASIS, r"\1", text, counts, "emphasis")
    return text, counts


def drop_headings(text: str) -> tuple[str, Counter[str]]:
    """Returns a text without the headings of a wiki (`== Heading ==`), and their number.

    A blank line takes the place of each where blank lines separate paragraphs.
    """
    counts: Counter[str] = Counter()
    if "==" in text and WIKI_HEADING.search(text):
        separator = "\n" if "\n\n" in text else ""
        text = _substitute(WIKI_HEADING, separator, text, counts, "heading")
    return text, counts


def clean_wikitext(text: str) -> tuple[str, Counter[str]]:
    """Returns an article of WikiText with its words joined again, and what was cleaned."""
    counts: Counter[str] = Counter()
    if " @" in text:
        text = _substitute(_JOINED, r"\1", text, counts, "joined_word")
    return text, counts


def _substitute(
    pattern: re.Pattern[str],
    new: str | Callable[[re.Match[str]], str],
    text: str,
    counts: Counter[str],
    reason: str,
) -> str:
    text, count = pattern.subn(new, text)
    if count:
        counts[reason] += count
    return text


def _clean_tags(text: str, counts: Counter[str]) -> str:
    text = _drop_between("<!--", "-->", text, counts, "comment")
    for name in _NO_PROSE:
        if f"</{name}>" in text:
            # A tag without content has no end.
            text = _substitute(re.compile(rf"<{name}\b[^<>]*/>"), GAP, text, counts, "tag")
            text = _drop_between(f"<{name}", f"</{name}>", text, counts, "tag")
    text = _substitute(_BREAK, "\n", text, counts, "tag")
    return _substitute(_TAG, "", text, counts, "tag")


def _drop_between(opening: str, closing: str, text: str, counts: Counter[str], reason: str) -> str:
    kept, position = [], 0
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        kept += [text[position:start], GAP]
        position = end + len(closing)
        counts[reason] += 1
    return "".join([*kept, text[position:]])


def _drop_lines(
    text: str, is_dropped: Callable[[str], bool], counts: Counter[str], reason: str
) -> str:
    kept = []
    for line in text.split("\n"):
        if line.strip() and is_dropped(line):
            counts[reason] += 1
        else:
            kept.append(line)
    return "\n".join(kept)


def _is_heading(line: str) -> bool:
    return line.startswith("=") and line.rstrip().endswith("=")


def _drop_tables(text: str, counts: Counter[str]) -> str:
    """Drops the lines of tables: whole ones, and rows and headings whose table is gone."""

    def is_of_table(line: str) -> bool:
        if line.startswith(("|", "{|")):
            return True
        # A heading of a table has attributes, or is no sentence.
        return line[0] == "!" and ("|" in line or "=" in line or not _SENTENCE_END.search(line))

    return _drop_lines(text, is_of_table, counts, "table_row")


def _drop_templates(text: str, counts: Counter[str]) -> str:
    """Drops templates, which may be nested, and single double braces."""
    kept: list[str] = []
    for depth, piece, is_mark in _nested(text):
        if depth == 0:
            if is_mark:
                counts["template"] += 1
            kept.append(GAP if is_mark else piece)
    return "".join(kept)


def _nested(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yields (depth, piece, whether the piece is double braces) of a text.

    The depth is that after the piece: 1 for the outermost opening braces, 0 for those that close
    them and for single ones.
    """
    marks = list(_BRACES.finditer(text))
    partner: dict[int, int] = {}
    opened: list[int] = []
    for index, mark in enumerate(marks):
        if mark[0] == "{{":
            opened.append(index)
        elif opened:
            partner[opened.pop()] = index
    closing = set(partner.values())
    depth, position = 0, 0
    for index, mark in enumerate(marks):
        yield depth, text[position : mark.start()], False
        depth += (index in partner) - (index in closing)
        yield depth, mark[0], True
        position = mark.end()
    yield depth, text[position:], False


def _show_links(text: str, counts: Counter[str]) -> str:
    """Puts the shown text in the place of links, and drops pictures and categories."""
    opened: list[list[str]] = []
    out: list[str] = []
    position = 0
    for mark in _BRACKETS.finditer(text):
        if mark[0] == "]]" or len(opened) >= _DEEPEST_LINK:
            counts["link"] += 1
        (opened[-1] if opened else out).append(text[position : mark.start()])
        position = mark.end()
        if mark[0] == "[[" and len(opened) < _DEEPEST_LINK:
            opened.append([])
        elif opened:
            shown = _shown("".join(opened.pop()))
            (opened[-1] if opened else out).append(shown)
    if opened:
        counts["link"] += len(opened)
        out.extend("".join(pieces) for pieces in opened)
    return "".join([*out, text[position:]])


def _shown(link: str) -> str:
    target, bar, label = link.partition("|")
    if _NO_TEXT_LINK.match(target.strip()):
        return ""
    return label if bar else target.lstrip(":")
