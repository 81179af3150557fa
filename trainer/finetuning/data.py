"""Datasets of fine-tuning: rows of features, targets and weights for each kind of task."""

import abc
import collections
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.tasks import multi_label
from beambert.pipelines.tasks.classification import loss_weights
from beambert.pipelines.tasks.feature_folder import TaskFeatureFiles
from beambert.pipelines.tasks.late_interaction import best_by_interaction
from beambert.pipelines.tasks.metrics import (
    best_by_vectors,
    commonest,
    random_order_scores,
    relevance_scores,
    retrieval_scores,
    scores,
    text_id,
)
from beambert.pipelines.tasks.reading import read_splits
from beambert.pipelines.tasks.regression import LISTWISE
from beambert.pipelines.tasks.squad import score
from beambert.pipelines.tasks.tagging import entity_scores
from beambert.pipelines.tasks.task import DEV, TRAIN, Task, TaskFeatures
from beambert.pipelines.tasks.texts import TextFeatures, first_pieces
from beambert.pipelines.tasks.vectors import COSINE, TSDAE
from beambert.pipelines.tasks.windows import (
    DecodingParameters,
    SquadPredictions,
    WindowParameters,
    Windows,
    decode,
    lost_answers,
    make_windows,
    span_features,
)
from beambert.pipelines.tokenizers.encoding import make_offset_tokenizer
from beambert.trainer.finetuning.batches import LENGTH_MULTIPLE, LISTS
from beambert.trainer.models import outside_index


class TaskData(abc.ABC):
    """The training and dev examples of a task.

    Attributes:
      task: declaration of the task.
      labels: labels in the order of their indices; empty if the task has none.
      is_pair: whether each example is a pair of texts.
      counts: number of examples of each split.
    """

    task: Task
    labels: Sequence[str]
    is_pair: bool
    counts: Mapping[str, int]
    # What is predicted for the baseline, in words.
    without_model: ClassVar[str]

    def __init__(
        self, task: Task, data_dir: str, tell: Callable[[str], None], skip_bad_rows: bool = False
    ):
        """Reads the splits train and dev.

        Args:
          task: declaration of the task.
          data_dir: folder of the task's files.
          tell: called with a sentence for each problem with the data.
          skip_bad_rows: leave out rows that cannot be used instead of raising an error.

        Raises:
          InputError: a file cannot be read, or the two splits do not match.
        """
        self._read = read_splits(task, data_dir, (TRAIN, DEV), skip_bad_rows)
        for note in self._read.notes:
            tell(note)
        self.task = task
        self.labels = list(self._read.labels)
        self._examples = self._read.examples
        self.counts = {split: len(examples) for split, examples in self._examples.items()}

    @property
    def sequences(self) -> int:
        """Number of sequences of an example: that of its endings, or else 1."""
        return self.task.sequences(self._examples[TRAIN][0])

    @property
    def has_segments(self) -> bool:
        """Whether a sequence has two segments."""
        return self.is_pair

    @property
    def cached(self) -> int:
        """Number of texts that are encoded at a time with a cache of gradients; 0 without one."""
        return 0

    def check_batch(self, size: int, parts: int) -> None:  # noqa: B027  (for most kinds all can be)
        """Refuses batches that nothing can be learned from.

        Args:
          size: number of examples in an update.
          parts: number of parts of it that are computed by themselves.

        Raises:
          InputError: it is such a batch.
        """

    @abc.abstractmethod
    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes the features of both splits, or reads those that `beambert features` made."""

    @abc.abstractmethod
    def features(self, split: str) -> TaskFeatures:
        """Returns the model's inputs for a split."""

    @abc.abstractmethod
    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics for a model's outputs on dev."""

    @abc.abstractmethod
    def baseline(self) -> dict[str, float]:
        """Returns the same metrics for a prediction that ignores the text, see `without_model`."""

    def prediction_files(self, outputs: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Returns the contents of prediction files for external scorers of dev, by file name."""
        return {}

    def notes(self) -> Sequence[str]:
        """Returns sentences about the features for the user."""
        return ()

    def sha256(self) -> dict[str, str]:
        """Returns the SHA-256 of each split's files."""
        return self._read.sha256()


class ExampleData(TaskData):
    """Examples that are one instance each and are scored one by one."""

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes the features of both splits, or reads those that `beambert features` made."""
        self._length = text_features.max_seq_length
        self._features, self._cut = {}, {}
        for split, examples in self._examples.items():
            if made:
                features, cut = made.read(split), made.count_cut(split)
            else:
                given = examples, self.labels, text_features
                features = self.task.features(*given)
                cut = self.task.count_cut(*given, features)
            if self.task.class_weights and split == TRAIN:
                features = self._weighted(features)
            self._features[split], self._cut[split] = features, cut

    def _weighted(self, features: TaskFeatures) -> TaskFeatures:
        """Returns features with the weight of each target in the loss."""
        targets = dict(features.targets)
        given = self.task.class_weights, self.labels, targets["label_ids"]
        targets["loss_weights"] = loss_weights(*given)
        return dataclasses.replace(features, targets=targets)

    def notes(self) -> list[str]:
        """Returns a sentence for each split with sequences that were cut."""
        return [
            f"{split}: {cut:,} of {len(self._features[split].lengths):,} sequences lost tokens at "
            f"{self._room}; a greater one keeps more"
            for split, cut in self._cut.items()
            if cut
        ]

    @property
    def _room(self) -> str:
        """The flags that bound the number of tokens of a sequence."""
        windows = f" and --max_windows={self.task.windows}" if self.task.windows > 1 else ""
        return f"--max_seq_length={self._length}{windows}"

    def features(self, split: str) -> TaskFeatures:
        """Returns the model's inputs for a split."""
        return self._features[split]


class TextData(ExampleData):
    """Examples that consist of a text or a pair of texts."""

    @property
    def is_pair(self) -> bool:
        """Whether each example is a pair of texts."""
        return self._examples[TRAIN][0].text_b is not None


class ClassData(TextData):
    """Texts with one label each."""

    without_model = "the commonest label of train"

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's outputs for dev."""
        probabilities = outputs["probabilities"]
        return self._scores(probabilities.argmax(axis=1).tolist(), probabilities)

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for predicting the most common label of train for every example."""
        counts = collections.Counter(example.label for example in self._examples[TRAIN])
        (label, _), *_ = counts.most_common(1)
        return self._scores([self.labels.index(label)] * self.counts[DEV])

    def _scores(
        self, predictions: Sequence[int], probabilities: np.ndarray | None = None
    ) -> dict[str, float]:
        index = {label: number for number, label in enumerate(self.labels)}
        return scores(
            self.task.metrics,
            [index[example.label] for example in self._examples[DEV]],
            predictions,
            probabilities=probabilities,
            positive=index.get(self.task.positive_label, 1),
        )


class MultiLabelData(TextData):
    """Texts with any number of labels each."""

    without_model = "the commonest labels of train"

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's outputs for dev."""
        return self._scores(outputs["probabilities"] > multi_label.THRESHOLD)

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for predicting the commonest labels of train for every example."""
        sets = collections.Counter(frozenset(example.labels) for example in self._examples[TRAIN])
        commonest = min(sets, key=lambda labels: (-sets[labels], sorted(labels)))
        row = [label in commonest for label in self.labels]
        return self._scores(np.tile(row, (self.counts[DEV], 1)))

    def _scores(self, predictions: np.ndarray) -> dict[str, float]:
        true = [
            [label in example.labels for label in self.labels] for example in self._examples[DEV]
        ]
        return multi_label.scores(self.task.metrics, np.array(true), predictions)


class ChoiceData(ClassData):
    """Texts with several endings, one of which is right."""

    has_segments = True


class NumberData(TextData):
    """Texts with one number each."""

    without_model = "the mean of train"

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's outputs for dev."""
        return self._scores(outputs["scores"].tolist())

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for predicting the mean of train for every example."""
        mean = float(np.mean([float(example.label) for example in self._examples[TRAIN]]))
        return self._scores([mean] * self.counts[DEV])

    def _scores(self, predictions: Sequence[float]) -> dict[str, float]:
        numbers = [float(example.label) for example in self._examples[DEV]]
        return scores(self.task.metrics, numbers, predictions)


class RelevanceData(TextData):
    """Candidates with their relevance for a query."""

    without_model = "a random order"

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes or reads the features, and numbers the queries if lists of them are learnt."""
        super().tokenize(text_features, made)
        if not self.is_listwise:
            return
        for split, features in self._features.items():
            queries = np.array([text_id(example.text) for example in self._examples[split]])
            targets = {**features.targets, LISTS: queries}
            self._features[split] = dataclasses.replace(features, targets=targets)

    @property
    def is_listwise(self) -> bool:
        """Whether the candidates of a query are learnt together."""
        return self.task.loss == LISTWISE

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's outputs for dev."""
        return self._means(relevance_scores(*self._judged(), outputs["scores"]))

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for a random order, which are means over all orders."""
        return self._means(random_order_scores(*self._judged()))

    def _judged(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of the queries of dev, and the labels."""
        examples = self._examples[DEV]
        queries = np.array([text_id(example.text) for example in examples])
        return queries, np.array([float(example.label) for example in examples])

    def _means(self, found: Mapping[str, np.ndarray]) -> dict[str, float]:
        return {name: float(found[name].mean()) for name in self.task.metrics}


class TagData(ExampleData):
    """Sentences with one tag for each word."""

    without_model = "the commonest tag of train"
    is_pair = False

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes or reads the features, and finds the first word piece of each word of dev."""
        super().tokenize(text_features, made)
        self._pieces: list[np.ndarray] = []
        for _, pieces in first_pieces(self._examples[DEV], text_features):
            self._pieces += [of_words[of_words >= 0] for of_words in pieces]

    def notes(self) -> list[str]:
        """Returns the sentences about cut sequences, and one about the words without a token."""
        notes = super().notes()
        lost = sum(np.sum(pieces == 0) for pieces in self._pieces)
        if lost:
            words = sum(map(len, self._pieces))
            notes.append(
                f"dev: {lost:,} of {words:,} words have no token at "
                f"--max_seq_length={self._length}, and are scored as {self._outside}"
            )
        return notes

    @property
    def _outside(self) -> str:
        return self.labels[outside_index(self.labels)]

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's outputs for dev."""
        tags = []
        for ids, pieces in zip(outputs["label_ids"], self._pieces, strict=True):
            # Position 0 is [CLS]. It stands for a word that has no token in the sequence.
            found = zip(ids[pieces], pieces, strict=True)
            tags.append([self.labels[index] if at else self._outside for index, at in found])
        return self._scores(tags)

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for predicting the most common tag of train for every word."""
        counts = collections.Counter(
            tag for one_example in self._examples[TRAIN] for tag in one_example.tags
        )
        (tag, _), *_ = counts.most_common(1)
        return self._scores([[tag] * len(example.words) for example in self._examples[DEV]])

    def _scores(self, predictions: Sequence[Sequence[str]]) -> dict[str, float]:
        true = [example.tags for example in self._examples[DEV]]
        found = {"accuracy": _word_accuracy(true, predictions)}
        if self.task.metrics != ("accuracy",):
            found |= entity_scores(true, predictions)
        return {name: found[name] for name in self.task.metrics}


def _word_accuracy(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """Returns the share of words with the right tag, over all sentences."""
    flat = (itertools.chain.from_iterable(tags) for tags in (true, predicted))
    return float(np.mean([one == other for one, other in zip(*flat, strict=True)]))


class SpanData(TaskData):
    """The examples of SQuAD; an input holds a question and a window of its context."""

    without_model = "no answer to any question"
    is_pair = True

    def __init__(
        self, task: Task, data_dir: str, tell: Callable[[str], None], skip_bad_rows: bool = False
    ):
        """Reads the splits train and dev; see `TaskData`.

        It also reports a v2.0 task without unanswerable questions in train.
        """
        super().__init__(task, data_dir, tell, skip_bad_rows)
        if task.allows_no_answer and not any(
            example.is_impossible for example in self._examples[TRAIN]
        ):
            tell(
                f"{self._read.files[TRAIN]}: no question is marked as impossible, so the model "
                "cannot learn when to give no answer; the task squad1.1 always gives one"
            )

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes the features of both splits, or reads those of train.

        The windows of dev are always made, because decoding reads answers off them.
        """
        tokenizer = make_offset_tokenizer(text_features.vocabulary, text_features.do_lower_case)
        parameters = WindowParameters.of_length(text_features.max_seq_length)

        def windows_of(split: str) -> Windows:
            return make_windows(self._examples[split], tokenizer, parameters)

        self._dev_windows = windows_of(DEV)
        self._features = {
            TRAIN: made.read(TRAIN) if made else span_features(windows_of(TRAIN)),
            DEV: span_features(self._dev_windows),
        }

    def notes(self) -> list[str]:
        """Returns a sentence on the answers of dev that no tokens match exactly, if any."""
        lost = lost_answers(self._examples[DEV], self._dev_windows)
        if not lost:
            return []
        return [
            f"dev: {len(lost):,} of {self.counts[DEV]:,} questions have no answer that consists of "
            f"whole tokens of one window, and cannot be answered exactly; the first is "
            f"{lost[0].id!r}"
        ]

    def features(self, split: str) -> TaskFeatures:
        """Returns the model's inputs for a split, one row for each window."""
        return self._features[split]

    def _decode(self, outputs: Mapping[str, np.ndarray]) -> SquadPredictions:
        return decode(
            self._examples[DEV],
            self._dev_windows,
            outputs["start_logits"],
            outputs["end_logits"],
            self.task.allows_no_answer,
            DecodingParameters(),
        )

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the metrics of dev as shares, and those of the official scorer in per cent."""
        predictions = self._decode(outputs)
        return self._scores(predictions.answers, predictions.null_odds or None)

    def prediction_files(self, outputs: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Returns the contents of the files for the official scorers, by file name."""
        return self._decode(outputs).files()

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for giving no answer to any question."""
        return self._scores({question.id: "" for question in self._examples[DEV]})

    def _scores(
        self, answers: Mapping[str, str], null_odds: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        found = score(self._examples[DEV], answers, self.task.allows_no_answer, null_odds)
        metrics = {"squad_f1": found.f1.mean(), "exact_match": found.exact.mean()}
        metrics |= {f"official_{name}": value for name, value in found.metrics.items()}
        return {name: float(value) for name, value in metrics.items()}


class VectorData(ExampleData):
    """Texts that must find others."""

    without_model = "the texts that most queries must find"

    # Each text is a sequence by itself.
    is_pair = False

    def __init__(
        self, task: Task, data_dir: str, tell: Callable[[str], None], skip_bad_rows: bool = False
    ):
        """Reads the splits train and dev; see `TaskData`. It says so if train has no pairs."""
        super().__init__(task, data_dir, tell, skip_bad_rows)
        if self.is_single:
            how = (
                "a decoder writes each again from the vector of some of its words (TSDAE)"
                if self.denoises
                else "each learns to find itself under another dropout (SimCSE)"
            )
            tell(f"{self._read.files[TRAIN]}: has single texts; {how}")

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes the features of both splits."""
        super().tokenize(text_features, made)
        self.text_features = text_features

    @property
    def denoises(self) -> bool:
        """Whether a decoder writes the texts of train again."""
        return getattr(self.task, "single_texts", None) == TSDAE

    @property
    def is_single(self) -> bool:
        """Whether train has single texts."""
        return self._examples[TRAIN][0].text_b is None

    @property
    def has_scores(self) -> bool:
        """Whether the pairs of train have scores."""
        return self._examples[TRAIN][0].label is not None

    @property
    def longest_first(self) -> int:
        """Greatest number of tokens of the first text of any example, rounded up."""
        lengths = [
            feature.lengths.reshape(-1, feature.choices)[:, 0].max()
            for feature in self._features.values()
        ]
        return int(-(-max(lengths) // LENGTH_MULTIPLE) * LENGTH_MULTIPLE)

    @property
    def cached(self) -> int:
        """Number of texts that are encoded at a time with a cache of gradients; 0 without one."""
        return self.task.gradient_cache_batch_size

    def check_batch(self, size: int, parts: int) -> None:
        """Refuses batches whose examples have nothing to be compared with."""
        by_itself = self.denoises or (self.has_scores and self.task.loss == COSINE)
        if size // parts > 1 or by_itself or self._examples[TRAIN][0].negatives:
            return
        by = "" if parts == 1 else f" in each of {parts} parts"
        raise InputError(
            f"--train_batch_size={size}: leaves one example{by}, which has no other to be compared "
            f"with; give at least {2 * parts}"
        )

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's vectors for dev, and those of their parts."""
        vectors = outputs["vectors"]
        found = self._scores(vectors)
        for dim in self.task.matryoshka_dims:
            at_dim = self._scores(vectors[..., :dim])
            found |= {f"{name}_of_{dim}_dims": at_dim[name] for name in self.task.metrics}
        return found

    def _scores(self, vectors_NSH: np.ndarray) -> dict[str, float]:
        text_ids = self._text_ids()
        return self._means(text_ids, best_by_vectors(text_ids, vectors_NSH).tolist())

    def _text_ids(self) -> np.ndarray:
        ids = [[text_id(text) for text in example.sequences] for example in self._examples[DEV]]
        return np.array(ids, np.int64)

    def _means(self, text_ids: np.ndarray, ranked: Sequence[Sequence[int]]) -> dict[str, float]:
        of_rows = retrieval_scores(text_ids, ranked)
        return {name: float(of_rows[name].mean()) for name in self.task.metrics}

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for the texts that most queries must find, in the same order."""
        text_ids = self._text_ids()
        return self._means(text_ids, [commonest(text_ids)] * len(text_ids))


class InteractionData(VectorData):
    """Queries that must find documents by the vectors of their tokens."""

    # The model scores a query with a document, which have no segments in common.
    is_pair = True
    has_segments = False

    @property
    def _room(self) -> str:
        return f"{super()._room} and --query_length={self.task.query_length}"

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's vectors for dev."""
        text_ids = self._text_ids()
        documents = [
            vectors[counts]
            for of_row, counts_of_row in zip(outputs["documents"], outputs["counts"], strict=True)
            for vectors, counts in zip(of_row, counts_of_row, strict=True)
        ]
        best = best_by_interaction(text_ids, outputs["queries"], documents)
        return self._means(text_ids, best.tolist())


class ScoredVectorData(VectorData):
    """Pairs with scores that their cosines must follow."""

    without_model = "the same cosine for all"

    def _scores(self, vectors_NSH: np.ndarray) -> dict[str, float]:
        lengths = np.linalg.norm(vectors_NSH, axis=-1, keepdims=True)
        units = vectors_NSH / np.maximum(lengths, 1e-12)
        return self._compared((units[:, 0] * units[:, 1]).sum(axis=-1).tolist())

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for a constant cosine, which are 0."""
        return self._compared([0.0] * self.counts[DEV])

    def _compared(self, found: list[float]) -> dict[str, float]:
        numbers = [float(example.label) for example in self._examples[DEV]]
        return scores(self.task.metrics, numbers, found)
