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

import functools
import re
from collections.abc import Iterator, Sequence

import numpy as np

from beambert.pipelines.pretraining.documents import HASH_BYTES, document_hash
from beambert.pipelines.pretraining.kernels import (
    IN_WORD,
    WHOLE_WORD,
    least_hashes,
    word_checksums,
)
from beambert.pipelines.text.cleaning import UNSPACED
from beambert.pipelines.text.phrases import MULTIPLIER
from beambert.pipelines.text.sentences import SplitText

# Number of bits of each hash that a document's signature holds. They are enough to estimate the
# similarity (Li and König 2010, "b-bit minwise hashing").
_BITS = 4
# Number of rounds in which the documents of a band are compared with one of them. A group of
# similar documents needs one round, and a band rarely has two groups.
_ROUNDS = 8


# The module's docstring has the sources of these. Documents meet if all hashes of a band are equal.
SHINGLE_WORDS, BANDS, BAND_HASHES = 5, 14, 8
# Least estimated Jaccard similarity of near duplicates.
MIN_SIMILARITY = 0.8
# Seed of MinHash's hashes.
_SEED = 1
# A document's row for one band: key of the band, document's hash, signature, number of its source.
ROW = np.dtype(
    [
        ("band", "<u8"),
        ("hash", f"V{HASH_BYTES}"),
        ("signature", "u1", BANDS * BAND_HASHES * _BITS // 8),
        ("source", "<u4"),
    ]
)


def band_rows(document_hash: bytes, sentences: Sequence[str], source: int = 0) -> np.ndarray:
    """Returns the rows by which a document's near duplicates are found.

    Args:
      document_hash: see `documents.document_hash`.
      sentences: sentences of the document.
      source: number of the document's source. The document of the earliest source stays.

    Returns:
      `ROW` [BANDS], or [0] if the document is too short for a shingle. Documents are compared only
      if some of their rows have the same `band`. The values are the same on every machine.
    """
    hashes = minhash(shingles(sentences, SHINGLE_WORDS))
    rows = np.zeros(0 if hashes is None else BANDS, ROW)
    if hashes is not None:
        keys = np.arange(BANDS, dtype=np.uint64)
        for column in hashes.reshape(BANDS, BAND_HASHES).T:
            keys = _mix(keys ^ column)
        rows["band"] = keys
        rows["hash"] = np.frombuffer(document_hash, rows.dtype["hash"])
        low = (hashes & np.uint32(15)).astype(np.uint8)
        rows["signature"] = low[::2] << np.uint8(_BITS) | low[1::2]
        rows["source"] = source
    return rows


def rows_of_documents(documents: Sequence[SplitText], sources: Sequence[int]) -> np.ndarray:
    """Returns the rows of several documents, `ROW` [rows], see `band_rows`."""
    rows = [
        band_rows(document_hash(*each), each.sentences, source)
        for each, source in zip(documents, sources, strict=True)
    ]
    return np.concatenate([np.zeros(0, ROW), *rows])


def distinct_rows(rows: np.ndarray) -> np.ndarray:
    """Returns rows (`ROW` [n]) without their copies, which copies of a document make."""
    return np.unique(rows.view(f"V{rows.dtype.itemsize}")).view(rows.dtype)


def rows_by_bucket(rows: np.ndarray, buckets: int) -> Iterator[tuple[int, bytes]]:
    """Yields each bucket's number and rows. All rows of one band's key belong to the same bucket.

    Args:
      rows: `ROW` [n].
      buckets: number of buckets.
    """
    keys = rows["band"] % np.uint64(buckets)
    order = np.argsort(keys, kind="stable")
    for indices in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
        if len(indices):
            yield int(keys[indices[0]]), rows[indices].tobytes()


def shingles(sentences: Sequence[str], words: int) -> np.ndarray:
    """Returns the hash of each run of `words` words, uint32 [runs], in order and with repeats."""
    text = "\n".join(sentences).lower().encode("utf-32-le", "surrogatepass")
    ids = word_checksums(np.frombuffer(text, "<u4"), _kinds())
    count = max(0, len(ids) - words + 1)
    hashes = np.zeros(count, np.uint64)
    for offset in range(words):
        hashes = hashes * MULTIPLIER + ids[offset : offset + count]
    return (_mix(hashes) >> np.uint64(32)).astype(np.uint32)


def _mix(numbers: np.ndarray) -> np.ndarray:
    numbers = (numbers ^ (numbers >> np.uint64(32))) * MULTIPLIER
    return numbers ^ (numbers >> np.uint64(32))


@functools.cache
def _kinds() -> np.ndarray:
    """Returns what each character is in a word, see `kernels.word_checksums`, uint8 [0x110000]."""
    characters = "".join(map(chr, range(0x110000)))
    kinds = np.zeros(len(characters), np.uint8)
    for kind, pattern in ((IN_WORD, r"\w+"), (WHOLE_WORD, f"[{UNSPACED}]+")):
        for found in re.finditer(pattern, characters):
            kinds[slice(*found.span())] = kind
    return kinds


def minhash(hashes: np.ndarray) -> np.ndarray | None:
    """Returns MinHash's values of shingles, uint32 [BANDS * BAND_HASHES]; None without shingles.

    They are those of the library datasketch, in its scheme "affine32".

    Args:
      hashes: uint32 [n], hashes of the shingles in any order, repeats allowed.
    """
    return least_hashes(hashes, *_permutations()) if len(hashes) else None


@functools.cache
def _permutations() -> tuple[np.ndarray, np.ndarray]:
    """Returns the odd factor and the summand of each hash, uint32 [BANDS * BAND_HASHES] each."""
    draw, number = np.random.RandomState(_SEED), BANDS * BAND_HASHES
    factors = draw.randint(0, 1 << 31, number, np.uint32) * np.uint32(2) + np.uint32(1)
    return factors, draw.randint(0, 1 << 32, number, np.uint32)


def near_duplicates(rows: np.ndarray) -> np.ndarray:
    """Returns the hashes of the documents to drop.

    The function sorts the rows and compares each with few others, however many meet in a band.

    Args:
      rows: `ROW` [n], all rows of some bands' keys, in any order.

    Returns:
      `V16` [documents], sorted and without repeats. Calls for different keys may return the same
      document.
    """
    words = np.ascontiguousarray(rows["hash"]).view("<u8").reshape(-1, HASH_BYTES // 8)
    rows = rows[np.lexsort((rows["source"], *words.T, rows["band"]))]
    # Exact copies have the same hash. They are left out here because their shard drops them.
    same_band = rows["band"][1:] == rows["band"][:-1]
    is_copy = same_band & (rows["hash"][1:] == rows["hash"][:-1])
    rows = rows[np.concatenate(([True], ~is_copy))] if len(rows) else rows
    rows = rows[np.lexsort((np.arange(len(rows)), rows["source"], rows["band"]))]
    dropped = [rows["hash"][:0]]
    for _ in range(_ROUNDS):
        is_first = np.ones(len(rows), bool)
        is_first[1:] = rows["band"][1:] != rows["band"][:-1]
        kept = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        others = np.flatnonzero(~is_first)
        similarity = estimate_similarity(rows["signature"][others], rows["signature"][kept[others]])
        is_similar = similarity >= MIN_SIMILARITY
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
