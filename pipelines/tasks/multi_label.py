"""Metrics of tasks whose texts have any number of labels, equal to those of scikit-learn.

The arrays are [examples, labels]. A score without anything to count is 0, as with scikit-learn's
`zero_division=0`.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

# A label applies if its probability is greater. The sigmoid is there where the logit is 0, as in
# scikit-learn's decision functions.
THRESHOLD = 0.5
_LEAST_PROBABILITY = float(np.finfo(np.float32).eps)


def scores(
    names: Sequence[str],
    labels: NDArray[np.bool_],
    predictions: NDArray[np.bool_],
    probabilities: NDArray[np.float64] | None = None,
) -> dict[str, float]:
    """Returns metrics by name.

    Args:
      names: some among micro_f1, macro_f1, exact_match and cross_entropy.
      labels: whether each label applies.
      predictions: whether each label is predicted.
      probabilities: probability of each label; cross_entropy needs them.
    """
    found = {}
    for name in names:
        if name == "cross_entropy":
            found[name] = cross_entropy(labels, probabilities)
        else:
            found[name] = _OF_LABELS_AND_PREDICTIONS[name](labels, predictions)
    return found


def counts(labels: NDArray[np.bool_], predictions: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns how often each label is true, predicted, and both, [labels, 3]."""
    return np.stack(
        [each.sum(axis=0) for each in (labels, predictions, labels & predictions)], axis=1
    )


def precision_recall_f1(
    true: NDArray, predicted: NDArray, correct: NDArray
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns precision, recall and F1 of counts; each is 0 if it would divide by 0."""
    return _share(correct, predicted), _share(correct, true), _share(2 * correct, true + predicted)


def micro_f1(labels: NDArray[np.bool_], predictions: NDArray[np.bool_]) -> float:
    """Returns the F1 of the counts of all labels together."""
    return float(precision_recall_f1(*counts(labels, predictions).sum(axis=0))[2])


def macro_f1(labels: NDArray[np.bool_], predictions: NDArray[np.bool_]) -> float:
    """Returns the mean of the labels' F1."""
    return float(precision_recall_f1(*counts(labels, predictions).T)[2].mean())


def exact_match(labels: NDArray[np.bool_], predictions: NDArray[np.bool_]) -> float:
    """Returns the share of the examples whose labels are all right."""
    return float((labels == predictions).all(axis=1).mean())


def cross_entropy(labels: NDArray[np.bool_], probabilities: NDArray[np.float64]) -> float:
    """Returns the mean over examples and labels of the negative logarithm of the truth, in nats."""
    of_truth = np.where(labels, probabilities, 1 - probabilities).astype(float)
    return float(np.mean(-np.log(np.maximum(of_truth, _LEAST_PROBABILITY))))


def _share(part: NDArray, whole: NDArray) -> NDArray[np.float64]:
    return np.where(whole > 0, part / np.maximum(whole, 1), 0.0)


_OF_LABELS_AND_PREDICTIONS: dict[str, Callable[[NDArray, NDArray], float]] = {
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    "exact_match": exact_match,
}
