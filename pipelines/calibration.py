"""Whether a model is right as often as it says that it is."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
