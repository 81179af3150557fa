"""Rankings of passages: the best of some scores, and several rankings made one.

Shape suffixes: N passages, K passages of a ranking.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

# The constant of reciprocal rank fusion (Cormack et al. 2009, section 2), and the number of ranks
# of each ranking that are fused.
RANK_CONSTANT, FUSED_DEPTH = 60, 1000


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Passages, the best first; of equal scores the one with the smaller number comes first.

    Attributes:
      numbers_K: numbers of the passages, int64.
      scores_K: their scores.
    """

    numbers_K: np.ndarray
    scores_K: np.ndarray


def ranked(numbers_K: np.ndarray, scores_K: np.ndarray) -> Ranking:
    """Returns the ranking of passages by their scores."""
    order = np.lexsort((numbers_K, -scores_K))
    return Ranking(numbers_K[order].astype(np.int64), scores_K[order])


def best_of(scores_N: np.ndarray, count: int) -> Ranking:
    """Returns the ranking of the greatest scores.

    Args:
      scores_N: the score of each passage.
      count: number of passages.
    """
    least = np.partition(scores_N, -count)[-count] if 0 < count < len(scores_N) else -np.inf
    numbers = np.flatnonzero(scores_N >= least)
    found = ranked(numbers, scores_N[numbers])
    return Ranking(found.numbers_K[:count], found.scores_K[:count])


def fused(rankings: Sequence[Ranking], count: int) -> Ranking:
    """Returns the best passages of several rankings by the sums of their reciprocal ranks."""
    numbers = np.concatenate([ranking.numbers_K for ranking in rankings])
    shares = [
        1 / (RANK_CONSTANT + 1 + np.arange(len(one_ranking.numbers_K))) for one_ranking in rankings
    ]
    found, places = np.unique(numbers, return_inverse=True)
    best = best_of(np.bincount(places, np.concatenate(shares), len(found)), count)
    return Ranking(found[best.numbers_K], best.scores_K)
