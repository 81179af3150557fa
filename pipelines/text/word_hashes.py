"""Finds the words of a text and hashes them, alike on every machine. Pure.

Words are runs of letters, marks and digits in lower case; in scripts without spaces, the single
characters. What stands between them doesn't count, so that a text in running form has the words of
its tokenized form: "it's" and "it 's" are both "it", "s". Invisible characters inside of a word
don't count either.
"""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from beambert.pipelines.text.cleaning import UNSPACED

# Classes of characters: those that are passed over, those between words, those of words, and those
# that are a word each.
_INVISIBLE, _BETWEEN, _OF_WORD, _WORD = range(4)
# Multiplier of the hash. It is odd, so that no bit is lost. As the fraction of the golden ratio it
# spreads small numbers.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Greatest number of characters whose words are found at a time, which bounds the memory.
MOST_CHARACTERS = 1 << 20
# The block of Unicode that has the accents which letters are composed with.
_FIRST_ACCENT, _LAST_ACCENT = 0x300, 0x36F


@dataclasses.dataclass(frozen=True)
class Words:
    """The words of a text.

    Attributes:
      hashes: uint64 [words], a hash of each word.
      starts, ends: int64 [words], its first character, and the one behind its last.
      unspaced: bool [words], whether it is a character of a script without spaces.
    """

    hashes: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    unspaced: np.ndarray

    def __len__(self) -> int:
        """Returns the number of words."""
        return len(self.hashes)


def compose(texts: Sequence[str]) -> list[str]:
    """Returns texts with composed accents (NFC), as `find_words` takes them."""
    # Composing takes longer than all else, and hardly any text needs it.
    codes = _codes("".join(texts))
    if ((codes < _FIRST_ACCENT) | (codes > _LAST_ACCENT)).all():
        return list(texts)
    return [unicodedata.normalize("NFC", text) for text in texts]


def find_words(text: str) -> Words:
    """Returns the words of a text.

    Args:
      text: result of `compose`, or a part of it, of at most `MOST_CHARACTERS`.
    """
    codes = _codes(text)
    lower, classes = (table[codes] for table in _tables())
    places = None
    if not classes.all():
        places = np.flatnonzero(classes)
        lower, classes = lower[places], classes[places]
    of_word = classes >= _OF_WORD
    # A character begins a word unless it continues the one before it.
    goes_on = (classes[1:] == _OF_WORD) & (classes[:-1] == _OF_WORD)
    begins, ends = of_word.copy(), of_word
    begins[1:] &= ~goes_on
    ends[:-1] &= ~goes_on
    starts, last = np.flatnonzero(begins), np.flatnonzero(ends)
    # The sum of code * multiplier ** offset over a word, from sums over the text.
    powers, inverse_powers = _powers()
    sums = np.cumsum(lower * powers[: len(lower)])
    hashes = sums[last] - sums[starts] + lower[starts] * powers[starts]
    hashes = _mix(hashes * inverse_powers[starts])
    unspaced = classes[starts] == _WORD
    if places is not None:
        starts, last = places[starts], places[last]
    return Words(hashes, starts, last + 1, unspaced)


def ngram_hashes(hashes: np.ndarray, n: int) -> np.ndarray:
    """Returns the hashes of all runs of `n` words, uint64 [words - n + 1], or [0].

    Args:
      hashes: uint64 [words], the hash of each word.
      n: number of words in a run.
    """
    count = max(0, len(hashes) - n + 1)
    ngrams = np.zeros(count, np.uint64)
    for offset in range(n):
        ngrams = ngrams * _MULTIPLIER + hashes[offset : offset + count]
    return _mix(ngrams)


def _mix(numbers: np.ndarray) -> np.ndarray:
    numbers = (numbers ^ (numbers >> np.uint64(32))) * _MULTIPLIER
    return numbers ^ (numbers >> np.uint64(29))


@functools.cache
def _powers() -> tuple[np.ndarray, np.ndarray]:
    """Returns the powers of the multiplier and of its inverse, uint64 [MOST_CHARACTERS] each."""
    inverse = np.uint64(pow(int(_MULTIPLIER), -1, 1 << 64))
    both = np.ones((2, MOST_CHARACTERS), np.uint64)
    both[:, 1:] = [[_MULTIPLIER], [inverse]]
    return tuple(np.cumprod(both, axis=1))


def _codes(text: str) -> np.ndarray:
    """Returns the code points of a text, uint8 or uint32 [characters]."""
    if text.isascii():
        return np.frombuffer(text.encode(), np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Returns each character in lower case, uint64 [0x110000], and its class, uint8 [0x110000]."""
    unspaced = re.compile(f"[{UNSPACED}]")
    lower = np.arange(0x110000, dtype=np.uint64)
    classes = np.full(len(lower), _BETWEEN, np.uint8)
    for code in range(len(lower)):
        character = chr(code)
        category = unicodedata.category(character)
        if category[0] in "LMN":
            classes[code] = _WORD if unspaced.match(character) else _OF_WORD
            # Only U+0130 has more than one character in lower case.
            lower[code] = ord(character.lower()[0])
        elif category in ("Cc", "Cf") and not character.isspace():
            classes[code] = _INVISIBLE
    classes[0xFFFD] = _INVISIBLE
    return lower, classes
