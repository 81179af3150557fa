"""What became of the examples of an evaluation, by kind of task, and its scores."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.tasks import metrics
from beambert.pipelines.tasks.entities import (
    EntityCounts,
    count_entities,
    is_entity_tag,
    scores_of_counts,
)
from beambert.pipelines.tasks.task import CHOICE, CLASSIFICATION, REGRESSION, SPAN, TAGGING

# A prediction record, as `predictions` writes it: name -> values.
Record = Mapping[str, Sequence[Any]]


class Outcomes(abc.ABC):
    """The outcomes of some examples, in an order."""

    # Names of the features of a record that they are made from.
    FEATURES: tuple[str, ...]
    # Metrics that are shares of the examples.
    SHARES: frozenset[str] = frozenset()
    # Metrics that are reported besides the task's own.
    METRICS: tuple[str, ...]

    @classmethod
    @abc.abstractmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of these examples."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of examples."""

    @abc.abstractmethod
    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes of these examples, of which some may be the same."""

    @abc.abstractmethod
    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns the metrics of these names; `positive` is the class that f1 is of."""

    @abc.abstractmethod
    def constants(self) -> list[tuple[Any, Self]]:
        """Returns what a model without insight can answer always, and the outcomes then."""

    def written(self, answer: Any, labels: Sequence[str]) -> Any:
        """Returns a constant answer as a reader knows it."""
        return answer

    def confidence(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
        """Returns the probability of each answer and whether it is right, if a model says one."""
        return None

    def details(self) -> dict[str, Any]:
        """Returns what there is to say besides metrics and calibration."""
        return {}


@dataclasses.dataclass(frozen=True)
class ClassOutcomes(Outcomes):
    """Of a classification.

    Attributes:
      labels: [examples] class ids.
      predictions: [examples] class ids.
      probabilities: [examples, classes].
    """

    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    FEATURES = ("label_index", "prediction_index", "probabilities")
    SHARES = frozenset({"accuracy"})
    METRICS = ("accuracy", "macro_f1", "cross_entropy")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of these examples."""
        probabilities = np.array([record["probabilities"] for record in records], float)
        return cls(
            _column(records, "label_index"), _column(records, "prediction_index"), probabilities
        )

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.labels)

    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes of these examples."""
        return type(self)(
            self.labels[examples], self.predictions[examples], self.probabilities[examples]
        )

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns the metrics of these names."""
        return metrics.scores(
            names,
            self.labels,
            self.predictions,
            probabilities=self.probabilities,
            positive=positive,
        )

    def confidence(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Returns the probability of each answer, and whether it is right."""
        probability = self.probabilities[np.arange(len(self)), self.predictions]
        return probability, self.labels == self.predictions

    def constants(self) -> list[tuple[int, Self]]:
        """Returns every class, each with the classes' shares for probabilities."""
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

    def details(self) -> dict[str, Any]:
        """Returns `confusion_matrix`, whose [i][j] counts label i predicted as label j."""
        classes = self.probabilities.shape[1]
        matrix = np.zeros((classes, classes), int)
        np.add.at(matrix, (self.labels, self.predictions), 1)
        return {"confusion_matrix": matrix.tolist()}


class ChoiceOutcomes(ClassOutcomes):
    """Of a choice, whose labels mean nothing by themselves."""

    METRICS = ("accuracy", "cross_entropy")


@dataclasses.dataclass(frozen=True)
class NumberOutcomes(Outcomes):
    """Of a regression.

    Attributes:
      labels: [examples].
      predictions: [examples].
    """

    labels: NDArray[np.float64]
    predictions: NDArray[np.float64]

    FEATURES = ("number", "score")
    METRICS = ("pearson", "spearman", "mean_squared_error")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of these examples."""
        return cls(*(_column(records, name) for name in cls.FEATURES))

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.labels)

    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes of these examples."""
        return type(self)(self.labels[examples], self.predictions[examples])

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns the metrics of these names."""
        return metrics.scores(names, self.labels, self.predictions)

    def constants(self) -> list[tuple[float, Self]]:
        """Returns the mean label."""
        mean = float(self.labels.mean())
        return [(round(mean, 6), type(self)(self.labels, np.full(len(self), mean)))]


@dataclasses.dataclass(frozen=True)
class TagOutcomes(Outcomes):
    """Of a tagging.

    Attributes:
      types: of entities, in order.
      entities: [sentences, types, 3] counts of true, predicted and correct entities.
      words: [sentences, 3] counts of words, of right tags, and of words outside entities.
    """

    types: tuple[str, ...]
    entities: NDArray[np.int64]
    words: NDArray[np.int64]

    FEATURES = ("tags", "predicted_tags")
    METRICS = ("accuracy",)

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of these sentences."""
        tags = [
            tuple([_text(tag) for tag in record[name]] for name in cls.FEATURES)
            for record in records
        ]
        # Of other labels of words there are no entities, and no metric asks for them.
        has_entities = all(map(is_entity_tag, {tag for of in tags for tag in (*of[0], *of[1])}))
        counts = [count_entities(*of) if has_entities else {} for of in tags]
        types = tuple(sorted({name for by_type in counts for name in by_type}))
        entities = np.zeros((len(tags), len(types), 3), int)
        for i, by_type in enumerate(counts):
            for name, of_type in by_type.items():
                entities[i, types.index(name)] = dataclasses.astuple(of_type)
        words = [
            (len(true), sum(map(str.__eq__, true, predicted)), true.count("O"))
            for true, predicted in tags
        ]
        return cls(types, entities, np.array(words))

    def __len__(self) -> int:
        """The number of sentences."""
        return len(self.words)

    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes of these sentences."""
        return type(self)(self.types, self.entities[examples], self.words[examples])

    def entity_scores(self) -> dict[str, Any]:
        """Returns what `entities.entity_scores` does."""
        sums = self.entities.sum(axis=0).tolist()
        by_type = dict(zip(self.types, (EntityCounts(*row) for row in sums), strict=True))
        return scores_of_counts({name: one for name, one in by_type.items() if one.any})

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns the metrics of these names; accuracy is of the words' tags."""
        words, right, _ = self.words.sum(axis=0)
        found = {**self.entity_scores(), "accuracy": float(right / words)}
        return {name: found[name] for name in names}

    def constants(self) -> list[tuple[str, Self]]:
        """Returns O for every word."""
        entities = self.entities * np.array([1, 0, 0])
        return [("O", type(self)(self.types, entities, self.words[:, [0, 2, 2]]))]

    def details(self) -> dict[str, Any]:
        """Returns `by_type` of entities."""
        by_type = self.entity_scores()["by_type"]
        return {
            "by_type": {
                name: {key: round(value, 6) for key, value in of_type.items()}
                for name, of_type in by_type.items()
            }
        }


@dataclasses.dataclass(frozen=True)
class AnswerOutcomes(Outcomes):
    """Of questions.

    Attributes:
      exact_match: [questions] 1 where the answer is right.
      f1: [questions] of the answer's words.
      impossible: [questions] whether the text has no answer.
      probability: [questions] of the answer, as the model says.
    """

    exact_match: NDArray[np.float64]
    f1: NDArray[np.float64]
    impossible: NDArray[np.int64]
    probability: NDArray[np.float64]

    FEATURES = ("exact_match", "squad_f1", "impossible", "probability")
    SHARES = frozenset({"exact_match"})
    METRICS = ("squad_f1", "exact_match")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of these questions."""
        return cls(*(_column(records, name) for name in cls.FEATURES))

    def __len__(self) -> int:
        """The number of questions."""
        return len(self.f1)

    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes of these questions."""
        return type(self)(
            self.exact_match[examples],
            self.f1[examples],
            self.impossible[examples],
            self.probability[examples],
        )

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns the metrics of these names."""
        found = {"exact_match": self.exact_match, "squad_f1": self.f1}
        return {name: float(found[name].mean()) for name in names}

    def confidence(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Returns the probability of each answer, and whether it is right."""
        return self.probability, self.exact_match == 1

    def constants(self) -> list[tuple[str, Self]]:
        """Returns that there is no answer."""
        right = self.impossible.astype(float)
        certain = np.ones(len(self))
        return [("no answer", type(self)(right, right, self.impossible, certain))]


OUTCOMES: dict[str, type[Outcomes]] = {
    CLASSIFICATION: ClassOutcomes,
    CHOICE: ChoiceOutcomes,
    REGRESSION: NumberOutcomes,
    TAGGING: TagOutcomes,
    SPAN: AnswerOutcomes,
}


def best_constants(
    outcomes: Outcomes, names: Sequence[str], positive: int
) -> dict[str, tuple[Any, float]]:
    """Returns, for each metric, the constant answer that is best by it and its score."""
    candidates = [
        (answer, constant.scores(names, positive)) for answer, constant in outcomes.constants()
    ]
    best = {}
    for name in names:
        sign = 1 if metrics.METRICS[name].greater_is_better else -1
        answer, found = max(candidates, key=lambda candidate: sign * candidate[1][name])
        best[name] = (answer, found[name])
    return best


def _column(records: Sequence[Record], name: str) -> NDArray:
    values = np.array([record[name][0] for record in records])
    # TFMA's floats are float32, in which a mean differs from that of the same numbers elsewhere.
    return values.astype(float) if values.dtype.kind == "f" else values


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
