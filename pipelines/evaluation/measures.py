"""The metrics that an evaluation reports, and what else it computes from the predictions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.evaluation.outcomes import OUTCOMES, Outcomes, best_constants
from beambert.pipelines.tasks.metrics import METRICS
from beambert.pipelines.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Measures:
    """The metrics by which the outcomes of a task are scored.

    Attributes:
      kind: kind of the task.
      names: names of the metrics, the task's own first.
      positive: id of the class whose F1 is computed.
    """

    kind: str
    names: tuple[str, ...]
    positive: int

    def scores(self, outcomes: Outcomes) -> dict[str, float]:
        """Returns name -> value of all metrics."""
        return outcomes.scores(self.names, self.positive)


def metric_names(task: Task) -> tuple[str, ...]:
    """Returns the names of the metrics of an evaluation, the task's own first."""
    return tuple(dict.fromkeys([*task.metrics, *OUTCOMES[task.kind].METRICS]))


def measures_of(task: Task, labels: Sequence[str]) -> Measures:
    """Returns the metrics of a task; F1 is that of its positive label, or else of the second."""
    positive = 1 if task.positive_label is None else labels.index(task.positive_label)
    return Measures(task.kind, metric_names(task), positive)


def constant_answers(
    outcomes: Outcomes,
    measures: Measures,
    labels: Sequence[str],
    others: Mapping[str, Outcomes] | None = None,
) -> dict[str, dict[str, Any]]:
    """Returns, for each metric, the best `answer` without a model and its `score`.

    Args:
      outcomes: outcomes of the model; those of constant answers follow from their truths.
      measures: the metrics.
      labels: labels in index order.
      others: name -> outcomes of answers that are not constant; an entry with such a name has
        `is_constant`, which is False.
    """
    found = {}
    best = best_constants(outcomes, measures.names, measures.positive)
    for name, (answer, score) in best.items():
        found[name] = {"answer": outcomes.written(answer, labels), "score": score}
    for answer, of_answer in (others or {}).items():
        for name, score in measures.scores(of_answer).items():
            if METRICS[name].is_better(score, found[name]["score"]):
                found[name] = {"answer": answer, "score": score, "is_constant": False}
    return found


def details(outcomes: Outcomes, labels: Sequence[str]) -> dict[str, Any]:
    """Returns further results over all examples; which there are depends on the kind.

    A classification has `confusion_matrix`, whose [i][j] counts the examples of label i that were
    predicted as label j, and `calibration`. A choice and questions have `calibration`. Tags have
    the scores of entities `by_type`, and several labels have scores `by_label`. A similarity whose
    labels are 0 and 1 has `pair_classification`.
    """
    confidence = outcomes.confidence()
    calibrated = {"calibration": calibration(*confidence)} if confidence else {}
    return outcomes.details(labels) | calibrated


def by_slice(
    scores: Mapping[tuple[str, str] | None, dict[str, Any]], orders: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Any]]:
    """Returns slicing -> value -> scores, for the values that occur.

    Args:
      scores: (slicing, value) -> scores, see `tfma_metric.load_scores`.
      orders: slicing -> its values in the order of reports.
    """
    return {
        name: {value: scores[name, value] for value in orders[name] if (name, value) in scores}
        for name in sorted(orders)
    }


def written(score: float | None) -> str:
    """Returns a score as text; "-" for one that says nothing about a slice."""
    return "-" if score is None else f"{score:.4f}"


BINS = 10


def calibration(probability: NDArray[np.float64], right: NDArray[np.bool_]) -> dict[str, Any]:
    """Compares the probability of the given answers with the share that is right.

    Args:
      probability: probabilities that the model gives its answers, [examples].
      right: whether the answers are right, [examples].

    Returns:
      `bins`, each with the `least` and `greatest` probability, the number of `examples` in between
      and, if there are any, their mean `probability` and `accuracy`; and
      `expected_calibration_error`, the mean distance between these two over the examples (Naeini et
      al. 2015, Guo et al. 2017).
    """
    edges = np.linspace(0, 1, BINS + 1)
    # A bin includes its upper edge; the first also includes 0.
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
