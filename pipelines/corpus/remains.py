"""Cleans the prose of wikis: what WikiExtractor leaves in it, and the tokens of WikiText. Pure.

The rules are for those texts only, since any other may hold such signs.
"""

import html
import re
from collections import Counter

from beambert.pipelines.corpus.cleaning import MOST_OF_A_LINE, substitute, wrapped_width
from beambert.pipelines.corpus.documents import DEFAULT_LANGUAGE, Document
from beambert.pipelines.text.cleaning import UNSPACED_CHARACTER

# Stands where markup was cut out of a text, until `close_gaps` removes it. The tokenizer drops
# this character from text.
GAP = "\x01"
# Stands where the text of a template or a formula is not known.
HOLE = "\x02"

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# Elements of HTML and of MediaWiki's extensions, for all readers: those whose content isn't prose,
# those that begin a line, and all others that pages of wikis have.
# fmt: off
DROPPED_ELEMENTS = frozenset((
    "ref", "references", "table", "gallery", "math", "chem", "ce", "score", "syntaxhighlight",
    "source", "timeline", "code", "pre", "imagemap", "graph", "mapframe", "maplink", "templatedata",
    "templatestyles", "indicator", "hiero", "figure", "figcaption", "summary", "li", "dd", "dt",
    "rt", "rp", "style", "script", "categorytree", "inputbox", "poll", "phonos", "h1", "h2", "h3",
    "h4", "h5", "h6",
))
# Those of them that stand inside of sentences.
_PARTS_OF_SENTENCES = frozenset(("math", "chem", "ce", "code"))
_LINE_ELEMENTS = frozenset((
    "br", "p", "div", "hr", "blockquote", "center", "poem", "caption", "ul", "ol", "dl", "tr",
))
OTHER_ELEMENTS = (
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "data", "del", "details", "dfn", "em", "font",
    "i", "img", "includeonly", "ins", "kbd", "langconvert", "mark", "noinclude", "nowiki",
    "onlyinclude", "q", "rb", "rbc", "rtc", "ruby", "s", "samp", "section", "small", "span",
    "strike", "strong", "sub", "sup", "td", "th", "time", "tt", "u", "var", "wbr",
)
# fmt: on
_ELEMENT = re.compile(
    rf"<(/?)({'|'.join([*sorted(DROPPED_ELEMENTS), *sorted(_LINE_ELEMENTS), *OTHER_ELEMENTS])})"
    r"\b[^<>]{0,500}?(/?)>",
    re.IGNORECASE,
)
# A small letter behind the break of a line, in whose middle a sentence goes on.
GOES_ON = re.compile(r"[ \n]?[a-zß-öø-ÿά-ώа-џ]")
# Older versions of WikiExtractor write this behind "Section" before headings, and behind "BULLET"
# before items of lists.
EXTRACTED_MARK = "::::"
# A heading of newer ones, of at most five words; and what lists and tables leave.
_TITLE_LINE, _LONGEST_TITLE = re.compile(r"[^\W_]\S*(?: [^\s.!?:;,]+){0,4}(?<![.!?:;,])\.?"), 60
_ITEM_LINE = re.compile(r"\(?\d{1,3}[.)] .*[^.!?…:;,\"”’)]")
# WikiExtractor writes these for formulas and code.
_PLACEHOLDER = re.compile(r"\b(?:formula|codice)_\d+")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")
# A template and a link without another one inside, and their marks.
_TEMPLATE = re.compile(r"\{\{(?:[^{}]|\{(?!\{)|\}(?!\}))*\}\}")
_LINK = re.compile(r"\[\[((?:[^\[\]]|\[(?!\[)|\](?!\]))*)\]\]")
_BRACES, _BRACKETS = re.compile(r"\{\{|\}\}"), re.compile(r"\[\[|\]\]")
# Greatest number of templates or links inside of each other.
_DEEPEST = 8
_OUTSIDE_LINK = re.compile(r"\[(?:https?:)?//[^\s\[\]<>]*(?:[ \xa0]([^\[\]\n]*))?\]")
# Links to pictures and categories show no text. A title with a colon has a space after it.
_NO_TEXT_LINK = re.compile(r"[^\W\d_]+:(?! )")
# Brackets without a space before them are those of a function's name.
_EMPTY_BRACKETS = re.compile(r" \((?:[ \xa0,;:]*|[^\s()][^()\n]{0,60}(?<![,;])[ \xa0])\)")
_OPENING = re.compile(r"\([ \xa0,;:)]")
_OPENING_COMMAS = re.compile(r"\([ \xa0]*[,;][ \xa0,;:]*")
_SPACED_CLOSING = re.compile(r"\)(?<= .)")
_CLOSING_COMMA = re.compile(r"[,;][ \xa0]+\)")
_COMMAS = re.compile(r",(?:[ \xa0]*,)+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# Whole lines: rows of tables whose beginning may be gone, and their headings, which have attributes
# or are no sentences; headings; items of lists.
_TABLE_LINE = re.compile(
    r"(?:\n|\A)(?:\{?\|.*|!(?:.*[|=].*|.*(?<![.!?…])(?<![.!?…][\"'”’)])))(?=\n|\Z)"
)
_HEADING_LINE = re.compile(r"(?:\n|\A)(?:=(?:.*=)?[ \t]*|Section::::.*)(?=\n|\Z)")
_LIST_ITEM = re.compile(r"(?:\n|\A)BULLET::::.*(?=\n|\Z)")
# Where the text of a template is missing: before a mark, and all of a title.
_HOLES = {
    ".": re.compile(r"\.(?<=\w[ \xa0].)(?=\s|\Z)"),
    ",": re.compile(r",(?<=\w[ \xa0].)(?=\s|\Z)"),
    '""': re.compile(r'""(?<!""")(?!["\w])'),
}
# Where that of a template is missing with which a paragraph began: " is a river", ", the village".
_WITHOUT_BEGINNING = re.compile(r"\n(?<=[.!?…:”\")]\n)\s*(?=[,;a-zß-öø-ÿά-ώа-џ])")
# WikiText's way to write signs between the digits and letters of one word.
_JOINED = re.compile(r" @([-,.])@ ")


def close_gaps(text: str) -> str:
    """Returns a text without its gaps, and without the brackets, commas and spaces around them.

    Each pattern matches from the start of a run of such characters, so that the time grows only
    linearly with the length of the run.
    """
    if GAP not in text:
        return text
    text = re.sub(rf"\([\s;,{GAP}]*\)", GAP, text)
    text = re.sub(rf"\([\s;,:]*{GAP}[\s;,:{GAP}]*", "(", text)
    if re.search(rf"{GAP}[\s;,:]*\)", text):
        text = re.sub(rf"(?<![\s;,:{GAP}])[\s;,:{GAP}]*{GAP}[\s;,:]*\)", ")", text)
    return "\n".join(_close_gaps(line) if GAP in line else line for line in text.split("\n"))


def _close_gaps(line: str) -> str:
    line = re.sub(rf"([,;])(?:[ \xa0]*{GAP}[ \xa0{GAP}]*[,;])+", r"\1", line)
    if re.search(rf"[ \xa0{GAP}][,.;:]", line):
        before = rf"(?<![ \xa0{GAP}])({GAP}*)"
        line = re.sub(rf"{before}[ \xa0]+{GAP}[ \xa0{GAP}]*(?=[,.;:])", r"\1", line)
        line = re.sub(rf"^[ {GAP}]*{GAP}[ ]*[,.;:]", "", line)
    return line.replace(GAP, "")


def unescape(text: str, counts: Counter[str]) -> str:
    """Returns a text with the characters that its HTML entities stand for.

    WikiExtractor escapes a text whose entities were escaped already, so there are two levels.
    """
    for _ in range(2):
        if "&" in text:
            text = substitute(_ENTITY, lambda it: html.unescape(it[0]), text, counts, "entity")
    return text


def clean_wikiextractor(text: str) -> tuple[str, Counter[str]]:
    """Returns the prose of an article that WikiExtractor wrote, and what was removed by reason.

    Each rule is tried only on a text that has its characters. To look for a single one is many
    times as fast as for two. An expression that begins with a character is nearly as fast, and any
    other one many times as slow. The time is linear in the length of the text.
    """
    counts: Counter[str] = Counter()
    text = unescape(text, counts)
    if "<" in text:
        # Up to the last end, each beginning has one.
        end = text.rfind("-->") + len("-->")
        text = substitute(_COMMENT, GAP, text[:end], counts, "comment") + text[end:]
        text = _show_elements(text, counts)
    if "|" in text or "!" in text:
        text = substitute(_TABLE_LINE, "", text, counts, "table_row")
    if "{" in text or "}" in text:
        text = substitute(_TEMPLATE, GAP, text, counts, "template", _DEEPEST)
        text = substitute(_BRACES, GAP, text, counts, "template")
    if "[" in text or "]" in text:
        text = substitute(_LINK, _shown, text, counts, "link", _DEEPEST)
        text = substitute(_BRACKETS, "", text, counts, "link")
        text = substitute(_OUTSIDE_LINK, r"\1", text, counts, "link")
    if "_" in text and "__" in text:
        text = substitute(_MAGIC_WORD, "", text, counts, "magic_word")
    if "_" in text and ("formula_" in text or "codice_" in text):
        text = substitute(_PLACEHOLDER, HOLE, text, counts, "formula")
    is_marked = EXTRACTED_MARK in text
    if "=" in text and "\n=" in text or is_marked:
        text = substitute(_HEADING_LINE, "", text, counts, "heading")
    if is_marked:
        text = substitute(_LIST_ITEM, "", text, counts, "list_item")
    text = close_gaps(text)
    has_closing = _SPACED_CLOSING.search(text) is not None
    if has_closing or _OPENING.search(text):
        text = substitute(_EMPTY_BRACKETS, "", text, counts, "empty_brackets")
        text = substitute(_OPENING_COMMAS, "(", text, counts, "empty_brackets")
    text = substitute(_COMMAS, ",", text, counts, "commas")
    if has_closing:
        text = substitute(_CLOSING_COMMA, ")", text, counts, "empty_brackets")
    return text, counts


def clean_extracted(text: str) -> tuple[str, Counter[str]]:
    """Returns the prose of an article as `clean_wikiextractor` does, without headings and holes.

    WikiExtractor writes a heading as a line of a few words with a full stop: "Early life.". In an
    article that has longer lines, such a line is one unless it is the first. Lists and tables leave
    lines of a few words without a stop.
    """
    text, counts = clean_wikiextractor(text)
    with_holes, holes = text, 0
    for mark, pattern in _HOLES.items():
        with_holes, count = pattern.subn(HOLE + mark, with_holes)
        holes += count
    # In text that a tokenizer wrote, all marks stand apart from words.
    if holes and 2 * holes <= 1 + sum(map(text.count, (". ", ", ", ".\n"))):
        text = with_holes
    with_holes = _WITHOUT_BEGINNING.sub(lambda it: it[0] + HOLE, f".\n{text}")[2:]
    if with_holes != text and text != text.lower():
        text = with_holes
    text = drop_holes(text, DEFAULT_LANGUAGE, counts)
    lines = [line.rstrip() for line in text.split("\n")]
    has_headings = max(map(len, lines)) > MOST_OF_A_LINE
    first = next(filter(None, map(str.strip, lines)), "")

    def is_title(line: str) -> bool:
        if (line := line.strip()) == first:
            return False
        # In scripts without spaces and marks a line of a word may be a sentence.
        if not (_TITLE_LINE.fullmatch(line) or _ITEM_LINE.fullmatch(line)):
            return False
        return has_headings if line.endswith(".") else not UNSPACED_CHARACTER.search(line)

    titles = {line for line in lines if len(line) <= _LONGEST_TITLE and is_title(line)}
    if titles and (has_headings or not wrapped_width(lines)):
        kept = [line for line in lines if line not in titles]
        counts["heading"] += len(lines) - len(kept)
        text = "\n".join(kept)
    return text, counts


def drop_holes(text: str, language: str, counts: Counter[str]) -> str:
    """Returns a text without its sentences that have a hole."""
    if HOLE not in text:
        return text
    from beambert.pipelines.text.sentences import split_sentences

    lines = []
    for line in text.split("\n"):
        if HOLE in line:
            sentences = split_sentences(Document(line), language)
            kept = [sentence for sentence in sentences if HOLE not in sentence]
            counts["sentence_with_hole"] += len(sentences) - len(kept)
            line = " ".join(kept)
        lines.append(line)
    return "\n".join(lines)


def clean_wikitext(text: str) -> tuple[str, Counter[str]]:
    """Returns an article of WikiText with its words joined again, and what was cleaned."""
    counts: Counter[str] = Counter()
    if " @" in text:
        text = substitute(_JOINED, r"\1", text, counts, "joined_word")
    return text, counts


def _show_elements(text: str, counts: Counter[str]) -> str:
    """Drops elements whose content isn't prose, and the tags of all others."""
    # A dropped element without an end is a tag alone.
    ends = Counter(match[2].lower() for match in _ELEMENT.finditer(text) if match[1])
    kept, position, inside = [], 0, ""
    for match in _ELEMENT.finditer(text):
        is_end, name = bool(match[1]), match[2].lower()
        ends[name] -= is_end
        if inside:
            if is_end and name == inside:
                inside, position = "", match.end()
            continue
        counts["tag"] += 1
        kept.append(text[position : match.start()])
        position = match.end()
        if name in DROPPED_ELEMENTS:
            kept.append(GAP if is_end or name not in _PARTS_OF_SENTENCES else HOLE)
            if not is_end and not match[3] and ends[name]:
                inside = name
        elif name in _LINE_ELEMENTS:
            goes_on = name == "br" and GOES_ON.match(text, position)
            kept.append(" " if goes_on else "\n")
        elif name == "q":
            kept.append('"')
    return "".join([*kept, text[position:]])


def _shown(link: re.Match[str]) -> str:
    target, bar, label = link[1].partition("|")
    if _NO_TEXT_LINK.match(target.strip()):
        return ""
    return label if bar else target.lstrip(":")
