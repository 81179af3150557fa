"""Counts of repeated text, within records and between two splits. Pure numpy.

Texts are compared by 64-bit hashes. Where there are many records, only hashes below a limit are
kept. The limit is the same for all files, so every kept text is counted in full, and memory is
bounded.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

# Number of hashes kept of each kind. They take 16 MB and give shares to within 0.1 %.
MOST_HASHES = 1 << 20
EVERY_HASH = (1 << 64) - 1
# Two segments A have the same opening if so many first tokens agree: more than in common phrases.
OPENING_TOKENS = 24

# Kind of hash -> the part of a record that it is computed from.
HASH_KINDS = {
    "records": "the tokens and what is hidden of them",
    "sequences": "the tokens, before anything was hidden",
    "openings": f"the first {OPENING_TOKENS} tokens of A, where A is that long",
}


@dataclasses.dataclass(frozen=True, eq=False)
class HashCounts:
    """The number of occurrences of each hash; the counts of several files add up.

    Attributes:
      hashes: uint64 [H], ascending.
      counts: int64 [H].
    """

    hashes: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, hashes: np.ndarray, limit: int = EVERY_HASH) -> "HashCounts":
        """Counts hashes (uint64 [N]) that are at most `limit`."""
        found, counts = np.unique(hashes[hashes <= np.uint64(limit)], return_counts=True)
        return cls(found, counts.astype(np.int64))

    @classmethod
    def sum(cls, parts: "Iterable[HashCounts]") -> "HashCounts":
        """Returns the sum of counts."""
        parts = [cls(np.zeros(0, np.uint64), np.zeros(0, np.int64)), *parts]
        hashes, place = np.unique(
            np.concatenate([part.hashes for part in parts]), return_inverse=True
        )
        counts = np.zeros(len(hashes), np.int64)
        np.add.at(counts, place, np.concatenate([part.counts for part in parts]))
        return cls(hashes, counts)

    @property
    def total(self) -> int:
        """Number of occurrences of all hashes."""
        return int(self.counts.sum())

    def beyond(self, allowed: int) -> int:
        """Returns the number of occurrences beyond the first `allowed` ones of each hash."""
        return int(np.maximum(self.counts - allowed, 0).sum())

    def also_in(self, other: "HashCounts") -> int:
        """Returns the number of occurrences whose hash occurs in `other` too."""
        return int(self.counts[np.isin(self.hashes, other.hashes, assume_unique=True)].sum())


def hash_limit(expected_records: int, most: int = MOST_HASHES) -> int:
    """Returns the largest hash to keep, so that about `most` of so many texts are kept."""
    return min(EVERY_HASH, EVERY_HASH * most // max(expected_records, 1))


def hash_records(rows: Mapping[str, np.ndarray], restored_NL: np.ndarray) -> np.ndarray:
    """Returns a hash of the tokens of each record and of what is hidden, uint64 [N]."""
    hidden = _hash_rows(rows["input_ids"], 1) + _hash_rows(rows["masked_lm_positions"], 2)
    return _mix(_hash_rows(restored_NL) + hidden)


def hash_windows(rows: np.ndarray, width: int) -> np.ndarray:
    """Returns a hash of every `width` neighbours in each row, uint64 [N, L - width + 1]."""
    ids = np.ascontiguousarray(rows, np.int64).view(np.uint64)
    places = ids.shape[1] - width + 1
    columns = (ids[:, i : i + places] * factor for i, factor in enumerate(_factors(width, 0)))
    return _mix(sum(columns, np.zeros((len(ids), places), np.uint64)))


def count_hashes(
    rows: Mapping[str, np.ndarray], restored_NL: np.ndarray, limit: int
) -> dict[str, HashCounts]:
    """Counts the hashes of records.

    Args:
      rows: features of records, see `statistics.count_records`.
      restored_NL: ids before masking, see `statistics.restore_ids`.
      limit: largest hash to keep, see `hash_limit`.

    Returns:
      kind -> counts, for each of `HASH_KINDS`.
    """
    # [SEP] counts as a token: the same text with another end of A is another sequence.
    sequences = _hash_rows(restored_NL)
    a_N = np.count_nonzero((rows["segment_ids"] == 0) & (rows["input_mask"] != 0), axis=1) - 2
    is_long_N = a_N >= OPENING_TOKENS
    openings = restored_NL[is_long_N, 1 : 1 + OPENING_TOKENS]
    return {
        "records": HashCounts.of(hash_records(rows, restored_NL), limit),
        "sequences": HashCounts.of(_mix(sequences), limit),
        "openings": HashCounts.of(_mix(_hash_rows(openings)), limit),
    }


def sum_repeats(parts: Iterable[Mapping[str, HashCounts]]) -> dict[str, HashCounts]:
    """Adds up results of `count_hashes`, kind by kind; the sum of none is an empty dict."""
    parts = [part for part in parts if part]
    return {kind: HashCounts.sum(part[kind] for part in parts) for kind in HASH_KINDS if parts}


def _hash_rows(rows: np.ndarray, stream: int = 0) -> np.ndarray:
    """Returns a hash of each row of integers: the sum of products with fixed random odd numbers.

    This is multilinear hashing (Carter and Wegman, 1979). Two different rows of ids below 2^17 have
    the same hash with a probability of at most 2^-46.
    """
    return np.ascontiguousarray(rows, np.int64).view(np.uint64) @ _factors(rows.shape[1], stream)


def _factors(count: int, stream: int) -> np.ndarray:
    """Returns random odd numbers, uint64 [count], that are the same on every machine."""
    random = np.random.Generator(np.random.PCG64([20181011, stream]))
    return random.integers(0, 1 << 64, count, np.uint64) | np.uint64(1)


def _mix(hashes: np.ndarray) -> np.ndarray:
    """Spreads hashes over all 64 bits (the finalizer of SplitMix64, Steele et al., 2014)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
