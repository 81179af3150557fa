"""Regression and reranking: a number for a text or a pair of texts."""

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from beambert.errors import InputError
from beambert.pipelines.tasks import metrics
from beambert.pipelines.tasks.metrics import random_order_scores, relevance_scores, text_id
from beambert.pipelines.tasks.saved_models import Model
from beambert.pipelines.tasks.table_task import (
    TableTask,
    TextExample,
)
from beambert.pipelines.tasks.tables import TableRow
from beambert.pipelines.tasks.task import (
    RERANK,
    ArrayOutcomes,
    Mistake,
    Outcomes,
    Record,
    Slices,
    column,
    text_of,
)


def is_number(text: str) -> bool:
    """Returns whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@dataclasses.dataclass(frozen=True)
class NumberOutcomes(ArrayOutcomes):
    """The outcomes of a regression.

    Attributes:
      labels: true numbers, [examples].
      predictions: predicted numbers, [examples].
    """

    labels: NDArray[np.float64]
    predictions: NDArray[np.float64]

    FEATURES = ("number", "score")
    METRICS = ("pearson", "spearman", "mean_squared_error")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        return cls(*(column(records, name) for name in cls.FEATURES))

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name."""
        return metrics.scores(names, self.labels, self.predictions)

    def constants(self) -> list[tuple[float, Self]]:
        """Returns the mean label as a constant answer."""
        mean = float(self.labels.mean())
        return [(round(mean, 6), type(self)(self.labels, np.full(len(self), mean)))]


def numbers_of(examples: Sequence[Any]) -> NDArray[np.float64]:
    """Returns the labels of examples as numbers."""
    return np.array([float(example.label) for example in examples])


class NumberKind(TableTask):
    """A task whose answer is a number."""

    FINITE = "score"
    WEIGHT = ("difference", "whose prediction is furthest from the label")

    def baseline(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> Outcomes:
        """Returns the outcomes of the mean of train, or of 0 if train has no numbers."""
        known = [float(example.label) for example in train if example.label is not None]
        mean = float(np.mean(known)) if known else 0.0
        return self.OUTCOMES(numbers_of(examples), np.full(len(examples), mean))

    @staticmethod
    def truth_of(example: TextExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the number."""
        return {"number": [float(example.label)]}

    @staticmethod
    def label_slices(examples: Sequence[TextExample], labels: Sequence[str]) -> Slices | None:
        """Returns four ranges with about equal numbers of examples; equal labels share a range."""
        numbers = [float(example.label) for example in examples]
        edges = np.quantile(numbers, [0.25, 0.5, 0.75], method="inverted_cdf")
        quarters = np.searchsorted(edges, numbers)
        names = {}
        for quarter in sorted(set(quarters.tolist())):
            inside = np.array(numbers)[quarters == quarter]
            names[quarter] = f"{inside.min():g} to {inside.max():g}"
        return tuple(names[quarter] for quarter in quarters.tolist()), tuple(names.values())

    @staticmethod
    def recorded(model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int) -> Record:
        """Returns the number."""
        return {"score": [float(outputs["score"][i])]}

    @staticmethod
    def mistake(record: Record, example: TextExample) -> Mistake:
        """Returns a mistake whose weight is the distance from the label."""
        score, number = record["score"][0], record["number"][0]
        return Mistake(text_of(example), example.label, f"{score:.3f}", abs(score - number))


@dataclasses.dataclass(frozen=True)
class Regression(NumberKind):
    """A task that asks for a number for a text or for a pair of texts."""

    kind: ClassVar[str] = "regression"
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.labels:RegressionObjective"
    metrics: tuple[str, ...] = ("pearson", "spearman")

    HAS_LABELS = False
    TARGET_TYPE = np.float32
    OUTCOMES = NumberOutcomes
    OUTPUTS = ("score",)
    WITHOUT_MODEL = "the mean of train"
    BY_WORDS = "TF-IDF with ridge regression"

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> Outcomes:
        """Returns the outcomes of `scores`, [examples]."""
        return NumberOutcomes(numbers_of(examples), outputs["scores"].astype(float))

    def by_words(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> Outcomes:
        """Returns the outcomes of a ridge regression on words."""
        from beambert.pipelines.tasks import words  # it imports scipy

        learned, asked = ([example.sides for example in each] for each in (train, examples))
        scores = words.numbers(learned, numbers_of(train), asked)
        return self.outcomes(examples, labels, {"scores": scores})

    def _check_label(self, row: TableRow, label: str, possible: Sequence[str] | None) -> None:
        if not is_number(label):
            raise row.bad(f"has {label!r} for a number", "correct the row")

    def label_names(self, example: TextExample) -> Iterable[str]:
        """Returns nothing: numbers are not counted."""
        return ()

    @staticmethod
    def _targets(written: Sequence[str], labels: Sequence[str]) -> list[float]:
        return [float(label) for label in written]

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the number."""
        return {"score": float(outputs["score"][i])}


@dataclasses.dataclass(frozen=True)
class RelevanceOutcomes(ArrayOutcomes):
    """The outcomes of a reranking; they are those of queries, each with all of its candidates.

    Attributes:
      ndcg_at_10: nDCG of the first ten candidates, [queries].
      mrr_at_10: reciprocal rank of the first relevant one of them, [queries].
      random_ndcg_at_10, random_mrr_at_10: the means of the same over all orders.
    """

    ndcg_at_10: NDArray[np.float64]
    mrr_at_10: NDArray[np.float64]
    random_ndcg_at_10: NDArray[np.float64]
    random_mrr_at_10: NDArray[np.float64]

    FEATURES = ("query_id", "number", "score")
    METRICS = ("ndcg_at_10", "mrr_at_10")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        return cls.of_scores(*(column(records, name) for name in cls.FEATURES))

    @classmethod
    def of_scores(cls, queries: NDArray, labels: NDArray, scores: NDArray) -> Self:
        """Returns the outcomes of candidates, see `relevance_scores`."""
        found = relevance_scores(queries, labels, scores), random_order_scores(queries, labels)
        return cls(*(each[name] for each in found for name in cls.METRICS))

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name; 0 without a query that has a relevant candidate."""
        return {name: float(getattr(self, name).mean()) if len(self) else 0.0 for name in names}

    def undefined(self) -> frozenset[str]:
        """Returns all metrics if no candidate is relevant."""
        return frozenset() if len(self) else frozenset(self.METRICS)

    def constants(self) -> list[tuple[str, Self]]:
        """Returns a random order."""
        both = (self.random_ndcg_at_10, self.random_mrr_at_10)
        return [("a random order", type(self)(*both, *both))]


@dataclasses.dataclass(frozen=True)
class Rerank(Regression):
    """A task that asks how relevant a text is for another, of which a query has several."""

    OUTCOMES = RelevanceOutcomes

    kind: ClassVar[str] = RERANK
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.labels:RelevanceObjective"
    OWN: ClassVar[Mapping[str, Any] | None] = {"text_columns": ("text", "text_b")}
    metrics: tuple[str, ...] = ("ndcg_at_10", "mrr_at_10")

    COMPARES_TEXTS = True
    WITHOUT_MODEL = "a random order"

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> RelevanceOutcomes:
        """Returns the outcomes of `scores`, [examples]."""
        queries = np.array([text_id(example.text) for example in examples])
        return RelevanceOutcomes.of_scores(queries, numbers_of(examples), outputs["scores"])

    def baseline(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> RelevanceOutcomes:
        """Returns the means over all orders."""
        equal = self.outcomes(examples, labels, {"scores": np.zeros(len(examples))})
        ((_, random),) = equal.constants()
        return random

    def _check_label(self, row: TableRow, label: str, possible: Sequence[str] | None) -> None:
        if not is_number(label) or not 0 <= float(label) <= 1:
            reason = f"has {label!r} for a relevance, which is a number from 0 to 1"
            raise row.bad(reason, "correct the row, or divide all by the greatest")

    def check_file(self, path: pathlib.Path, examples: Sequence[TextExample]) -> None:
        """Refuses also a file none of whose candidates is relevant; a test file has no labels."""
        super().check_file(path, examples)
        labels = [float(example.label) for example in examples if example.label is not None]
        if labels and not any(labels):
            reason = f"has no relevant candidate, as no {self.label_column!r} is above 0"
            raise InputError(f"{path}: {reason}; add some")

    @staticmethod
    def truth_of(example: TextExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the relevance, and the id of the query."""
        return {"query_id": [text_id(example.text)], "number": [float(example.label)]}

    @staticmethod
    def label_slices(examples: Sequence[TextExample], labels: Sequence[str]) -> Slices | None:
        """Returns None: a slice must have the candidates of a query together."""
        return None

    @staticmethod
    def query(example: TextExample) -> str:
        """Returns the query."""
        return example.text
