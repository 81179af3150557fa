"""95 % intervals of scores.

If a score is a share of the examples, its interval is Wilson's, which also suits small numbers of
examples. The intervals of other scores are percentiles of a bootstrap over the examples. The
bootstrap of TFMA has only 20 samples, no seed, and symmetric intervals that can leave the range of
a metric. This one always gives the same figures for the same examples.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.evaluation.outcomes import Outcomes

# Numbers of bootstrap samples. They are large enough that other samples would move the ends only by
# a small part of the interval. More than 10,000 examples get fewer, as their intervals are narrow.
_MOST_RESAMPLES, _LEAST_RESAMPLES = 1000, 200
_ROWS_TO_DRAW = 10_000_000
_SEED = 1
# The 97.5 % quantile of the normal distribution.
_Z = 1.959964


def intervals(
    outcomes: Outcomes, names: Sequence[str], positive: int
) -> dict[str, tuple[float, float]]:
    """Returns the 95 % interval of each metric; (0, 0) if there are no outcomes."""
    if not len(outcomes):
        return dict.fromkeys(names, (0.0, 0.0))
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
    """Returns the 95 % interval of the change in a metric from old to new outcomes.

    Args:
      old: old outcomes of some examples.
      new: new outcomes of the same examples in the same order; both are resampled together.
      name: name of the metric.
      positive: ids of the class whose F1 is computed, in the old and in the new outcomes.
    """
    return _percentiles(
        [
            new.take(rows).scores([name], positive[1])[name]
            - old.take(rows).scores([name], positive[0])[name]
            for rows in _resamples(len(new))
        ]
    )


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share of `count` examples (Wilson, 1927)."""
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
