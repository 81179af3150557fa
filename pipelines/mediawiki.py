"""MediaWiki XML dumps -> documents: articles only, markup stripped. Pure.

The paper (section 3) takes "only the text passages" of Wikipedia "and ignores lists, tables, and
headers"; so do we.
"""

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

import mwparserfromhell
from mwparserfromhell.nodes import ExternalLink, HTMLEntity, Tag, Text, Wikilink
from mwparserfromhell.wikicode import Wikicode

from pipelines.documents import Document, Reject, Skip

# Namespaces of every wiki (mediawiki.org, Manual:Namespace, "Built-in namespaces").
ARTICLES, MEDIA, FILES, CATEGORIES = "0", "-2", "6", "14"
# Names that dumps of every language understand beside their own.
ENGLISH_PREFIXES = ("media", "file", "image", "category")
# Elements whose content isn't prose.
DROPPED_TAGS = {
    "ref", "references", "table", "gallery", "math", "chem", "score", "syntaxhighlight", "source",
    "timeline", "code", "pre", "imagemap", "graph", "mapframe", "templatestyles", "indicator",
    "hiero", "li", "dd", "dt",
}
# Set apart while a page is walked; XML can't contain it.
LIST_ITEM = "\x00"


def read_mediawiki(lines: Iterable[bytes]) -> Iterator[Document | Skip | Reject]:
    """Reads an XML export line by line: redirects and pages other than articles are skipped."""
    parser = ElementTree.XMLPullParser(events=("start", "end"))
    prefixes = frozenset(ENGLISH_PREFIXES)
    stack: list[ElementTree.Element] = []
    number = 0
    try:
        for line in lines:
            number += 1
            parser.feed(line)
            for event, element in parser.read_events():
                if event == "start":
                    stack.append(element)
                    continue
                stack.pop()
                name = _local_name(element)
                if name == "namespace" and element.get("key") in (MEDIA, FILES, CATEGORIES):
                    prefixes |= {(element.text or "").lower()}
                elif name == "page":
                    yield _read_page(element, prefixes)
                    # Pages hang on their parent; a dump of them doesn't fit into memory.
                    stack[-1].remove(element)
        parser.close()
    except ElementTree.ParseError as error:
        yield Reject(number, "cut_off", f"the XML breaks off or is damaged ({error})")


def _local_name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _read_page(page: ElementTree.Element, media_prefixes: frozenset[str]) -> Document | Skip:
    fields = {_local_name(element): element for element in page.iter()}
    if "ns" in fields and fields["ns"].text != ARTICLES:
        return Skip("not_an_article")
    if "redirect" in fields:
        return Skip("redirect")
    text = fields["text"].text if "text" in fields else None
    return Document(strip_markup(text or "", media_prefixes))


def strip_markup(
    wikitext: str, media_prefixes: frozenset[str] = frozenset(ENGLISH_PREFIXES)
) -> str:
    """Returns the prose of a page, a paragraph a line.

    Args:
      wikitext: as the page's source has it.
      media_prefixes: lower-case names of the namespaces whose links show no text.
    """
    code = mwparserfromhell.parse(wikitext, skip_style_tags=True)
    text = "".join(_walk(code, media_prefixes))
    # Bold and italic marks, magic words, and brackets that a template has left empty.
    text = re.sub(r"'{2,5}|__[A-Z]+__|\([\s;,]*\)", "", text)
    lines = (re.sub(r"[ \t\xa0]+", " ", line).strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line and LIST_ITEM not in line)


def _walk(code: Wikicode, media_prefixes: frozenset[str]) -> Iterator[str]:
    """Yields the visible text of prose; a list item leaves its mark on its line.

    Headings, templates and comments have no visible prose.
    """
    for node in code.nodes:
        if isinstance(node, Text):
            yield node.value
        elif isinstance(node, HTMLEntity):
            yield node.normalize() or ""
        elif isinstance(node, Wikilink):
            prefix = str(node.title).strip().lstrip(":").partition(":")[0].lower()
            if prefix not in media_prefixes:
                yield from _walk(node.text if node.text is not None else node.title, media_prefixes)
        elif isinstance(node, ExternalLink):
            if node.title is not None:
                yield from _walk(node.title, media_prefixes)
        elif isinstance(node, Tag):
            tag = str(node.tag).strip().lower()
            if tag in ("li", "dd", "dt") and node.wiki_markup:
                yield LIST_ITEM
            elif tag == "br":
                yield "\n"
            elif tag not in DROPPED_TAGS and node.contents is not None:
                yield from _walk(node.contents, media_prefixes)
