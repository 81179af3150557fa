"""Turns texts into model inputs, by one arithmetic for fine-tuning and for the exported graph."""

import copy
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from beambert.pipelines.tasks.task import Example
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import CONTINUES, Vocabulary

# Arrays of NumPy, or tensors of TensorFlow in a graph that is served.
Array = Any
Inputs = dict[str, Array]


class Pieces(NamedTuple):
    """The ids of texts, end to end.

    Attributes:
      ids: int64 [tokens].
      starts: int64 [n], the first token of each text.
      lengths: int64 [n], the number of tokens of each text.
    """

    ids: Array
    starts: Array
    lengths: Array


class HostTexts:
    """Cuts strings into tokens and words, in Python.

    `serving.graphs.GraphTexts` does the same in a graph.
    """

    # The functions of arrays.
    xp: ClassVar[Any] = np

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool):
        """Builds the tokenizer."""
        self._tokenizer = make_tokenizer(vocabulary, do_lower_case)

    def pieces(self, texts: Sequence[str]) -> Pieces:
        """Returns the ids of texts."""
        ids, lengths = self._tokenizer.tokenize_batch(texts)
        return Pieces(ids.astype(np.int64), np.cumsum(lengths) - lengths, lengths)

    @staticmethod
    def numbers(count: int) -> np.ndarray:
        """Returns the numbers from 0 to before a number, int64."""
        return np.arange(count)

    def words(self, texts: Sequence[str], space_before: str) -> tuple[list[str], np.ndarray]:
        """Returns all words of texts, and the number of words of each text, int64 [n].

        Args:
          texts: words separated by single spaces.
          space_before: what is put before all words of a text but the first.
        """
        found = [text.split(" ") for text in texts]
        words = [
            space_before * (number > 0) + word
            for of_text in found
            for number, word in enumerate(of_text)
        ]
        return words, np.array([len(of_text) for of_text in found], np.int64)


class TextFeatures:
    """[CLS] text [SEP] or [CLS] text [SEP] text_b [SEP], cut and padded to a fixed length.

    The special tokens are those of the vocabulary. RoBERTa's has two [SEP] between two texts, and
    one segment.

    This equals convert_single_example of the original run_classifier.py: texts that are too long
    lose tokens at their end, the longer text of a pair first.

    Attributes:
      texts: cuts texts into tokens, and has the functions of its arrays.
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
        self.windows = windows
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self.max_seq_length = max_seq_length
        self.texts = HostTexts(vocabulary, do_lower_case)

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
        more = copy.copy(self)
        more.windows += self.windows > 1
        more.max_seq_length += self.windows == 1
        return more

    def __call__(self, *texts: Any) -> Inputs:
        """Converts texts, a column of n, or pairs of texts, two such columns.

        Returns:
          `input_ids`, `input_mask` and `segment_ids`, int32 [n, longest].
        """
        pieces = [self.texts.pieces(column) for column in texts]
        if self.windows > 1:
            return self.of_windows(pieces[0])
        between = self.vocabulary.separators * (len(pieces) - 1)
        return self._framed(self._cut_longest(pieces, self.max_seq_length - 2 - between))

    def of_windows(self, pieces: Pieces) -> Inputs:
        """Puts the windows of each text end to end: [CLS] pieces [SEP] [CLS] pieces [SEP] …

        All windows of a text but the last have `max_seq_length` tokens. Each begins with the last
        quarter of the one before, so that a passage cut by the end of a window is whole in the
        next, up to that length. A text with more than `windows` windows loses its end.

        Args:
          pieces: the tokens of each text.

        Returns:
          `input_ids`, `input_mask` and `segment_ids`, int32 [n, longest].
        """
        xp, special = self.texts.xp, self.vocabulary.special
        room = self.max_seq_length - 2
        stride = room - room // 4
        window_L, place_L = divmod(np.arange(self.longest), self.max_seq_length)
        beyond_n1 = xp.maximum(pieces.lengths - room, 0)[:, None]
        is_there_nL = window_L * stride < beyond_n1 + stride
        taken_nL = xp.minimum(pieces.lengths[:, None] - window_L * stride, room)
        ids_nL = xp.take(
            _with_one_more(xp, pieces.ids),
            pieces.starts[:, None] + (window_L * stride + place_L - 1),
            mode="clip",
        )
        ids_nL = xp.where(place_L > taken_nL, special.separate, ids_nL)
        ids_nL = xp.where(place_L == 0, special.classify, ids_nL)
        is_token_nL = is_there_nL & (place_L < taken_nL + 2)
        return self._inputs(xp.where(is_token_nL, ids_nL, special.padding), is_token_nL)

    def of_words(self, texts: Any) -> tuple[Inputs, Array]:
        """Converts texts whose words have labels.

        Args:
          texts: a column of texts, words separated by single spaces.

        Returns:
          The features, as `__call__` returns them, and the position of each word's first piece,
          int32 [n, most words]: 0 for a word that was cut off or has no piece, -1 after the last
          word.
        """
        xp = self.texts.xp
        words, counts = self.texts.words(texts, self.vocabulary.space_before)
        pieces = self.texts.pieces(words)
        firsts = xp.cumsum(counts) - counts
        lengths = _with_one_more(xp, pieces.lengths)
        starts = _with_one_more(xp, pieces.starts, xp.sum(pieces.lengths))
        sentence_starts = xp.take(starts, firsts)
        sentence_lengths = xp.take(starts, firsts + counts) - sentence_starts
        room = self.max_seq_length - 2
        number_W = self.texts.numbers(xp.max(counts))
        word_nW = firsts[:, None] + number_W
        start_nW = xp.take(starts, word_nW, mode="clip") - sentence_starts[:, None]
        has_place = (xp.take(lengths, word_nW, mode="clip") > 0) & (start_nW < room)
        first_nW = xp.where(has_place, start_nW + 1, 0)
        first_nW = xp.where(number_W < counts[:, None], first_nW, -1)
        sentences = Pieces(pieces.ids, sentence_starts, xp.minimum(sentence_lengths, room))
        return self._framed([sentences]), xp.asarray(first_nW, dtype=np.int32)

    def _cut_longest(self, segments: Sequence[Pieces], room: int) -> list[Pieces]:
        """Cuts one or two segments at their ends until they fit.

        It computes the result of _truncate_seq_pair (run_classifier.py) without a loop. That
        function removes the last token of the longer segment, or of the second if both are equally
        long.

        Args:
          segments: one or two columns.
          room: greatest number of tokens in all segments together.
        """
        others = [segment.lengths for segment in segments[::-1]] if len(segments) > 1 else [room]
        halves = (room - room // 2, room // 2)
        cut = []
        for segment, other, half in zip(segments, others, halves, strict=False):
            kept = self.texts.xp.maximum(room - other, half) if len(segments) > 1 else room
            cut.append(segment._replace(lengths=self.texts.xp.minimum(segment.lengths, kept)))
        return cut

    def _framed(self, segments: Sequence[Pieces], *markers: int) -> Inputs:
        """Puts [CLS] before the segments, [SEP] behind each, and padding at the end.

        Between two segments there are as many [SEP] as the vocabulary's `separators`.

        Args:
          segments: the segments of each sequence.
          markers: ids behind [CLS].
        """
        xp, special = self.texts.xp, self.vocabulary.special
        place_L = np.arange(self.max_seq_length)
        ids_nL: Array = np.full(self.max_seq_length, special.padding)
        for place, id in enumerate((special.classify, *markers)):
            ids_nL[place] = id
        segment_nL: Array = np.zeros(self.max_seq_length, np.int64)
        start_n1: Array = 1 + len(markers)
        for number, pieces in enumerate(segments):
            if number:
                segment_nL = xp.where(
                    place_L >= start_n1, self.vocabulary.second_segment, segment_nL
                )
                more = self.vocabulary.separators - 1
                ids_nL = xp.where(
                    (place_L >= start_n1) & (place_L < start_n1 + more), special.separate, ids_nL
                )
                start_n1 = start_n1 + more
            end_n1 = start_n1 + pieces.lengths[:, None]
            text_nL = xp.take(
                _with_one_more(xp, pieces.ids),
                pieces.starts[:, None] + place_L - start_n1,
                mode="clip",
            )
            ids_nL = xp.where((place_L >= start_n1) & (place_L < end_n1), text_nL, ids_nL)
            ids_nL = xp.where(place_L == end_n1, special.separate, ids_nL)
            start_n1 = end_n1 + 1
        is_token_nL = place_L < start_n1
        return self._inputs(ids_nL, is_token_nL, xp.where(is_token_nL, segment_nL, 0))

    def _inputs(self, ids_nL: Array, is_token_nL: Array, segment_nL: Array | None = None) -> Inputs:
        xp = self.texts.xp
        segment_nL = xp.zeros_like(ids_nL) if segment_nL is None else segment_nL
        found = {"input_ids": ids_nL, "input_mask": is_token_nL, "segment_ids": segment_nL}
        return {name: xp.asarray(value, dtype=np.int32) for name, value in found.items()}


def _with_one_more(xp: Any, values: Array, last: Array = 0) -> Array:
    """Returns int64 values [k] and another one, which may be looked up though it counts nowhere."""
    return xp.concatenate([values, xp.reshape(xp.asarray(last, dtype=np.int64), [1])], 0)


_UNUSED = re.compile(r"\[unused\d+\]")
# Tokens of documents that do not count (`mask_punctuation` of ColBERT).
_PUNCTUATION = frozenset(string.punctuation)


def markers_of(vocabulary: Vocabulary) -> tuple[int, int]:
    """Returns the ids of [Q] and [D], which behind [CLS] tell queries from documents.

    They are the first two unused tokens of a vocabulary; of Google's uncased one [unused0] and
    [unused1], as in ColBERT. In a vocabulary with fewer than two, [MASK] stands for [Q] and [SEP]
    for [D]: no text has one of them at this place.
    """
    unused = [number for number, token in enumerate(vocabulary.tokens) if _UNUSED.match(token)]
    if len(unused) < 2:
        return vocabulary.special.mask, vocabulary.special.separate
    return unused[0], unused[1]


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
        self._of_query, self._of_document = markers_of(vocabulary)
        self._mask = vocabulary.special.mask
        pieces = (piece.removeprefix(CONTINUES) for piece in vocabulary.pieces)
        self._is_punctuation = np.array([piece in _PUNCTUATION for piece in pieces])

    def with_more_room(self) -> "InteractionFeatures":
        """Returns a converter that keeps a token more."""
        more = super().with_more_room()
        more.query_length += 1
        return more

    def __call__(self, *texts: Any) -> Inputs:
        """Converts a column of queries and at least one of documents, n each.

        Returns:
          `input_ids`, `input_mask` and `segment_ids`, int32 [n * columns, longest], those of a
          row's texts after each other. Queries are not expanded yet.
        """
        queries = self.queries(texts[0])
        missing = [[0, 0], [0, self.max_seq_length - self.query_length]]
        xp = self.texts.xp
        parts = [{name: xp.pad(query, missing) for name, query in queries.items()}]
        parts += [self.documents(text) for text in texts[1:]]
        return {
            name: xp.reshape(xp.stack([part[name] for part in parts], 1), [-1, self.max_seq_length])
            for name in queries
        }

    def queries(self, texts: Any) -> Inputs:
        """Returns the features of queries, int32 [n, query_length], which are not expanded yet."""
        return self._marked(texts, self._of_query, self.query_length)

    def documents(self, texts: Any) -> Inputs:
        """Returns the features of documents, int32 [n, max_seq_length]."""
        return self._marked(texts, self._of_document, self.max_seq_length)

    def _marked(self, texts: Any, marker: int, length: int) -> Inputs:
        pieces = self._cut_longest([self.texts.pieces(texts)], length - 3)
        return {name: each[:, :length] for name, each in self._framed(pieces, marker).items()}

    def expanded(self, queries: Mapping[str, Array], xp: Any = np) -> Inputs:
        """Returns queries with [MASK] in the place of padding: query augmentation.

        As in ColBERT, no token attends to them (`attend_to_mask_tokens` is off), and their own
        vectors count like those of the query's words.

        Args:
          queries: features of queries.
          xp: the functions of their arrays.
        """
        ids = xp.where(queries["input_mask"] > 0, queries["input_ids"], self._mask)
        return {**queries, "input_ids": ids}

    def counting(self, documents: Mapping[str, Array], xp: Any = np) -> Array:
        """Returns whether a token of documents counts, bool [..., L]: punctuation does not."""
        is_punctuation = xp.take(self._is_punctuation, documents["input_ids"], axis=0)
        return (documents["input_mask"] > 0) & ~is_punctuation


# Number of sequences that are tokenized at a time.
SEQUENCES_AT_A_TIME = 4096


def first_pieces(
    examples: Sequence[Example], text_features: TextFeatures
) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
    """Yields batches of features and of the words' first pieces, see `TextFeatures.of_words`."""
    for start in range(0, len(examples), SEQUENCES_AT_A_TIME):
        some = examples[start : start + SEQUENCES_AT_A_TIME]
        yield text_features.of_words([" ".join(example.words) for example in some])


def converted(
    text_features: TextFeatures, columns: Sequence[Sequence[str]]
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches of the features of columns of texts, as `TextFeatures` returns them."""
    for start in range(0, len(columns[0]), SEQUENCES_AT_A_TIME):
        yield text_features(*(column[start : start + SEQUENCES_AT_A_TIME] for column in columns))


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
