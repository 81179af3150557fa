"""Word pieces with the characters of the original text that they stand for.

The pieces are those of `tokenization.Tokenizer`. Their characters are found by counting.
Normalization (cleaning, lower case, accents) turns a character into none, one or several letters.
Their number depends on that character alone, not on its neighbours.

In this module a letter is a character of the normalized text that is not white space.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from beambert.pipelines.wordpiece.tokenization import Tokenizer, encode_texts, words_of
from beambert.pipelines.wordpiece.vocabulary import UNKNOWN, Vocabulary

# So many texts take much longer than a call costs, and arrays of all their characters stay small.
_TEXTS_AT_A_TIME = 256


@dataclasses.dataclass(frozen=True)
class OffsetPieces:
    """The word pieces of texts, end to end.

    A piece was cut from `text[start:end]`. For [UNK] that is the whole word. Accents that were
    stripped from a letter belong to that letter. Where one character becomes several pieces (a
    Hangul syllable of three letters), each piece has the whole character.

    Attributes:
      ids: int32 [pieces].
      starts: int32 [pieces], the piece's first character in its text.
      ends: int32 [pieces], the character after the piece's last.
      lengths: int64 [texts], each text's number of pieces.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    lengths: np.ndarray


class OffsetTokenizer(tf.Module):
    """WordPiece over batches of strings, with the place that each piece comes from.

    It is a trackable, so that a SavedModel can hold it.
    """

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool):
        """Builds the tokenizer (0.3 s for 30,522 tokens)."""
        super().__init__()
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self._tokenizer = Tokenizer(vocabulary, do_lower_case)
        self._unknown = vocabulary.id_of(UNKNOWN)
        self._token_letters = np.array(
            [len(token.removeprefix("##")) for token in vocabulary.tokens], np.int64
        )

    def tokenize_batch(self, texts: Sequence[str]) -> OffsetPieces:
        """Returns the pieces of all texts."""
        parts = [
            self._tokenize_flat(encode_texts(texts[start : start + _TEXTS_AT_A_TIME]))
            for start in range(0, max(len(texts), 1), _TEXTS_AT_A_TIME)
        ]
        return OffsetPieces(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize_flat(self, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        pieces = self.tokenize(texts)
        return *(column.flat_values for column in pieces), pieces[0].row_lengths()

    def tokenize(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids, starts and ends of the pieces of strings [n], each int32 [n, (pieces)]."""
        ids, letters = self._cut(texts)
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        letters_of_character, is_accent = self._count_letters(characters.flat_values)
        character_of_letter = tf.repeat(
            tf.range(tf.size(letters_of_character, tf.int64)), letters_of_character
        )
        behind = tf.cumsum(letters)
        tf.debugging.assert_equal(
            tf.reduce_sum(letters),
            tf.size(character_of_letter, tf.int64),
            "the pieces do not have as many letters as the texts",
        )
        starts = tf.gather(character_of_letter, behind - letters)
        ends = _past_accents(tf.gather(character_of_letter, behind - 1) + 1, is_accent)
        text_starts, text_ends = (
            tf.gather(each, ids.value_rowids())
            for each in (characters.row_starts(), characters.row_limits())
        )
        starts, ends = starts - text_starts, tf.minimum(ends, text_ends) - text_starts
        return ids, *(ids.with_flat_values(tf.cast(each, tf.int32)) for each in (starts, ends))

    def _cut(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the ids, int32 [n, (pieces)], and each piece's number of letters, int64."""
        words = words_of(texts, self.do_lower_case)
        # Each distinct word is cut once: a text repeats most of its words.
        distinct, numbers = tf.unique(words.flat_values)
        pieces = self._tokenizer.tokenize(distinct)
        word_letters = tf.gather(_length(distinct), pieces.value_rowids())
        letters = pieces.with_flat_values(
            tf.where(
                pieces.flat_values == self._unknown,
                word_letters,
                tf.gather(self._token_letters, pieces.flat_values),
            )
        )
        ids, letters = (
            words.with_flat_values(tf.gather(each, numbers)) for each in (pieces, letters)
        )
        return ids.merge_dims(1, 2), letters.flat_values

    def _count_letters(self, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the number of letters that each code point becomes, and whether it is an accent.

        An accent is a character that the uncased tokenizer drops and the cased one keeps.
        """
        distinct, numbers = tf.unique(characters)
        alone = tf.strings.unicode_encode(distinct[:, None], "UTF-8")
        letters, cased = (_letters(alone, case) for case in (self.do_lower_case, False))
        is_accent = (letters == 0) & (cased > 0)
        return tf.gather(letters, numbers), tf.gather(is_accent, numbers)


def _letters(texts: tf.Tensor, do_lower_case: bool) -> tf.Tensor:
    words = words_of(texts, do_lower_case)
    return tf.reduce_sum(words.with_flat_values(_length(words.flat_values)), axis=1)


def _length(texts: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.strings.length(texts, unit="UTF8_CHAR"), tf.int64)


def _past_accents(ends: tf.Tensor, is_accent: tf.Tensor) -> tf.Tensor:
    """Returns the ends, moved behind the accents that follow them."""
    size = tf.size(is_accent, tf.int64)
    others = tf.concat([tf.where(~is_accent)[:, 0], [size]], 0)
    return tf.gather(others, tf.searchsorted(others, ends))
