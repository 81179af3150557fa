"""Text -> WordPiece ids for much text, compiled. The ids equal those of `word_pieces`.

Import this where it is needed: numba's import takes half a second.
"""

import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from beambert.pipelines.records.compiled import compiled
from beambert.pipelines.tokenizers.vocabulary import CONTINUES, UNKNOWN, Vocabulary
from beambert.pipelines.tokenizers.word_pieces import cleaned, split_characters

# Number of characters in a call of the kernel, whose memory is 20 to 30 times as many bytes.
BATCH_CHARACTERS = 1 << 20
# What a character becomes: one of these kinds in the two lowest bits, and above them the code of a
# letter, or the place in `_Characters.several` where a count of others and these are.
_DROPPED, _SPACE, _LETTER, _SEVERAL = range(4)
_UNSEEN = -1
# A piece's hash is that of a polynomial in its codes, modulo 2**64. One that continues a word has
# these bits inverted. The slot of a hash is found by Fibonacci hashing (Knuth, The Art of Computer
# Programming, volume 3, section 6.4).
_BASE, _CONTINUATION, _GOLDEN = 1_000_003, 0x5BD1E9955BD1E995, -0x61C8864680B583EB


class _Pieces(NamedTuple):
    """The word pieces of a vocabulary in a hash table.

    Attributes:
      slots: int32 [slots, a power of 2], the number of a piece, or -1.
      hashes: int64 [pieces].
      codes: int32, the characters of all pieces, end to end.
      ends: int64 [pieces + 1], 0 and the end of each piece in `codes`.
      ids: int32 [pieces].
      powers: int64 [longest word + 2], the powers of `_BASE`.
      unknown: id of words that cannot be cut.
      longest: number of characters of the longest piece.
    """

    slots: np.ndarray
    hashes: np.ndarray
    codes: np.ndarray
    ends: np.ndarray
    ids: np.ndarray
    powers: np.ndarray
    unknown: int
    longest: int


@compiled
def _slot(value: int, slots: int) -> int:
    return (value * _GOLDEN >> 20) & (slots - 1)


@compiled
def _fill(pieces: _Pieces, continues: np.ndarray) -> None:
    """Computes the hashes of pieces and puts these into their slots."""
    for length in range(1, len(pieces.powers)):
        pieces.powers[length] = pieces.powers[length - 1] * _BASE
    for number in range(len(pieces.hashes)):
        value = 0
        for code in pieces.codes[pieces.ends[number] : pieces.ends[number + 1]]:
            value = value * _BASE + code
        pieces.hashes[number] = value ^ _CONTINUATION if continues[number] else value
        slot = _slot(pieces.hashes[number], len(pieces.slots))
        while pieces.slots[slot] >= 0:
            slot = (slot + 1) & (len(pieces.slots) - 1)
        pieces.slots[slot] = number


@compiled
def _find(pieces: _Pieces, value: int, word: np.ndarray, start: int, end: int) -> int:
    """Returns the number of the piece with a hash that equals word[start:end], or -1."""
    slot = _slot(value, len(pieces.slots))
    while pieces.slots[slot] >= 0:
        number = pieces.slots[slot]
        first = pieces.ends[number]
        if pieces.hashes[number] == value and pieces.ends[number + 1] - first == end - start:
            place = start
            while place < end and pieces.codes[first - start + place] == word[place]:
                place += 1
            if place == end:
                return number
        slot = (slot + 1) & (len(pieces.slots) - 1)
    return -1


@compiled
def _tokenize(
    becomes: np.ndarray,
    ends: np.ndarray,
    several: np.ndarray,
    pieces: _Pieces,
    ids: np.ndarray,
    lengths: np.ndarray,
) -> int:
    """Writes the ids of texts, and the number of ids of each; returns the number of all.

    Args:
      becomes: what the characters of the texts become, end to end, see `_Characters`.
      ends: int64 [texts], the end of each text.
      several: see `_Characters`.
      pieces: the vocabulary.
      ids: int32, with room for all.
      lengths: int64 [texts].
    """
    most = len(pieces.powers) - 2
    # The characters of a word, and the polynomial of so many of them.
    word, hashes = np.empty(most + 1, np.int32), np.zeros(most + 2, np.int64)
    count, place = 0, 0
    for text in range(len(ends)):
        before, size = count, 0
        while place <= ends[text]:
            # The end of a text ends its last word.
            what = becomes[place] if place < ends[text] else _SPACE
            place += 1
            next_part = last_part = 0
            if what & 3 == _SEVERAL:
                next_part = what >> 2
                last_part = next_part + several[next_part]
            while True:
                if next_part < last_part:
                    next_part += 1
                    what = several[next_part]
                if what & 3 == _LETTER:
                    if size <= most:
                        word[size] = what >> 2
                        hashes[size + 1] = hashes[size] * _BASE + (what >> 2)
                        size += 1
                elif what & 3 == _SPACE and size:
                    # The longest match first.
                    first, start = count, 0
                    while start < size:
                        end = min(size, start + pieces.longest)
                        number = -1
                        while end > start and size <= most:
                            value = hashes[end] - hashes[start] * pieces.powers[end - start]
                            value ^= _CONTINUATION if start else 0
                            number = _find(pieces, value, word, start, end)
                            if number >= 0:
                                break
                            end -= 1
                        if number < 0:
                            count = first
                            ids[count] = pieces.unknown
                            start = size
                        else:
                            ids[count] = pieces.ids[number]
                            start = end
                        count += 1
                    size = 0
                if next_part == last_part:
                    break
        place -= 1
        lengths[text] = count - before
    return count


class _Characters:
    """What characters become in the words of texts. Those of a text are looked up when it comes.

    Attributes:
      becomes: int32 [0x110000], what each character becomes, or `_UNSEEN`.
      several: int32, counts, each with what so many are.
      most: greatest number of letters that a character becomes.
    """

    def __init__(self, do_lower_case: bool):
        self._do_lower_case = do_lower_case
        self.becomes = np.full(0x110000, _UNSEEN, np.int32)
        self.several = np.zeros(0, np.int32)
        self.most = 1
        self.add(map(chr, range(128)))

    def add(self, characters: Iterable[str]) -> None:
        """Looks characters up."""
        several = self.several.tolist()
        for character in characters:
            # Half of a surrogate pair, from broken JSON escapes, becomes "?".
            text = cleaned(character.encode("utf-8", "replace").decode())
            if self._do_lower_case:
                text = unicodedata.normalize("NFD", text.lower())
            parts = [
                _SPACE if part.isspace() else ord(part) << 2 | _LETTER
                for part in split_characters(text, self._do_lower_case)
            ]
            if len(parts) > 1:
                self.becomes[ord(character)] = len(several) << 2 | _SEVERAL
                several += [len(parts), *parts]
                self.most = max(self.most, len(parts))
            else:
                self.becomes[ord(character)] = parts[0] if parts else _DROPPED
        self.several = np.array(several, np.int32)


class Tokenizer:
    """WordPiece over batches of strings.

    Only in musical notation may its ids differ from those of `word_pieces.Tokenizer`: characters
    are lower-cased and decomposed one by one, and some of those that Unicode then orders anew are
    no accents, which are dropped.
    """

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool):
        """Builds the table of pieces (0.1 s for 30,522 tokens)."""
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self._characters = _Characters(do_lower_case)
        numbers = {token: number for number, token in enumerate(vocabulary.tokens)}
        texts = [token.removeprefix(CONTINUES) for token in numbers]
        continues = np.array([token.startswith(CONTINUES) for token in numbers])
        lengths = np.array(list(map(len, texts)), np.int64)
        self._pieces = _Pieces(
            slots=np.full(4 << (len(texts) - 1).bit_length(), -1, np.int32),
            hashes=np.zeros(len(texts), np.int64),
            codes=_codes("".join(texts)),
            ends=np.concatenate([[0], np.cumsum(lengths)]),
            ids=np.array(list(numbers.values()), np.int32),
            powers=np.ones(vocabulary.longest_word + 2, np.int64),
            unknown=numbers[UNKNOWN],
            longest=int(lengths.max()),
        )
        _fill(self._pieces, continues)

    def tokenize_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of all strings end to end, int32, and the ids of each, int64 [n]."""
        found = [self._tokenize(batch) for batch in _batches(texts)]
        ids, lengths = zip(*found, strict=True)
        return np.concatenate(ids), np.concatenate(lengths)

    def _tokenize(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        joined = "".join(texts)
        if self.do_lower_case and "Σ" in joined:
            # What becomes of this letter alone depends on those around it.
            texts = ["".join(map(cleaned, text)).lower() if "Σ" in text else text for text in texts]
            joined = "".join(texts)
        codes, ends = _codes(joined), np.cumsum(list(map(len, texts)), dtype=np.int64)
        characters, lengths = self._characters, np.empty(len(texts), np.int64)
        becomes = characters.becomes.take(codes)
        if unseen := set(codes[becomes == _UNSEEN].tolist()):
            characters.add(map(chr, unseen))
            becomes = characters.becomes.take(codes)
        ids = np.empty(len(codes) * characters.most, np.int32)
        count = _tokenize(becomes, ends, characters.several, self._pieces, ids, lengths)
        return ids[:count].copy(), lengths


def _codes(text: str) -> np.ndarray:
    """Returns the code points of a string, int32."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<i4")


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Divides strings into at least one batch of about `BATCH_CHARACTERS`."""
    ends = np.cumsum([len(text) for text in texts])
    cuts = np.flatnonzero(np.diff(ends // BATCH_CHARACTERS)) + 1
    for start, end in itertools.pairwise([0, *cuts.tolist(), len(texts)]):
        yield texts[start:end]
