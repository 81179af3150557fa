"""Reads wikis: MediaWiki's XML dumps, the output of WikiExtractor, and WikiText. Pure.

Wikimedia's multistream dumps are divided among workers. Such a dump consists of many bzip2 streams
of 100 pages each. The first stream holds the beginning of the XML before the pages, and the last
one its end. An index, a separate file next to the dump, lists the byte offset of each page's
stream (meta.wikimedia.org, "Data dumps/Dump format", section "Multistream dumps").
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, BinaryIO
from xml.etree import ElementTree

from beambert.compression import CorruptFileError, decompress
from beambert.errors import InputError
from beambert.pipelines.corpus.base import (
    BEFORE_TEXT,
    TEXT_ALONE,
    Declared,
    FilePart,
    LineFormat,
    lines_of,
    split_at,
)
from beambert.pipelines.corpus.documents import Document, Found, Reject, Skip, decode_document
from beambert.pipelines.corpus.text_files import GAP, close_gaps, substitute

if TYPE_CHECKING:
    from beambert.pipelines.input_files import InputFile

# Numbers of the namespaces that every wiki has (mediawiki.org, Manual:Namespace, "Built-in
# namespaces").
ARTICLES, MEDIA, FILES, CATEGORIES = "0", "-2", "6", "14"
_PAGE = b"<page>"
# Matches what stands in a page, and neither before the first page nor after the last one.
_END_OF_PAGE = re.compile(rb"</(?:page|revision|text)>")
# The marks in a piece of a dump, wherever it begins, if it holds the beginning of a page.
_PIECE_MARKS = (_PAGE, b"<title>", b"<revision>")
_MEDIA_NAMESPACE = re.compile(
    rf'<namespace\s+key="(?:{MEDIA}|{FILES}|{CATEGORIES})"[^>]*>([^<]*)<'.encode()
)
# Matches enwiki-20240101-pages-articles-multistream.xml.bz2, and the pieces of a large wiki's dump:
# enwiki-20240101-pages-articles-multistream1.xml-p1p41242.bz2.
_DUMP_NAME = re.compile(r"(.*-multistream)(\d*)\.xml((?:-p\d+p\d+)?\.bz2)")
# The lines before and after an article begin with these.
_START, _END = b"<doc ", b"</doc>"
_TAGS = (_START, _END)
_DOC_TITLE = re.compile(rb' title="(.*)">\s*$')
_REDIRECT = re.compile(rb"\s*#REDIRECT", re.IGNORECASE)
# WikiText writes a title as " = Title = " and a heading as " = = Heading = = ".
_TITLE = re.compile(rb"\s*= [^=](.*[^=])? =\s*$")
_HEADING = re.compile(rb"\s*= = .* = =\s*$")

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
# WikiText's way to write signs between the digits and letters of one word.
_JOINED = re.compile(r" @([-,.])@ ")


class MediaWiki(LineFormat):
    """XML exports of a wiki. The dumps of Wikimedia may be multistream."""

    name = "mediawiki"
    is_utf8 = True
    beginning = re.compile(BEFORE_TEXT + rb"(<\?xml[^>]*>\s*)?<mediawiki")

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file is a dump, or a piece of one that lacks its beginning."""
        return super().recognises(sample) or all(mark in sample for mark in _PIECE_MARKS)

    def starts_document(self, line: bytes) -> bool:
        """Returns whether a page starts on this line."""
        return line.lstrip().startswith(_PAGE)

    def split_utf8(self, file: "InputFile") -> list[FilePart]:
        """Divides a multistream dump by its index, if that is in the same folder.

        Raises:
          InputError: the index cannot be used.
        """
        if file.is_compressed:
            return split_at(file, self.name, _stream_offsets(file))
        return super().split_utf8(file)

    def lines(
        self,
        part: FilePart,
        stored: BinaryIO,
        lines_in: Callable[[BinaryIO], Iterator[bytes]] = lines_of,
    ) -> Iterator[bytes]:
        """Yields the lines of a part, completed by the beginning and the end of the dump."""
        lines = super().lines(part, stored, lines_in)
        first = next(lines, b"")
        if part.start and first:
            # The beginning and the first line count as one line, so that line numbers stay right.
            yield self._before_pages(part.file) + first
        elif first:
            yield first
        yield from lines
        if part.end is not None:
            yield b"</mediawiki>\n"
        elif part.start and not first:
            # The last part has no page, only the end of the dump. The reader of the part before
            # has read beyond that end without looking for it, so it is checked here.
            yield self._before_pages(part.file)
            stored.seek(part.start)
            yield from (line.rpartition(b"page>")[2] for line in stored)

    def _before_pages(self, file: "InputFile") -> bytes:
        """Returns the lines before the first page of a dump, which name its namespaces."""
        with file.open() as stored:
            lines = decompress(file.path, stored)
            return b"".join(takewhile(lambda line: not self.starts_document(line), lines))

    def read_lines(
        self, lines: Iterable[bytes], declared: Declared = TEXT_ALONE
    ) -> Iterator[Found]:
        """Yields the articles of an export; redirects and other pages are skipped.

        A damaged page doesn't affect the others: <page> and </page> cannot occur in the text of a
        page, where < is escaped.
        """
        # The parser of a command's flags lists the formats and needs no library that reads them.
        from beambert.pipelines.corpus.wiki_markup import ENGLISH_PREFIXES

        prefixes = set(ENGLISH_PREFIXES)
        page: list[bytes] | None = None
        start, has_end, has_beginning, is_headless = 0, False, False, False
        number = 0
        for number, line in enumerate(lines, 1):
            # A line is split only where it has a tag of a page inside.
            for piece in (
                re.split(rb"(?=<page>)|(?<=</page>)", line) if b"page>" in line else [line]
            ):
                if piece.startswith(_PAGE):
                    if page is not None:
                        yield _page_cut_off(start)
                    page, start = [], number
                if page is None:
                    for match in _MEDIA_NAMESPACE.finditer(piece):
                        prefixes.add(html.unescape(match[1].decode("utf-8", "replace")).lower())
                    has_end = has_end or b"</mediawiki>" in piece
                    has_beginning = has_beginning or b"<mediawiki" in piece
                    if not (has_beginning or is_headless) and _END_OF_PAGE.search(piece):
                        is_headless = True
                        yield Reject(number, "cut_off", f"the XML before line {number} is missing")
                    continue
                page.append(piece)
                if piece.endswith(b"</page>"):
                    yield _parse_page(b"".join(page), start, frozenset(prefixes))
                    page = None
        if page is not None:
            yield _page_cut_off(start)
        elif not has_end and has_beginning:
            yield Reject(number + 1, "cut_off", f"the XML breaks off after line {number}")


def _stream_offsets(file: "InputFile") -> list[int]:
    """Returns the byte offsets at which a compressed dump may be cut; none without an index."""
    index = index_path(file.path)
    opened = file.open_beside(index) if index else None
    if opened is None:
        return []
    try:
        with opened as stored:
            offsets = stream_offsets(decompress(index, stored))
    except (ValueError, CorruptFileError) as error:
        raise InputError(
            f"{index}: not the index of {file.path} ({error}); fetch it again, or delete it to "
            "have the dump read by one worker"
        ) from error
    if offsets and offsets[-1] >= file.bytes:
        raise InputError(
            f"{index}: not the index of {file.path}, which has no byte {offsets[-1]}; fetch "
            "both again, or delete the index to have the dump read by one worker"
        )
    return offsets


def _page_cut_off(start: int) -> Reject:
    return Reject(start, "cut_off", f"the page that starts on line {start} has no </page>")


def _parse_page(raw: bytes, start: int, prefixes: frozenset[str]) -> Found:
    from beambert.pipelines.corpus.wiki_markup import MarkupError, is_tangled, strip_markup

    decoded = decode_document(raw, start)
    if isinstance(decoded, Reject):
        return decoded
    try:
        wikitext = _wikitext_of(ElementTree.fromstring(raw))
        if isinstance(wikitext, Skip):
            return wikitext
        if is_tangled(wikitext):
            detail = f"the page that starts on line {start} has too much markup without an end"
            return Reject(start, "tangled_markup", detail)
        return Document(strip_markup(wikitext, prefixes))
    except (ElementTree.ParseError, MarkupError) as error:
        detail = f"the page that starts on line {start} is damaged ({error})"
        return Reject(start, "damaged_page", detail)


def _wikitext_of(page: ElementTree.Element) -> str | Skip:
    fields = {element.tag: element for element in page.iter()}
    if "ns" in fields and fields["ns"].text != ARTICLES:
        return Skip("not_an_article")
    if "redirect" in fields:
        return Skip("redirect")
    return (fields["text"].text if "text" in fields else None) or ""


def index_path(dump_path: str) -> str | None:
    """Returns the path of a multistream dump's index, or None for any other file."""
    match = _DUMP_NAME.fullmatch(dump_path)
    return f"{match[1]}-index{match[2]}.txt{match[3]}" if match else None


def stream_offsets(index_lines: Iterable[bytes]) -> list[int]:
    """Returns the sorted byte offsets of the streams that hold pages.

    Args:
      index_lines: decompressed lines of the form `offset:page id:title`; titles may have colons.

    Raises:
      ValueError: a line does not have that form; the message names it.
    """
    offsets = set()
    for number, line in enumerate(index_lines, 1):
        offset, _, rest = line.partition(b":")
        if not offset.isdigit() or b":" not in rest:
            raise ValueError(f"line {number} is not offset:page id:title")
        offsets.add(int(offset))
    return sorted(offsets)


class WikiExtractor(LineFormat):
    """WikiExtractor's format: articles between `<doc id= url= title=>` and `</doc>`."""

    name = "wikiextractor"
    beginning = re.compile(BEFORE_TEXT + rb"<doc ")

    def starts_document(self, line: bytes) -> bool:
        """Returns whether an article starts on this line."""
        return line.startswith(_START)

    def read_lines(
        self, lines: Iterable[bytes], declared: Declared = TEXT_ALONE
    ) -> Iterator[Found]:
        """Yields the prose of articles, without the title that each repeats as its first line."""
        body: list[bytes] | None = None
        start, title, is_outside = 0, b"", False
        for number, line in enumerate(lines, 1):
            if body is not None and not line.startswith(_TAGS):
                body.append(line)
            elif line.startswith(_START):
                if body is not None:
                    yield _doc_cut_off(start)
                body, start, is_outside = [], number + 1, False
                match = _DOC_TITLE.search(line)
                title = match[1] if match else b""
            elif body is None:
                if line.strip() and not is_outside:
                    is_outside = True  # Adjacent lines outside of articles make one reject.
                    yield Reject(number, "outside_doc", f"line {number} is outside <doc> … </doc>")
            else:
                if body and body[0].strip() == title.strip():
                    body[0] = b"\n"
                yield _extracted_article(b"".join(body), start)
                body = None
        if body is not None:
            yield _doc_cut_off(start)


def _extracted_article(raw: bytes, start: int) -> Found:
    if _REDIRECT.match(raw):
        return Skip("redirect")
    found = decode_document(raw, start)
    return found.clean(clean_wikiextractor) if isinstance(found, Document) else found


def _doc_cut_off(start: int) -> Reject:
    return Reject(start, "cut_off", f"the document that starts on line {start} has no </doc>")


class WikiText(LineFormat):
    """WikiText: articles that begin with ` = Title = `."""

    name = "wikitext"
    beginning = re.compile(BEFORE_TEXT + rb"= [^=\n]+ =[ \r]*\n")

    def starts_document(self, line: bytes) -> bool:
        """Returns whether the line is the title of an article."""
        return _TITLE.match(line) is not None

    def read_lines(
        self, lines: Iterable[bytes], declared: Declared = TEXT_ALONE
    ) -> Iterator[Document | Reject]:
        """Yields the articles, without their headings and with their words joined."""
        body: list[bytes] | None = None
        start = 1
        for number, line in enumerate(lines, 1):
            if self.starts_document(line):
                if body is not None:
                    yield _wikitext_article(b"".join(body), start)
                body, start = [], number + 1
            elif body is not None or line.strip():
                if body is None:
                    body, start = [], number
                # A blank line replaces the heading, so that line numbers stay right.
                body.append(b"\n" if _HEADING.match(line) else line)
        if body is not None:
            yield _wikitext_article(b"".join(body), start)


def _wikitext_article(raw: bytes, start: int) -> Document | Reject:
    found = decode_document(raw, start)
    return found.clean(clean_wikitext) if isinstance(found, Document) else found


def unescape(text: str, counts: Counter[str]) -> str:
    """Returns a text with the characters that its HTML entities stand for.

    WikiExtractor escapes a text whose entities were escaped already, so there are two levels.
    """
    for _ in range(2):
        if "&" in text:
            text = substitute(
                _ENTITY, lambda match: html.unescape(match[0]), text, counts, "entity"
            )
    return text


def clean_wikiextractor(text: str) -> tuple[str, Counter[str]]:
    """Returns the prose of an article that WikiExtractor wrote, and what was removed by reason.

    Each rule is tried only on a text that has its characters: to look for a single one is many
    times as fast as a regular expression. The time is linear in the length of the text.
    """
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
        text = substitute(_OUTSIDE_LINK, r"\1", text, counts, "link")
    if "_" in text and "__" in text:
        text = substitute(_MAGIC_WORD, "", text, counts, "magic_word")
    if "_" in text and ("formula_" in text or "codice_" in text):
        text = substitute(_PLACEHOLDER, GAP, text, counts, "formula")
    if "=" in text and "\n=" in text:
        text = _drop_lines(text, _is_heading, counts, "heading")
    text = close_gaps(text)
    if _OPENING.search(text):
        text = substitute(_EMPTY_BRACKETS, "", text, counts, "empty_brackets")
        text = substitute(_OPENING_COMMAS, "(", text, counts, "empty_brackets")
    text = substitute(_COMMAS, ",", text, counts, "commas")
    if " )" in text:
        text = substitute(_CLOSING_COMMA, ")", text, counts, "empty_brackets")
    return text, counts


def clean_wikitext(text: str) -> tuple[str, Counter[str]]:
    """Returns an article of WikiText with its words joined again, and what was cleaned."""
    counts: Counter[str] = Counter()
    if " @" in text:
        text = substitute(_JOINED, r"\1", text, counts, "joined_word")
    return text, counts


def _clean_tags(text: str, counts: Counter[str]) -> str:
    text = _drop_between("<!--", "-->", text, counts, "comment")
    for name in _NO_PROSE:
        if f"</{name}>" in text:
            # A tag without content has no end.
            text = substitute(re.compile(rf"<{name}\b[^<>]*/>"), GAP, text, counts, "tag")
            text = _drop_between(f"<{name}", f"</{name}>", text, counts, "tag")
    text = substitute(_BREAK, "\n", text, counts, "tag")
    return substitute(_TAG, "", text, counts, "tag")


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
        # A heading of a table has attributes, or is not a sentence.
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
    """Replaces links by the text that they show, and drops pictures and categories."""
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
