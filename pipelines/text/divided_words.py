"""Tells when words are divided at the ends of lines, as scanned books have them. Pure."""

import re
from collections.abc import Iterable

# A part of a word before a hyphen at a line's end (or, where lines were joined, a space), and the
# rest. In "two- or three-year" and "Haupt- und Nebensatz", the hyphen stands for a later word.
_DIVIDED = re.compile(
    r"\b[^\W\d_]{2,}-[ \n](?!(?:and|or|to|und|oder|bis|et|ou|en|of|och)\b)[a-zß-ÿ]{2,}"
)
# Least share of the words that are divided, to tell. Scanned pages of 10 words a line, of which
# each tenth ends within a word, have 1 %.
_LEAST_SHARE = 0.001
_LEAST_COUNT = 5


def divided_word_notes(texts: Iterable[str]) -> list[str]:
    """Returns the warning about texts whose words are divided at the ends of lines; else none."""
    count, words, example = 0, 0, ""
    for text in texts:
        found = _DIVIDED.findall(text)
        count, words = count + len(found), words + text.count(" ") + text.count("\n")
        example = example or next(iter(found), "").replace("\n", " ")
    if count < max(_LEAST_COUNT, _LEAST_SHARE * words):
        return []
    return [
        f"warning: hyphens divide {count:,} words of a sample at the ends of lines, such as "
        f"“{example}”, whose parts become words; join them before, for example with "
        r"perl -CSD -0777 -pe 's/(\p{L})-\R(\p{Ll})/$1$2/g'"
    ]
