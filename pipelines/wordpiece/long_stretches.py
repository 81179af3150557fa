"""Tells when a text has no spaces that word pieces could be learned between. Pure.

The original release makes a word of each Chinese character, and of kana between them. Thai, Lao,
Khmer and Burmese have no such characters: whole clauses stand between two spaces.
"""

import re
from collections.abc import Iterable

# Thai and Lao, Burmese, Khmer.
_LETTERS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")


def long_stretch_notes(texts: Iterable[str]) -> list[str]:
    """Returns the line about texts that are mostly in one of these scripts; else none."""
    found = characters = 0
    for text in texts:
        found += len(_LETTERS.findall(text))
        characters += len(text)
    if 2 * found <= characters or not characters:
        return []
    return [
        "warning: no spaces separate the words of this text, and word pieces are learned from what "
        "stands between spaces; --kind=unigram learns from it three times as long ones"
    ]
