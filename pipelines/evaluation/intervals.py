"""95 % intervals of scores.

Where a score is a share of the examples, its interval is Wilson's, which holds for a few of them
too; else it lies between percentiles of a bootstrap over the examples. TFMA's own bootstrap has 20
samples, no seed and a symmetric interval, which leaves the range of most metrics; this one gives
the same figures for the same examples.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.evaluation.outcomes import Outcomes

# Draws: so many that others would move an end by a small part of the interval. Of more than 10,000
# examples fewer are drawn, whose interval is narrow anyway.
_MOST_RESAMPLES, _LEAST_RESAMPLES = 1000, 200
_ROWS_TO_DRAW = 10_000_000
_SEED = 1
# The normal distribution's 97.5 % quantile.
_Z = 1.959964


def intervals(
    outcomes: Outcomes, names: Sequence[str], positive: int
) -> dict[str, tuple[float, float]]:
    """Returns the 95 % interval of each metric."""
    found = {}
    shares = [name for name in names if name in outcomes.SHARES]
    for name, score in outcomes.scores(shares, positive).items():
        found[name] = wilson_interval(score, len(outcomes))
    others = [name for name in names if name not in outcomes.SHARES]
    if others:
        drawn = [outcomes.take(rows).scores(others, positive) for rows in _resamples(len(outcomes))]
        for name in others:
            found[name] = _percentiles([scores[name] for scores in drawn])
    return found


def change_interval(
    old: Outcomes, new: Outcomes, name: str, positive: tuple[int, int]
) -> tuple[float, float]:
    """Returns the 95 % interval of the change in a metric, from old to new outcomes.

    Args:
      old: of some examples.
      new: of the same examples in the same order, which are drawn together.
      name: of the metric.
      positive: the class id that f1 is of in the old and in the new outcomes.
    """
    return _percentiles(
        [
            new.take(rows).scores([name], positive[1])[name]
            - old.take(rows).scores([name], positive[0])[name]
            for rows in _resamples(len(new))
        ]
    )


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share of so many (Wilson, 1927)."""
    centre = share + _Z * _Z / (2 * count)
    margin = _Z * math.sqrt(share * (1 - share) / count + _Z * _Z / (4 * count * count))
    scale = 1 + _Z * _Z / count
    return max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale)


def _resamples(count: int) -> Iterator[NDArray[np.int64]]:
    generator = np.random.default_rng(_SEED)
    for _ in range(max(_LEAST_RESAMPLES, min(_MOST_RESAMPLES, _ROWS_TO_DRAW // count))):
        yield generator.integers(0, count, count)


def _percentiles(drawn: Sequence[float]) -> tuple[float, float]:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)
