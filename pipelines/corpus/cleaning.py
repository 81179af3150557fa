"""Cleans the text of documents, in steps that are the same whatever brought it. Pure.

`clean` takes every document: a file, a value of a column, a page of a wiki, an element of a
pipeline. In its result each line is a paragraph. What a step removes or joins is counted under a
name, which info.json has. The remains of WikiExtractor have a step of their own, since any other
text may hold such signs.
"""

import functools
import html
import operator
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile, pairwise

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.text.cleaning import UNSPACED

# Values of --layout: how the lines of a text are read.
AUTO, WRAPPED, PARAGRAPHS, SENTENCES = "auto", "wrapped", "paragraphs", "sentences"
LAYOUTS = (AUTO, WRAPPED, PARAGRAPHS, SENTENCES)

# Stands where markup was cut out of a text, until `close_gaps` removes it. The tokenizer drops
# this character from text.
GAP = "\x01"

# Characters that end a sentence: those of Unicode's property Sentence_Terminal, the Tibetan shads,
# and ":" and "…".
SENTENCE_ENDS = "!.?։؟۔܀܁܂߹।॥།༎၊။።፧፨᙮᜵᜶។៕᠃᠉᥄᥅᪨᪩᪪᪫᭚᭛᭞᭟᰻᰼᱾᱿‼‽⁇⁈⁉⸮。꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫﹒﹖﹗！．？｡:…"
_ENDS_SENTENCE = re.compile(rf"[{re.escape(SENTENCE_ENDS)}][\"'”’»)\]」』）】_*]*$")

# Line ends. Some programs write "\r\r\n"; the others are those of Unicode, see `normalize_text`.
_LINE_END = re.compile("\r+\n|[\r\x0b\x85\u2028\u2029]")
_PAGE_BREAK = re.compile(r"[ \t]*(\n*)[ \t]*\f[\f \t]*(\n*)[\f \t]*")

# Project Gutenberg marks the ends of its licences, in the wordings of its files since 1991.
# Newer files have "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***", where a long title takes
# several lines. In older files "***START**THE SMALL PRINT!**" and "*END*THE SMALL PRINT!" enclose
# the licence.
_LICENCE_MARKS = re.compile(
    r"""^\ *(?:
      (?P<start>
        \*{3}\ ?START\ OF\ (?:THE|THIS)\ PROJECT\ GUTENBERG\b[^*]{0,300}\*{3}
        | \*END[ *]+THE\ SMALL\ PRINT!.*
      )
      | (?P<end>
        \*{3}\ ?END\ OF\ (?:THE|THIS)\ PROJECT\ GUTENBERG\b[^*]{0,300}\*{3}
        | (?:This\ is\ the\ )?End\ of\ (?:the\ |this\ )?Project\ Gutenberg
            (?:['’]s\b|\ e(?:text|book)\b).*
        | \W*(?:Ende|Fin|Fine|Einde|Fim|Slut|Loppu)\b[^\n]{0,40}\bProject\ Gutenberg\b.*
      )
    )[ \t]*$""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
# The licence at the end of some of the oldest files, which have their header alone at the top.
_SMALL_PRINT = re.compile(
    r"^(?:More\ information\ about\ this\ book\ is\ at\ the\ top|\*\*The\ Legal\ Small\ Print"
    r"|\*{3}START\*\*THE\ SMALL\ PRINT!)",
    re.MULTILINE | re.IGNORECASE,
)
_OLD_HEADER = re.compile(
    r"\A(?=.{0,3000}Project\ Gutenberg).{0,5000}?^\*+[ ]?This\ file\ should\ be\ named\b[^\n]*$",
    re.MULTILINE | re.IGNORECASE | re.DOTALL,
)
# Twice the length of the longest header or licence, in characters. A longer piece of text is kept,
# whatever the marks say.
_MOST_OF_A_LICENCE = 40_000
# Credits of the people who made the file: separate paragraphs between the mark and the book.
_CREDITS = re.compile(
    r"""\s*(?:
      (?:(?:This\ )?e-?(?:text|book)\ (?:was\ )?(?:prepared|produced)|Produced|Transcribed|Scanned)
        \ (?:by|from)\b [^\n]* (?:\n[^\n]+){0,9}
      | \[Transcriber['’]s\ notes?[^][]{0,2000}\]
    )[ \t]*(?=\n[ \t]*\n|\Z)""",
    re.VERBOSE | re.IGNORECASE,
)
# Notes to the reader of the file, which end at two blank lines.
_NOTES = re.compile(
    r"""\s*(?:
      Note:\ Project\ Gutenberg\ (?:also\ )?has | (?:Transcriber|Transcription)['’]?s?['’]?\ Note
      | Anmerkung(?:en)?\ (?:zur\ Transkription|de[rs]\ Bearbeiters)
      | Notes?\ (?:du|de\ la|sur\ la)\ transcript | Notas?\ del?\ transcript
      | Note?a?\ (?:del|di)\ trascri | Opmerkingen?\ van\ de\ (?:bewerker|transcri)
      | Notas?\ d[eo]\ transcri
    ) .{0,4000}? (?=\n[ \t]*\n[ \t]*\n)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)

# MediaWiki has two to six signs on either side (mediawiki.org, "Help:Formatting"). Spaces separate
# them in the plain text that it gives of a page.
WIKI_HEADING = re.compile(r"^(={2,6}) [^=\s](?:[^\n]*[^=\s])? \1[ \t]*(?:\n|\Z)", re.MULTILINE)
# Transcribers' marks in books.
_ILLUSTRATION = re.compile(r"\[Illustration(?::[^\[\]]{0,2000})?\]")
_ORNAMENT = re.compile(r"^[ \t]*(?:\*[ \t]*){3,}$", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w_])_(?=[^\s_])([^_\n]{1,300})(?<=[^\s_])_(?![\w_])")

# Signs that divide a word at the end of a line and stand nowhere else: the soft hyphen, also where
# lines were joined by spaces, and the sign that old programs wrote for it.
_DIVIDED = re.compile(r"(?<=\w)(?:\xad\s+|\xac[ \t]*\n\s*)(?=\w)")
_HYPHENS = "-\u2010"
# Least share of lines, and least number, whose last words are divided, where another one follows.
# Lines that were wrapped anew may end with the hyphen of a compound; 0.1 to 2 % of them do.
_LEAST_DIVIDED, _FEWEST_DIVIDED = 0.03, 3
# In "two- or three-year" and "Haupt- und Nebensatz", the hyphen stands for a later word.
JOINS_WORDS = r"(?:and|or|to|und|oder|bis|et|ou|en|of|och)\b"
_JOINS_WORDS = re.compile(rf"{JOINS_WORDS}(?!-)")
# Printed pages wrap at 60 to 80 characters. A few longer lines, such as tables, may occur.
_MOST_OF_A_LINE = 100
_SHORT_LINES = 0.95
# Least share of lines that are full, where another one follows: they have this share of the width,
# or no room for the first word of the next line.
_LEAST_FULL, _FULL = 0.5, 0.7
# Least share of lines that continue the one before, which shows in a lower-case first letter. It is
# 0.6 to 0.9 in wrapped prose of languages with cases, and nearly 0 in verse, in lists, and in text
# with one paragraph a line. Verse between blank lines, which must have the width of a page, is
# joined, too, since its sentences go on.
_LEAST_CONTINUED = 0.2
_LEAST_WIDTH = 40
# In text without capitals nothing shows that a line continues the one before, unless lines are as
# long as in wrapped prose, and most of them end within a sentence.
_FEW_CAPITALS, _FULL_LOWER, _LEAST_LOWER = 0.1, 0.85, 0.6
_FEWEST_LINES = 3
# Scripts without spaces, with their punctuation. Chinese and Japanese lines break at nearly any
# character, of which some stay together; the others break at words. The numbers of characters stand
# for these.
_WIDE = "\u3000-\u303f\uff00-\uffef"
_NO_SPACE = re.compile(f"[{UNSPACED}{_WIDE}]")
_ANYWHERE = re.compile(f"[\u3040-\u30ff\u3400-\u9fff{_WIDE}]")
_CHARACTERS_TOGETHER, _UNSPACED_WORD = 2, 8

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# Elements of HTML and of MediaWiki's extensions, for all readers: those whose content isn't prose,
# those that begin a line, and all others that pages of wikis have.
# fmt: off
DROPPED_ELEMENTS = frozenset((
    "ref", "references", "table", "gallery", "math", "chem", "ce", "score", "syntaxhighlight",
    "source", "timeline", "code", "pre", "imagemap", "graph", "mapframe", "maplink",
    "templatestyles", "indicator", "hiero", "li", "dd", "dt", "rt", "rp", "style", "script",
    "h1", "h2", "h3", "h4", "h5", "h6",
))
_LINE_ELEMENTS = frozenset((
    "br", "p", "div", "hr", "blockquote", "center", "poem", "caption", "ul", "ol", "dl", "tr",
))
_OTHER_ELEMENTS = (
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i",
    "includeonly", "ins", "kbd", "mark", "noinclude", "nowiki", "onlyinclude", "q", "rb", "rbc",
    "rtc", "ruby", "s", "samp", "section", "small", "span", "strike", "strong", "sub", "sup", "td",
    "th", "time", "tt", "u", "var", "wbr",
)
# fmt: on
_ELEMENT = re.compile(
    rf"<(/?)({'|'.join([*sorted(DROPPED_ELEMENTS), *sorted(_LINE_ELEMENTS), *_OTHER_ELEMENTS])})"
    r"\b[^<>]{0,500}?(/?)>",
    re.IGNORECASE,
)
# Older versions of WikiExtractor write these before headings and items of lists.
_EXTRACTED_HEADING, _EXTRACTED_ITEM = "Section::::", "BULLET::::"
# A heading of newer ones, of at most five words.
_TITLE_LINE, _LONGEST_TITLE = re.compile(r"[^\W\d_]\S*(?: [^\s.!?:;,]+){0,4}(?<![.!?:;,])\."), 60
# WikiExtractor writes these for formulas and code.
_PLACEHOLDER = re.compile(r"\b(?:formula|codice)_\d+")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")
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


def clean(document: Document, layout: str = AUTO) -> Document:
    """Returns a document in paragraphs, one a line, and adds what was cleaned to its counts.

    A document that is split into sentences stays as it is.

    Args:
      document: the document.
      layout: how its lines are read. `AUTO`: see `join_lines`; `WRAPPED`: they are joined up to a
        blank line; `PARAGRAPHS`, `SENTENCES`: each is one.
    """
    if document.is_split:
        return document
    text, counts = clean_text(document.text, layout)
    cleaned = Counter(document.cleaned) + counts
    removed = len(document.text) - len(text)
    is_split = layout == SENTENCES
    return Document(text, is_split, document.encoding, cleaned, document.language, removed)


def clean_text(text: str, layout: str = AUTO) -> tuple[str, Counter[str]]:
    """Returns the paragraphs of a text, one a line, and what was removed or joined by name."""
    counts: Counter[str] = Counter()
    joins = functools.partial(join_lines, is_wrapped=layout == WRAPPED)
    for step in (
        _plain_line_ends,
        strip_gutenberg,
        drop_headings,
        _join_divided_words,
        joins if layout in (AUTO, WRAPPED) else _strip_lines,
        drop_marks,
    ):
        text = step(text, counts)
    return text, counts


def _plain_line_ends(text: str, counts: Counter[str]) -> str:
    """Returns a text whose lines end with line feeds, and whose pages go on where they did."""
    if any(end in text for end in "\r\x0b\x85\u2028\u2029"):  # It is faster than the expression.
        text = _LINE_END.sub("\n", text)
    if "\f" not in text:
        return text

    def goes_on(match: re.Match[str]) -> str:
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        has_blank = max(len(match[1]), len(match[2])) > 1 or not before
        is_end = has_blank or _ENDS_SENTENCE.search(before)
        return "\n\n" if is_end and not text[match.end() : match.end() + 1].islower() else "\n"

    return substitute(_PAGE_BREAK, goes_on, text, counts, "page_break").strip("\n")


def strip_gutenberg(text: str, counts: Counter[str]) -> str:
    """Returns the books in a file without Project Gutenberg's headers, licences and credits."""
    if "Gutenberg" not in text and "GUTENBERG" not in text:
        return text
    marks = list(_LICENCE_MARKS.finditer(text))
    end = len(text)
    if marks and marks[-1]["start"] and len(text[marks[-1].end() :].strip()) < 200:
        # The licence is behind the book.
        end = marks.pop().start()
        before = marks[-1].end() if marks else 0
        if first := _SMALL_PRINT.search(text, max(before, end - _MOST_OF_A_LICENCE), end):
            end = first.start()
    header = _OLD_HEADER.match(text) if not any(mark["start"] for mark in marks) else None
    if not marks and not header and end == len(text):
        return text
    kept = []
    for before, after in zip([None, *marks], [*marks, None], strict=True):
        start = before.end() if before else header.end() if header else 0
        piece = text[start : after.start() if after else end]
        # A licence comes before a start or after an end. All other text is a book.
        is_book = not (before and before["end"]) and not (after and after["start"])
        if is_book and (before or header):
            while credit := _CREDITS.match(piece) or _NOTES.match(piece):
                piece = piece[credit.end() :]
        if piece.strip() and (is_book or len(piece) > _MOST_OF_A_LICENCE):
            kept.append(piece)
    if not kept:
        return text
    counts["licence"] += 1
    return "\n\n".join(kept)


def drop_headings(text: str, counts: Counter[str]) -> str:
    """Returns a text without the headings of a wiki (`== Heading ==`).

    A blank line takes the place of each where blank lines separate paragraphs.
    """
    if "==" in text and WIKI_HEADING.search(text):
        separator = "\n" if "\n\n" in text else ""
        text = substitute(WIKI_HEADING, separator, text, counts, "heading")
    return text


def _join_divided_words(text: str, counts: Counter[str]) -> str:
    if "\xad" in text or "\xac" in text:
        text = substitute(_DIVIDED, "", text, counts, "divided_word")
    return text


def join_lines(text: str, counts: Counter[str], is_wrapped: bool = False) -> str:
    """Returns the text with one paragraph a line and without blank lines.

    If the lines aren't hard-wrapped, each stays a line. Otherwise their text is joined, so that no
    sentence is cut at the end of a line. A new paragraph starts:

    - after a blank line;
    - after a line that ends a sentence although the next word had room on it;
    - before an indented line, if the line above it ends a sentence.

    Args:
      text: the text.
      counts: counts to add to.
      is_wrapped: whether the lines are certainly wrapped, and paragraphs start after blank lines
        alone.
    """
    lines = list(dropwhile(operator.not_, map(str.rstrip, text.rstrip().split("\n"))))
    if not is_wrapped:
        filled = [len(line) for line in lines if line]
        short = sum(length <= _MOST_OF_A_LINE for length in filled)
        if len(filled) < 2 or short < _SHORT_LINES * len(filled):
            return _strip_lines(text)
    pairs = [(a, b) for a, b in pairwise(lines) if a and b]
    width = 0.0
    if not is_wrapped:
        # The quantile of a few lengths is above all of them.
        width = min(statistics.quantiles(filled, n=20)[-2], max(filled))
        if not pairs or not _is_wrapped(lines, pairs, width):
            return _strip_lines(text)
    divides_words = _divides_words(pairs)
    parts: list[str] = []
    previous = ""
    for line in lines:
        start = line.lstrip()
        if not (line and previous):
            parts.append("\n" if line and parts else "")
        elif not is_wrapped and _starts_paragraph(previous, line, width):
            parts.append("\n")
        else:
            counts["wrapped_line"] += 1
            is_word = previous[-1] in _HYPHENS and previous[-2:-1].isalnum() and start[0].isalpha()
            if not is_word or _JOINS_WORDS.match(start):
                # No space is between characters of scripts without spaces.
                is_unspaced = _NO_SPACE.match(previous[-1]) and _NO_SPACE.match(start)
                parts.append("" if is_unspaced else " ")
            elif divides_words and start[0].islower():
                counts["divided_word"] += 1
                parts[-1] = parts[-1][:-1]
            else:
                counts["line_end_hyphen"] += 1
        parts.append(start)
        previous = line
    return "".join(parts)


def _divides_words(pairs: Sequence[tuple[str, str]]) -> bool:
    """Returns whether lines, each with the next one, are printed with divided words."""
    ends = [(line, after) for line, after in pairs if line[-1] in _HYPHENS]
    divided = sum(line[-2:-1].isalpha() and after.lstrip()[0].islower() for line, after in ends)
    return divided >= max(_FEWEST_DIVIDED, _LEAST_DIVIDED * len(pairs))


def _strip_lines(text: str, counts: Counter[str] | None = None) -> str:
    """Returns the lines of a text without the white space around them, and without blank ones."""
    return "\n".join(filter(None, map(str.strip, text.split("\n"))))


def _is_wrapped(lines: list[str], pairs: Sequence[tuple[str, str]], width: float) -> bool:
    """Returns whether short lines are hard-wrapped.

    Where another line follows, most lines must be full and end within a sentence. Enough lines must
    also begin with a lower-case letter, in text that has capitals.
    """
    firsts = [line.lstrip()[0] for _, line in pairs]
    lower, upper = sum(map(str.islower, firsts)), sum(map(str.isupper, firsts))
    has_cases = lower + upper >= len(pairs) / 2
    few = _FEW_CAPITALS * len(pairs)
    has_capitals = has_cases and (
        upper > few or sum(line != line.lower() for line, _ in pairs) > few
    )
    least = _LEAST_FULL if has_capitals else _LEAST_LOWER
    inside = sum(not _ENDS_SENTENCE.search(previous) for previous, _ in pairs)
    if inside < least * len(pairs):
        return False
    # Lines of printed pages are not equally long. In scripts without spaces, the length of the next
    # word is a guess.
    is_unspaced = not has_cases and any(map(_NO_SPACE.match, firsts))
    is_full, length = all if is_unspaced else any, (_FULL if has_capitals else _FULL_LOWER) * width
    full = sum(
        is_full((len(line) >= length, not _has_room(line, after, width)))
        or (first.islower() and line[-1] in _HYPHENS)
        for first, (line, after) in zip(firsts, pairs, strict=True)
    )
    if full < least * len(pairs):
        return False
    if has_capitals and lower >= _LEAST_CONTINUED * len(pairs):
        return True
    is_verse = width >= _LEAST_WIDTH and "" in lines
    return (is_verse or not has_capitals) and inside >= _FEWEST_LINES / 2


def _has_room(previous: str, line: str, width: float) -> bool:
    """Returns whether the first word of a line had room on the line before."""
    word = line.split(maxsplit=1)[0]
    size = len(word)
    if _NO_SPACE.match(word):
        size = min(size, _CHARACTERS_TOGETHER if _ANYWHERE.match(word) else _UNSPACED_WORD)
    return len(previous) + 1 + size <= width


def _starts_paragraph(previous: str, line: str, width: float) -> bool:
    if line.lstrip()[0].islower():
        return False
    has_room = _has_room(previous, line, width)
    if _ENDS_SENTENCE.search(previous):
        return has_room or _indentation(line) > _indentation(previous)
    # A heading in capitals stands above or below prose.
    return has_room and previous.isupper() != line.isupper()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def drop_marks(text: str, counts: Counter[str]) -> str:
    """Returns a text without the marks of books' transcribers."""
    if "[Illustration" in text:
        text = substitute(_ILLUSTRATION, "", text, counts, "illustration")
    if "*" in text:
        text = substitute(_ORNAMENT, "", text, counts, "ornament")
    if "_" in text:
        text = substitute(_EMPHASIS, r"\1", text, counts, "emphasis")
    return text


def close_gaps(text: str) -> str:
    """Returns a text without its gaps, and without the brackets, commas and spaces around them.

    Each pattern matches from the start of a run of such characters, so that the time grows only
    linearly with the length of the run.
    """
    if GAP not in text:
        return text
    text = re.sub(rf"\([\s;,{GAP}]*\)", GAP, text)
    text = re.sub(rf"\([\s;,:]*{GAP}[\s;,:{GAP}]*", "(", text)
    text = re.sub(rf"(?<![\s;,:{GAP}])[\s;,:{GAP}]*{GAP}[\s;,:]*\)", ")", text)
    text = re.sub(rf"([,;])(?:[ \xa0]*{GAP}[ \xa0{GAP}]*[,;])+", r"\1", text)
    before = rf"(?<![ \xa0{GAP}])({GAP}*)"
    text = re.sub(rf"{before}[ \xa0]+{GAP}[ \xa0{GAP}]*(?=[,.;:])", r"\1", text)
    text = re.sub(rf"^[ {GAP}]*{GAP}[ ]*[,.;:]", "", text, flags=re.MULTILINE)
    return text.replace(GAP, "")


def substitute(
    pattern: re.Pattern[str],
    new: str | Callable[[re.Match[str]], str],
    text: str,
    counts: Counter[str],
    reason: str,
) -> str:
    """Returns a text after a substitution, and counts what was replaced under a reason."""
    text, count = pattern.subn(new, text)
    if count:
        counts[reason] += count
    return text


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
        text = _drop_between("<!--", "-->", text, counts, "comment")
        text = _show_elements(text, counts)
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
    if "=" in text and "\n=" in text or _EXTRACTED_HEADING in text:
        text = _drop_lines(text, _is_heading, counts, "heading")
    if _EXTRACTED_ITEM in text:
        text = _drop_lines(text, _is_item, counts, "list_item")
    text = close_gaps(text)
    if _OPENING.search(text):
        text = substitute(_EMPTY_BRACKETS, "", text, counts, "empty_brackets")
        text = substitute(_OPENING_COMMAS, "(", text, counts, "empty_brackets")
    text = substitute(_COMMAS, ",", text, counts, "commas")
    if " )" in text:
        text = substitute(_CLOSING_COMMA, ")", text, counts, "empty_brackets")
    return text, counts


def clean_extracted(text: str) -> tuple[str, Counter[str]]:
    """Returns the prose of an article as `clean_wikiextractor` does, without its headings.

    WikiExtractor writes a heading as a line of a few words with a full stop: "Early life.". In an
    article whose lines are not wrapped, such a line is one unless it is the first.
    """
    text, counts = clean_wikiextractor(text)
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    is_title = [
        len(line) <= _LONGEST_TITLE and _TITLE_LINE.fullmatch(line.strip()) is not None
        for line in lines
    ]
    if any(is_title[first + 1 :]) and max(map(len, lines)) > _MOST_OF_A_LINE:
        kept = [
            line for number, line in enumerate(lines) if number <= first or not is_title[number]
        ]
        counts["heading"] += len(lines) - len(kept)
        text = "\n".join(kept)
    return text, counts


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
            kept.append(GAP)
            if not is_end and not match[3] and ends[name]:
                inside = name
        elif name in _LINE_ELEMENTS:
            kept.append("\n")
        elif name == "q":
            kept.append('"')
    return "".join([*kept, text[position:]])


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
    is_of_wiki = line.startswith("=") and line.rstrip().endswith("=")
    return is_of_wiki or line.startswith(_EXTRACTED_HEADING)


def _is_item(line: str) -> bool:
    return line.startswith(_EXTRACTED_ITEM)


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
