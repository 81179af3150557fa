"""What an evaluation reports: which metrics, and what is made of the predictions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.evaluation.outcomes import OUTCOMES, Outcomes, best_constants
from beambert.pipelines.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Measures:
    """What the outcomes of a task are scored by.

    Attributes:
      kind: of the task.
      names: of the metrics, the task's own first.
      positive: the class id that F1 is of.
    """

    kind: str
    names: tuple[str, ...]
    positive: int

    def scores(self, outcomes: Outcomes) -> dict[str, float]:
        """Returns all metrics."""
        return outcomes.scores(self.names, self.positive)


def metric_names(task: Task) -> tuple[str, ...]:
    """Returns the metrics of an evaluation, the task's own first."""
    return tuple(dict.fromkeys([*task.metrics, *OUTCOMES[task.kind].METRICS]))


def measures_of(task: Task, labels: Sequence[str]) -> Measures:
    """Returns what a task is scored by; F1 is of its positive label, or else of the second."""
    positive = 1 if task.positive_label is None else labels.index(task.positive_label)
    return Measures(task.kind, metric_names(task), positive)


def constant_answers(
    outcomes: Outcomes, measures: Measures, labels: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Returns, for each metric, the best constant `answer` and its `score`."""
    found = {}
    best = best_constants(outcomes, measures.names, measures.positive)
    for name, (answer, score) in best.items():
        found[name] = {"answer": outcomes.written(answer, labels), "score": score}
    return found


def details(outcomes: Outcomes) -> dict[str, Any]:
    """Returns what there is to say of all examples besides the metrics, by kind.

    Classes: `confusion_matrix`, whose [i][j] counts the examples of label i that were predicted as
    label j, and `calibration`. Answers to questions: `calibration`. Tags: `by_type` of entities.
    """
    confidence = outcomes.confidence()
    return outcomes.details() | ({"calibration": calibration(*confidence)} if confidence else {})


def by_slice(
    scores: Mapping[tuple[str, str] | None, dict[str, Any]], orders: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Any]]:
    """Returns slicing -> value -> scores in the orders given, those that occur.

    Args:
      scores: (slicing, value) -> scores, see `tfma_metric.load_scores`.
      orders: slicing -> its values.
    """
    return {
        name: {value: scores[name, value] for value in orders[name] if (name, value) in scores}
        for name in sorted(orders)
    }


BINS = 10


def calibration(probability: NDArray[np.float64], right: NDArray[np.bool_]) -> dict[str, Any]:
    """Compares the probability of the given answers with the share that is right.

    Args:
      probability: [examples], as the model says.
      right: [examples], whether the answer is.

    Returns:
      `bins`: the `least` and `greatest` probability, the `examples` in between and, where there
      are some, their mean `probability` and `accuracy`; `expected_calibration_error`: the mean
      distance between the two over the examples (Naeini et al. 2015, Guo et al. 2017).
    """
    edges = np.linspace(0, 1, BINS + 1)
    # A bin has its upper edge; the first also has 0.
    positions = np.clip(np.searchsorted(edges, probability) - 1, 0, BINS - 1)
    bins, error = [], 0.0
    for i in range(BINS):
        inside = positions == i
        found = {"least": round(edges[i], 6), "greatest": round(edges[i + 1], 6)}
        found["examples"] = int(inside.sum())
        if inside.any():
            mean, share = float(probability[inside].mean()), float(right[inside].mean())
            found |= {"probability": round(mean, 6), "accuracy": round(share, 6)}
            error += abs(mean - share) * inside.mean()
        bins.append(found)
    return {"expected_calibration_error": round(float(error), 6), "bins": bins}
