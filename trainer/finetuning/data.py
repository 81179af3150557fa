"""What a task's files hold, as the training needs it, and how predictions on dev are scored."""

import abc
import collections
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from beambert.pipelines.features.contract import TaskFeatureFiles
from beambert.pipelines.model_inputs.examples import (
    TaskFeatures,
    count_cut,
    first_pieces,
    make_features,
)
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.tasks.declarations import DEV, REGRESSION, TAGGING, TRAIN, Task
from beambert.pipelines.tasks.entities import entity_scores
from beambert.pipelines.tasks.metrics import scores
from beambert.pipelines.tasks.splits import files_sha256, read_splits
from beambert.pipelines.tasks.tables import BadRow
from beambert.trainer.task_models import outside_index


class TaskData(abc.ABC):
    """The examples of a task.

    Attributes:
      task: their declaration.
      labels: in index order; empty where there are none.
      is_pair: whether a second text goes with the first.
      files: path of each split.
      counts: examples of each split.
    """

    task: Task
    labels: Sequence[str]
    is_pair: bool
    files: Mapping[str, pathlib.Path]
    counts: Mapping[str, int]

    @abc.abstractmethod
    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes the features of both splits, or takes those that are made."""

    @abc.abstractmethod
    def features(self, split: str) -> TaskFeatures:
        """Returns the model's inputs."""

    @abc.abstractmethod
    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's outputs for dev."""

    @abc.abstractmethod
    def baseline(self) -> dict[str, float]:
        """Returns the same metrics of the best answer that ignores the text."""

    def prediction_files(self, outputs: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Returns the files that others' scorers of dev read, by name."""
        return {}

    def notes(self) -> Sequence[str]:
        """Returns what a user should know of the features."""
        return ()

    def sha256(self) -> dict[str, str]:
        """Returns the files' hashes by split."""
        return files_sha256(self.files)


class ExampleData(TaskData):
    """Of every kind but span."""

    def __init__(self, task: Task, data_dir: str, on_bad_row: Callable[[BadRow], None] | None):
        """Reads train and dev.

        Raises:
          InputError: they can't be read, or don't go together.
        """
        read = read_splits(task, data_dir, (TRAIN, DEV), on_bad_row is not None)
        for row in itertools.chain.from_iterable(read.left_out.values()):
            on_bad_row(row)
        self.task = task
        self.labels = list(read.labels)
        self._examples = read.examples
        self.files = read.files
        self.counts = {split: len(examples) for split, examples in self._examples.items()}
        self.is_pair = task.kind != TAGGING and self._examples[TRAIN][0].text_b is not None

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes or reads the features of both splits."""
        kind, self._length = self.task.kind, text_features.max_seq_length
        self._features, self._cut = {}, {}
        for split, examples in self._examples.items():
            if made:
                features, cut = made.read(split), made.count_cut(split)
            else:
                given = kind, examples, self.labels, text_features
                features = make_features(*given)
                cut = count_cut(*given, features)
            self._features[split], self._cut[split] = features, cut
        # Of each word of dev, where its tag is to be found.
        self._pieces: list[np.ndarray] = []
        if kind == TAGGING:
            for _, pieces in first_pieces(self._examples[DEV], text_features):
                self._pieces += [of_words[of_words >= 0] for of_words in pieces]

    def notes(self) -> list[str]:
        """Returns how many sequences are cut, and how many words get no tag of the model's."""
        at = f"at --max_seq_length={self._length}"
        notes = [
            f"{split}: {cut:,} of {len(self._features[split].lengths):,} sequences lost tokens {at}"
            for split, cut in self._cut.items()
            if cut
        ]
        lost = sum(np.sum(pieces == 0) for pieces in self._pieces)
        if lost:
            words = sum(map(len, self._pieces))
            notes.append(
                f"dev: {lost:,} of {words:,} words have no token {at}, and are scored as "
                f"{self._outside}"
            )
        return notes

    def features(self, split: str) -> TaskFeatures:
        """Returns the model's inputs."""
        return self._features[split]

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's outputs for dev."""
        return self._scores(self._predictions(outputs), outputs.get("probabilities"))

    def _predictions(self, outputs: Mapping[str, np.ndarray]) -> list:
        """Returns the answer for each example of dev: a label, a number, or the words' tags."""
        if self.task.kind == REGRESSION:
            return outputs["scores"].tolist()
        if self.task.kind == TAGGING:
            return self._tags(outputs["label_ids"])
        return [self.labels[index] for index in outputs["probabilities"].argmax(axis=1)]

    @property
    def _outside(self) -> str:
        return self.labels[outside_index(self.labels)]

    def _tags(self, label_ids: np.ndarray) -> list[list[str]]:
        tags = []
        for ids, pieces in zip(label_ids, self._pieces, strict=True):
            # Position 0 is [CLS]: the word has no piece of its own in the sequence.
            found = zip(ids[pieces], pieces, strict=True)
            tags.append([self.labels[index] if at else self._outside for index, at in found])
        return tags

    def baseline(self) -> dict[str, float]:
        """Returns the metrics of always the commonest label of train, or their mean."""
        train, dev = self._examples[TRAIN], self._examples[DEV]
        if self.task.kind == REGRESSION:
            mean = float(np.mean([float(example.label) for example in train]))
            return self._scores([mean] * len(dev))
        if self.task.kind == TAGGING:
            tags = collections.Counter(tag for example in train for tag in example.tags)
            (tag, _), *_ = tags.most_common(1)
            return self._scores([[tag] * len(example.words) for example in dev])
        (label, _), *_ = collections.Counter(e.label for e in train).most_common(1)
        return self._scores([label] * len(dev))

    def _scores(
        self, predictions: Sequence, probabilities: np.ndarray | None = None
    ) -> dict[str, float]:
        task, dev = self.task, self._examples[DEV]
        if task.kind == TAGGING:
            true = [example.tags for example in dev]
            found = {"accuracy": _word_accuracy(true, predictions)}
            if task.metrics != ("accuracy",):
                found |= entity_scores(true, predictions)
            return {name: found[name] for name in task.metrics}
        if task.kind == REGRESSION:
            return scores(task.metrics, [float(example.label) for example in dev], predictions)
        index = {label: number for number, label in enumerate(self.labels)}
        return scores(
            task.metrics,
            [index[example.label] for example in dev],
            [index[prediction] for prediction in predictions],
            probabilities=probabilities,
            positive=index.get(task.positive_label, 1),
        )


def _word_accuracy(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """Returns the share of the words, of all sentences, whose tags are right."""
    flat = (itertools.chain.from_iterable(tags) for tags in (true, predicted))
    return float(np.mean([one == other for one, other in zip(*flat, strict=True)]))
