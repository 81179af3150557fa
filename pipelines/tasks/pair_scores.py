"""How well the cosines of pairs tell those with label 1 from those with label 0.

The values are those of sentence-transformers' BinaryClassificationEvaluator, which MTEB's tasks of
pair classification are scored with.
"""

import numpy as np
from numpy.typing import ArrayLike


def pair_scores(labels: ArrayLike, cosines: ArrayLike) -> dict[str, float]:
    """Returns the scores of a classification of pairs by a threshold of their cosines.

    A pair is taken for one of label 1 if its cosine is at least the threshold. Each threshold is
    the best for these very pairs, so that the scores beside it are upper bounds. It lies in the
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
