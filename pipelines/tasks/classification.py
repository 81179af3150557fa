"""Classification: one label for a text or a pair."""

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from beambert.errors import InputError
from beambert.pipelines.tasks import metrics
from beambert.pipelines.tasks.saved_models import Model
from beambert.pipelines.tasks.table_task import (
    TABLE_FLAGS,
    TableTask,
    TextExample,
    several,
)
from beambert.pipelines.tasks.task import (
    ArrayOutcomes,
    ExampleFile,
    Mistake,
    Outcomes,
    Record,
    Slices,
    column,
    text_of,
)

# Times that the most frequent label may be as frequent as the rarest one without advice.
_UNEVEN = 10
# Number of labels that a note lists.
_LISTED = 10


def balance(path: pathlib.Path, counts: Mapping[str, int]) -> str:
    """Returns the note about the number of texts of each label in a file."""
    listed = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    parts = [f"{count:,} {label:.40}" for label, count in listed[:_LISTED]]
    more = len(listed) - _LISTED
    note = f"{path}: {', '.join(parts)}{f' and {more:,} more labels' if more > 0 else ''}"
    if listed[0][1] > _UNEVEN * listed[-1][1]:
        note += "; --class_weights=balanced makes rare labels count as much as common ones"
    return note


# Weights of labels with which all labels count alike.
BALANCED = "balanced"


@dataclasses.dataclass(frozen=True)
class LabelledTextTask(TableTask):
    """A task that asks for labels of a text or of a pair of texts.

    Attributes:
      max_windows: greatest number of windows in which a text is read; 1 to read its beginning.
      class_weights: weight of each label in the loss, or "balanced"; None if all count alike.
    """

    max_windows: int = 1
    class_weights: str | Mapping[str, float] | None = None

    BY_WORDS = "TF-IDF with logistic regression"
    # Whether a text has one label, not any number of them.
    EXCLUSIVE = True
    LEARNING_FLAGS = frozenset({"max_windows", "class_weights"})

    def read_to_learn(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads a file, and notes how many texts have each label."""
        file = super().read_to_learn(path, is_labelled, labels)
        counts = collections.Counter(
            name for example in file.examples for name in self.label_names(example)
        )
        if not counts:
            return file
        return dataclasses.replace(file, notes=[*file.notes, balance(path, counts)])

    def learning_settings(self) -> dict[str, Any]:
        """Returns the windows and the weights, if there are any."""
        found: dict[str, Any] = {"windows": self.max_windows} if self.max_windows > 1 else {}
        return found | ({"class_weights": self.class_weights} if self.class_weights else {})

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses also pairs, if long texts are read in windows."""
        super().check_split(path, is_labelled, examples, first)
        if self.max_windows > 1 and first.text_b is not None:
            raise InputError(
                f"--max_windows={self.max_windows}: {path} has pairs of texts, which have no "
                "windows; leave the flag out"
            )

    def by_words(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> Outcomes:
        """Returns the outcomes of a logistic regression on words."""
        from beambert.pipelines.tasks import words  # it imports scipy

        targets = np.array([[each in self.label_names(row) for each in labels] for row in train])
        learned, asked = ([example.sides for example in each] for each in (train, examples))
        found = words.probabilities(learned, targets, asked, self.EXCLUSIVE)
        return self.outcomes(examples, labels, {"probabilities": found})

    def find_labels(self, path: pathlib.Path, train: Sequence[TextExample]) -> tuple[str, ...]:
        """Returns the declared labels, or those of train, sorted."""
        if self.labels is not None:
            return self.labels
        found = {label for example in train for label in self.label_names(example)}
        return several(path, found, f"in column {self.label_column!r}")


@dataclasses.dataclass(frozen=True)
class ClassOutcomes(ArrayOutcomes):
    """The outcomes of a classification.

    Attributes:
      labels: true class ids, [examples].
      predictions: predicted class ids, [examples].
      probabilities: probabilities of the classes, [examples, classes].
    """

    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    FEATURES = ("label_index", "prediction_index", "probabilities")
    SHARES = frozenset({"accuracy"})
    METRICS = ("accuracy", "macro_f1", "cross_entropy")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        probabilities = np.array([record["probabilities"] for record in records], float)
        return cls(
            column(records, "label_index"), column(records, "prediction_index"), probabilities
        )

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name."""
        return metrics.scores(
            names,
            self.labels,
            self.predictions,
            probabilities=self.probabilities,
            positive=positive,
        )

    def undefined(self) -> frozenset[str]:
        """Returns the metrics that compare classes, if all examples are of one class."""
        is_one = len(np.unique(self.labels)) == 1
        return metrics.OF_SEVERAL_CLASSES if is_one else frozenset()

    def constants(self) -> list[tuple[int, Self]]:
        """Returns each class as a constant answer; the probabilities are the classes' shares."""
        classes = self.probabilities.shape[1]
        shares = np.bincount(self.labels, minlength=classes) / len(self)
        probabilities = np.tile(shares, (len(self), 1))
        return [
            (i, type(self)(self.labels, np.full(len(self), i), probabilities))
            for i in range(classes)
        ]

    def written(self, answer: int, labels: Sequence[str]) -> str:
        """Returns the label."""
        return labels[answer]

    def details(self, labels: Sequence[str]) -> dict[str, Any]:
        """Returns `confusion_matrix`, whose [i][j] counts label i predicted as label j."""
        classes = self.probabilities.shape[1]
        matrix = np.zeros((classes, classes), int)
        np.add.at(matrix, (self.labels, self.predictions), 1)
        return {"confusion_matrix": matrix.tolist()}


class OneLabel(TableTask):
    """A task that asks for one of several labels."""

    OUTCOMES = ClassOutcomes
    FINITE = "probabilities"
    WEIGHT = ("probability", "with a wrong answer that the model was surest of")
    WITHOUT_MODEL = "the commonest label of train"

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> ClassOutcomes:
        """Returns the outcomes of `probabilities`, [examples, labels]."""
        index = {label: number for number, label in enumerate(labels)}
        truths = np.array([index[example.label] for example in examples])
        probabilities = outputs["probabilities"]
        return self.OUTCOMES(truths, probabilities.argmax(axis=1), probabilities)

    def baseline(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> ClassOutcomes:
        """Returns the outcomes of the commonest label."""
        ((label, _),) = collections.Counter(example.label for example in train).most_common(1)
        row = [float(label == other) for other in labels]
        return self.outcomes(examples, labels, {"probabilities": np.tile(row, (len(examples), 1))})

    @staticmethod
    def truth_of(example: Any, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the index of the label."""
        return {"label_index": [labels.index(example.label)]}

    @staticmethod
    def label_slices(examples: Sequence[Any], labels: Sequence[str]) -> Slices | None:
        """Returns a slice for each label."""
        return tuple(example.label for example in examples), tuple(labels)

    def predictions(self, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the labels."""
        return tuple(labels)

    @staticmethod
    def recorded(model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int) -> Record:
        """Returns the predicted label, its index and the probabilities of all labels."""
        name = outputs["label"][i]
        # `check_record` refuses a name that labels.txt lacks.
        known = name.decode(errors="replace") in model.labels
        return {
            "prediction": [name],
            "prediction_index": [model.labels.index(name.decode()) if known else -1],
            "probabilities": outputs["probabilities"][i].tolist(),
        }

    @classmethod
    def check_record(cls, record: Record, model: Model) -> None:
        """Refuses probabilities that are not finite, and a label that is not the likeliest."""
        super().check_record(record, model)
        index, probabilities = record["prediction_index"][0], record["probabilities"]
        if index < 0 or probabilities[index] < max(probabilities):
            prediction = record["prediction"][0].decode(errors="replace")
            raise InputError(
                f"--model={model.path}: answers {prediction!r}, which is not the likeliest line of "
                "labels.txt; put the model's own labels.txt next to it"
            )

    @classmethod
    def mistake(cls, record: Record, example: Any) -> Mistake:
        """Returns a mistake whose weight is the probability of the wrong label."""
        index = record["prediction_index"][0]
        weight = record["probabilities"][index] if index != record["label_index"][0] else 0.0
        predicted = record["prediction"][0].decode()
        written = (cls._written(example, label) for label in (example.label, predicted))
        return Mistake(text_of(example), *written, weight)

    @staticmethod
    def _written(example: Any, label: str) -> str:
        return label


@dataclasses.dataclass(frozen=True)
class Classification(LabelledTextTask, OneLabel):
    """A task that asks for the label of a text or of a pair of texts."""

    kind: ClassVar[str] = "classification"
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.labels:ClassificationObjective"
    metrics: tuple[str, ...] = ("accuracy",)

    COLUMN_FLAGS = TABLE_FLAGS | {"labels"}


def loss_weights(
    given: str | Mapping[str, float], labels: Sequence[str], label_ids: NDArray
) -> NDArray[np.float32]:
    """Returns the weight of each target of a training file in the loss, of the targets' shape.

    Args:
      given: label -> weight, 1 for other labels; or `BALANCED`.
      labels: labels in index order.
      label_ids: int [examples], index of each example's label; or float [examples, labels], 1 for
        each label that applies. Then the weight is that of a label that applies.

    Raises:
      InputError: there is no label of a name.
    """
    weights = _balanced(label_ids, len(labels)) if given == BALANCED else _named(given, labels)
    weights = weights.astype(np.float32)
    if label_ids.ndim == 2:
        return np.where(label_ids > 0, weights, np.float32(1))
    return weights[label_ids]


def _balanced(label_ids: NDArray, labels: int) -> NDArray[np.float64]:
    """Returns the weights with which all labels count alike; 1 for labels that do not occur.

    For one label each they are those of scikit-learn's `class_weight="balanced"`: examples over
    labels times the label's examples. For several labels they are the negative examples over the
    positive ones, as the documentation of PyTorch's `BCEWithLogitsLoss` advises for `pos_weight`.
    """
    examples = len(label_ids)
    if label_ids.ndim == 2:
        counts = label_ids.sum(axis=0)
        return np.where(counts > 0, (examples - counts) / np.maximum(counts, 1), 1.0)
    counts = np.bincount(label_ids, minlength=labels)
    return np.where(counts > 0, examples / ((counts > 0).sum() * np.maximum(counts, 1)), 1.0)


def check_names(class_weights: str | Mapping[str, float] | None, labels: Sequence[str]) -> None:
    """Refuses weights of labels that the training data has not.

    Raises:
      InputError: there is no such label.
    """
    for name in class_weights if isinstance(class_weights, Mapping) else ():
        if name not in labels:
            raise InputError(
                f"--class_weights: {name!r} is not a label of the training data, which has "
                f"{', '.join(labels)}; correct the name"
            )


def _named(given: Mapping[str, float], labels: Sequence[str]) -> NDArray[np.float64]:
    check_names(given, labels)
    return np.array([given.get(label, 1.0) for label in labels])
