"""Reads wikis: MediaWiki's XML dumps, the output of WikiExtractor, and WikiText. Pure.

Wikimedia's multistream dumps are divided among workers. Such a dump consists of many bzip2 streams
of 100 pages each. The first stream holds the beginning of the XML before the pages, and the last
one its end. An index, a separate file next to the dump, lists the byte offset of each page's
stream (meta.wikimedia.org, "Data dumps/Dump format", section "Multistream dumps").
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, BinaryIO
from xml.etree import ElementTree

from beambert import io
from beambert.compression import CorruptFileError, decompress
from beambert.errors import InputError
from beambert.pipelines.corpus.base import (
    BEFORE_TEXT,
    TEXT_ALONE,
    FilePart,
    LineFormat,
    Lines,
    ReadOptions,
    Rows,
    cut_off,
    lines_of,
    split_at,
    xml_elements,
)
from beambert.pipelines.corpus.documents import (
    DEFAULT_LANGUAGE,
    Document,
    Found,
    Reject,
    Skip,
    decode_document,
    language_of,
)
from beambert.pipelines.corpus.remains import clean_extracted, clean_wikitext

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
_WIKI_LANGUAGE = re.compile(rb'<mediawiki[^>]* xml:lang="([a-z-]+)"')
# Matches enwiki-20240101-pages-articles-multistream.xml.bz2, and the pieces of a large wiki's dump:
# enwiki-20240101-pages-articles-multistream1.xml-p1p41242.bz2.
_DUMP_NAME = re.compile(r"(.*-multistream)(\d*)\.xml((?:-p\d+p\d+)?\.bz2)")
# The lines before and after an article begin with these.
_START, _END = b"<doc ", b"</doc>"
_TAGS = (_START, _END)
_DOC_TITLE = re.compile(rb' title="(.*)">\s*$')
# A page that is one line with MediaWiki's word for a redirect, in any language, and its target.
REDIRECT = re.compile(
    r"\s*#\s?(?:REDIRECT\b.*|[^\s\d#]{2,24}:?\s[^\n]{1,300}(?<![.!?])\s*)\Z",
    re.IGNORECASE | re.DOTALL,
)
# WikiText writes a title as " = Title = " and a heading as " = = Heading = = ".
_TITLE = re.compile(rb"\s*= [^=](.*[^=])? =\s*$")
_HEADING = re.compile(rb"\s*= = .* = =\s*$")
_NOTHING = Document("")


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

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields the articles of an export; redirects and other pages are skipped."""
        # The parser of a command's flags lists the formats and needs no library that reads them.
        from beambert.pipelines.corpus.wiki_markup import ENGLISH_PREFIXES

        prefixes, language = set(ENGLISH_PREFIXES), DEFAULT_LANGUAGE
        has_end = has_beginning = is_headless = ends_inside = False
        number = 0
        for found in xml_elements(lines, b"page"):
            ends_inside = isinstance(found, Reject)
            if isinstance(found, Reject):
                yield found
                continue
            number, piece, is_page = found
            if is_page:
                yield _parse_page(piece, number, frozenset(prefixes), language)
                continue
            for match in _MEDIA_NAMESPACE.finditer(piece):
                prefixes.add(html.unescape(match[1].decode("utf-8", "replace")).lower())
            if match := _WIKI_LANGUAGE.search(piece):
                language = language_of(match[1].decode("ascii")) or language
            has_end = has_end or b"</mediawiki>" in piece
            has_beginning = has_beginning or b"<mediawiki" in piece
            if not (has_beginning or is_headless) and _END_OF_PAGE.search(piece):
                is_headless = True
                yield Reject(number, "cut_off", f"the XML before line {number} is missing")
        if has_beginning and not (has_end or ends_inside):
            yield Reject(number + 1, "cut_off", f"the XML breaks off after line {number}")


def _stream_offsets(file: "InputFile") -> list[int]:
    """Returns the byte offsets at which a compressed dump may be cut; none without an index."""
    index = index_path(file.path)
    if not (index and io.exists(index)):
        return []
    try:
        with io.open_file(index) as stored:
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


def _parse_page(raw: bytes, start: int, prefixes: frozenset[str], language: str) -> Found:
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
        text, counts = strip_markup(wikitext, prefixes, language)
        return Document(text, cleaned=counts)
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

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields the prose of articles, without the title that each repeats as its first line."""
        body: list[bytes] | None = None
        start, title, is_outside = 0, b"", False
        for number, line in enumerate(lines, 1):
            if body is not None and not line.startswith(_TAGS):
                body.append(line)
            elif line.startswith(_START):
                if body is not None:
                    yield cut_off(start, _END)
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
                raw, body = b"".join(body), None
                if not raw or raw.isspace():  # Most pages have nothing below their title.
                    yield _NOTHING
                    continue
                found = decode_document(raw, start)
                yield found if isinstance(found, Reject) else extracted_article(found.text)
        if body is not None:
            yield cut_off(start, _END)


def extracted_article(text: str, title: str = "") -> Document | Skip:
    """Returns an article of WikiExtractor without its title, or that it is a redirect."""
    text = text.removeprefix(title + "\n") if title else text
    return Skip("redirect") if REDIRECT.match(text) else Document(text).clean(clean_extracted)


class WikiText(LineFormat):
    """WikiText: articles that begin with ` = Title = `."""

    name = "wikitext"
    beginning = re.compile(BEFORE_TEXT + rb"= [^=\n]+ =[ \r]*\n")

    def starts_document(self, line: bytes) -> bool:
        """Returns whether the line is the title of an article."""
        return _TITLE.match(line) is not None

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
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
