"""The official metrics of the tasks, from labels and predictions as arrays.

The values equal those of scikit-learn and SciPy, which the GLUE tasks are scored with, but need
only NumPy. A correlation is 0 here if all predictions or all labels are the same; those libraries
return not-a-number then.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Smaller probabilities are raised to this one, so that a single error with probability 0 does not
# make the mean infinite. It is the machine epsilon of float32, as in scikit-learn's log_loss.
_LEAST_PROBABILITY = float(np.finfo(np.float32).eps)


@dataclasses.dataclass(frozen=True)
class Metric:
    """The title and the range of a metric.

    Attributes:
      title: its name in reports.
      least: least value that it can have.
      greatest: greatest value that it can have.
      greater_is_better: whether better models have greater values.
    """

    title: str
    least: float = 0.0
    greatest: float = 1.0
    greater_is_better: bool = True

    def is_better(self, score: float, other: float) -> bool:
        """Whether a score is better than another."""
        return score > other if self.greater_is_better else score < other


# All metrics that a task can name. `scores` computes them except those of entities (see
# `tagging.entity_scores`), of several labels (see `multi_label`), of answers to questions, which
# are means over the questions, and of rankings (see `ranking`).
METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy"),
    "f1": Metric("F1"),
    "micro_f1": Metric("micro F1"),
    "macro_f1": Metric("macro F1"),
    "matthews_correlation": Metric("Matthews correlation", least=-1.0),
    "pearson": Metric("Pearson", least=-1.0),
    "spearman": Metric("Spearman", least=-1.0),
    "mean_squared_error": Metric("mean squared error", greatest=math.inf, greater_is_better=False),
    "cross_entropy": Metric("cross entropy", greatest=math.inf, greater_is_better=False),
    "entity_precision": Metric("entity precision"),
    "entity_recall": Metric("entity recall"),
    "entity_f1": Metric("entity F1"),
    "exact_match": Metric("exact match"),
    "squad_f1": Metric("SQuAD F1"),
    "ndcg_at_10": Metric("nDCG@10"),
    "mrr_at_10": Metric("MRR@10"),
    "recall_at_10": Metric("Recall@10"),
}
# Metrics that compare classes. Of examples of one class they say less than the accuracy: the F1
# of the other classes is 0 or missing.
OF_SEVERAL_CLASSES = frozenset({"f1", "macro_f1", "matthews_correlation"})


def scores(
    names: Sequence[str],
    labels: ArrayLike,
    predictions: ArrayLike,
    *,
    probabilities: ArrayLike | None = None,
    positive: int = 1,
) -> dict[str, float]:
    """Returns metrics by name.

    Args:
      names: keys of `METRICS`.
      labels: true class ids, or numbers for a regression, [examples].
      predictions: predicted class ids or numbers, [examples].
      probabilities: probabilities of the classes, [examples, classes]; cross_entropy needs them.
      positive: id of the class whose F1 is computed.

    Raises:
      ValueError: a metric is not computed here, the shapes differ or there are no examples.
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.ndim != 1 or labels.shape != predictions.shape or not labels.size:
        raise ValueError(f"labels {labels.shape} and predictions {predictions.shape}")
    found = {}
    for name in names:
        if name == "cross_entropy":
            if probabilities is None:
                raise ValueError("cross_entropy needs probabilities")
            found[name] = cross_entropy(labels, np.asarray(probabilities))
        elif name == "f1":
            found[name] = f1(labels, predictions, positive)
        elif name in _OF_LABELS_AND_PREDICTIONS:
            found[name] = _OF_LABELS_AND_PREDICTIONS[name](labels, predictions)
        else:
            raise ValueError(f"{name} is not a metric of labels and predictions")
    return found


def accuracy(labels: NDArray, predictions: NDArray) -> float:
    """Returns the share of the predictions that equal their labels."""
    return float(np.mean(labels == predictions))


def f1(labels: NDArray, predictions: NDArray, positive: int = 1) -> float:
    """Returns the F1 of one class; 0 if it occurs neither as label nor as prediction."""
    correct = np.sum((labels == positive) & (predictions == positive))
    occurrences = np.sum(labels == positive) + np.sum(predictions == positive)
    return float(2 * correct / occurrences) if occurrences else 0.0


def macro_f1(labels: NDArray, predictions: NDArray) -> float:
    """Returns the mean F1 of the classes that occur among the labels or the predictions."""
    actual, predicted, correct = _class_counts(labels, predictions)
    return float(np.mean(2 * correct / (actual + predicted)))


def matthews_correlation(labels: NDArray, predictions: NDArray) -> float:
    """Returns the correlation coefficient of Matthews (1975), for any number of classes.

    For more than two classes it is the R_K statistic of Gorodkin (2004). It is 0 if all labels or
    all predictions are the same.
    """
    actual, predicted, correct = _class_counts(labels, predictions)
    count = len(labels)
    covariance = correct.sum() * count - actual @ predicted
    variances = (count**2 - actual @ actual) * (count**2 - predicted @ predicted)
    return float(covariance / math.sqrt(variances)) if variances else 0.0


def pearson(labels: NDArray, predictions: NDArray) -> float:
    """Returns Pearson's correlation coefficient; 0 if either side is constant."""
    a, b = _standardized(labels), _standardized(predictions)
    return float(np.clip(a @ b, -1.0, 1.0))


def spearman(labels: NDArray, predictions: NDArray) -> float:
    """Returns Spearman's rank correlation coefficient; equal values share their mean rank."""
    return pearson(_ranks(labels), _ranks(predictions))


def mean_squared_error(labels: NDArray, predictions: NDArray) -> float:
    """Returns the mean of the squared differences."""
    return float(np.mean((labels.astype(float) - predictions.astype(float)) ** 2))


def cross_entropy(labels: NDArray, probabilities: NDArray) -> float:
    """Returns the mean negative logarithm of the labels' probabilities, in nats.

    Args:
      labels: [examples] class ids.
      probabilities: [examples, classes].
    """
    of_label = probabilities[np.arange(len(labels)), labels].astype(float)
    return float(np.mean(-np.log(np.maximum(of_label, _LEAST_PROBABILITY))))


def _class_counts(labels: NDArray, predictions: NDArray) -> list[NDArray[np.float64]]:
    """Returns how often each class is the label, the prediction, and both at once."""
    count = len(labels)
    classes, ids = np.unique(np.concatenate([labels, predictions]), return_inverse=True)
    actual, predicted = ids[:count], ids[count:]
    return [
        np.bincount(some, minlength=len(classes)).astype(float)
        for some in (actual, predicted, actual[actual == predicted])
    ]


def _standardized(values: NDArray) -> NDArray[np.float64]:
    """Returns the deviations from the mean, scaled to norm 1; zeros if all values are equal."""
    values = values.astype(float)
    if np.ptp(values) == 0:  # The mean may differ from them by rounding.
        return np.zeros_like(values)
    deviations = values - values.mean()
    deviations /= np.abs(deviations).max()  # This keeps the squares from underflow and overflow.
    return deviations / np.linalg.norm(deviations)


def _ranks(values: NDArray) -> NDArray[np.float64]:
    _, positions, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[positions]


_OF_LABELS_AND_PREDICTIONS: dict[str, Callable[[NDArray, NDArray], float]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "matthews_correlation": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
    "mean_squared_error": mean_squared_error,
}


def pair_scores(labels: ArrayLike, cosines: ArrayLike) -> dict[str, float]:
    """Returns the scores of a classification of pairs by a threshold of their cosines.

    A pair is taken for one of label 1 if its cosine is at least the threshold. Each threshold is
    the best for these very pairs, so that the scores next to it are upper bounds. It lies in the
    middle between two cosines; of equally good ones it is the greatest.

    Args:
      labels: 0 or 1, [pairs], with at least one 1.
      cosines: [pairs].

    Returns:
      `average_precision`; the best `accuracy` and its `accuracy_threshold`; the best `f1`, its
      `f1_threshold` and the `precision` and `recall` there.
    """
    labels, cosines = np.asarray(labels, float), np.asarray(cosines, float)
    order = np.argsort(-cosines, kind="stable")
    ranked, right = cosines[order], np.cumsum(labels[order])
    # Pairs with equal cosines lie on the same side of any threshold.
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    taken, right, all_right = last + 1, right[last], labels.sum()
    precision, recall = right / taken, right / all_right
    f1 = 2 * right / (taken + all_right)
    # A pair that is not taken is right if its label is 0.
    accuracy = (2 * right + len(labels) - taken - all_right) / len(labels)
    steps = ranked[last]
    thresholds = np.append((steps[:-1] + steps[1:]) / 2, steps[-1])
    # The first threshold takes no pair at all.
    accuracy = np.append(1 - all_right / len(labels), accuracy)
    accuracy_thresholds = np.append(np.nextafter(steps[0], np.inf), thresholds)
    of_accuracy, of_f1 = int(np.argmax(accuracy)), int(np.argmax(f1))
    return {
        "average_precision": float(precision @ np.diff(recall, prepend=0.0)),
        "accuracy": float(accuracy[of_accuracy]),
        "accuracy_threshold": float(accuracy_thresholds[of_accuracy]),
        "f1": float(f1[of_f1]),
        "f1_threshold": float(thresholds[of_f1]),
        "precision": float(precision[of_f1]),
        "recall": float(recall[of_f1]),
    }
