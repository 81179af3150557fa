"""Turns texts into model inputs, in one graph for fine-tuning and for the exported model."""

import dataclasses
import functools
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from beambert.pipelines.tasks.task import (
    Example,
)
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import CONTINUES, Vocabulary


class TextFeatures(tf.Module):
    """[CLS] text [SEP] or [CLS] text [SEP] text_b [SEP], cut and padded to a fixed length.

    The special tokens are those of the vocabulary. RoBERTa's has two [SEP] between two texts, and
    one segment.

    This equals convert_single_example of the original run_classifier.py: texts that are too long
    lose tokens at their end, the longer text of a pair first.
    """

    def __init__(
        self, vocabulary: Vocabulary, do_lower_case: bool, max_seq_length: int, windows: int = 1
    ):
        """Builds the tokenizer.

        Args:
          vocabulary: vocabulary of the ids.
          do_lower_case: whether text is lower-cased and loses its accents.
          max_seq_length: greatest number of tokens in a sequence, or in a window.
          windows: greatest number of windows of a single text, see `of_windows`; 1 to cut it.
        """
        super().__init__()
        self.windows = windows
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self.max_seq_length = max_seq_length
        self.tokenizer = make_tokenizer(vocabulary, do_lower_case)
        self._classify = vocabulary.special.classify
        self._separate = vocabulary.special.separate
        self._padding = vocabulary.special.padding

    @property
    def longest(self) -> int:
        """The greatest number of tokens of a text, in all its windows."""
        return self.max_seq_length * self.windows

    @property
    def window_length(self) -> int | None:
        """The number of tokens in a window; None if texts are cut."""
        return self.max_seq_length if self.windows > 1 else None

    def with_more_room(self) -> "TextFeatures":
        """Returns a converter that keeps a token or a window more."""
        more = (0, 1) if self.windows > 1 else (1, 0)
        length, windows = self.max_seq_length + more[0], self.windows + more[1]
        return TextFeatures(self.vocabulary, self.do_lower_case, length, windows)

    def __call__(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Converts texts, a string tensor [n], or pairs of texts, two such tensors.

        Returns:
          `input_ids`, `input_mask` and `segment_ids`, int32 [n, longest].
        """
        if self.windows > 1:
            return self.of_windows(self.tokenizer.tokenize(texts[0]))
        segments = [self.tokenizer.tokenize(text) for text in texts]
        between = self.vocabulary.separators * (len(segments) - 1)
        return self.frame(cut_longest(segments, self.max_seq_length - 2 - between))

    def of_windows(self, pieces: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Puts the windows of each text end to end: [CLS] pieces [SEP] [CLS] pieces [SEP] …

        All windows of a text but the last have `max_seq_length` tokens. Each begins with the last
        quarter of the one before, so that a passage cut by the end of a window is whole in the
        next, up to that length. A text with more than `windows` windows loses its end.

        Args:
          pieces: ragged int [n, (pieces)], the word pieces of each text.

        Returns:
          `input_ids`, `input_mask` and `segment_ids`, int32 [n, longest].
        """
        room = self.max_seq_length - 2
        stride = room - room // 4
        beyond = tf.maximum(pieces.row_lengths() - room, 0)
        counts = tf.minimum(1 + (beyond + stride - 1) // stride, self.windows)
        owners = tf.repeat(tf.range(pieces.nrows()), counts)
        starts = tf.ragged.range(counts).flat_values * stride
        starts += tf.gather(pieces.row_starts(), owners)
        ends = tf.minimum(starts + room, tf.gather(pieces.row_limits(), owners))
        places = tf.ragged.range(starts, ends)
        windows = places.with_flat_values(tf.gather(pieces.flat_values, places.flat_values))
        framed, _ = tf_text.combine_segments([windows], self._classify, self._separate)
        lengths = tf.math.segment_sum(framed.row_lengths(), owners)
        joined = tf.RaggedTensor.from_row_lengths(framed.flat_values, lengths)
        ids, mask = tf_text.pad_model_inputs(joined, self.longest, self._padding)
        features = {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}
        return {name: tf.cast(value, tf.int32) for name, value in features.items()}

    def of_words(self, text: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Converts texts whose words have labels.

        Args:
          text: string [n], words separated by single spaces.

        Returns:
          The features, as `__call__` returns them, and the position of each word's first piece,
          int32 [n, most words]: 0 for a word that was cut off or has no piece, -1 after the last
          word.
        """
        words = tf.strings.split(text, " ")
        pieces = self.tokenizer.tokenize(self._as_in_text(words))
        lengths = words.with_values(pieces.row_lengths())
        ends = tf.ragged.map_flat_values(tf.cumsum, lengths)
        before = tf.concat([[0], ends.flat_values], 0)
        starts = ends.flat_values - lengths.flat_values
        starts -= tf.gather(tf.gather(before, words.row_splits[:-1]), words.value_rowids())
        room = self.max_seq_length - 2
        has_place = (lengths.flat_values > 0) & (starts < room)
        first_pieces = words.with_values(tf.where(has_place, starts + 1, 0))
        sentences = tf.RaggedTensor.from_row_splits(
            pieces.flat_values, tf.gather(before, words.row_splits)
        )
        features = self.frame([sentences[:, :room]])
        return features, tf.cast(first_pieces.to_tensor(-1), tf.int32)

    def _as_in_text(self, words: tf.RaggedTensor) -> tf.Tensor:
        """Returns all words with what stands before them in their text, string [words]."""
        if not self.vocabulary.space_before:
            return words.flat_values
        is_first = tf.ragged.range(words.row_lengths()).flat_values == 0
        before = tf.where(is_first, "", self.vocabulary.space_before)
        return tf.strings.join([before, words.flat_values])

    def frame(self, segments: list[tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """Puts [CLS] before the segments of ids, [SEP] behind each, and padding at the end.

        Between two segments there are as many [SEP] as the vocabulary's `separators`.
        """
        if len(segments) > 1 and self.vocabulary.separators > 1:
            more = [[self._separate] * (self.vocabulary.separators - 1)]
            rows = tf.repeat(tf.constant(more, segments[1].dtype), segments[1].nrows(), axis=0)
            segments = [segments[0], tf.concat([rows, segments[1]], 1)]
        ids, segment_ids = tf_text.combine_segments(segments, self._classify, self._separate)
        ids, mask = tf_text.pad_model_inputs(ids, self.max_seq_length, self._padding)
        segment_ids, _ = tf_text.pad_model_inputs(segment_ids, self.max_seq_length)
        if self.vocabulary.second_segment != 1:
            segment_ids *= self.vocabulary.second_segment
        features = {"input_ids": ids, "input_mask": mask, "segment_ids": segment_ids}
        return {name: tf.cast(value, tf.int32) for name, value in features.items()}


def cut_longest(segments: list[tf.RaggedTensor], room: int) -> list[tf.RaggedTensor]:
    """Cuts one or two segments at their ends until they fit.

    It computes the result of _truncate_seq_pair (run_classifier.py) without a loop. That function
    removes the last token of the longer segment, or of the second if both are equally long.

    Args:
      segments: one or two ragged tensors, [n, (tokens)] each.
      room: greatest number of tokens in all segments together.
    """
    if len(segments) == 1:
        return [segments[0][:, :room]]
    first, second = segments
    halves = (room - room // 2, room // 2)
    others = (second.row_lengths(), first.row_lengths())
    cut = []
    for segment, other, half in zip((first, second), others, halves, strict=True):
        kept = tf.maximum(room - other, half)
        positions = tf.ragged.range(segment.row_lengths())
        is_kept = positions.values < tf.gather(kept, segment.value_rowids())
        cut.append(tf.ragged.boolean_mask(segment, segment.with_values(is_kept)))
    return cut


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


# Number of sequences that are tokenized at a time.
SEQUENCES_AT_A_TIME = 4096


@functools.lru_cache(maxsize=1)
def longer(text_features: TextFeatures) -> TextFeatures:
    """Returns the converter with more room; it is cached, see `_graph`."""
    return text_features.with_more_room()


def first_pieces(
    examples: Sequence[Example], text_features: TextFeatures
) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
    """Yields batches of features and of the words' first pieces, see `TextFeatures.of_words`."""
    convert = _graph(text_features.of_words)
    for start in range(0, len(examples), SEQUENCES_AT_A_TIME):
        some = examples[start : start + SEQUENCES_AT_A_TIME]
        features, pieces = convert(tf.constant([" ".join(example.words) for example in some]))
        yield {name: value.numpy() for name, value in features.items()}, pieces.numpy()


def converted(
    text_features: TextFeatures, columns: Sequence[Sequence[str]]
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches of the features of columns of texts, as `TextFeatures` returns them."""
    convert = _graph(text_features.__call__)
    for start in range(0, len(columns[0]), SEQUENCES_AT_A_TIME):
        some = (tf.constant(column[start : start + SEQUENCES_AT_A_TIME]) for column in columns)
        yield {name: value.numpy() for name, value in convert(*some).items()}


@functools.lru_cache(maxsize=4)
def _graph(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function as a graph; it is cached because tracing takes long."""
    return tf.function(convert, reduce_retracing=True, autograph=False)


def without_padding(
    batches: Sequence[Mapping[str, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the ids and segments of all sequences end to end, and the sequences' lengths."""
    masks = [batch["input_mask"] > 0 for batch in batches]
    ids, segments = (
        np.concatenate([batch[name][mask] for batch, mask in zip(batches, masks, strict=True)])
        for name in ("input_ids", "segment_ids")
    )
    return ids, segments, np.concatenate([mask.sum(axis=1) for mask in masks])
