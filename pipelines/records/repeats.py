"""How often the same text comes back, within records and between two splits. Pure numpy.

Text is compared by 64-bit hashes. Of many records only those whose hash is below a limit are kept:
the same ones everywhere, so that each kept text is counted in full and memory is bounded.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

# Of each kind. Shares are then known to 0.1 %, and the hashes of a kind take 16 MB.
MOST_HASHES = 1 << 20
EVERY_HASH = (1 << 64) - 1
# Tokens that two segments must begin with to be the same text: longer than common phrases.
OPENING_TOKENS = 24

# Kinds of hash -> what is the same in records that share one.
HASH_KINDS = {
    "records": "the tokens and what is hidden of them",
    "sequences": "the tokens, before anything was hidden",
    "openings": f"the first {OPENING_TOKENS} tokens of A, where A is that long",
}


@dataclasses.dataclass(frozen=True, eq=False)
class HashCounts:
    """How often each hash occurs; they add up.

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
        """Adds counts up."""
        parts = [cls(np.zeros(0, np.uint64), np.zeros(0, np.int64)), *parts]
        hashes, place = np.unique(
            np.concatenate([part.hashes for part in parts]), return_inverse=True
        )
        counts = np.zeros(len(hashes), np.int64)
        np.add.at(counts, place, np.concatenate([part.counts for part in parts]))
        return cls(hashes, counts)

    @property
    def total(self) -> int:
        """Occurrences in all."""
        return int(self.counts.sum())

    def beyond(self, allowed: int) -> int:
        """Returns how many occurrences are more than the `allowed` ones of their hash."""
        return int(np.maximum(self.counts - allowed, 0).sum())

    def also_in(self, other: "HashCounts") -> int:
        """Returns how many occurrences are of hashes that the other has, too."""
        return int(self.counts[np.isin(self.hashes, other.hashes, assume_unique=True)].sum())


def hash_limit(expected_records: int) -> int:
    """Returns the limit that leaves about `MOST_HASHES` of so many distinct texts."""
    return min(EVERY_HASH, EVERY_HASH * MOST_HASHES // max(expected_records, 1))


def count_hashes(
    rows: Mapping[str, np.ndarray], restored_NL: np.ndarray, limit: int
) -> dict[str, HashCounts]:
    """Hashes what may repeat in well-shaped records.

    Args:
      rows: as in `statistics.count_records`.
      restored_NL: see `statistics.restore_ids`.
      limit: see `hash_limit`.

    Returns:
      a count of each of `HASH_KINDS`.
    """
    # [SEP] is a token, so the same text cut in two elsewhere is another sequence.
    sequences = _hash_rows(restored_NL)
    hidden = _hash_rows(rows["input_ids"], 1) + _hash_rows(rows["masked_lm_positions"], 2)
    a_N = np.count_nonzero((rows["segment_ids"] == 0) & (rows["input_mask"] != 0), axis=1) - 2
    is_long_N = a_N >= OPENING_TOKENS
    openings = restored_NL[is_long_N, 1 : 1 + OPENING_TOKENS]
    return {
        "records": HashCounts.of(_mix(sequences + hidden), limit),
        "sequences": HashCounts.of(_mix(sequences), limit),
        "openings": HashCounts.of(_mix(_hash_rows(openings)), limit),
    }


def sum_repeats(parts: Iterable[Mapping[str, HashCounts]]) -> dict[str, HashCounts]:
    """Adds up, kind by kind, what `count_hashes` returned; nothing gives nothing."""
    parts = [part for part in parts if part]
    return {kind: HashCounts.sum(part[kind] for part in parts) for kind in HASH_KINDS if parts}


def _hash_rows(rows: np.ndarray, stream: int = 0) -> np.ndarray:
    """Returns a hash of each row of integers: the sum of products with fixed random odd numbers.

    Multilinear hashing (Carter and Wegman, 1979): two rows of ids below 2^17 that differ agree with
    a chance of 2^-46 at most.
    """
    random = np.random.Generator(np.random.PCG64([20181011, stream]))
    factors = random.integers(0, 1 << 64, rows.shape[1], np.uint64) | np.uint64(1)
    return np.ascontiguousarray(rows, np.int64).view(np.uint64) @ factors


def _mix(hashes: np.ndarray) -> np.ndarray:
    """Spreads hashes over all 64 bits (the finalizer of SplitMix64, Steele et al., 2014)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
