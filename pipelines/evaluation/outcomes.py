"""The outcomes of the examples of an evaluation, by kind of task, and their scores."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.evaluation.multi_label_outcomes import MultiLabelOutcomes
from beambert.pipelines.evaluation.outcome_base import ArrayOutcomes, Outcomes, Record, column
from beambert.pipelines.evaluation.ranking_outcomes import RankingOutcomes
from beambert.pipelines.evaluation.relevance_outcomes import RelevanceOutcomes
from beambert.pipelines.tasks import metrics
from beambert.pipelines.tasks.entities import (
    EntityCounts,
    count_entities,
    is_entity_tag,
    scores_of_counts,
)
from beambert.pipelines.tasks.pair_scores import pair_scores
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

    def confidence(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Returns the probability of each answer, and whether it is right."""
        probability = self.probabilities[np.arange(len(self)), self.predictions]
        return probability, self.labels == self.predictions

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


class ChoiceOutcomes(ClassOutcomes):
    """The outcomes of a choice; it has no metrics by class, as the indices mean nothing."""

    METRICS = ("accuracy", "cross_entropy")


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


class CosineOutcomes(NumberOutcomes):
    """The outcomes of a similarity; errors say nothing, as scores need not be cosines."""

    METRICS = ("spearman", "pearson")

    def details(self, labels: Sequence[str]) -> dict[str, Any]:
        """Returns `pair_classification` of pairs whose scores are 0 and 1, see `pair_scores`."""
        if set(self.labels.tolist()) != {0.0, 1.0}:
            return {}
        found = pair_scores(self.labels, self.predictions)
        return {"pair_classification": {name: round(value, 6) for name, value in found.items()}}


@dataclasses.dataclass(frozen=True)
class TagOutcomes(Outcomes):
    """The outcomes of a tagging.

    Attributes:
      types: types of entities, sorted.
      entities: counts of true, predicted and correct entities, [sentences, types, 3].
      words: counts of words, right tags, and words outside entities, [sentences, 3].
    """

    types: tuple[str, ...]
    entities: NDArray[np.int64]
    words: NDArray[np.int64]

    FEATURES = ("tags", "predicted_tags")
    METRICS = ("accuracy",)

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        tags = [
            tuple([_text(tag) for tag in record[name]] for name in cls.FEATURES)
            for record in records
        ]
        # Other labels of words form no entities, and their tasks have no metric of entities.
        has_entities = all(
            map(is_entity_tag, {tag for one_tag in tags for tag in (*one_tag[0], *one_tag[1])})
        )
        counts = [count_entities(*one_tag) if has_entities else {} for one_tag in tags]
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
        """Returns the outcomes at some indices."""
        return type(self)(self.types, self.entities[examples], self.words[examples])

    def entity_scores(self) -> dict[str, Any]:
        """Returns the scores of entities, see `entities.entity_scores`."""
        sums = self.entities.sum(axis=0).tolist()
        by_type = dict(zip(self.types, (EntityCounts(*row) for row in sums), strict=True))
        return scores_of_counts({name: one for name, one in by_type.items() if one.any})

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name; accuracy is the share of words with the right tag."""
        words, right, _ = self.words.sum(axis=0)
        found = {**self.entity_scores(), "accuracy": float(right / words)}
        return {name: found[name] for name in names}

    def constants(self) -> list[tuple[str, Self]]:
        """Returns the constant answer O for every word."""
        entities = self.entities * np.array([1, 0, 0])
        return [("O", type(self)(self.types, entities, self.words[:, [0, 2, 2]]))]

    def details(self, labels: Sequence[str]) -> dict[str, Any]:
        """Returns the scores of entities `by_type`."""
        by_type = self.entity_scores()["by_type"]
        return {
            "by_type": {
                name: {key: round(value, 6) for key, value in of_type.items()}
                for name, of_type in by_type.items()
            }
        }


@dataclasses.dataclass(frozen=True)
class AnswerOutcomes(ArrayOutcomes):
    """The outcomes of questions.

    Attributes:
      exact_match: 1 if the answer is right, else 0, [questions].
      f1: F1 of the words of the answer, [questions].
      impossible: whether the context has no answer, [questions].
      probability: probability that the model gives its answer, [questions].
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
        """Returns the outcomes of prediction records."""
        return cls(*(column(records, name) for name in cls.FEATURES))

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name."""
        found = {"exact_match": self.exact_match, "squad_f1": self.f1}
        return {name: float(found[name].mean()) for name in names}

    def confidence(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Returns the probability of each answer, and whether it is right."""
        return self.probability, self.exact_match == 1

    def constants(self) -> list[tuple[str, Self]]:
        """Returns the constant answer that there is none."""
        right = self.impossible.astype(float)
        certain = np.ones(len(self))
        return [("no answer", type(self)(right, right, self.impossible, certain))]


OUTCOMES: dict[str, type[Outcomes]] = {
    CLASSIFICATION: ClassOutcomes,
    MULTI_LABEL: MultiLabelOutcomes,
    CHOICE: ChoiceOutcomes,
    REGRESSION: NumberOutcomes,
    RERANK: RelevanceOutcomes,
    TAGGING: TagOutcomes,
    SPAN: AnswerOutcomes,
    EMBEDDING: RankingOutcomes,
    SIMILARITY: CosineOutcomes,
    LATE_INTERACTION: RankingOutcomes,
}


def best_constants(
    outcomes: Outcomes, names: Sequence[str], positive: int
) -> dict[str, tuple[Any, float]]:
    """Returns metric -> best constant answer and its score."""
    candidates = [
        (answer, constant.scores(names, positive)) for answer, constant in outcomes.constants()
    ]
    best = {}
    for name in names:
        sign = 1 if metrics.METRICS[name].greater_is_better else -1
        answer, found = max(candidates, key=lambda candidate: sign * candidate[1][name])
        best[name] = (answer, found[name])
    return best


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
