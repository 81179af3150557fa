"""How well rankings find what is relevant: measures of one query, and those of vectors' rankings.

Shape suffixes: N examples, S sequences of an example, H components of a vector.
"""

import collections
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

# Number of ranks that count in the metrics of a task.
DEPTH = 10
# Number of queries whose cosines are computed at once.
_QUERIES_AT_A_TIME = 512


def text_id(text: str) -> int:
    """Returns the same number for equal texts, int64; other texts have it by a rare chance only."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def ndcg(grades: Sequence[int], judged: Sequence[int], depth: int) -> float:
    """Returns the normalized discounted cumulative gain (Järvelin and Kekäläinen 2002).

    The gain of a document is its grade, and its discount the binary logarithm of its rank plus 1.

    Args:
      grades: grades of the ranked documents, the best rank first; negative ones count as 0.
      judged: grades of all documents that were judged.
      depth: number of ranks that count.
    """
    ideal = _gain(sorted(judged, reverse=True)[:depth])
    return _gain(grades[:depth]) / ideal if ideal else 0.0


def _gain(grades: Sequence[int]) -> float:
    return sum(max(grade, 0) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))


def reciprocal_rank(grades: Sequence[int], judged: Sequence[int], depth: int) -> float:
    """Returns 1 divided by the rank of the first relevant document; 0 without one."""
    ranks = (rank for rank, grade in enumerate(grades[:depth], start=1) if grade > 0)
    return 1 / next(ranks, math.inf)


def average_precision(grades: Sequence[int], judged: Sequence[int], depth: int) -> float:
    """Returns the mean over all relevant documents of the precision at their ranks, or 0."""
    found, total = 0, 0.0
    for rank, grade in enumerate(grades[:depth], start=1):
        if grade > 0:
            found += 1
            total += found / rank
    return total / relevant(judged) if found else 0.0


def recall(grades: Sequence[int], judged: Sequence[int], depth: int) -> float:
    """Returns the share of the relevant documents that have one of the first ranks."""
    return relevant(grades[:depth]) / relevant(judged) if relevant(judged) else 0.0


def relevant(grades: Sequence[int]) -> int:
    """Returns the number of grades above 0."""
    return sum(grade > 0 for grade in grades)


# Name of a metric -> measure of one query.
_MEASURES = {"ndcg_at_10": ndcg, "mrr_at_10": reciprocal_rank, "recall_at_10": recall}


def right_of(text_ids_NS: NDArray[np.int64]) -> Mapping[int, set[int]]:
    """Returns query -> the texts that it must find, which may stand in several rows."""
    found: dict[int, set[int]] = collections.defaultdict(set)
    for query, answer in text_ids_NS[:, :2].tolist():
        found[query].add(answer)
    return found


def scores_of_ranking(ranked: Sequence[int], right: set[int]) -> dict[str, float]:
    """Returns the metrics of a query: the texts that were found, the best first; the right ones."""
    grades, judged = [int(text in right) for text in ranked], [1] * len(right)
    return {name: measure(grades, judged, DEPTH) for name, measure in _MEASURES.items()}


def commonest(text_ids_NS: NDArray[np.int64]) -> list[int]:
    """Returns the texts that most queries must find: the best ranking that no query changes."""
    counts = collections.Counter(text_ids_NS[:, 1].tolist())
    return sorted(counts, key=lambda text: (-counts[text], text))[:DEPTH]


def best_by_vectors(
    text_ids_NS: NDArray[np.int64], vectors_NSH: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Returns the texts with the greatest cosines for each row's query, int64 [N, at most DEPTH].

    Args:
      text_ids_NS: see `best_of`.
      vectors_NSH: the vectors of the texts.
    """
    lengths = np.linalg.norm(vectors_NSH, axis=-1, keepdims=True)
    vectors_NSH = vectors_NSH / np.maximum(lengths, 1e-12)
    flat = vectors_NSH[:, 1:].reshape(-1, vectors_NSH.shape[-1])

    def cosines(some: slice, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return vectors_NSH[some, 0] @ flat[places].T

    return best_of(text_ids_NS, cosines, _QUERIES_AT_A_TIME)


def best_of(
    text_ids_NS: NDArray[np.int64],
    scores_of: Callable[[slice, NDArray[np.int64]], NDArray[np.float32]],
    rows_at_a_time: int,
) -> NDArray[np.int64]:
    """Returns the texts with the greatest scores for each row's query, int64 [N, at most DEPTH].

    The texts that can be found are all texts of the rows but the queries, each once. A query cannot
    find its own text. Of equal scores the first text comes first.

    Args:
      text_ids_NS: id of each text: the query, the text that it must find, and others.
      scores_of: function from some rows, and the places of texts in the flattened `[:, 1:]`, to the
        scores of those texts for the queries of those rows.
      rows_at_a_time: number of rows that it gets at most.
    """
    _, places = np.unique(text_ids_NS[:, 1:], return_index=True)
    places.sort()
    ids = text_ids_NS[:, 1:].ravel()[places]
    found = []
    for start in range(0, len(text_ids_NS), rows_at_a_time):
        some = slice(start, start + rows_at_a_time)
        scores = scores_of(some, places)
        right = text_ids_NS[some, 1, None]
        is_itself = (ids == text_ids_NS[some, 0, None]) & (ids != right)
        scores[is_itself] = -np.inf
        found.append(ids[np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]])
    return np.concatenate(found)


def retrieval_scores(
    text_ids_NS: NDArray[np.int64], ranked: Sequence[Sequence[int]]
) -> dict[str, NDArray[np.float64]]:
    """Returns the metrics of each row, float64 [N]; a query in several rows counts in each.

    Args:
      text_ids_NS: see `best_by_vectors`.
      ranked: the texts that each row's query found, the best first.
    """
    right = right_of(text_ids_NS)
    rows = [
        scores_of_ranking(of_row, right[query])
        for query, of_row in zip(text_ids_NS[:, 0].tolist(), ranked, strict=True)
    ]
    return {name: np.array([row[name] for row in rows]) for name in _MEASURES}


def relevance_scores(
    queries: NDArray[np.int64], labels: NDArray[np.float64], scores: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Returns nDCG and MRR of each query whose candidates are ranked by scores, float64 [queries].

    A query none of whose candidates is relevant is left out. Of equal scores the candidate with the
    smaller label comes first, so that no order of the rows helps.

    Args:
      queries: id of the query of each candidate, [n].
      labels: relevance of the candidates; those above 0 are relevant.
      scores: what they are ranked by, the greatest first.
    """
    _, groups = np.unique(queries, return_inverse=True)
    gains = np.maximum(labels, 0.0)
    order, ranks = _ranks_within(groups, np.lexsort((labels, -scores, groups)))
    discounted = _discounted(groups, gains, order, ranks)
    ideal = _ideal_gains(groups, gains)
    is_found = (gains[order] > 0) & (ranks <= DEPTH)
    reciprocal = np.zeros(len(ideal))
    np.maximum.at(reciprocal, groups[order][is_found], 1 / ranks[is_found])
    counts = ideal > 0
    return {
        "ndcg_at_10": discounted[counts] / ideal[counts],
        "mrr_at_10": reciprocal[counts],
    }


def _ranks_within(
    groups: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the order and the rank of each of its rows in its group, from 1."""
    sizes = np.bincount(groups)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order, np.arange(len(order)) - starts + 1


def random_order_scores(
    queries: NDArray[np.int64], labels: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Returns the means of `relevance_scores` over all orders of a query's candidates.

    Every candidate is as likely to have a rank as any other, so that the mean gain of a rank is
    that of all candidates. The first relevant one has a rank if no earlier one is relevant and one
    of those that are left is.

    Args:
      queries, labels: see `relevance_scores`.
    """
    _, groups = np.unique(queries, return_inverse=True)
    gains = np.maximum(labels, 0.0)
    sizes, relevant = np.bincount(groups), np.bincount(groups, gains > 0)
    discounts, reciprocal, none_before = (
        fill(len(sizes)) for fill in (np.zeros, np.zeros, np.ones)
    )
    for rank in range(1, DEPTH + 1):
        left = sizes - rank + 1
        discounts += np.where(left > 0, 1 / math.log2(rank + 1), 0.0)
        share = np.where(left > 0, relevant / np.maximum(left, 1), 0.0)
        reciprocal += none_before * share / rank
        none_before *= 1 - share
    counts = relevant > 0
    mean_gains = np.bincount(groups, gains) / sizes
    return {
        "ndcg_at_10": (mean_gains * discounts)[counts] / _ideal_gains(groups, gains)[counts],
        "mrr_at_10": reciprocal[counts],
    }


def _ideal_gains(groups: NDArray[np.int64], gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the discounted gains of each group in the best order."""
    return _discounted(groups, gains, *_ranks_within(groups, np.lexsort((-gains, groups))))


def _discounted(
    groups: NDArray[np.int64],
    gains: NDArray[np.float64],
    order: NDArray[np.int64],
    ranks: NDArray[np.int64],
) -> NDArray[np.float64]:
    at_ranks = np.where(ranks <= DEPTH, gains[order] / np.log2(ranks + 1), 0.0)
    return np.bincount(groups[order], at_ranks)
