"""Tells when the accent stripping of uncased vocabularies turns letters into other ones. Pure.

The original release strips the marks that Unicode's decomposition sets apart (NFD, category Mn).
For Latin, Greek and Cyrillic letters these are accents, as it expects. In other scripts they are
vowels, or make another letter, such as が, which becomes か.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

# Marks whose loss is expected, or harmless: the accents of Latin, Greek and Cyrillic letters;
# variation selectors; and the points of Hebrew, Arabic and Syriac, which most texts leave out.
_EXPECTED = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
    "\ufe00-\ufe0f\u180b-\u180f\U000e0100-\U000e01ef"
    "\u0591-\u05c7\u0610-\u061a\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06ed\u0711\u0730-\u074a]"
)
# Least share of the letters that lose a mark, to warn. It is 20 % in Hindi and 10 % in Japanese.
_LEAST_SHARE = 0.005
# Greatest number of characters of an example.
_EXAMPLE_CHARACTERS = 12


def warn_of_lost_marks(texts: Iterable[str]) -> list[str]:
    """Returns the warning about uncased text that loses letters, with an example; else none."""
    counts: Counter[str] = Counter()
    example = ""
    for text in texts:
        found = Counter(text)
        counts += found
        if not example and (lost := next(filter(_loses, found), "")):
            example = _word_around(text, text.index(lost))
    lost_letters = sum(count for character, count in counts.items() if _loses(character))
    letters = sum(count for character, count in counts.items() if _is_letter(character))
    if not example or lost_letters < _LEAST_SHARE * letters:
        return []
    share = f"{lost_letters / letters:.1%}"
    return [
        f"warning: uncased text loses marks that make other letters, on {share} of the letters in "
        f"a sample: “{example}” becomes “{_strip(example)}”; give --do_lower_case=False to keep "
        "them"
    ]


def _loses(character: str) -> bool:
    """Returns whether a character is lost, or becomes another letter."""
    if character.isascii():
        return False
    marks = [c for c in unicodedata.normalize("NFD", character) if unicodedata.category(c) == "Mn"]
    return any(not _EXPECTED.match(mark) for mark in marks)


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LM"


def _strip(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def _word_around(text: str, at: int) -> str:
    """Returns the letters around a character."""
    start, end = at, at + 1
    while start > 0 and at - start < _EXAMPLE_CHARACTERS // 2 and _is_letter(text[start - 1]):
        start -= 1
    while end < len(text) and end - start < _EXAMPLE_CHARACTERS and _is_letter(text[end]):
        end += 1
    return text[start:end]
