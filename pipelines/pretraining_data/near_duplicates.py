"""Which documents say nearly the same as another one, found without comparing all. Pure.

Exact duplicates need none of this: `compact_documents.document_hash` is equal, so they meet in one
shard.

Near duplicates share most of their shingles: runs of 5 words (in scripts without spaces, of 5
characters), lower-cased, without punctuation. How many is estimated by MinHash (Broder 1997) with
the parameters of FineWeb (Penedo et al. 2024; huggingface/datatrove, MinhashConfig): 14 bands of 8
hashes, so that two documents whose shingles have a Jaccard similarity of 0.8 meet in some band with
probability 0.92, of 0.7 with 0.56, of 0.5 with 0.05.

What is dropped: of the documents that meet in a band, the one of smallest hash is kept, and those
go whose estimated similarity to it is at least 0.8, the value that FineWeb's odds are given for.
The estimate's standard deviation is 0.04, so that some of 0.75 go and some of 0.82 stay. What is
not similar to it is looked at again in the same way, a few times. So every document that goes has
a near duplicate of smaller hash, and of any chain of near duplicates (A like B, B like C, A unlike
C) at least the one of smallest hash stays. B may itself have gone when it takes C along: chains
shrink, as in FineWeb, whose clusters keep one document each. Which documents go depends on all
documents together, never on their order or place. Documents of fewer than 5 words have no shingle
and are never near duplicates.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from beambert.pipelines.instances.compact_documents import HASH_BYTES
from beambert.pipelines.text.cleaning import UNSPACED, UNSPACED_CHARACTER

if TYPE_CHECKING:
    from datasketch import MinHash

_SPACED_WORD = re.compile(r"\w+")
_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
# Odd, so that no bit is lost; the fraction of the golden ratio spreads small numbers.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Shingles given to MinHash at a time: it makes tables of these by all hashes, in the cache if so
# small.
_SHINGLES_AT_A_TIME = 512
# Of each hash so many bits travel with a document: enough to estimate the similarity from (Li and
# König 2010, "b-bit minwise hashing").
_BITS = 4
# How often a band's documents are compared with one of them. A group of similar ones needs one
# round, and a band rarely holds two groups.
_ROUNDS = 8


@dataclasses.dataclass(frozen=True)
class NearDuplicateSettings:
    """What counts as a near duplicate; sources in the module's docstring.

    Attributes:
      shingle_words: words of a shingle.
      bands: documents meet if all hashes of at least one of so many bands are equal.
      band_hashes: hashes of a band; an even number in all.
      min_similarity: the least estimated Jaccard similarity of near duplicates.
      seed: of MinHash's hashes.
    """

    shingle_words: int = 5
    bands: int = 14
    band_hashes: int = 8
    min_similarity: float = 0.8
    seed: int = 1

    @property
    def row_type(self) -> np.dtype:
        """One document in one band: the band's key, the document's hash, its small signature."""
        signature_bytes = self.bands * self.band_hashes * _BITS // 8
        return np.dtype(
            [("band", "<u8"), ("hash", f"V{HASH_BYTES}"), ("signature", "u1", signature_bytes)]
        )


def band_rows(
    document_hash: bytes, sentences: Sequence[str], settings: NearDuplicateSettings
) -> np.ndarray:
    """Returns what is needed to find a document's near duplicates.

    Args:
      document_hash: see `compact_documents.document_hash`.
      sentences: of the document.
      settings: of the job.

    Returns:
      `settings.row_type` [bands], or [0] if the document is too short for a shingle. Documents can
      be near duplicates only if some of their rows have equal `band`; equal on every machine.
    """
    hashes = minhash(shingles(sentences, settings.shingle_words), settings)
    rows = np.zeros(0 if hashes is None else settings.bands, settings.row_type)
    if hashes is not None:
        keys = np.arange(settings.bands, dtype=np.uint64)
        for column in hashes.reshape(settings.bands, settings.band_hashes).T:
            keys = _mix(keys ^ column)
        rows["band"] = keys
        rows["hash"] = np.frombuffer(document_hash, rows.dtype["hash"])
        low = (hashes & np.uint32(15)).astype(np.uint8)
        rows["signature"] = low[::2] << np.uint8(_BITS) | low[1::2]
    return rows


def rows_by_bucket(rows: np.ndarray, buckets: int) -> Iterator[tuple[int, bytes]]:
    """Yields the rows of each bucket: all rows of a band's key, of any worker, fall to the same.

    Args:
      rows: `row_type` [n].
      buckets: how many.
    """
    keys = rows["band"] % np.uint64(buckets)
    order = np.argsort(keys, kind="stable")
    for indices in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
        if len(indices):
            yield int(keys[indices[0]]), rows[indices].tobytes()


def shingles(sentences: Sequence[str], words: int) -> np.ndarray:
    """Returns a hash of each run of `words` words, uint32 [runs], in order and with repeats."""
    text = "\n".join(sentences).lower()
    # The simple expression is twice as fast and finds the same where no script lacks spaces.
    found = (_WORD if UNSPACED_CHARACTER.search(text) else _SPACED_WORD).findall(text)
    encoded = " ".join(found).encode("utf-8", "surrogatepass").split(b" ")
    ids = np.fromiter(map(crc32, encoded), np.uint64, len(encoded))
    count = max(0, len(found) - words + 1)
    hashes = np.zeros(count, np.uint64)
    for offset in range(words):
        hashes = hashes * _MULTIPLIER + ids[offset : offset + count]
    return (_mix(hashes) >> np.uint64(32)).astype(np.uint32)


def _mix(numbers: np.ndarray) -> np.ndarray:
    numbers = (numbers ^ (numbers >> np.uint64(32))) * _MULTIPLIER
    return numbers ^ (numbers >> np.uint64(32))


def minhash(hashes: np.ndarray, settings: NearDuplicateSettings) -> np.ndarray | None:
    """Returns MinHash's values, uint32 [bands * band_hashes], of shingles; None if there is none.

    Args:
      hashes: uint32 [n], in any order, repeats allowed.
      settings: of the job.
    """
    if not len(hashes):
        return None
    sketch = _empty_minhash(settings.bands * settings.band_hashes, settings.seed).copy()
    for first in range(0, len(hashes), _SHINGLES_AT_A_TIME):
        sketch.update_batch(hashes[first : first + _SHINGLES_AT_A_TIME].tolist())
    return sketch.hashvalues


@functools.cache
def _empty_minhash(num_perm: int, seed: int) -> "MinHash":
    # The scheme is named so that another release of the library can't choose another.
    from datasketch import MinHash  # with scipy: half a second that only near duplicates need

    return MinHash(num_perm, seed, hashfunc=int, scheme="affine32")


def near_duplicates(rows: np.ndarray, settings: NearDuplicateSettings) -> np.ndarray:
    """Returns the hashes of the documents to drop.

    Sorts the rows and compares each with few others, however many meet in a band.

    Args:
      rows: `settings.row_type` [n], in any order: all rows of some bands' keys.
      settings: of the job.

    Returns:
      `V16` [documents], sorted, each once. Over all bands' keys a document may come up often.
    """
    words = np.ascontiguousarray(rows["hash"]).view("<u8").reshape(-1, HASH_BYTES // 8)
    rows = rows[np.lexsort((*words.T, rows["band"]))]
    # An exact copy is the shard's to drop: it has the hash of the one that is kept.
    same_band = rows["band"][1:] == rows["band"][:-1]
    is_copy = same_band & (rows["hash"][1:] == rows["hash"][:-1])
    rows = rows[np.concatenate(([True], ~is_copy))] if len(rows) else rows
    dropped = [rows["hash"][:0]]
    for _ in range(_ROUNDS):
        is_first = np.ones(len(rows), bool)
        is_first[1:] = rows["band"][1:] != rows["band"][:-1]
        kept = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        others = np.flatnonzero(~is_first)
        similarity = estimate_similarity(rows["signature"][others], rows["signature"][kept[others]])
        is_similar = similarity >= settings.min_similarity
        dropped.append(rows["hash"][others[is_similar]])
        rows = rows[others[~is_similar]]
    return np.unique(np.concatenate(dropped))


def estimate_similarity(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Estimates the Jaccard similarity of documents from their signatures.

    Args:
      first, second: `signature` of rows, uint8 [n, bytes], two hashes a byte.

    Returns:
      float64 [n], at most 1; a little below 0 for some unlike documents. Its standard deviation is
      0.04 with 112 hashes at 0.8.
    """
    differs = first ^ second
    equal = ((differs < 16).sum(1) + (differs % 16 == 0).sum(1)) / (2 * first.shape[1])
    by_chance = 2.0**-_BITS
    return (equal - by_chance) / (1 - by_chance)
