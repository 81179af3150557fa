"""Batches of records: taken, compared, and counted."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

Batch = Mapping[str, np.ndarray]


def take(batches: Iterable[Batch], count: int | None = None) -> list[Batch]:
    return list(itertools.islice(batches, count))


def assert_same(batches: Sequence[Batch], others: Sequence[Batch]) -> None:
    for batch, other in zip(batches, others, strict=True):
        assert batch.keys() == other.keys()
        for name in batch:
            np.testing.assert_array_equal(batch[name], other[name])


def assert_binomial(count: int, trials: int, share: float) -> None:
    """Within 5 standard deviations: by chance beyond them once in 1.7 million."""
    deviation = np.sqrt(trials * share * (1 - share))
    assert abs(count - trials * share) <= 5 * deviation, (count, trials * share, deviation)
