"""Turns the examples of a task into model inputs without padding, in columns."""

import abc
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from beambert.pipelines.model_inputs.features import (
    NO_LABEL,
    MadeInputs,
    TaskFeatures,
    span_features,
)
from beambert.pipelines.model_inputs.interaction import InteractionFeatures
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.model_inputs.windows import NO_ANSWER, WindowParameters, make_windows
from beambert.pipelines.tasks.examples import Example, VectorExample
from beambert.pipelines.tasks.ranking import text_id
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    EMBEDDING,
    LATE_INTERACTION,
    MULTI_LABEL,
    REGRESSION,
    RERANK,
    SIMILARITY,
    SPAN,
    TAGGING,
)
from beambert.pipelines.tokenizers.encoding import SubwordOffsets, make_offset_tokenizer
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.pipelines.tokenizers.wordpiece import OffsetTokenizer

# Number of sequences that are tokenized at a time.
SEQUENCES_AT_A_TIME = 4096


class ModelInputs(abc.ABC):
    """Turns the examples of a kind of task into inputs and targets."""

    # Names and types of the targets that an example has one of.
    TARGETS: Mapping[str, type] = {}
    # Names of the targets that each token has one of.
    TOKEN_TARGETS: tuple[str, ...] = ()
    # Whether an example has several sequences.
    HAS_CHOICES = False
    # Whether a target has a value for each label, rather than one value.
    HAS_TARGET_PER_LABEL = False

    def __init__(
        self,
        labels: Sequence[str],
        vocabulary: Vocabulary,
        do_lower_case: bool,
        max_seq_length: int,
    ):
        """Builds the tokenizer.

        Args:
          labels: labels in index order.
          vocabulary: vocabulary of the ids.
          do_lower_case: whether text is lower-cased and loses its accents.
          max_seq_length: greatest number of tokens in a sequence.
        """
        self._labels = labels
        self._tokenizer = self._build_tokenizer(vocabulary, do_lower_case, max_seq_length)

    @abc.abstractmethod
    def _build_tokenizer(
        self, vocabulary: Vocabulary, do_lower_case: bool, max_seq_length: int
    ) -> Any:
        """Returns the tokenizer of the kind."""

    @abc.abstractmethod
    def make(self, examples: Sequence[Any]) -> MadeInputs:
        """Converts examples, at least one."""

    @staticmethod
    def greatest_target(labels: int, max_seq_length: int) -> int:
        """Returns the greatest integer that a target may be."""
        return labels - 1


class ExampleInputs(ModelInputs):
    """Turns examples into sequences; each example is one record."""

    def _build_tokenizer(
        self, vocabulary: Vocabulary, do_lower_case: bool, max_seq_length: int
    ) -> TextFeatures:
        return TextFeatures(vocabulary, do_lower_case, max_seq_length)

    def make(self, examples: Sequence[Example]) -> MadeInputs:
        """Converts examples, at least one."""
        features = self.features(examples, self._labels, self._tokenizer)
        lost = self.count_cut(examples, self._labels, self._tokenizer, features)
        return MadeInputs(features, np.arange(len(features)), lost)

    @classmethod
    @abc.abstractmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: TextFeatures
    ) -> TaskFeatures:
        """See `make_features`."""

    @classmethod
    def count_cut(
        cls,
        examples: Sequence[Example],
        labels: Sequence[str],
        text_features: TextFeatures,
        features: TaskFeatures,
    ) -> int:
        """See the function `count_cut`."""
        length = text_features.longest
        full = np.flatnonzero(features.example_lengths == length)
        if not len(full):
            return 0
        some = [examples[index] for index in full]
        longer = cls.features(some, labels, _longer(text_features))
        return int((longer.lengths > length).sum())


class TextInputs(ExampleInputs):
    """Inputs of a classification: texts or pairs of texts; the target is the index of the label."""

    TARGETS = {"label_ids": np.int32}

    @classmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: TextFeatures
    ) -> TaskFeatures:
        """See `make_features`."""
        texts, others, choices = cls._columns(examples)
        columns = [texts] if others[0] is None else [texts, others]
        batches = list(_converted(text_features, columns))
        targets = {}
        if examples[0].truth is not None:
            found = cls._targets([example.truth for example in examples], labels)
            targets = {name: np.array(found, dtype) for name, dtype in cls.TARGETS.items()}
        return TaskFeatures(*_without_padding(batches), targets, {}, choices)

    @staticmethod
    def _columns(examples: Sequence[Any]) -> tuple[list[str], list[str | None], int]:
        """Returns the first and second texts of all sequences, and the sequences per example."""
        return [example.text for example in examples], [e.text_b for e in examples], 1

    @staticmethod
    def _targets(written: Sequence[str], labels: Sequence[str]) -> list[float]:
        index = {label: i for i, label in enumerate(labels)}
        return [index[label] for label in written]


class MultiLabelInputs(TextInputs):
    """Inputs of several labels: texts or pairs; the target is 1 for each label that applies."""

    TARGETS = {"label_ids": np.float32}
    HAS_TARGET_PER_LABEL = True

    @staticmethod
    def _targets(written: Sequence[Sequence[str]], labels: Sequence[str]) -> list[list[float]]:
        return [[float(label in of_example) for label in labels] for of_example in written]


class NumberInputs(TextInputs):
    """Inputs of a regression: texts or pairs of texts; the target is a number."""

    TARGETS = {"label_ids": np.float32}

    @staticmethod
    def _targets(written: Sequence[str], labels: Sequence[str]) -> list[float]:
        return [float(label) for label in written]


class ChoiceInputs(TextInputs):
    """Inputs of a choice: a text with each ending; the target is the index of the right one."""

    HAS_CHOICES = True

    @staticmethod
    def _columns(examples: Sequence[Any]) -> tuple[list[str], list[str | None], int]:
        choices = len(examples[0].choices)
        texts = [example.text for example in examples for _ in range(choices)]
        return texts, [ending for example in examples for ending in example.endings], choices


class VectorInputs(ExampleInputs):
    """Inputs of vectors: each text is a sequence; the targets are the ids of equal texts."""

    TARGETS = {"text_ids": np.int64}
    HAS_CHOICES = True
    HAS_TARGET_PER_LABEL = True

    @classmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: TextFeatures
    ) -> TaskFeatures:
        """See `make_features`."""
        texts = [text for example in examples for text in example.sequences]
        batches = list(_converted(text_features, [texts]))
        count = len(examples[0].sequences)
        return TaskFeatures(*_without_padding(batches), cls._targets(examples), {}, count)

    @staticmethod
    def _targets(examples: Sequence[VectorExample]) -> dict[str, np.ndarray]:
        ids = [[text_id(text) for text in example.sequences] for example in examples]
        return {"text_ids": np.array(ids, np.int64)}


class ScoredVectorInputs(VectorInputs):
    """Inputs of a similarity: pairs; the targets are the ids of equal texts, and the score."""

    @staticmethod
    def _targets(examples: Sequence[VectorExample]) -> dict[str, np.ndarray]:
        targets = VectorInputs._targets(examples)
        if examples[0].label is not None:
            scores = [float(example.label) for example in examples]
            targets["label_ids"] = np.array(scores, np.float32)
        return targets


class InteractionInputs(VectorInputs):
    """Inputs of late interaction: a query and documents, without what expands the query."""

    @classmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: TextFeatures
    ) -> TaskFeatures:
        """See `make_features`; the converter is an `InteractionFeatures`."""
        columns = list(zip(*(example.sequences for example in examples), strict=True))
        batches = list(_converted(text_features, columns))
        count = len(columns)
        return TaskFeatures(*_without_padding(batches), cls._targets(examples), {}, count)

    @classmethod
    def count_cut(
        cls,
        examples: Sequence[Example],
        labels: Sequence[str],
        text_features: InteractionFeatures,
        features: TaskFeatures,
    ) -> int:
        """See the function `count_cut`; queries have less room than documents."""
        room = np.full(features.choices, text_features.max_seq_length)
        room[0] = text_features.query_length
        full = np.flatnonzero((features.lengths.reshape(-1, len(room)) >= room).any(axis=1))
        if not len(full):
            return 0
        some = [examples[index] for index in full]
        longer = cls.features(some, labels, _longer(text_features))
        return int((longer.lengths.reshape(-1, len(room)) > room).sum())


class TagInputs(ExampleInputs):
    """Inputs of a tagging: sentences; the target of a word's first piece is its tag."""

    TOKEN_TARGETS = ("label_ids",)

    @classmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: TextFeatures
    ) -> TaskFeatures:
        """See `make_features`."""
        index = {label: i for i, label in enumerate(labels)}
        batches, label_ids = [], []
        for number, (features, pieces) in enumerate(first_pieces(examples, text_features)):
            some = examples[number * SEQUENCES_AT_A_TIME :][: len(pieces)]
            batches.append(features)
            found = np.full_like(features["input_ids"], NO_LABEL)
            rows, words = np.nonzero(pieces > 0)
            if some[0].tags is not None:
                tags = [index[some[row].tags[word]] for row, word in zip(rows, words, strict=True)]
                found[rows, pieces[rows, words]] = tags
            label_ids.append(found[features["input_mask"] > 0])
        targets = {"label_ids": np.concatenate(label_ids)} if examples[0].tags is not None else {}
        return TaskFeatures(*_without_padding(batches), {}, targets)


class SpanInputs(ModelInputs):
    """Windows of questions and contexts; the target is the answer's place. A window is a record."""

    TARGETS = {"start_positions": np.int32, "end_positions": np.int32}

    def _build_tokenizer(
        self, vocabulary: Vocabulary, do_lower_case: bool, max_seq_length: int
    ) -> OffsetTokenizer | SubwordOffsets:
        self._parameters = WindowParameters.of_length(max_seq_length)
        return make_offset_tokenizer(vocabulary, do_lower_case)

    def make(self, questions: Sequence[Question]) -> MadeInputs:
        """Converts questions, at least one."""
        windows = make_windows(questions, self._tokenizer, self._parameters)
        pieces = self._tokenizer.tokenize_batch([question.question for question in questions])
        is_cut = (pieces.lengths > self._parameters.max_query_length)[windows.question_index]
        with_answer = int((windows.start_positions != NO_ANSWER).sum())
        return MadeInputs(
            span_features(windows),
            windows.question_index,
            int(is_cut.sum()),
            {"sequences_with_answer": with_answer},
        )

    @staticmethod
    def greatest_target(labels: int, max_seq_length: int) -> int:
        """Returns the last position of a sequence."""
        return max_seq_length - 1


MODEL_INPUTS: dict[str, type[ModelInputs]] = {
    CLASSIFICATION: TextInputs,
    MULTI_LABEL: MultiLabelInputs,
    REGRESSION: NumberInputs,
    RERANK: NumberInputs,
    CHOICE: ChoiceInputs,
    TAGGING: TagInputs,
    SPAN: SpanInputs,
    EMBEDDING: VectorInputs,
    SIMILARITY: ScoredVectorInputs,
    LATE_INTERACTION: InteractionInputs,
}


def make_features(
    kind: str, examples: Sequence[Example], labels: Sequence[str], text_features: TextFeatures
) -> TaskFeatures:
    """Converts examples; examples without labels get no targets.

    Args:
      kind: kind of the task, any but span.
      examples: at least one example.
      labels: labels in index order.
      text_features: converter of texts to inputs.
    """
    return MODEL_INPUTS[kind].features(examples, labels, text_features)


def count_cut(
    kind: str,
    examples: Sequence[Example],
    labels: Sequence[str],
    text_features: TextFeatures,
    features: TaskFeatures,
) -> int:
    """Returns the number of sequences that lost tokens: those that more room would make longer.

    Args:
      kind, examples, labels, text_features: the arguments of `make_features`.
      features: the features that it returned.
    """
    return MODEL_INPUTS[kind].count_cut(examples, labels, text_features, features)


@functools.lru_cache(maxsize=1)
def _longer(text_features: TextFeatures) -> TextFeatures:
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


def _converted(
    text_features: TextFeatures, columns: Sequence[Sequence[str]]
) -> Iterator[dict[str, np.ndarray]]:
    convert = _graph(text_features.__call__)
    for start in range(0, len(columns[0]), SEQUENCES_AT_A_TIME):
        some = (tf.constant(column[start : start + SEQUENCES_AT_A_TIME]) for column in columns)
        yield {name: value.numpy() for name, value in convert(*some).items()}


@functools.lru_cache(maxsize=4)
def _graph(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function as a graph; it is cached because tracing takes long."""
    return tf.function(convert, reduce_retracing=True, autograph=False)


def _without_padding(
    batches: Sequence[Mapping[str, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    masks = [batch["input_mask"] > 0 for batch in batches]
    ids, segments = (
        np.concatenate([batch[name][mask] for batch, mask in zip(batches, masks, strict=True)])
        for name in ("input_ids", "segment_ids")
    )
    return ids, segments, np.concatenate([mask.sum(axis=1) for mask in masks])
