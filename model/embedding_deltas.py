"""Embeddings that are saved as a table and what is added to it. Pure functions on weights.

In gradient-disentangled embedding sharing the discriminator's word embeddings are the sum of the
generator's and a delta of its own (He et al. 2021, arXiv 2111.09543, section 3.3).
"""

from collections.abc import Mapping

import numpy as np

# Name of a delta: that of its table with this ending.
SUFFIX = "_delta"
WORD_EMBEDDINGS = "embeddings/word_embeddings"
WORD_DELTA = WORD_EMBEDDINGS + SUFFIX


def merged(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns weights in which each delta is added to its table; without deltas, the same ones."""
    deltas = {path: value for path, value in weights.items() if path.endswith(WORD_DELTA)}
    tables = {
        (path := of_delta.removesuffix(SUFFIX)): weights[path] + delta
        for of_delta, delta in deltas.items()
    }
    rest = {path: value for path, value in weights.items() if path not in deltas}
    return rest | tables


def for_variables(
    weights: Mapping[str, np.ndarray], paths: Mapping[str, object]
) -> dict[str, np.ndarray]:
    """Returns weights in the form that a model has them.

    Args:
      weights: path -> array, with or without a delta.
      paths: the model's variables by their paths. If one of them is a delta, it begins at zero
        where the weights have none; if none is, deltas are added to their tables.
    """
    deltas = [path for path in paths if path.endswith(WORD_DELTA)]
    if not deltas:
        return merged(weights)
    zeros = {
        path: np.zeros_like(weights[table])
        for path in deltas
        if (table := path.removesuffix(SUFFIX)) in weights
    }
    return zeros | dict(weights)
