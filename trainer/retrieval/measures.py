"""How well rankings find what is relevant: nDCG, MRR, MAP and recall, as trec_eval computes them.

A run gives each query the scores of documents, and the judgments (qrels) give some documents of it
a grade. A document without a judgment counts as not relevant. Documents are ranked by their scores,
the highest first; of equal scores the one whose identifier is the greater text comes first, as in
trec_eval. The measures are means over the queries that have a judgment above 0, whether or not the
run has them.
"""

import math
from collections.abc import Callable, Mapping, Sequence

# Grades of documents by query, and scores of documents by query.
Judgments = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Returns the documents of a query, the best first."""
    return sorted(scores, key=lambda document: (scores[document], document), reverse=True)


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
    return total / _relevant(judged) if found else 0.0


def recall(grades: Sequence[int], judged: Sequence[int], depth: int) -> float:
    """Returns the share of the relevant documents that have one of the first ranks."""
    return _relevant(grades[:depth]) / _relevant(judged) if _relevant(judged) else 0.0


def _relevant(grades: Sequence[int]) -> int:
    return sum(grade > 0 for grade in grades)


# Name -> measure of one query.
MEASURES: dict[str, Callable[[Sequence[int], Sequence[int], int], float]] = {
    "nDCG": ndcg,
    "MRR": reciprocal_rank,
    "MAP": average_precision,
    "Recall": recall,
}


def evaluate(judgments: Judgments, run: Run, depths: Sequence[int]) -> dict[str, float]:
    """Returns the means over the queries: `nDCG@10`, `MRR@10`, `MAP@10`, `Recall@10` and so on.

    Args:
      judgments: grades by query and document.
      run: scores by query and document.
      depths: numbers of ranks that count.

    Raises:
      ValueError: no query has a relevant document.
    """
    queries = [query for query, judged in judgments.items() if _relevant(list(judged.values()))]
    if not queries:
        raise ValueError("no query has a relevant document")
    totals = {f"{name}@{depth}": 0.0 for name in MEASURES for depth in depths}
    for query in queries:
        judged = judgments[query]
        grades = [judged.get(document, 0) for document in ranked(run.get(query, {}))]
        for name, measure in MEASURES.items():
            for depth in depths:
                totals[f"{name}@{depth}"] += measure(grades, list(judged.values()), depth)
    return {name: total / len(queries) for name, total in totals.items()}
