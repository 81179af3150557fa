"""What a task's files hold, as the training needs it, and how predictions on dev are scored."""

import abc
import collections
import hashlib
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipelines.entities import entity_scores, is_entity_tag
from pipelines.errors import InputError
from pipelines.examples import Example, discover_labels, read_examples, split_path
from pipelines.metrics import scores
from pipelines.task_features import TaskFeatures, first_pieces, make_features
from pipelines.tasks import (
    CHOICE,
    DEV,
    REGRESSION,
    TAGGING,
    TRAIN,
    Task,
)
from pipelines.text_features import TextFeatures
from trainer.task_models import OUTSIDE


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
    def tokenize(self, text_features: TextFeatures) -> None:
        """Makes the features of both splits."""

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

    def sha256(self) -> dict[str, str]:
        """Returns the files' hashes by split."""
        return {
            split: hashlib.sha256(path.read_bytes()).hexdigest()
            for split, path in self.files.items()
        }


class ExampleData(TaskData):
    """Of every kind but span."""

    def __init__(self, task: Task, data_dir: str, on_bad_row: Callable[[str], None] | None):
        """Reads train and dev.

        Raises:
          InputError: they can't be read, or don't go together.
        """
        self.task = task
        self.labels = list(discover_labels(task, data_dir))
        self._examples: dict[str, list[Example]] = {
            split: read_examples(task, data_dir, split, self.labels or None, on_bad_row)
            for split in (TRAIN, DEV)
        }
        self.files = {split: split_path(task, data_dir, split) for split in (TRAIN, DEV)}
        self.counts = {split: len(examples) for split, examples in self._examples.items()}
        self._check(data_dir)
        first = self._examples[TRAIN][0]
        self.is_pair = task.kind != TAGGING and first.text_b is not None

    def _check(self, data_dir: str) -> None:
        first, first_dev = (self._examples[split][0] for split in (TRAIN, DEV))
        if self.task.kind == TAGGING:
            for split, example in ((TRAIN, first), (DEV, first_dev)):
                if example.tags is None:
                    raise InputError(
                        f"{self.files[split]} has no column of tags: put each word's tag behind it"
                    )
            others = [label for label in self.labels if not is_entity_tag(label)]
            if others and self.task.metrics != ("accuracy",):
                raise InputError(
                    f"{self.files[TRAIN]} has the tag {others[0]!r}, which is none of O, B-type "
                    "and I-type: name entities so, or take --task=word_labels"
                )
            return
        if (first.text_b is None) != (first_dev.text_b is None):
            raise InputError(
                f"--data_dir={data_dir}: text_b stands in one of its train and dev files only; "
                "add the column to the other or delete it"
            )
        if self.task.kind == CHOICE:
            for split, examples in self._examples.items():
                if len({len(example.choices) for example in (*examples, first)}) > 1:
                    raise InputError(
                        f"{self.files[split]} has rows of different numbers of choices: give every "
                        f"row {len(first.choices)}, as the first row of train"
                    )

    def tokenize(self, text_features: TextFeatures) -> None:
        """Makes the features of both splits."""
        self._text_features = text_features
        self._features = {
            split: make_features(self.task.kind, examples, self.labels, text_features)
            for split, examples in self._examples.items()
        }

    def features(self, split: str) -> TaskFeatures:
        """Returns the model's inputs."""
        return self._features[split]

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's outputs for dev."""
        return self._scores(self.predictions(DEV, outputs), outputs.get("probabilities"))

    def predictions(self, split: str, outputs: Mapping[str, np.ndarray]) -> list:
        """Returns the answer for each example: a label, a number, or the words' tags."""
        if self.task.kind == REGRESSION:
            return outputs["scores"].tolist()
        if self.task.kind == TAGGING:
            return self._tags(split, outputs["label_ids"])
        return [self.labels[index] for index in outputs["probabilities"].argmax(axis=1)]

    def _tags(self, split: str, label_ids: np.ndarray) -> list[list[str]]:
        outside = OUTSIDE if OUTSIDE in self.labels else self.labels[0]
        examples, row, tags = self._examples[split], 0, []
        for _, pieces in first_pieces(examples, self._text_features):
            for of_words in pieces:
                of_words = of_words[of_words >= 0]
                found = label_ids[row, of_words]
                # Position 0 is [CLS]: the word has no piece of its own in the sequence.
                tags.append(
                    [
                        self.labels[index] if piece else outside
                        for index, piece in zip(found, of_words, strict=True)
                    ]
                )
                row += 1
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
