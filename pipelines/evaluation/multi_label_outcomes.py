"""The outcomes of tasks whose texts have any number of labels."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.evaluation.outcome_base import ArrayOutcomes, Record
from beambert.pipelines.tasks import multi_label

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
        """Returns metrics by name."""
        return multi_label.scores(names, self.labels, self.predictions, self.probabilities)

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
        counts = multi_label.counts(self.labels, self.predictions)
        scores_of_labels = multi_label.precision_recall_f1(*counts.T)
        found = zip(labels, counts.tolist(), *scores_of_labels, strict=True)
        return {
            "by_label": {
                label: dict(zip(("true", "predicted", "correct"), of_label, strict=True))
                | {
                    name: round(float(score), 6)
                    for name, score in zip(("precision", "recall", "f1"), scores, strict=True)
                }
                for label, of_label, *scores in found
            }
        }
