"""Reads pages of the web, books and abstracts: WET, EPUB, PubMed's XML, and HTML in rows. Pure."""

import re
import zipfile
from html.parser import HTMLParser
from typing import BinaryIO
from urllib.parse import unquote
from xml.etree import ElementTree

from beambert.pipelines.corpus.base import (
    BEFORE_TEXT,
    MOST_DOCUMENT_BYTES,
    TEXT_ALONE,
    FilePart,
    Format,
    LineFormat,
    Lines,
    ReadOptions,
    Report,
    Rows,
    xml_elements,
)
from beambert.pipelines.corpus.cleaning import NO_SPACES, PARAGRAPHS
from beambert.pipelines.corpus.documents import Document, Found, Reject, Skip, decode_document
from beambert.pipelines.corpus.remains import DROPPED_ELEMENTS, OTHER_ELEMENTS

# Elements of HTML without content, and those that stand inside of a line; all others begin one.
_VOID = frozenset(("br", "hr", "img", "input", "link", "meta", "source", "wbr"))
_INLINE = frozenset(OTHER_ELEMENTS) - {"details", "section"} | {"br"}
# Elements whose content is no prose, besides those of wikis, and classes of MediaWiki's pages.
_DROPPED = (DROPPED_ELEMENTS - _VOID) | {
    "head", "title", "nav", "header", "footer", "aside", "form", "button", "select", "noscript",
    "svg", "iframe",
}  # fmt: skip
_DROPPED_CLASS = re.compile(
    r"\b(?:reference|mw-ref|mw-editsection|hatnote|infobox|navbox|metadata|noprint|thumb)\b"
)
# The beginning of a page, or of a piece of one, up to the end of an element.
_PAGE = re.compile(
    r"\s*<(?:!doctype\s+html|(?:html|body|div|p|h[1-6]|ul|ol|table|article|section)\b[^<>]*>.*</[a-z])",
    re.IGNORECASE | re.DOTALL,
)


def html_text(html: str) -> str:
    """Returns the prose of a page of HTML, one paragraph a line: no lists, tables and headings."""
    parser = _Paragraphs()
    parser.feed(html)
    parser.close()
    lines = "".join(parser.parts).split("\n")
    return "\n".join(" ".join(line.split()) for line in lines if re.search(r"[^\W\d_]", line))


def clean_page(document: Document) -> Document:
    """Returns the document of a row, without its tags if it is a page of HTML."""
    is_page = _PAGE.match(document.text)
    return document.clean(lambda text: (html_text(text), {"page": 1})) if is_page else document


class _Paragraphs(HTMLParser):
    """Collects the text of a page; elements that are not closed end with the one around them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[tuple[str, bool]] = []  # names, and whether their content is dropped
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            self.parts.append(" ")  # The paragraph goes on.
        elif tag not in _INLINE:
            self.parts.append("\n")
        if tag in _VOID:
            return
        classes = next((value or "" for name, value in attrs if name == "class"), "")
        is_dropped = tag in _DROPPED or bool(_DROPPED_CLASS.search(classes))
        self._open.append((tag, is_dropped or self._is_dropped))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _INLINE:
            self.parts.append("\n")
        names = [name for name, _ in self._open]
        if tag in names:
            del self._open[len(names) - 1 - names[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if not self._is_dropped:
            data = NO_SPACES.sub("", data) if "\n" in data else data
            self.parts.append(re.sub(r"\s+", " ", data))

    @property
    def _is_dropped(self) -> bool:
        return bool(self._open) and self._open[-1][1]


class WebArchive(LineFormat):
    """WET files of Common Crawl: a document for each `conversion` record, the text of a page.

    The `response` records of WARC files are HTML in HTTP, and are rejected with advice.
    """

    name = "wet"
    is_utf8 = True
    beginning = re.compile(BEFORE_TEXT + rb"WARC/[01]\.\d+\r?\n")

    def starts_document(self, line: bytes) -> bool:
        """Returns whether a record starts on this line."""
        return self.beginning.fullmatch(line) is not None

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields the pages; other records that describe the archive are skipped."""
        fields: dict[bytes, bytes] = {}
        body: list[bytes] = []
        start, left, is_header = 0, 0, False
        for number, line in enumerate(lines, 1):
            if is_header and line.strip():
                name, _, value = line.partition(b":")
                fields[name.strip().lower()] = value.strip()
            elif is_header:
                length = fields.get(b"content-length", b"")
                left, start, is_header = int(length) if length.isdigit() else 0, number + 1, False
            elif left > 0:
                body.append(line[:left])
                left -= len(line)
            elif self.starts_document(line):
                if fields:
                    yield _page(fields, body, start)
                fields, body, is_header = {}, [], True
        if fields:
            if left > 0:
                yield Reject(start, "cut_off", f"the record that starts on line {start} has no end")
            else:
                yield _page(fields, body, start)


def _page(fields: dict[bytes, bytes], body: list[bytes], start: int) -> Found:
    kind = fields.get(b"warc-type", b"").decode("ascii", "replace").lower()
    if not fields.get(b"content-length", b"").isdigit():
        return Reject(start, "no_length", f"the record on line {start} does not tell its length")
    if kind == "conversion":
        return decode_document(b"".join(body), start)
    if kind in ("response", "resource"):
        return Reject(
            start,
            "web_page",
            f"the record on line {start} is a page as it was sent; take the text out with "
            "trafilatura and write JSON Lines, or fetch the archive's WET file",
        )
    return Skip("web_archive_record")


class PubMed(LineFormat):
    """PubMed's XML: the abstract of each article, whose parts are paragraphs."""

    name = "pubmed"
    layout = PARAGRAPHS
    is_utf8 = True
    beginning = re.compile(
        BEFORE_TEXT + rb"(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE\s+PubmedArticleSet[^>]*>\s*)?"
        rb"<PubmedArticle(?:Set)?\b"
    )

    def starts_document(self, line: bytes) -> bool:
        """Returns whether an article starts on this line."""
        return line.lstrip().startswith((b"<PubmedArticle>", b"<PubmedArticle "))

    def read_lines(self, lines: Lines, options: ReadOptions = TEXT_ALONE) -> Rows:
        """Yields the abstracts; an article without one is skipped."""
        for found in xml_elements(lines, b"PubmedArticle"):
            if isinstance(found, Reject):
                yield found
            elif found[2]:
                yield _abstract(found[1], found[0])


def _abstract(raw: bytes, start: int) -> Found:
    try:
        article = ElementTree.fromstring(raw)
    except ElementTree.ParseError as error:
        detail = f"the article that starts on line {start} is damaged ({error})"
        return Reject(start, "damaged_article", detail)
    parts = (" ".join("".join(part.itertext()).split()) for part in article.iter("AbstractText"))
    text = "\n".join(filter(None, parts))
    return Document(text) if text else Skip("no_abstract")


class Epub(Format):
    """EPUB books: each is one document, the prose of its pages in the order of reading."""

    name = "epub"
    layout = PARAGRAPHS
    is_utf8 = True
    beginning = re.compile(rb"PK\x03\x04.{26}mimetypeapplication/epub\+zip", re.DOTALL)

    def read(self, part: FilePart, stored: BinaryIO, options: ReadOptions, report: Report) -> Rows:
        """Yields the book, or the reject of a file that is damaged or encrypted."""
        try:
            with zipfile.ZipFile(stored) as archive:
                pages = [_text_in(archive, path) for path in _pages_of(archive)]
        except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, ValueError, OSError) as error:
            yield Reject(1, "damaged_book", f"cannot be read as an EPUB book ({error})")
            return
        yield Document("\n".join(map(html_text, pages)))


def _pages_of(archive: zipfile.ZipFile) -> list[str]:
    """Returns the paths of a book's pages in the order of reading (EPUB 3.3, section 5)."""
    container = ElementTree.fromstring(archive.read("META-INF/container.xml"))
    root = next(each.attrib["full-path"] for each in container.iter() if "full-path" in each.attrib)
    package = ElementTree.fromstring(archive.read(root))
    folder = root.rpartition("/")[0]
    paths = {
        item.attrib["id"]: f"{folder}/{unquote(item.attrib['href'])}".lstrip("/")
        for item in package.iter()
        if item.tag.endswith("}item")
    }
    spine = (item for item in package.iter() if item.tag.endswith("}itemref"))
    return [paths[item.attrib["idref"]] for item in spine if item.get("linear") != "no"]


def _text_in(archive: zipfile.ZipFile, path: str) -> str:
    if archive.getinfo(path).file_size > MOST_DOCUMENT_BYTES:
        raise ValueError(f"{path} has more than {MOST_DOCUMENT_BYTES:,} bytes")
    return archive.read(path).decode("utf-8-sig")
