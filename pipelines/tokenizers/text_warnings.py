"""Warnings about text that word pieces do not suit. Pure."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

# Marks whose loss is harmless: variation selectors; and the points of Hebrew, Arabic and Syriac,
# which most texts leave out.
_EXPECTED = re.compile(
    "[\ufe00-\ufe0f\u180b-\u180f\U000e0100-\U000e01ef"
    "\u0591-\u05c7\u0610-\u061a\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06ed\u0711\u0730-\u074a]"
)
# Smallest share of letters that lose a mark to warn of. It is 20 % in Hindi and 10 % in Japanese.
_LEAST_SHARE = 0.005
# Greatest number of characters of an example.
_EXAMPLE_CHARACTERS = 12
# Letters of Thai and Lao, Burmese, and Khmer, which put no spaces between words. The original
# release makes a word of each Chinese character, and of the kana between them, but not of these.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")


def warn_of_lost_marks(texts: Iterable[str]) -> list[str]:
    """Returns the warning about uncased text whose letters become other letters, if there is one.

    The original release strips the marks that Unicode's decomposition separates (NFD, category
    Mn). They are accents, umlauts, vowels, or distinguish letters: ü becomes u, が becomes か. The
    few in the loanwords of English are no reason to warn.
    """
    counts: Counter[str] = Counter()
    example = ""
    for text in texts:
        found = Counter(text)
        counts += found
        if not example and (lost := next(filter(_loses_mark, found), "")):
            word = next(word for word in text.split() if lost in word)
            start = max(0, word.index(lost) - _EXAMPLE_CHARACTERS // 2)
            example = word[start : start + _EXAMPLE_CHARACTERS]
    lost_letters = sum(count for character, count in counts.items() if _loses_mark(character))
    letters = sum(
        n for character, n in counts.items() if unicodedata.category(character)[0] in "LM"
    )
    if not example or lost_letters < _LEAST_SHARE * letters:
        return []
    return [
        "warning: uncased text loses marks that make other letters, on "
        f"{lost_letters / letters:.1%} of the letters in a sample: “{example}” becomes "
        f"“{_strip(example)}”; give --do_lower_case=False to keep them and capitals"
    ]


def _loses_mark(character: str) -> bool:
    """Returns whether a character is lost, or becomes another letter."""
    if character.isascii():
        return False
    marks = [c for c in unicodedata.normalize("NFD", character) if unicodedata.category(c) == "Mn"]
    return any(not _EXPECTED.match(mark) for mark in marks)


def _strip(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def warn_of_unspaced_words(texts: Iterable[str]) -> list[str]:
    """Returns the warning about texts mostly in a script without spaces between words, if any."""
    found = characters = 0
    for text in texts:
        found += len(_UNSPACED.findall(text))
        characters += len(text)
    if 2 * found <= characters or not characters:
        return []
    return [
        "warning: no spaces separate the words of this text, and word pieces are learned from what "
        "is between spaces; --kind=unigram learns pieces three times as long from it"
    ]
