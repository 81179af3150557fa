"""Finds which texts hold a phrase of a list, such as words to avoid or passages of test sets. Pure.

Words are runs of letters, marks and digits in lower case; in scripts without spaces, the single
characters. What stands between them doesn't count, so that a text in running form has the words of
its tokenized form: "it's" and "it 's" are both "it", "s". Invisible characters inside of a word
don't count either. A phrase is found by the hash of its words, 64 bits wide and the same on every
machine: of a million phrases none is found by chance in a million million words.
"""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from beambert.pipelines.text.cleaning import UNSPACED

# Classes of characters: those that are passed over, those between words, those of words, and those
# that are a word each.
_INVISIBLE, _BETWEEN, _OF_WORD, _WORD = range(4)
# Multiplier of the hash. It is odd, so that no bit is lost. As the fraction of the golden ratio it
# spreads small numbers.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Greatest number of characters whose words are found at a time, which bounds the memory.
MOST_CHARACTERS = 1 << 20
# The block of Unicode that has the accents which letters are composed with.
_FIRST_ACCENT, _LAST_ACCENT = 0x300, 0x36F
# Number of entries of the table by the first bits of a hash, for each phrase and in all. It shows
# at once that nearly all runs of words are not phrases.
_PLACES_PER_PHRASE, _MOST_PLACES = 16, 1 << 24
# Number of characters for a word in the runs of scripts without spaces. Words of Chinese have one
# or two characters, seldom more; those of Thai have more.
CHARACTERS_A_WORD = 2


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
    positions = None
    if not classes.all():
        positions = np.flatnonzero(classes)
        lower, classes = lower[positions], classes[positions]
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
    if positions is not None:
        starts, last = positions[starts], positions[last]
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
        ngrams = ngrams * MULTIPLIER + hashes[offset : offset + count]
    return _mix(ngrams)


def _mix(numbers: np.ndarray) -> np.ndarray:
    numbers = (numbers ^ (numbers >> np.uint64(32))) * MULTIPLIER
    return numbers ^ (numbers >> np.uint64(29))


@functools.cache
def _powers() -> tuple[np.ndarray, np.ndarray]:
    """Returns the powers of the multiplier and of its inverse, uint64 [MOST_CHARACTERS] each."""
    inverse = np.uint64(pow(int(MULTIPLIER), -1, 1 << 64))
    both = np.ones((2, MOST_CHARACTERS), np.uint64)
    both[:, 1:] = [[MULTIPLIER], [inverse]]
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


@dataclasses.dataclass(frozen=True)
class Match:
    """A phrase that a text holds.

    Attributes:
      words: the words, as they stand in the text.
      source: number that the phrase was given.
    """

    words: str
    source: int


@dataclasses.dataclass(frozen=True)
class Hashes:
    """The hashes of phrases of one length.

    Attributes:
      sorted: uint64 [phrases], without repeats.
      sources: uint32 [phrases], the number that each was given, the smallest if several.
      table: bool [a power of two], True at the first bits of every hash.
    """

    sorted: np.ndarray
    sources: np.ndarray
    table: np.ndarray

    @classmethod
    def of(cls, hashes: np.ndarray, sources: np.ndarray) -> "Hashes":
        """Returns the hashes in order, each once."""
        order = np.lexsort((sources, hashes))
        hashes, first = np.unique(hashes[order], return_index=True)
        places = min(_MOST_PLACES, 1 << int(_PLACES_PER_PHRASE * len(hashes)).bit_length())
        table = np.zeros(places, bool)
        table[_places(hashes, table)] = True
        return cls(hashes, sources[order][first], table)

    def find(self, hashes: np.ndarray) -> Iterator[tuple[int, int]]:
        """Yields (position, source) of the hashes that are here."""
        likely = np.flatnonzero(self.table[_places(hashes, self.table)])
        found = np.searchsorted(self.sorted, hashes[likely])
        found[found == len(self.sorted)] = 0
        is_here = self.sorted[found] == hashes[likely]
        yield from zip(likely[is_here].tolist(), self.sources[found[is_here]].tolist(), strict=True)


class Phrases:
    """A set of phrases, which finds the texts that hold one."""

    def __init__(self, by_length: Mapping[int, Hashes]):
        """Takes the hashes by the number of words."""
        self._by_length = dict(by_length)
        self._longest = max(self._by_length, default=1)

    def __len__(self) -> int:
        """Returns the number of phrases."""
        return sum(len(each.sorted) for each in self._by_length.values())

    @classmethod
    def of_list(cls, phrases: Sequence[str]) -> "Phrases":
        """Returns a set of whole phrases; each has its position as its source."""
        by_length: dict[int, list[tuple[np.uint64, int]]] = {}
        for source, phrase in enumerate(phrases):
            hashes = find_words(*compose([phrase])).hashes
            if n := len(hashes):
                by_length.setdefault(n, []).append((ngram_hashes(hashes, n)[0], source))
        return cls(
            {
                n: Hashes.of(np.array(hashes, np.uint64), np.array(sources, np.uint32))
                for n, found in by_length.items()
                for hashes, sources in [zip(*found, strict=True)]
            }
        )

    @classmethod
    def of_runs(cls, texts: Iterable[tuple[int, str]], n: int) -> "Phrases":
        """Returns the set of all runs of `n` words in texts.

        In scripts without spaces, a run has `CHARACTERS_A_WORD` * `n` characters in place of `n`
        words.

        Args:
          texts: source and text.
          n: number of words in a run.
        """
        lengths = (n, CHARACTERS_A_WORD * n)
        hashes: dict[int, list[np.ndarray]] = {length: [] for length in lengths}
        sources: dict[int, list[np.ndarray]] = {length: [] for length in lengths}
        for source, text in texts:
            for _, words in _windows(*compose([text]), max(lengths)):
                for length in lengths:
                    wanted = _mainly_unspaced(words, length) == (length != n)
                    hashes[length].append(ngram_hashes(words.hashes, length)[wanted])
                    sources[length].append(np.full(wanted.sum(), source, np.uint32))
        return cls(
            {
                length: Hashes.of(np.concatenate(hashes[length]), np.concatenate(sources[length]))
                for length in lengths
                if any(map(len, hashes[length]))
            }
        )

    def find(self, texts: Sequence[str]) -> dict[int, Match]:
        """Returns the first phrase of each text that holds one, by the text's number.

        Args:
          texts: texts; many at once take much less time than one by one.
        """
        pieces = compose(texts)
        ends = np.cumsum([len(piece) + 1 for piece in pieces])
        joined = "\n".join(pieces)
        del pieces
        found: dict[int, tuple[int, int, int]] = {}
        for start, words in _windows(joined, self._longest):
            for n, hashes in self._by_length.items():
                for position, source in hashes.find(ngram_hashes(words.hashes, n)):
                    first = start + int(words.starts[position])
                    behind = start + int(words.ends[position + n - 1])
                    number = int(np.searchsorted(ends, first, "right"))
                    if behind <= ends[number]:  # A phrase doesn't span two texts.
                        match = (first, behind, source)
                        found[number] = min(found.get(number, match), match)
        return {
            number: Match(joined[first:behind], source)
            for number, (first, behind, source) in sorted(found.items())
        }


def _mainly_unspaced(words: Words, n: int) -> np.ndarray:
    """Returns whether more than half of each run are single characters, bool [words - n + 1]."""
    sums = np.concatenate([[0], np.cumsum(words.unspaced)])
    return 2 * (sums[n:] - sums[:-n]) > n


def _windows(text: str, n: int) -> Iterator[tuple[int, Words]]:
    """Yields the start and the words of parts of a text that share all but one of `n` words.

    A word at the end of a part that isn't the last belongs to the next one.
    """
    start = 0
    while start + MOST_CHARACTERS < len(text):
        words = find_words(text[start : start + MOST_CHARACTERS])
        inner = (each[:-1] for each in (words.hashes, words.starts, words.ends, words.unspaced))
        yield start, Words(*inner)
        again = int(words.starts[-n]) if len(words) >= n else 0
        start += again or MOST_CHARACTERS
    yield start, find_words(text[start:])


def _places(hashes: np.ndarray, table: np.ndarray) -> np.ndarray:
    return (hashes >> np.uint64(65 - len(table).bit_length())).astype(np.int64)
