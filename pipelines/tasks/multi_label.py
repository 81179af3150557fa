"""Multi-label classification: any number of labels for a text or a pair of texts."""

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.tasks.classification import LabelledTextTask
from beambert.pipelines.tasks.metrics import LEAST_PROBABILITY, precision_recall_f1, scores_by_name
from beambert.pipelines.tasks.saved_models import Model
from beambert.pipelines.tasks.table_task import (
    TABLE_FLAGS,
    TextExample,
)
from beambert.pipelines.tasks.tables import TableRow
from beambert.pipelines.tasks.task import (
    ArrayOutcomes,
    Mistake,
    Record,
    text_of,
)

# A label applies if its probability is greater. The sigmoid is there where the logit is 0, as in
# scikit-learn's decision functions.
THRESHOLD = 0.5


# Greatest number of the commonest labels that a constant answer has, besides all labels.
_MOST_CONSTANT_LABELS = 20


@dataclasses.dataclass(frozen=True)
class MultiLabelOutcomes(ArrayOutcomes):
    """The outcomes of a multi-label classification.

    Attributes:
      labels: whether each label applies, [examples, labels].
      predictions: whether each label is predicted, [examples, labels].
      probabilities: probabilities of the labels, [examples, labels].
    """

    labels: NDArray[np.bool_]
    predictions: NDArray[np.bool_]
    probabilities: NDArray[np.float64]

    FEATURES = ("label_flags", "prediction_flags", "probabilities")
    SHARES = frozenset({"exact_match"})
    METRICS = ("micro_f1", "macro_f1", "exact_match", "cross_entropy")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        flags, predicted, probabilities = (
            np.array([record[name] for record in records], float) for name in cls.FEATURES
        )
        return cls(flags > 0, predicted > 0, probabilities)

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name.

        micro_f1 is the F1 of the counts of all labels together, macro_f1 the mean of the labels'
        F1, exact_match the share of the examples whose labels are all right, and cross_entropy the
        mean over examples and labels of the negative logarithm of the truth, in nats.
        """
        counts = self._counts()
        of_truth = np.where(self.labels, self.probabilities, 1 - self.probabilities).astype(float)
        found = {
            "micro_f1": precision_recall_f1(*counts.sum(axis=0))[2],
            "macro_f1": precision_recall_f1(*counts.T)[2].mean(),
            "exact_match": (self.labels == self.predictions).all(axis=1).mean(),
            "cross_entropy": np.mean(-np.log(np.maximum(of_truth, LEAST_PROBABILITY))),
        }
        return {name: float(found[name]) for name in names}

    def _counts(self) -> NDArray[np.int64]:
        """Returns how often each label is true, predicted, and both, [labels, 3]."""
        each = (self.labels, self.predictions, self.labels & self.predictions)
        return np.stack([flags.sum(axis=0) for flags in each], axis=1)

    def constants(self) -> list[tuple[tuple[int, ...], Self]]:
        """Returns sets of labels as constant answers.

        They are the commonest set, the sets of the commonest labels, and all labels. Among all sets
        these have the best exact match and macro F1, and the best micro F1 of up to 20 labels. The
        probabilities are the labels' shares.
        """
        order = np.argsort(-self.labels.sum(axis=0), kind="stable")
        sizes = {*range(min(len(order), _MOST_CONSTANT_LABELS) + 1), len(order)}
        sets, numbers = np.unique(self.labels, axis=0, return_counts=True)
        rows = [sets[numbers.argmax()], *(np.isin(np.arange(len(order)), order[:n]) for n in sizes)]
        shares = np.tile(self.labels.mean(axis=0), (len(self), 1))
        return [
            (
                tuple(np.flatnonzero(row).tolist()),
                type(self)(self.labels, np.tile(row, (len(self), 1)), shares),
            )
            for row in rows
        ]

    def written(self, answer: tuple[int, ...], labels: Sequence[str]) -> str:
        """Returns the labels."""
        return ", ".join(labels[index] for index in answer) or "no label"

    def details(self, labels: Sequence[str]) -> dict[str, Any]:
        """Returns counts, precision, recall and F1 of each label, `by_label`."""
        return {"by_label": scores_by_name(labels, self._counts())}


@dataclasses.dataclass(frozen=True)
class MultiLabel(LabelledTextTask):
    """A task that asks for any number of labels of a text or of a pair of texts.

    Attributes:
      label_separator: what stands between the labels of a row; a row may have none.
    """

    OUTCOMES = MultiLabelOutcomes

    kind: ClassVar[str] = "multi_label"
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.labels:MultiLabelObjective"
    metrics: tuple[str, ...] = ("micro_f1", "macro_f1", "exact_match")
    label_separator: str = ","

    COLUMN_FLAGS = TABLE_FLAGS | {"labels", "label_separator"}
    EXCLUSIVE = False
    TARGET_TYPE = np.float32
    OUTPUTS = ("labels", "probabilities")
    FINITE = "probabilities"
    WEIGHT = ("wrong labels", "with the most wrong or missed labels")
    WITHOUT_MODEL = "the commonest labels of train"

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> MultiLabelOutcomes:
        """Returns the outcomes of `probabilities`, [examples, labels]."""
        true = np.array([[label in example.label for label in labels] for example in examples])
        probabilities = outputs["probabilities"]
        return MultiLabelOutcomes(true, probabilities > THRESHOLD, probabilities)

    def baseline(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> MultiLabelOutcomes:
        """Returns the outcomes of the commonest set of labels."""
        sets = collections.Counter(frozenset(example.label) for example in train)
        commonest = min(sets, key=lambda one: (-sets[one], sorted(one)))
        row = [float(label in commonest) for label in labels]
        return self.outcomes(examples, labels, {"probabilities": np.tile(row, (len(examples), 1))})

    def _label(self, row: TableRow, possible: Sequence[str] | None) -> tuple[str, ...]:
        found = self._divided(row)
        for label in found:
            self._check_label(row, label, possible)
        return found

    def _divided(self, row: TableRow) -> tuple[str, ...]:
        """Returns the labels of a row, each once: a JSON list, or names with separators.

        Raises:
          BadRow: it begins like a JSON list and is none of names, or a label is empty.
        """
        field = row.field(self.label_column)
        names = field.split(self.label_separator) if field.strip() else []
        if field.lstrip().startswith("["):
            names = _json_names(field)
            if names is None:
                reason = f"has the labels {field:.40}, which are no JSON list of names"
                raise row.bad(reason, 'correct the row, such as ["a", "b"]')
        labels = tuple(dict.fromkeys(name.strip() for name in names))
        if "" in labels:
            reason = f"has an empty label in {field:.40}"
            raise row.bad(reason, "fill it in or remove its separator")
        return labels

    def label_names(self, example: TextExample) -> Iterable[str]:
        """Returns the labels."""
        return example.label or ()

    @staticmethod
    def _targets(written: Sequence[Sequence[str]], labels: Sequence[str]) -> list[list[float]]:
        return [[float(label in of_example) for label in labels] for of_example in written]

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the labels that apply, and the probability of each label."""
        return {
            "labels": [label.decode() for label in outputs["labels"][i] if label],
            "probabilities": dict(zip(labels, outputs["probabilities"][i].tolist(), strict=True)),
        }

    @staticmethod
    def truth_of(example: TextExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns 1 for each label that applies."""
        return {"label_flags": [int(label in example.label) for label in labels]}

    @staticmethod
    def recorded(model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int) -> Record:
        """Returns the probabilities of all labels, and 1 for each label that is predicted."""
        probabilities = outputs["probabilities"][i]
        names = (name.decode(errors="replace") for name in outputs["labels"][i] if name)
        return {
            "prediction": [", ".join(names).encode()],
            "prediction_flags": (probabilities > THRESHOLD).astype(int).tolist(),
            "probabilities": probabilities.tolist(),
        }

    @staticmethod
    def mistake(record: Record, example: TextExample) -> Mistake:
        """Returns a mistake whose weight is the number of wrong or missed labels."""
        pairs = zip(record["label_flags"], record["prediction_flags"], strict=True)
        wrong = sum(true != predicted for true, predicted in pairs)
        predicted = record["prediction"][0].decode()
        expected = ", ".join(example.label)
        return Mistake(text_of(example), expected or "–", predicted or "–", float(wrong))


def _json_names(text: str) -> list[str] | None:
    """Returns the names in a JSON list, whose labels may also be whole numbers; None if invalid."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_valid = isinstance(names, list) and all(type(name) in (str, int) for name in names)
    return [str(name) for name in names] if is_valid else None
