"""Text -> WordPiece ids in Python, without TensorFlow. The ids equal those of the original release.

`wordpiece.Tokenizer` gives the same ids for the text of a corpus, and in graphs that are served.
`OffsetTokenizer` also returns the characters that each piece stands for.
"""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from beambert.pipelines.tokenizers.pieces import CONTINUES, cut, longest_of
from beambert.pipelines.tokenizers.vocabulary import UNKNOWN, Vocabulary

# Distinct words whose pieces are kept, since most words of a text are repeated.
_WORDS_KEPT = 1 << 17
# Number of strings whose characters `OffsetTokenizer` holds at once.
_OFFSETS_AT_A_TIME = 256
# The words of ASCII text without control characters.
_ASCII_WORDS = re.compile(r"[0-9A-Za-z]+|[^\s0-9A-Za-z]")
# tokenization.py, BasicTokenizer._is_chinese_char: each such character is a word.
_CHINESE = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)


class _Replacements(dict):
    """Character -> what replaces it, for `str.translate`; found by a function when it is needed."""

    def __init__(self, find):
        super().__init__()
        self._find = find

    def __missing__(self, code: int) -> str:
        self[code] = found = self._find(chr(code))
        return found


def cleaned(character: str) -> str:
    """Returns what BasicTokenizer._clean_text and _tokenize_chinese_chars make of a character."""
    if character in "\t\n\r":
        return " "
    if character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf"):
        return ""
    return f" {character} " if _CHINESE.match(character) else character


def _split(character: str) -> str:
    """Returns a character with spaces around it if it is punctuation, as in _is_punctuation."""
    is_ascii = character.isascii() and not (character.isalnum() or character.isspace())
    is_word = is_ascii or unicodedata.category(character).startswith("P")
    return f" {character} " if is_word else character


def _split_without_accents(character: str) -> str:
    return "" if unicodedata.category(character) == "Mn" else _split(character)


_CLEANED = _Replacements(cleaned)
_SPLIT, _SPLIT_WITHOUT_ACCENTS = _Replacements(_split), _Replacements(_split_without_accents)


def split_characters(text: str, drops_accents: bool) -> str:
    """Returns a text with spaces around its punctuation, and perhaps without accents."""
    return text.translate(_SPLIT_WITHOUT_ACCENTS if drops_accents else _SPLIT)


def is_plain(text: str) -> bool:
    """Returns whether a text is ASCII without control characters."""
    return text.isascii() and text.isprintable()


def words_of(text: str, do_lower_case: bool) -> list[str]:
    """Returns the words of a text that WordPiece cuts into pieces.

    Args:
      text: the text.
      do_lower_case: lower the case and strip the accents, as uncased vocabularies need it.
    """
    if is_plain(text):
        return _ASCII_WORDS.findall(text.lower() if do_lower_case else text)
    # Lone surrogates (half a character, from broken JSON escapes) become "?".
    text = text.encode("utf-8", "replace").decode().translate(_CLEANED)
    if do_lower_case:
        text = unicodedata.normalize("NFD", text.lower())
    return split_characters(text, drops_accents=do_lower_case).split()


class Tokenizer:
    """WordPiece over batches of strings."""

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool):
        """Takes the vocabulary."""
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self._ids = {token: number for number, token in enumerate(vocabulary.tokens)}
        self._longest_piece = longest_of(self._ids)
        self.pieces_of = functools.lru_cache(_WORDS_KEPT)(self._pieces_of)

    def _pieces_of(self, word: str) -> list[int]:
        """Returns the ids of a word (WordpieceTokenizer)."""
        is_short = len(word) <= self.vocabulary.longest_word
        found = cut(word, self._ids, self._longest_piece) if is_short else None
        return [self._ids[piece] for piece in found or [UNKNOWN]]

    def tokenize_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of all strings end to end, int32, and the ids of each, int64 [n]."""
        ids: list[int] = []
        ends = np.zeros(len(texts) + 1, np.int64)
        for number, text in enumerate(texts, start=1):
            for word in words_of(text, self.do_lower_case):
                ids += self.pieces_of(word)
            ends[number] = len(ids)
        return np.array(ids, np.int32), np.diff(ends)


@dataclasses.dataclass(frozen=True)
class OffsetPieces:
    """The word pieces of strings, end to end.

    A piece was cut from `text[start:end]`. For [UNK] that is the whole word. Stripped accents
    belong to their letter. Where one character becomes several pieces (a Hangul syllable of three
    letters), each piece has the whole character.

    Attributes:
      ids: int32 [pieces].
      starts: int32 [pieces], the piece's first character in its string.
      ends: int32 [pieces], the character after the piece's last.
      lengths: int64 [strings], the number of pieces of each string.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    lengths: np.ndarray


class OffsetTokenizer:
    """WordPiece over batches of strings, with the characters that each piece comes from.

    The characters are found by counting letters, which are here the characters of the normalized
    text other than white space. Normalization (cleaning, lower case, accents) turns a character
    into none, one or several letters, and their number depends on that character alone, not on its
    neighbours.
    """

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool):
        """Takes the vocabulary."""
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self._tokenizer = Tokenizer(vocabulary, do_lower_case)
        self._unknown = vocabulary.id_of(UNKNOWN)
        self._letters = [len(token.removeprefix(CONTINUES)) for token in vocabulary.tokens]

    def tokenize_batch(self, texts: Sequence[str]) -> OffsetPieces:
        """Returns the pieces of all strings."""
        parts = [
            self._tokenize(texts[start : start + _OFFSETS_AT_A_TIME])
            for start in range(0, max(len(texts), 1), _OFFSETS_AT_A_TIME)
        ]
        return OffsetPieces(*map(np.concatenate, zip(*parts, strict=True)))

    def _tokenize(self, texts: Sequence[str]) -> tuple[np.ndarray, ...]:
        """Returns the columns of `OffsetPieces`."""
        ids: list[int] = []
        letters: list[int] = []
        ends_of_texts = np.zeros(len(texts) + 1, np.int64)
        for number, text in enumerate(texts, start=1):
            for word in words_of(text, self.do_lower_case):
                found = self._tokenizer.pieces_of(word)
                ids += found
                is_unknown = found[0] == self._unknown
                letters += [len(word)] if is_unknown else [self._letters[id] for id in found]
            ends_of_texts[number] = len(ids)
        lengths = np.diff(ends_of_texts)
        characters = "".join(texts).encode("utf-32-le", "surrogatepass")
        distinct, numbers = np.unique(np.frombuffer(characters, "<u4"), return_inverse=True)
        counts, cased = (
            np.array([sum(map(len, words_of(chr(code), lower))) for code in distinct], np.int64)
            for lower in (self.do_lower_case, False)
        )
        # An accent is a character that the uncased tokenizer drops and the cased one keeps.
        is_accent = ((counts == 0) & (cased > 0))[numbers]
        character_of_letter = np.repeat(np.arange(len(numbers)), counts[numbers])
        past = np.cumsum(letters, dtype=np.int64)
        others = np.append(np.flatnonzero(~is_accent), len(is_accent))
        starts = character_of_letter[past - np.array(letters, np.int64)]
        ends = others[np.searchsorted(others, character_of_letter[past - 1] + 1)]
        limits = np.cumsum([len(text) for text in texts], dtype=np.int64)
        owners = np.repeat(np.arange(len(texts)), lengths)
        ends = np.minimum(ends, limits[owners])
        firsts = (limits - [len(text) for text in texts])[owners] if len(texts) else limits[owners]
        return (
            np.array(ids, np.int32),
            *((each - firsts).astype(np.int32) for each in (starts, ends)),
            lengths,
        )
