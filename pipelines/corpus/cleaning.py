"""Cleans the text of documents, in steps that are the same whatever brought it. Pure.

`clean` takes every document: a file, a value of a column, a page of a wiki, an element of a
pipeline. In its result each line is a paragraph. What a step removes or joins is counted under a
name, which info.json has.
"""

import functools
import json
import operator
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress, dropwhile, pairwise

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.text.cleaning import UNSPACED

# Values of --layout: how the lines of a text are read.
AUTO, WRAPPED, PARAGRAPHS, SENTENCES = "auto", "wrapped", "paragraphs", "sentences"
LAYOUTS = (AUTO, WRAPPED, PARAGRAPHS, SENTENCES)

# Characters that end a sentence: those of Unicode's property Sentence_Terminal, the Tibetan shads,
# and ":" and "…".
SENTENCE_ENDS = "!.?։؟۔܀܁܂߹।॥།༎၊။።፧፨᙮᜵᜶។៕᠃᠉᥄᥅᪨᪩᪪᪫᭚᭛᭞᭟᰻᰼᱾᱿‼‽⁇⁈⁉⸮。꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫﹒﹖﹗！．？｡:…"
# What may follow them: closing marks, and invisible ones, such as those of direction.
_CLOSING = "\"'”’»)]」』）】_*" + "".join(
    chr(code)
    for first, last in ((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x2069))
    for code in range(first, last + 1)
)

# Line ends. Some programs write "\r\r\n"; the others are those of Unicode, see `normalize_text`.
_LINE_END = re.compile("\r+\n|[\r\x0b\x85\u2028\u2029]")
# What JSON writes for line ends and the like, where it was written twice and none was read back.
_ESCAPES = re.compile(
    r"(?:\\(?:[nrt\"/]|(?i:u(?!d[89a-f])[0-9a-f]{4}|ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})))+"
)
_ESCAPED_END = re.compile(r"""[^\w\s:,;(\\-]["'”’»)]*(?:\\r)?\\n(?:\\[rn])*(?=[^\W_a-z])""")
# A page's end, with its number on a line of its own above or below, perhaps beside a title.
_NUMBER = (
    r"(?:[-–—\[( \t]*(?:[Pp](?:age|\.) ?)?(?:\d{1,4}(?: ?(?:of|/) ?\d+)?|[ivxl]+)[-–—\]) \t]*"
    r"|[ \t]*\d{1,4}[ \t]{2,}[^\n]{1,60}|[^\n]{1,60}[ \t]{2,}\d{1,4}[ \t]*)"
)
_PAGE_BREAK = re.compile(
    rf"[ \t]*(?:\n+{_NUMBER}(?=\s*\f))?(\n*)[ \t]*\f[\f \t]*(?:\n*{_NUMBER}(?=\n))?(\n*)[\f \t]*"
)
# The number of a page in a transcribed book, on a line of its own or inside of one.
_PAGE_MARK = re.compile(r"(?m)^[ \t]*\[P(?:g|age|\.) ?\d+\][ \t]*$|\[P(?:g|age|\.) ?\d+\] ?")

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
        | \W*(?:Ende|Fin|Fine|Einde|Fim|Slut|Loppu)\b[^\n]{0,40}\bProje[ck]t\ Gutenberg\b.*
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
# Notes to the reader of the file, which end at two blank lines: a line that names the transcriber
# in one of the languages of the books, and what follows.
_TRANSCRIBER = (
    r"[^\n]{0,30}(?:tran?s[ck]ri|b(?:ew|earb)e[ri]|elektroni|fichier\ digital|huomautu)[^\n]{0,80}"
)
_NOTES = re.compile(
    rf"""\s*(?:
      Note:\ (?:Project\ Gutenberg\ (?:also\ )?has|Images\ of\ the\ original) | Credits:
      | (?:[+=*|-]{{3,}}\s+)?{_TRANSCRIBER}(?=\n)
    ) .{{0,4000}}? (?=\n[ \t]*\n[ \t]*\n)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
# Those behind the book.
_LAST_NOTES = re.compile(rf"\n[ \t]*\n{_TRANSCRIBER}\n[ \t]*\n.*\Z", re.IGNORECASE | re.DOTALL)

# MediaWiki has two to six signs on either side (mediawiki.org, "Help:Formatting"). Spaces separate
# them in the plain text that it gives of a page.
WIKI_HEADING = re.compile(r"^(={2,6}) [^=\s](?:[^\n]*[^=\s])? \1[ \t]*(?:\n|\Z)", re.MULTILINE)
# A heading of plain text with a line of signs below it.
_LINE_OF_SIGNS = re.compile(r"\n[ \t]*[=~^*#+-]{4}")
_UNDERLINED = re.compile(
    r"(?:\A|(?<=\n\n))[ \t]*(?=\S)[^\n]{1,80}\n[ \t]*([=~^*#+-])\1{3,}[ \t]*(?=\n|\Z)"
)
# A line with a small letter that may continue the one before, and the beginning of a sentence.
_MAY_CONTINUE = re.compile(r"\n(?<=[^\W\d_]\n|[,;]\n)[^\W\d_A-Z]")
_STARTS_UPPER = re.compile(r"[\W_]{0,3}(?![a-zß-ÿ])[^\W\d_]")
# Transcribers' marks in books, and lines of nothing but signs.
_ILLUSTRATION = re.compile(r"\[Illustration(?::[^\[\]]{0,2000})?\]")
_ORNAMENT = re.compile(r"\n[-*=~_+#<>|\\\t ·•–—]+(?=\n|\Z)")
_EMPHASIS = re.compile(r"(?<![\w_])_(?=[^\s_])([^_\n]{1,300})(?<=[^\s_])_(?![\w_])")

# The marks of lines that mail quotes, of which there are two or more, one after the other.
QUOTED = re.compile(r"^>[^\n]*\n>", re.MULTILINE)
_MARK_OF_QUOTED = re.compile(r"(?:> ?)*")
# The line above them that names their writer, and a signature.
_WRITER = re.compile(
    r"^[^\n>]{0,200}<[^\s<>@]+@[^\s<>]+>[^\n]{0,40}:[ \t]*\n(?=\n?>)|^-- \n(?:[^\n>]+(?:\n|\Z))*",
    re.MULTILINE,
)

# Signs that divide a word at the end of a line and stand nowhere else: the soft hyphen, also where
# lines were joined by spaces, and the sign that old programs wrote for it.
_DIVIDED = re.compile(r"(?<=\w)(?:\xad\s+|\xac[ \t]*\n\s*)(?=\w)")
_HYPHENS = "-\u058a\u2010\u2011\u2e17"
# Least share of lines, and least number, whose last words are divided, where another one follows.
# Lines that were wrapped anew may end with the hyphen of a compound; 0.1 to 2 % of them do.
_LEAST_DIVIDED, _FEWEST_DIVIDED = 0.03, 3
# In "two- or three-year" and "Haupt- und Nebensatz", the hyphen stands for a later word.
JOINS_WORDS = r"(?:and|or|to|und|oder|bis|et|ou|en|of|och)\b"
_JOINS_WORDS = re.compile(rf"{JOINS_WORDS}(?!-)")
# Printed pages wrap at 60 to 80 characters, and wide windows at up to 160. A few longer lines, such
# as tables, may occur.
MOST_OF_A_LINE, _WIDEST_LINE = 100, 200
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
# Least share of lines that end a sentence.
_LEAST_ENDS = 0.05
# In text without capitals nothing shows that a line continues the one before, unless lines are as
# long as in wrapped prose. Most of those that end within a sentence must be full,
# and have this width, or half of it in wide characters.
_FEW_CAPITALS, _FULL_LOWER, _LEAST_LOWER, _LEAST_FULL_LOWER = 0.1, 0.85, 0.25, 0.8
_LEAST_WIDTH_LOWER, _LEAST_GOING_ON, _LEAST_PAGE = 30, 0.6, 60
_FEWEST_LINES = 3
# Scripts without spaces, with their punctuation. Chinese and Japanese lines break at nearly any
# character, of which some stay together; the others break at words. The numbers of characters stand
# for these.
_WIDE = "\u3000-\u303f\uff00-\uffef"
_NO_SPACE = re.compile(f"[{UNSPACED}{_WIDE}]")
_ANYWHERE = re.compile(f"[\u3040-\u30ff\u3400-\u9fff{_WIDE}]")
_CHARACTERS_TOGETHER, _UNSPACED_WORD = 2, 8
# Line ends inside of text of these scripts, also at their numbers, which stand for no space.
_BREAK = r"[ \t]*\n[ \t]*"
NO_SPACES = re.compile(
    rf"(?<=[{UNSPACED}{_WIDE}]){_BREAK}(?=[{UNSPACED}{_WIDE}])"
    rf"|(?<={_ANYWHERE.pattern}){_BREAK}(?=\d)|(?<=\d){_BREAK}(?={_ANYWHERE.pattern})"
)
_WIDE_LETTER = re.compile(f"[\uac00-\ud7af{UNSPACED}{_WIDE}]")
_WITHOUT_MARKS = re.compile("[\u0e00-\u0eff]")
# A line that is the number of a chapter: "Chapter IV", "Book One".
_CHAPTER = re.compile(
    r"\s*(?:Chapter|Book|Part|Kapitel|Chapitre|Cap[ií]tulo|Capitolo)"
    r" (?:\d+|[IVXLC]+|[A-Z][a-z]+)\.?"
)


def ends_sentence(line: str) -> bool:
    """Returns whether a line ends a sentence, by its last mark before those that close."""
    line = line.rstrip(_CLOSING)
    if line.endswith((";", "\u037e")):  # Greek asks with a semicolon.
        return "\u0370" <= line[-2:-1] <= "\u03ff" or "\u1f00" <= line[-2:-1] <= "\u1fff"
    return line != "" and line[-1] in SENTENCE_ENDS


def clean(document: Document, layout: str = AUTO) -> Document:
    """Returns a document in paragraphs, one a line, and adds what was cleaned to its counts.

    A document that is split into sentences stays as it is.

    Args:
      document: the document.
      layout: how its lines are read. `AUTO`: see `join_lines`; `WRAPPED`: they are joined up to a
        blank line; `PARAGRAPHS`, `SENTENCES`: each is one.
    """
    if document.is_split or not document.text:
        return document
    text, cleaned = clean_text(document.text, layout)
    if document.cleaned:
        cleaned.update(document.cleaned)
    removed = len(document.text) - len(text)
    is_split = layout == SENTENCES
    return Document(text, is_split, document.encoding, cleaned, document.language, removed)


def clean_text(text: str, layout: str = AUTO) -> tuple[str, Counter[str]]:
    """Returns the paragraphs of a text, one a line, and what was removed or joined by name."""
    counts: Counter[str] = Counter()
    if not text or text.isspace():  # Many pages of a wiki have nothing below their title.
        return "", counts
    joins = functools.partial(join_lines, is_wrapped=layout == WRAPPED)
    for step in (
        _plain_line_ends,
        strip_gutenberg,
        drop_headings,
        _drop_quotation_marks,
        _join_divided_words,
        joins if layout in (AUTO, WRAPPED) else _strip_lines,
        *([_join_continued] if layout == AUTO else ()),
        drop_marks,
    ):
        text = step(text, counts)
    return text, counts


def _plain_line_ends(text: str, counts: Counter[str]) -> str:
    """Returns a text whose lines end with line feeds, and whose pages go on where they did."""
    if "\n" not in text and "\\n" in text and _ESCAPED_END.search(text):
        text = substitute(_ESCAPES, lambda it: json.loads(f'"{it[0]}"'), text, counts, "escape")
    if "\r" in text:
        text = text.replace("\r\n", "\n")  # It is faster than the expression.
    if any(map(text.__contains__, "\r\x0b\x85\u2028\u2029")):
        text = _LINE_END.sub("\n", text)
    if "[" in text and "[P" in text:
        text = _PAGE_MARK.sub(lambda match: "" if match[0][-1] == " " else "\f", text)
    if "\f" not in text:
        return text

    def goes_on(match: re.Match[str]) -> str:
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        has_blank = max(len(match[1]), len(match[2])) > 1 or not before
        is_end = has_blank or ends_sentence(before)
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
        if is_book and after and (note := _LAST_NOTES.search(piece, max(0, len(piece) - 5000))):
            piece = piece[: note.start()]
        if piece.strip() and (is_book or len(piece) > _MOST_OF_A_LICENCE):
            kept.append(piece)
    if not kept:
        return text
    counts["licence"] += 1
    return "\n\n".join(kept)


def drop_headings(text: str, counts: Counter[str]) -> str:
    """Returns a text without headings: those of a wiki (`== Heading ==`), and underlined ones.

    A blank line takes the place of each where blank lines separate paragraphs.
    """
    if _LINE_OF_SIGNS.search(text):
        text = substitute(_UNDERLINED, "", text, counts, "heading")
    if "=" in text and "==" in text and WIKI_HEADING.search(text):
        separator = "\n" if "\n\n" in text else ""
        text = substitute(WIKI_HEADING, separator, text, counts, "heading")
    return text


def _drop_quotation_marks(text: str, counts: Counter[str]) -> str:
    """Returns a text without the signs ">" before quoted lines of mail, between blank lines."""
    if ">" not in text or not QUOTED.search(text):
        return text
    text = substitute(_WRITER, "", text, counts, "writer_of_mail")
    lines, before = [], 0
    for line in text.split("\n"):
        mark = _MARK_OF_QUOTED.match(line)[0]
        depth = mark.count(">")
        counts["quotation_mark"] += depth
        if depth != before:
            lines.append("")
        lines.append(line[len(mark) :])
        before = depth
    return "\n".join(lines)


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
    if not (is_wrapped or any(a and b for a, b in pairwise(lines))):
        single = "\n".join(lines).replace("\n\n", "\n").split("\n")
        if wrapped_width(single) >= (_LEAST_WIDTH if text[:1].islower() else _LEAST_WIDTH_LOWER):
            lines = single  # The lines are double-spaced.
    width = 0.0 if is_wrapped else wrapped_width(lines)
    if not (is_wrapped or width):
        return "\n".join(filter(None, map(str.strip, lines)))
    pairs = [(a, b) for a, b in pairwise(lines) if a and b]
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
                ends = f"{previous[-1]}\n{start[0]}"
                is_unspaced = not ends.isascii() and NO_SPACES.search(ends)
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


def _strip_lines(text: str, counts: Counter[str]) -> str:
    """Returns the lines of a text without the white space around them, and without blank ones."""
    return "\n".join(filter(None, map(str.strip, text.split("\n"))))


def _join_continued(text: str, counts: Counter[str]) -> str:
    """Returns paragraphs, joined where a line with a small letter continues a sentence.

    Parts of a text may be wrapped, or have blank lines within sentences. The first line of a
    sentence has a capital, so that text in small letters stays as it is.
    """
    if not _MAY_CONTINUE.search(text):
        return text
    joined: list[str] = []
    for line in text.split("\n"):
        before = joined[-1] if joined else ""
        if (
            line[0].islower()
            and len(before) >= _LEAST_WIDTH
            and (before[-1].isalpha() or before[-1] in ",;")
            and _STARTS_UPPER.match(before)
        ):
            counts["continued_line"] += 1
            joined[-1] = f"{before} {line}"
        else:
            joined.append(line)
    return "\n".join(joined)


def wrapped_width(lines: Sequence[str]) -> float:
    """Returns the width of hard-wrapped lines in characters, or in pairs of columns; else 0."""
    width, beginning = _width(lines), "".join(lines[:3])
    if not width and not beginning.isascii() and _ANYWHERE.search(beginning):
        return _width([_ANYWHERE.sub(r"口\g<0>", line) for line in lines]) / 2
    return width


def _width(lines: Sequence[str]) -> float:
    filled = list(map(len, filter(None, lines)))
    has_long = sum(map(_WIDEST_LINE.__ge__, filled)) < _SHORT_LINES * len(filled)
    if has_long or not (pairs := [(a, b) for a, b in pairwise(lines) if a and b]):
        return 0.0
    # The quantile of a few lengths is above all of them.
    width = min(statistics.quantiles(filled, n=20)[-2], max(filled))
    return width * _is_wrapped(lines, pairs, width)


def _is_wrapped(lines: Sequence[str], pairs: Sequence[tuple[str, str]], width: float) -> bool:
    """Returns whether short lines are hard-wrapped.

    Where another line follows, lines must be full and end within a sentence. In text that has
    capitals, enough of the next ones must also begin with a lower-case letter.
    """
    firsts = [line.lstrip()[0] for _, line in pairs]
    lower, upper = sum(map(str.islower, firsts)), sum(map(str.isupper, firsts))
    few = _FEW_CAPITALS * len(pairs)
    has_capitals = lower + upper >= len(pairs) / 2 and (
        upper > few or sum(line != line.lower() for line, _ in pairs) > few
    )
    least = (_FULL if has_capitals else _FULL_LOWER) * width
    # Lines of printed pages are not equally long. In scripts without spaces, the length of the next
    # word is a guess.
    inside = [not ends_sentence(line) for line, _ in pairs]
    full = [
        len(line) >= least
        or not _has_room(line, after, width)
        or (first.islower() and line[-1] in _HYPHENS)
        for first, (line, after) in zip(firsts, pairs, strict=True)
    ]
    is_end = ends_sentence(lines[-1])
    if not has_capitals:
        # Nothing but their lengths shows that lines go on.
        letters = sum(first.isalpha() or bool(_NO_SPACE.match(first)) for first in firsts)
        if 2 * letters < len(firsts):
            return False  # They are lines of a log or a table.
        is_wide, has_none = (
            any(map(letter.match, firsts)) for letter in (_WIDE_LETTER, _WITHOUT_MARKS)
        )
        within, full_within = sum(inside), sum(map(operator.and_, inside, full))
        return (
            width >= _LEAST_WIDTH_LOWER / (1 + is_wide)
            and within >= max(1, _LEAST_LOWER * len(pairs))
            and full_within >= _LEAST_FULL_LOWER * within
            and (has_none or is_end or _has_ends(lines) or 1 < within == len(lines) - 1)
        )
    goes_on = list(map(operator.and_, map(str.islower, firsts), inside))
    if all(compress(full, inside)) and any(inside):
        # No line within a sentence has room, and a sentence goes on or the text ends with one. A
        # single one must be as wide as a page, since paragraphs may lack the mark at their end.
        if len(pairs) > 1 and any(goes_on):
            return True
        has_room = any(_has_room(*pair, width) for pair in compress(pairs, inside))
        is_page = sum(inside) > 1 or _LEAST_PAGE <= width <= MOST_OF_A_LINE
        if is_end and width >= _LEAST_WIDTH_LOWER and is_page and not has_room:
            return True
    if min(sum(inside), sum(full)) < _LEAST_FULL * len(pairs):
        # In short paragraphs fewer lines end within a sentence.
        return sum(map(operator.and_, goes_on, full)) >= max(
            2, _LEAST_LOWER * len(pairs), _LEAST_GOING_ON * sum(inside)
        )
    if lower >= _LEAST_CONTINUED * len(pairs):
        return True
    is_verse = "" in lines and width >= _LEAST_WIDTH and _has_ends(lines)
    return is_verse and sum(inside) >= _FEWEST_LINES / 2


def _has_ends(lines: Sequence[str]) -> bool:
    """Returns whether lines end sentences, as those of headlines do not."""
    return sum(map(ends_sentence, lines)) >= _LEAST_ENDS * sum(map(bool, lines))


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
    is_indented = len(line) - len(line.lstrip()) > len(previous) - len(previous.lstrip())
    if ends_sentence(previous):
        return has_room or is_indented
    if not has_room:
        return False
    # A heading, such as one in capitals, stands above or below prose.
    if previous.isupper() != line.isupper() or any(map(_CHAPTER.fullmatch, (previous, line))):
        return True
    # Thai and Lao have no mark at an end.
    return bool(_WITHOUT_MARKS.match(previous[-1])) and (
        is_indented or len(previous) < _FULL * width
    )


def drop_marks(text: str, counts: Counter[str]) -> str:
    """Returns a text without the marks of books' transcribers."""
    if "[Illustration" in text:
        text = substitute(_ILLUSTRATION, "", text, counts, "illustration")
    text = substitute(_ORNAMENT, "", f"\n{text}", counts, "ornament").removeprefix("\n")
    if "_" in text:
        text = substitute(_EMPHASIS, r"\1", text, counts, "emphasis")
    return text


def substitute(
    pattern: re.Pattern[str],
    new: str | Callable[[re.Match[str]], str],
    text: str,
    counts: Counter[str],
    reason: str,
    times: int = 1,
) -> str:
    """Returns a text after substitutions, and counts what was replaced under a reason.

    Several times replace nested markup, from the inside out.
    """
    for _ in range(times):
        text, count = pattern.subn(new, text)
        if not count:
            break
        counts[reason] += count
    return text
