"""Turns queries and documents into the inputs of late interaction, as ColBERT frames them.

Khattab and Zaharia 2020 (ColBERT, arXiv 2004.12832), section 3.2, and the tokenizers of
https://github.com/stanford-futuredata/ColBERT.
"""

import dataclasses
import re
import string

import numpy as np
import tensorflow as tf

from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.tokenizers.vocabulary import CONTINUES, Vocabulary

_UNUSED = re.compile(r"\[unused\d+\]")
# Tokens of documents that do not count (`mask_punctuation` of ColBERT).
_PUNCTUATION = frozenset(string.punctuation)


@dataclasses.dataclass(frozen=True)
class Markers:
    """The ids behind [CLS] that tell queries from documents.

    Attributes:
      query: id of [Q].
      document: id of [D].
    """

    query: int
    document: int

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "Markers":
        """Returns the first two unused tokens of a vocabulary.

        Of Google's uncased vocabulary they are [unused0] and [unused1], as in ColBERT. In a
        vocabulary with fewer than two, [MASK] stands for [Q] and [SEP] for [D]: no text has one of
        them at this place.
        """
        unused = [number for number, token in enumerate(vocabulary.tokens) if _UNUSED.match(token)]
        if len(unused) < 2:
            return cls(vocabulary.special.mask, vocabulary.special.separate)
        return cls(unused[0], unused[1])


class InteractionFeatures(TextFeatures):
    """[CLS] [Q] query [SEP] and [CLS] [D] document [SEP], cut and padded to fixed lengths."""

    def __init__(
        self, vocabulary: Vocabulary, do_lower_case: bool, max_seq_length: int, query_length: int
    ):
        """Builds the tokenizer.

        Args:
          vocabulary: vocabulary of the ids.
          do_lower_case: whether text is lower-cased and loses its accents.
          max_seq_length: greatest number of tokens of a document.
          query_length: number of tokens of a query, at most that of a document.
        """
        super().__init__(vocabulary, do_lower_case, max_seq_length)
        self.query_length = query_length
        self.markers = Markers.of(vocabulary)
        self._mask = vocabulary.special.mask
        pieces = (piece.removeprefix(CONTINUES) for piece in vocabulary.pieces)
        self._is_punctuation = np.array([piece in _PUNCTUATION for piece in pieces])

    def with_more_room(self) -> "InteractionFeatures":
        """Returns a converter that keeps a token more."""
        longer = self.max_seq_length + 1, self.query_length + 1
        return InteractionFeatures(self.vocabulary, self.do_lower_case, *longer)

    def __call__(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Converts a column of queries and at least one of documents, string [n] each.

        Returns:
          `input_ids`, `input_mask` and `segment_ids`, int32 [n * columns, longest], those of a
          row's texts after each other. Queries are not expanded yet.
        """
        queries = self.queries(texts[0])
        missing = [[0, 0], [0, self.max_seq_length - self.query_length]]
        parts = [{name: tf.pad(query, missing) for name, query in queries.items()}]
        parts += [self.documents(text) for text in texts[1:]]
        return {
            name: tf.reshape(tf.stack([part[name] for part in parts], 1), [-1, self.max_seq_length])
            for name in queries
        }

    def queries(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the features of queries, int32 [n, query_length], which are not expanded yet."""
        return self._marked(texts, self.markers.query, self.query_length)

    def documents(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the features of documents, int32 [n, max_seq_length]."""
        return self._marked(texts, self.markers.document, self.max_seq_length)

    def _marked(self, texts: tf.Tensor, marker: int, length: int) -> dict[str, tf.Tensor]:
        pieces = self.tokenizer.tokenize(texts)[:, : length - 3]
        marks = tf.fill([pieces.nrows(), 1], tf.cast(marker, pieces.dtype))
        features = self.frame([tf.concat([marks, pieces], 1)])
        return {name: feature[:, :length] for name, feature in features.items()}

    def expanded(self, queries: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns queries with [MASK] in the place of padding: query augmentation.

        As in ColBERT, no token attends to them (`attend_to_mask_tokens` is off), and their own
        vectors count like those of the query's words.
        """
        ids = tf.where(queries["input_mask"] > 0, queries["input_ids"], self._mask)
        return {**queries, "input_ids": ids}

    def counting(self, documents: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns whether a token of documents counts, bool [..., L]: punctuation does not."""
        is_punctuation = tf.gather(tf.constant(self._is_punctuation), documents["input_ids"])
        return (documents["input_mask"] > 0) & ~is_punctuation
