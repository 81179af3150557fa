"""Turns wiki markup into prose. Pure.

Like the BERT paper (section 3), this module takes "only the text passages" of Wikipedia "and
ignores lists, tables, and headers". It uses only the tokenizer of mwparserfromhell. The library's
tree would take three quarters of the time, most of it for templates that are dropped.
"""

import dataclasses
import html
import re
from collections import Counter
from collections.abc import Iterator

from mwparserfromhell.parser import CTokenizer, ParserError, tokens
from mwparserfromhell.parser.tokenizer import Tokenizer

from beambert.pipelines.corpus.cleaning import DROPPED_ELEMENTS, GAP, close_gaps

MarkupError = ParserError

# English names of namespaces, which wikis of every language understand besides their own names.
ENGLISH_PREFIXES = ("media", "file", "image", "category")
# Tokens that start and end markup without visible prose; everything inside is dropped, too.
_DROPPED_FROM = {
    tokens.TemplateOpen, tokens.ArgumentOpen, tokens.CommentStart, tokens.HeadingStart,
}  # fmt: skip
_DROPPED_TO = {
    tokens.TemplateClose, tokens.ArgumentClose, tokens.CommentEnd, tokens.HeadingEnd,
}  # fmt: skip
# Matches links to the same article in another language ("fr:", "be-x-old:"), in dumps before 2013.
_LANGUAGE_LINK = re.compile(r"(?:[a-z]{2,3}(?:-[a-z-]+)?|simple):")
# Signs of list items at the start of a line. The parser makes an element of each in some
# microseconds, though lines with one are dropped. Of a page with more signs than any article has,
# items without other markup are left out before (in <nowiki>, too), and all signs but the first.
_SIGNS = re.compile(r"(?<![^\n])([*#:;])([*#:;]*)")
_PLAIN_ITEMS = re.compile(r"(?<![^\n])(?:[*#:;][^\n<>{}\[\]&'|]*\n)+")
_MANY_SIGNS = 20_000
# Marks in the text of a list item and of dropped markup. XML cannot contain these characters.
_LIST_ITEM, _DROPPED = "\x00", GAP
# Markers whose ends are counted.
_MARKS = re.compile(
    r"^\{\||^\|\}(?!\})|\{\{|\}\}|\[\[|\]\]|\[(?=http|//)|\]|<!--|-->|</?[A-Za-z]+|/?>",
    re.MULTILINE,
)
# End of a marker -> its beginning. Single closing brackets end links to other sites.
_ENDS = {"|}": "{|", "}}": "{{", "]]": "[[", "]": "[", "-->": "<!--"}
# Elements that have no end, or whose end may be left out.
_WITHOUT_END = {"br", "hr", "wbr", "li", "dt", "dd", "td", "th", "tr", "p", "img", "references"}
# Greatest product of the page's length and the number of its unclosed markers; the parser takes up
# to 0.15 seconds a million for the first kind, and a twentieth of that for the second.
_MOST_COSTLY, _MOST_CHEAP = 5_000_000, 100_000_000
_CHEAP = ("[", "<!--", "element")


def strip_markup(
    wikitext: str, media_prefixes: frozenset[str] = frozenset(ENGLISH_PREFIXES)
) -> str:
    """Returns the prose of a page, one paragraph a line.

    Args:
      wikitext: source text of the page.
      media_prefixes: lower-case names of the namespaces whose links show no text.

    Raises:
      MarkupError: the markup cannot be parsed.
    """
    tokenizer = CTokenizer() if CTokenizer else Tokenizer()
    if sum(len(match[0]) for match in _SIGNS.finditer(wikitext)) > _MANY_SIGNS:
        wikitext = _SIGNS.sub(r"\1", _PLAIN_ITEMS.sub("\n", wikitext))
    text = _visible_text(tokenizer.tokenize(wikitext, 0, True), media_prefixes)
    # A line that is all bold serves as a heading and is dropped. Bold and italic marks and magic
    # words are dropped next.
    text = re.sub(r"^[ \t]*'''[^'\n]+'''[ \t]*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"'{2,5}|__[A-Z]+__", "", text)
    text = close_gaps(text)
    lines = (re.sub(r"[ \t\xa0]+", " ", line).strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if re.search(r"\w", line) and _LIST_ITEM not in line)


@dataclasses.dataclass(slots=True)
class _Frame:
    """A link or an element that is open.

    Attributes:
      parts: visible text of the open part: a link's target or text, or an element's name,
        attribute, content or closing name.
      first: the first part: a link's target or an element's name.
      content: visible text of an element, once it is complete.
      is_wiki_markup: True if the element isn't written as a tag.
    """

    parts: list[str] = dataclasses.field(default_factory=list)
    first: str | None = None
    content: str = ""
    is_wiki_markup: bool = False

    def take(self) -> str:
        """Returns the open part, which is now complete, and starts the next one."""
        part = "".join(self.parts)
        self.parts.clear()
        return part


def _visible_text(found: list[tokens.Token], media_prefixes: frozenset[str]) -> str:
    """Returns the visible text of tokens; lines of list items contain a mark."""
    stack = [_Frame()]
    pending = iter(found)
    for token in pending:
        kind = type(token)
        frame = stack[-1]
        if kind is tokens.Text:
            frame.parts.append(token["text"])
        elif kind in _DROPPED_FROM:
            _skip(pending)
            frame.parts.append("" if kind is tokens.HeadingStart else _DROPPED)
        elif kind is tokens.HTMLEntityStart:
            frame.parts.append(_entity(pending))
        elif kind in (tokens.WikilinkOpen, tokens.ExternalLinkOpen):
            stack.append(_Frame())
        elif kind in (tokens.WikilinkSeparator, tokens.ExternalLinkSeparator, tokens.TagCloseOpen):
            name = frame.take()
            frame.first = name if frame.first is None else frame.first
        elif kind is tokens.WikilinkClose:
            stack.pop()
            stack[-1].parts.append(_shown_of_link(frame, media_prefixes))
        elif kind is tokens.ExternalLinkClose:
            stack.pop()
            stack[-1].parts.append(_DROPPED if frame.first is None else frame.take())
        elif kind is tokens.TagOpenOpen:
            stack.append(_Frame(is_wiki_markup=bool(token.get("wiki_markup"))))
        elif kind is tokens.TagAttrStart:
            name = frame.take()
            frame.first = name if frame.first is None else frame.first
        elif kind is tokens.TagOpenClose:
            frame.content = frame.take()
        elif kind in (tokens.TagCloseSelfclose, tokens.TagCloseClose):
            name = frame.take() if frame.first is None else frame.first
            stack.pop()
            stack[-1].parts.append(_shown_of_element(name, frame))
    return stack[0].take()


def _skip(pending: Iterator[tokens.Token]) -> None:
    """Consumes the tokens up to the end of the markup that has just started."""
    depth = 1
    while depth:
        kind = type(next(pending))
        depth += (kind in _DROPPED_FROM) - (kind in _DROPPED_TO)


def _entity(pending: Iterator[tokens.Token]) -> str:
    """Returns the character of an entity that has just started."""
    written = "&"
    for token in pending:
        kind = type(token)
        if kind is tokens.HTMLEntityEnd:
            break
        is_hex = kind is tokens.HTMLEntityHex
        written += "#" if kind is tokens.HTMLEntityNumeric else "x" if is_hex else token["text"]
    return html.unescape(written + ";")


def _shown_of_link(frame: _Frame, media_prefixes: frozenset[str]) -> str:
    target = "".join(frame.parts) if frame.first is None else frame.first
    # A target with a colon in front is a visible link to the page of a picture or a category. Its
    # prefix is empty here.
    prefix = target.strip().partition(":")[0].lower()
    is_elsewhere = frame.first is None and _LANGUAGE_LINK.match(target)
    if prefix in media_prefixes or is_elsewhere:
        return ""
    return "".join(frame.parts).lstrip(":")


def _shown_of_element(name: str, frame: _Frame) -> str:
    name = name.strip().lower()
    if name in ("li", "dd", "dt") and frame.is_wiki_markup:
        return _LIST_ITEM
    if name == "br":
        return "\n"
    return _DROPPED if name in DROPPED_ELEMENTS else frame.content


def is_tangled(wikitext: str) -> bool:
    """Returns whether a page has so many markers without an end that parsing takes minutes.

    For each marker without its end the parser reads on to the end of the page and then starts
    again. So its time is bounded by the number of such markers times the length of the page, which
    one pass over the page counts. The result doesn't depend on the machine.
    """
    unclosed = count_unclosed(wikitext)
    cheap = sum(unclosed[kind] for kind in _CHEAP)
    costly = unclosed.total() - cheap
    length = len(wikitext)
    return costly * length > _MOST_COSTLY or cheap * length > _MOST_CHEAP


def count_unclosed(wikitext: str) -> Counter[str]:
    """Returns kind -> number of markers without an end.

    The kinds are the beginnings of the markers, "tag" for tags without ">", and "element" for
    elements without a closing tag.
    """
    opened: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    unclosed: Counter[str] = Counter()
    tag = ""  # name of the tag that is open, with "/" in front if it closes an element
    for match in _MARKS.finditer(wikitext):
        mark = match[0]
        if mark in (">", "/>"):
            name = tag.removeprefix("/")
            if tag and mark == ">" and name not in _WITHOUT_END:
                if tag == name:
                    elements[name] += 1
                elif elements[name]:
                    elements[name] -= 1
            tag = ""
        elif mark in _ENDS:
            beginning = _ENDS[mark]
            if opened[beginning]:
                opened[beginning] -= 1
        elif mark[0] == "<" and mark != "<!--":
            unclosed["tag"] += bool(tag)
            tag = mark[1:].lower()
        else:
            opened[mark] += 1
    unclosed["tag"] += bool(tag)
    unclosed["element"] += elements.total()
    return unclosed + opened
