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

from beambert.pipelines.corpus.cleaning import MOST_OF_A_LINE, ends_sentence, substitute
from beambert.pipelines.corpus.documents import DEFAULT_LANGUAGE
from beambert.pipelines.corpus.remains import (
    DROPPED_ELEMENTS,
    GAP,
    GOES_ON,
    HOLE,
    clean_wikiextractor,
    drop_holes,
)
from beambert.pipelines.corpus.wiki_templates import template
from beambert.pipelines.text.cleaning import UNSPACED

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
_SEPARATORS = {
    tokens.WikilinkSeparator, tokens.ExternalLinkSeparator, tokens.TagCloseOpen, tokens.TagAttrStart
}  # fmt: skip
# Matches links to the same article in another language ("fr:", "be-x-old:"), in dumps before 2013.
_LANGUAGE_LINK = re.compile(r"(?:[a-z]{2,3}(?:-[a-z-]+)?|simple):")
# Marks in the text of a list item, of dropped markup, and of a template or a formula whose text is
# not known, and the break of a line. XML cannot contain these characters.
_LIST_ITEM, _DROPPED, _HOLE, _BREAK = "\x00", GAP, HOLE, "\x03"
_BREAK_WITHIN = re.compile(rf"{_BREAK}(?={GOES_ON.pattern})")
# A hole that no sentence has: at the beginning of a line or a bracket, behind a word without a
# space, or between two sentences.
_NO_HOLE = re.compile(
    rf"(?<![^\n({_DROPPED}{_HOLE}]){_HOLE}(?![はがをのにともでへや])"
    rf"|(?<=[^\s({_DROPPED}–—-]){_HOLE}(?![{_DROPPED}{_HOLE}]*[{UNSPACED}])"
    rf"|(?<=[.!?…:;,])[ \xa0]*{_HOLE}(?=[ \xa0{_DROPPED}{_HOLE}]*(?:\n|\Z|[A-Z]))"
)
# Dropped markup before a small letter was the beginning of a sentence.
_CUT_BEGINNING = re.compile(rf"(?m)(?:^|(?<=[.!?] ))[ {_DROPPED}]*{_DROPPED} *(?=[a-zß-ÿ])")
# Endings of the names of files.
_FILE = r"\.(?:jpe?g|png|gif|svg|webp|tiff?|og[agv]|webm|wav|mp3|mid|flac|pdf|djvu|stl)\s*"
# The beginnings of markup whose end is missing, and what goes with them: the rest of the page after
# a comment, of the paragraph after a note, of the line after a template or a link
# to a file, the target of another link, the variants of a word.
_BEGINNING = re.compile(
    rf"<(?:!--|ref|gallery)|\{{[\{{\w]|\[[\[{_DROPPED}]|\|(?<=^\|)\}}|-->", re.MULTILINE
)
_WITHOUT_ITS_END = re.compile(
    rf"<!--.*\Z|<ref\b[^\n]*|\{{\{{[^\n{{}}]*$|-\{{[a-z-]+:[^\n{{}}]*$"
    rf"|\[\[[^\[\]|\n]{{0,300}}?{_FILE}\|[^\n]*|\[\[[^\[\]|\n]{{0,300}}\|(?![^\[\]\n]*\]\])"
    rf"|^[^\s:|]{{1,30}}:[^\n|]*{_FILE}(?:\|[^\n]*)?$|\[(?={_DROPPED})|^\|\}}|-->",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
# A bracket with a hole, without which the sentence is whole; and a formula that is its own text.
_BRACKET_WITH_HOLE = re.compile(rf"\([^()\n{_HOLE}]*{_HOLE}[^()\n]*\)")
_FORMULAS, _SIMPLE_FORMULA = ("math", "chem", "ce"), re.compile(r"[\w\s+=<>*/.,()'-]{1,40}")
# Runs of apostrophes: italic, bold, both.
_APOSTROPHES = re.compile("'{2,}")
_POSSESSIVE = re.compile(r"s\b")
# A line of links to categories, files or other wikis, with names that the dump does not list; and
# the name of a file.
_LINE_OF_LINKS = re.compile(
    r"^(?:\[\[[^\W\d_][\w -]{0,30}:(?! )[^\[\]\n|]{1,300}(?:\|[^\[\]\n]{0,100})?\]\][ \t]*)+$",
    re.MULTILINE,
)
_FILE_NAME = re.compile(rf"[^:|]+:[^|]*{_FILE}", re.IGNORECASE)
_OF_NAMESPACE = re.compile(r"\s*[^\W\d_][^\W\d_ ]*(?: [^\W\d_]+)?:[^\s:]")
# Variants of Chinese, Serbian, Kazakh, Kurdish and Uzbek: "-{zh-hans:…; zh-hant:…}-". Flags come
# before a bar; T and H show nothing (mediawiki.org, "Writing systems/Syntax").
_VARIANTS = re.compile(r"-\{(?!\{)(?:([\w; -]{0,40})\|)?((?:[^{}]|\{\{[^{}]*\}\}){0,2000})\}-")
_VARIANT = re.compile(r"\s*(?:[^;:]{0,60}=>)?([a-z]{2,3}(?:-[a-z]{2,4})?)\s*:\s*([^;]*)(?:;|\Z)")
_SIMPLIFIED = ("zh-hans", "zh-cn")
# Markers whose ends are counted. An expression is several times as fast if each of its alternatives
# begins with a character.
_MARKS = re.compile(
    r"\{(?:\{|(?<=^\{)\|)|\|(?<=^\|)\}(?!\})|\}\}|\[(?:\[|(?=http|//))|\]\]?|<(?:!--|/?[A-Za-z]+)"
    r"|-->|/>|>",
    re.MULTILINE,
)
# End of a marker -> its beginning. Single closing brackets end links to other sites.
_ENDS = {"|}": "{|", "}}": "{{", "]]": "[[", "]": "[", "-->": "<!--"}
# Elements that have no end, or whose end may be left out.
_WITHOUT_END = {"br", "hr", "wbr", "li", "dt", "dd", "td", "th", "tr", "p", "img", "references"}
# Greatest product of the page's length and the number of its unclosed markers, of which these kinds
# take the parser a twentieth of the time. It takes up to 0.15 seconds a million.
_MOST_UNCLOSED = 5_000_000
_CHEAP = ("[", "<!--", "element")


def strip_markup(
    wikitext: str,
    media_prefixes: frozenset[str] = frozenset(ENGLISH_PREFIXES),
    language: str = DEFAULT_LANGUAGE,
) -> tuple[str, Counter[str]]:
    """Returns the prose of a page, one paragraph a line, and what was removed by reason.

    A sentence with a template or a formula whose text is not known is removed as a whole.

    Args:
      wikitext: source text of the page.
      media_prefixes: lower-case names of the namespaces whose links show no text.
      language: code of the page's language, for the ends of sentences with a hole.

    Raises:
      MarkupError: the markup cannot be parsed.
    """
    wikitext = _LINE_OF_LINKS.sub("", wikitext)
    if "-{" in wikitext:
        wikitext = _VARIANTS.sub(_shown_variant, wikitext)
    text = visible_text(wikitext, media_prefixes)
    if _BREAK in text:
        text = _BREAK_WITHIN.sub(" ", text).replace(_BREAK, "\n")
    # A line that is all bold serves as a heading and is dropped. Bold and italic marks and magic
    # words are dropped next.
    text = re.sub(r"^[ \t]*'''[^'\n]+'''[ \t]*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"__[A-Z]+__", "", text)
    lines = [
        _without_apostrophes(line) if "''" in line else line
        for line in _joined_lines(text.split("\n"))
    ]
    text = "\n".join(
        _NO_HOLE.sub(_DROPPED, _BRACKET_WITH_HOLE.sub(_DROPPED, line)) if _HOLE in line else line
        for line in lines
        if _LIST_ITEM not in line
    )
    text = _CUT_BEGINNING.sub(f" {_HOLE} ", text)
    counts: Counter[str] = Counter()
    if _BEGINNING.search(text):  # All that has an end is gone.
        text = substitute(_WITHOUT_ITS_END, _DROPPED, text, counts, "markup_without_end")
    text, remains = clean_wikiextractor(text)
    counts += remains
    lines = [re.sub(r"[ \t\xa0]{2,}|[\t\xa0]", " ", line).strip() for line in text.split("\n")]
    text = drop_holes("\n".join(lines), language, counts)
    return "\n".join(line for line in text.split("\n") if re.search(r"\w", line)), counts


def _joined_lines(lines: list[str]) -> list[str]:
    """Returns the lines of a page, joined where a sentence goes on.

    Adjacent lines are one paragraph to MediaWiki; some articles are hard-wrapped.
    """
    joined = lines[:1]
    for line in lines[1:]:
        before = joined[-1].rstrip(f" \t{_DROPPED}{_HOLE}")
        is_whole = not before or ends_sentence(before) or _LIST_ITEM in before + line
        if not is_whole and (
            line[:1].islower() or (len(before) >= MOST_OF_A_LINE / 2 and line[:1].isalnum())
        ):
            joined[-1] += " " + line
        else:
            joined.append(line)
    return joined


def _shown_variant(match: re.Match[str]) -> str:
    """Returns the variant in simplified Chinese, else the first one, or text without variants."""
    if {"T", "H"} & {flag.strip() for flag in (match[1] or "").split(";")}:
        return ""
    if not _VARIANT.match(match[2]):
        return match[2]
    variants = _VARIANT.findall(match[2])
    return next((text for code, text in variants if code in _SIMPLIFIED), variants[0][1]).strip()


def _without_apostrophes(line: str) -> str:
    """Returns a line without the marks of italic and bold type.

    MediaWiki takes three apostrophes for one and two where the marks of a line do not pair (its
    Parser.php, doQuotes): L\'\'\'Iliade\'\', \'\'Eagle\'\'\'s engine. Here this is decided at each
    mark, so that several of them on a line are right.
    """
    runs = list(_APOSTROPHES.finditer(line))
    shown, end = [], 0
    is_italic = is_bold = False
    for number, run in enumerate(runs):
        shown.append(line[end : run.start()])
        end, size = run.end(), len(run[0])
        if size == 4 or size > 5:  # One of four, and all but five of more, are apostrophes.
            shown.append("'" * (size - (3 if size == 4 else 5)))
            size = 3 if size == 4 else 5
        following = len(runs[number + 1][0]) if number + 1 < len(runs) else 0
        if size == 3 and not is_bold:
            is_of_word = line[run.start() - 1 : run.start()].isalpha()
            can_end = following > 2
            if (is_of_word and is_italic and _POSSESSIVE.match(line, end)) or not can_end:
                shown.append("'" if is_of_word else "")
                size = 2
        is_italic ^= size in (2, 5)
        is_bold ^= size in (3, 5)
    return "".join([*shown, line[end:]])


def visible_text(wikitext: str, media_prefixes: frozenset[str]) -> str:
    """Returns the text that a page shows, with the marks of this module; see `strip_markup`."""
    tokenizer = CTokenizer() if CTokenizer else Tokenizer()
    return _visible_text(tokenizer.tokenize(wikitext, 0, True), media_prefixes)


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
        elif kind is tokens.TemplateOpen:
            frame.parts.append(_shown_of_template(list(_inside(pending)), media_prefixes))
        elif kind in _DROPPED_FROM:
            for _ in _inside(pending):
                pass
            frame.parts.append("" if kind is tokens.HeadingStart else _DROPPED)
        elif kind is tokens.HTMLEntityStart:
            frame.parts.append(_entity(pending))
        elif kind in (tokens.WikilinkOpen, tokens.ExternalLinkOpen):
            stack.append(_Frame())
        elif kind in _SEPARATORS:
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
        elif kind is tokens.TagOpenClose:
            frame.content = frame.take()
        elif kind in (tokens.TagCloseSelfclose, tokens.TagCloseClose):
            name = frame.take() if frame.first is None else frame.first
            stack.pop()
            stack[-1].parts.append(_shown_of_element(name, frame))
    return stack[0].take()


def _inside(pending: Iterator[tokens.Token]) -> Iterator[tokens.Token]:
    """Yields the tokens up to the end of the markup that has just started."""
    depth = 1
    for token in pending:
        depth += (type(token) in _DROPPED_FROM) - (type(token) in _DROPPED_TO)
        if not depth:
            return
        yield token


def _shown_of_template(found: list[tokens.Token], media_prefixes: frozenset[str]) -> str:
    """Returns what a template shows, given the tokens inside of it; a hole if that is not known."""
    name = found[0]["text"] if found and type(found[0]) is tokens.Text else ""
    how = template(name)
    if how is None:
        return _HOLE
    parts: list[list[tokens.Token]] = [[]]
    keys: list[list[tokens.Token] | None] = [None]
    depth = 0
    for token in found:
        kind = type(token)
        depth += (kind is tokens.TemplateOpen) - (kind is tokens.TemplateClose)
        if kind is tokens.TemplateParamSeparator and not depth:
            parts.append([])
            keys.append(None)
        elif kind is tokens.TemplateParamEquals and not depth and keys[-1] is None:
            keys[-1], parts[-1] = parts[-1], []
        else:
            parts[-1].append(token)
    given, named = [], {}
    for key, part in zip(keys[1:], parts[1:], strict=True):
        text = _visible_text(part, media_prefixes).strip()
        if key is None or (word := _visible_text(key, media_prefixes).strip()).isdecimal():
            given.append(text)
        else:
            named[word] = text
    text = how(given, named)
    return _HOLE if text is None else text or _DROPPED


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
    if prefix in media_prefixes or is_elsewhere or _FILE_NAME.match(target):
        return _DROPPED
    if frame.first is None and _OF_NAMESPACE.match(target):
        return _HOLE  # Mostly a category, in a wiki whose names of namespaces are missing.
    return "".join(frame.parts).lstrip(":")


def _shown_of_element(name: str, frame: _Frame) -> str:
    name = name.strip().lower()
    if name in ("li", "dd", "dt") and frame.is_wiki_markup:
        return _LIST_ITEM
    if name == "br":
        return _BREAK
    if name in _FORMULAS:
        return frame.content if _SIMPLE_FORMULA.fullmatch(frame.content) else _HOLE
    return _DROPPED if name in DROPPED_ELEMENTS else frame.content


def is_tangled(wikitext: str) -> bool:
    """Returns whether a page has so many markers without an end that parsing takes minutes.

    For each marker without its end the parser reads on to the end of the page and then starts
    again. So its time is bounded by the number of such markers times the length of the page, which
    one pass over the page counts. The result doesn't depend on the machine.
    """
    unclosed = count_unclosed(wikitext)
    cheap = sum(unclosed[kind] for kind in _CHEAP)
    return (unclosed.total() - 0.95 * cheap) * len(wikitext) > _MOST_UNCLOSED


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
