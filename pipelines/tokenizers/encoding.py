"""Text -> ids by the rules of a tokenizer.json, with Hugging Face's `tokenizers` library."""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary, load
from beambert.pipelines.wordpiece.offsets import OffsetPieces
from beambert.pipelines.wordpiece.vocabulary import NO_ID

if TYPE_CHECKING:
    from tokenizers import Encoding

# Number of texts in a call of the library: enough that the call costs nothing.
_TEXTS_AT_A_TIME = 1024


class SubwordTokenizer:
    """The tokenizer of a tokenizer.json, over batches of strings.

    It is called as `wordpiece.tokenization.Tokenizer`, but it runs outside of TensorFlow's graph,
    so that no SavedModel can hold it.
    """

    def __init__(self, vocabulary: TokenizerVocabulary):
        """Builds the tokenizer (0.1 s for 50,000 tokens)."""
        self.vocabulary = vocabulary
        self._tokenizer = load(vocabulary.data, vocabulary.name)
        self._of_text = ids_of_text(vocabulary)

    def tokenize_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of all texts end to end, int32, and each text's number of ids, int64."""
        return self.tokenize_parts([(text,) for text in texts])

    def tokenize_parts(self, texts: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of texts that are given in parts, and each part's number of ids.

        The ids are those of the whole text, and belong to the part in which they begin.
        """
        ids: list[list[int]] = []
        lengths: list[int] = []
        for start in range(0, len(texts), _TEXTS_AT_A_TIME):
            some = texts[start : start + _TEXTS_AT_A_TIME]
            found = self._encode(some)
            ids += [each.ids for each in found]
            for parts, each in zip(some, found, strict=True):
                if len(parts) == 1:
                    lengths.append(len(each.ids))
                else:
                    lengths += part_lengths(parts, [first for first, _ in each.offsets])
        return self._of_text[_flat(ids)], np.array(lengths, np.int64)

    def _encode(self, texts: Sequence[Sequence[str]]) -> list["Encoding"]:
        """Returns what the library finds in texts, with the places of tokens in those of parts."""
        joined = _whole_characters(map("".join, texts))
        found: list[Encoding | None] = [None] * len(texts)
        # To find the places takes longer.
        for has_parts, encode in (
            (False, self._tokenizer.encode_batch_fast),
            (True, self._tokenizer.encode_batch),
        ):
            numbers = [number for number, text in enumerate(texts) if (len(text) > 1) == has_parts]
            encoded = encode([joined[number] for number in numbers], add_special_tokens=False)
            for number, each in zip(numbers, encoded, strict=True):
                found[number] = each
        return found

    def tokenize_with_masks(self, text: str) -> np.ndarray:
        """Returns the ids of a text, int32 [tokens], in which the mask's token is a mask.

        As the library has it, a mask may take the space before it, which belongs to the hidden
        word.
        """
        self._tokenizer.encode_special_tokens = False
        try:
            found = self._tokenizer.encode(*_whole_characters([text]), add_special_tokens=False)
        finally:
            self._tokenizer.encode_special_tokens = True
        ids = np.array(found.ids, np.int32)
        return np.where(ids == self.vocabulary.special.mask, ids, self._of_text[ids])

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of strings [n] as a ragged [n, (tokens)] int32 tensor.

        It may stand in the graph of an input pipeline, but not in that of a SavedModel.
        """

        def run(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return self.tokenize_batch([one_text.decode("utf-8", "replace") for one_text in texts])

        ids, lengths = tf.numpy_function(run, [text], [tf.int32, tf.int64], stateful=False)
        ids.set_shape([None])
        lengths.set_shape([None])
        return tf.RaggedTensor.from_row_lengths(ids, lengths, validate=False)


class SubwordOffsets:
    """The tokenizer of a tokenizer.json, with the place that each token comes from.

    It is called as `wordpiece.offsets.OffsetTokenizer`. White space at the ends of a token, such as
    the space before a word, does not count as its place.
    """

    def __init__(self, vocabulary: TokenizerVocabulary):
        """Builds the tokenizer."""
        self.vocabulary = vocabulary
        self._tokenizer = load(vocabulary.data, vocabulary.name)
        self._of_text = ids_of_text(vocabulary)

    def tokenize_batch(self, texts: Sequence[str]) -> OffsetPieces:
        """Returns the tokens of all texts."""
        ids, places = [], []
        for start in range(0, len(texts), _TEXTS_AT_A_TIME):
            some = _whole_characters(texts[start : start + _TEXTS_AT_A_TIME])
            found = self._tokenizer.encode_batch(some, add_special_tokens=False)
            ids += [each.ids for each in found]
            places += [
                _without_space(place, text)
                for text, each in zip(some, found, strict=True)
                for place in each.offsets
            ]
        starts, ends = np.array(places, np.int32).reshape(-1, 2).T
        lengths = np.array([len(token_id) for token_id in ids], np.int64)
        return OffsetPieces(self._of_text[_flat(ids)], starts, ends, lengths)


def part_lengths(parts: Sequence[str], starts: Sequence[int] | np.ndarray) -> list[int]:
    """Returns the number of tokens that begin in each part of a text.

    Args:
      parts: the text.
      starts: first character of each token, ascending.
    """
    ends = np.cumsum([len(part) for part in parts[:-1]])
    return np.diff(np.searchsorted(starts, ends), prepend=0, append=len(starts)).tolist()


def ids_of_text(vocabulary: TokenizerVocabulary) -> np.ndarray:
    """Returns the id that stands for each id that the library finds in text, int32 [tokens].

    A Unigram tokenizer may spell "</s>" in a text as the separator, which would end the sequence
    there. It becomes an unknown token.
    """
    ids, special = np.arange(len(vocabulary), dtype=np.int32), vocabulary.special
    if special.unknown != NO_ID:
        roles = special.padding, special.classify, special.separate, special.mask
        ids[list(roles)] = special.unknown
    return ids


def _without_space(place: tuple[int, int], text: str) -> tuple[int, int]:
    """Returns first and last place of a token without the white space at its ends."""
    start, end = place
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    # A token of nothing but white space keeps its place.
    return (start, end) if start < end else place


def _whole_characters(texts: Iterable[str]) -> list[str]:
    """Returns texts whose lone surrogates (half a character, of broken JSON) have become "?"."""
    return [text.encode("utf-8", "replace").decode() for text in texts]


def _flat(ids: Sequence[Sequence[int]]) -> np.ndarray:
    return np.fromiter(itertools.chain.from_iterable(ids), np.int32, sum(map(len, ids)))
