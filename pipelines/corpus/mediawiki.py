"""MediaWiki XML dumps -> documents: articles only, markup stripped. Pure."""

import html
import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from beambert.pipelines.corpus.documents import Document, Reject, Skip, not_utf8
from beambert.pipelines.corpus.wiki_markup import ENGLISH_PREFIXES, MarkupError, strip_markup

# Namespaces of every wiki (mediawiki.org, Manual:Namespace, "Built-in namespaces").
ARTICLES, MEDIA, FILES, CATEGORIES = "0", "-2", "6", "14"
_PAGE = b"<page>"
_MEDIA_NAMESPACE = re.compile(
    rf'<namespace\s+key="(?:{MEDIA}|{FILES}|{CATEGORIES})"[^>]*>([^<]*)<'.encode()
)


def starts_mediawiki(line: bytes) -> bool:
    """Whether a page starts on this line, as exports write them."""
    return line.lstrip().startswith(_PAGE)


def read_mediawiki(lines: Iterable[bytes]) -> Iterator[Document | Skip | Reject]:
    """Reads an XML export page by page: redirects and pages other than articles are skipped.

    A damaged page is rejected alone. Neither tag can occur in a page's text, where < is escaped.
    """
    prefixes = set(ENGLISH_PREFIXES)
    page: list[bytes] | None = None
    start, has_end = 0, False
    number = 0
    for number, line in enumerate(lines, 1):
        # Usually the line itself.
        for piece in re.split(rb"(?=<page>)|(?<=</page>)", line) if b"page>" in line else [line]:
            if piece.startswith(_PAGE):
                if page is not None:
                    yield _cut_off(start)
                page, start = [], number
            if page is None:
                for match in _MEDIA_NAMESPACE.finditer(piece):
                    prefixes.add(html.unescape(match[1].decode("utf-8", "replace")).lower())
                has_end = has_end or b"</mediawiki>" in piece
                continue
            page.append(piece)
            if piece.endswith(b"</page>"):
                yield _parse_page(b"".join(page), start, frozenset(prefixes))
                page = None
    if page is not None:
        yield _cut_off(start)
    elif not has_end:
        yield Reject(number + 1, "cut_off", f"the XML breaks off after line {number}")


def _cut_off(start: int) -> Reject:
    return Reject(start, "cut_off", f"the page that starts on line {start} has no </page>")


def _parse_page(raw: bytes, start: int, prefixes: frozenset[str]) -> Document | Skip | Reject:
    try:
        raw.decode("utf-8")
        return _read_page(ElementTree.fromstring(raw), prefixes)
    except UnicodeDecodeError as error:
        return not_utf8(raw, start, error)
    except (ElementTree.ParseError, MarkupError) as error:
        detail = f"the page that starts on line {start} is damaged ({error})"
        return Reject(start, "damaged_page", detail)


def _read_page(page: ElementTree.Element, media_prefixes: frozenset[str]) -> Document | Skip:
    fields = {element.tag: element for element in page.iter()}
    if "ns" in fields and fields["ns"].text != ARTICLES:
        return Skip("not_an_article")
    if "redirect" in fields:
        return Skip("redirect")
    text = fields["text"].text if "text" in fields else None
    return Document(strip_markup(text or "", media_prefixes))
