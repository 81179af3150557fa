"""Weights of labels in the loss of a training, for labels that are rarer than others."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from beambert.errors import InputError
from beambert.pipelines.tasks.table_task import BALANCED


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
