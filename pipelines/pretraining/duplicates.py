"""Finds near duplicates among documents without comparing all pairs. Pure.

Exact duplicates need none of this. Their `documents.document_hash` is equal, so they meet
in one shard.

Near duplicates share most of their shingles: runs of 5 words (in scripts without spaces, of 5
characters), lower-cased and without punctuation. MinHash (Broder 1997) estimates the share, with
the parameters of FineWeb (Penedo et al. 2024; huggingface/datatrove, MinhashConfig): 14 bands of 8
hashes. Two documents meet in a band if all its hashes are equal. The probability that they meet in
any band is 0.92 if the Jaccard similarity of their shingles is 0.8, 0.56 at 0.7, and 0.05 at 0.5.

Among the documents that meet in a band, the one with the smallest hash is kept. The others are
dropped if their estimated similarity to it is at least 0.8. The standard deviation of the estimate
is 0.04, so that some documents of similarity 0.75 are dropped and some of 0.82 are kept. The
documents that are not similar to it are compared again in the same way, a few times.

So every dropped document has a near duplicate of smaller hash. In a chain of near duplicates (A
like B, B like C, A unlike C) at least the document with the smallest hash is kept. C may be dropped
because of B although B itself is dropped; FineWeb, too, keeps only one document of such a cluster.
The result depends on all documents together, but never on their order or place. Documents of fewer
than 5 words have no shingle and are never near duplicates.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from beambert.pipelines.pretraining.documents import HASH_BYTES, document_hash
from beambert.pipelines.text.cleaning import UNSPACED, UNSPACED_CHARACTER
from beambert.pipelines.text.sentences import SplitText

if TYPE_CHECKING:
    from datasketch import MinHash

_SPACED_WORD = re.compile(r"\w+")
_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
# Multiplier of the hash. It is odd, so that no bit is lost. As the fraction of the golden ratio it
# spreads small numbers.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Number of shingles that MinHash gets at a time. Its tables of shingles by hashes then fit into the
# processor's cache.
_SHINGLES_AT_A_TIME = 512
# Number of bits of each hash that a document's signature holds. They are enough to estimate the
# similarity (Li and König 2010, "b-bit minwise hashing").
_BITS = 4
# Number of rounds in which the documents of a band are compared with one of them. A group of
# similar documents needs one round, and a band rarely has two groups.
_ROUNDS = 8


@dataclasses.dataclass(frozen=True)
class NearDuplicateSettings:
    """Settings for near duplicates; the module's docstring has their sources.

    Attributes:
      shingle_words: number of words in a shingle.
      bands: number of bands; documents meet if all hashes of at least one band are equal.
      band_hashes: number of hashes in a band; bands * band_hashes must be even.
      min_similarity: least estimated Jaccard similarity of near duplicates.
      seed: seed of MinHash's hashes.
      by_source: whether the document of the earliest source stays; otherwise that of the lowest
        hash does.
    """

    shingle_words: int = 5
    bands: int = 14
    band_hashes: int = 8
    min_similarity: float = 0.8
    seed: int = 1
    by_source: bool = False

    @property
    def row_type(self) -> np.dtype:
        """Type of a document's row for one band: key of the band, document's hash, signature."""
        signature_bytes = self.bands * self.band_hashes * _BITS // 8
        fields = [("band", "<u8"), ("hash", f"V{HASH_BYTES}"), ("signature", "u1", signature_bytes)]
        return np.dtype(fields + [("source", "<u4")] * self.by_source)


def band_rows(
    document_hash: bytes,
    sentences: Sequence[str],
    settings: NearDuplicateSettings,
    source: int = 0,
) -> np.ndarray:
    """Returns the rows by which a document's near duplicates are found.

    Args:
      document_hash: see `documents.document_hash`.
      sentences: sentences of the document.
      settings: settings of the job.
      source: number of the document's source.

    Returns:
      `row_type` [bands], or [0] if the document is too short for a shingle. Documents are
      compared only if some of their rows have the same `band`. The values are the same on every
      machine.
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
        if settings.by_source:
            rows["source"] = source
    return rows


def rows_of_documents(
    documents: Sequence[SplitText], sources: Sequence[int], settings: NearDuplicateSettings
) -> np.ndarray:
    """Returns the rows of several documents, `row_type` [rows], see `band_rows`.

    Args:
      documents: the documents in sentences.
      sources: number of the source of each.
      settings: settings of the job.
    """
    rows = [
        band_rows(document_hash(*each), each.sentences, settings, source)
        for each, source in zip(documents, sources, strict=True)
    ]
    return np.concatenate([np.zeros(0, settings.row_type), *rows])


def distinct_rows(rows: np.ndarray) -> np.ndarray:
    """Returns rows (`row_type` [n]) without their copies, which copies of a document make."""
    return np.unique(rows.view(f"V{rows.dtype.itemsize}")).view(rows.dtype)


def rows_by_bucket(rows: np.ndarray, buckets: int) -> Iterator[tuple[int, bytes]]:
    """Yields each bucket's number and rows. All rows of one band's key belong to the same bucket.

    Args:
      rows: `row_type` [n].
      buckets: number of buckets.
    """
    keys = rows["band"] % np.uint64(buckets)
    order = np.argsort(keys, kind="stable")
    for indices in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
        if len(indices):
            yield int(keys[indices[0]]), rows[indices].tobytes()


def shingles(sentences: Sequence[str], words: int) -> np.ndarray:
    """Returns the hash of each run of `words` words, uint32 [runs], in order and with repeats."""
    text = "\n".join(sentences).lower()
    # The simple expression is twice as fast. It finds the same words in scripts with spaces.
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
    """Returns MinHash's values of shingles, uint32 [bands * band_hashes]; None without shingles.

    Args:
      hashes: uint32 [n], hashes of the shingles in any order, repeats allowed.
      settings: settings of the job.
    """
    if not len(hashes):
        return None
    sketch = _empty_minhash(settings.bands * settings.band_hashes, settings.seed).copy()
    for first in range(0, len(hashes), _SHINGLES_AT_A_TIME):
        sketch.update_batch(hashes[first : first + _SHINGLES_AT_A_TIME].tolist())
    return sketch.hashvalues


@functools.cache
def _empty_minhash(num_perm: int, seed: int) -> "MinHash":
    # The library loads scipy, which takes half a second. Only near duplicates need it.
    from datasketch import MinHash

    # The scheme is named because the library's default may change between releases.
    return MinHash(num_perm, seed, hashfunc=int, scheme="affine32")


def near_duplicates(rows: np.ndarray, settings: NearDuplicateSettings) -> np.ndarray:
    """Returns the hashes of the documents to drop.

    The function sorts the rows and compares each with few others, however many meet in a band.

    Args:
      rows: `row_type` [n], all rows of some bands' keys, in any order.
      settings: settings of the job.

    Returns:
      `V16` [documents], sorted and without repeats. Calls for different keys may return the same
      document.
    """
    words = np.ascontiguousarray(rows["hash"]).view("<u8").reshape(-1, HASH_BYTES // 8)
    sources = [rows["source"]] if settings.by_source else []
    rows = rows[np.lexsort((*sources, *words.T, rows["band"]))]
    # Exact copies have the same hash. They are left out here because their shard drops them.
    same_band = rows["band"][1:] == rows["band"][:-1]
    is_copy = same_band & (rows["hash"][1:] == rows["hash"][:-1])
    rows = rows[np.concatenate(([True], ~is_copy))] if len(rows) else rows
    if settings.by_source:
        rows = rows[np.lexsort((np.arange(len(rows)), rows["source"], rows["band"]))]
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
      first, second: `signature` of rows, uint8 [n, bytes], with two hashes in each byte.

    Returns:
      float64 [n], at most 1, and a little below 0 for some unlike documents. The standard deviation
      is 0.04 at a similarity of 0.8 with 112 hashes.
    """
    differs = first ^ second
    equal = ((differs < 16).sum(1) + (differs % 16 == 0).sum(1)) / (2 * first.shape[1])
    by_chance = 2.0**-_BITS
    return (equal - by_chance) / (1 - by_chance)
