"""How well rankings find what is relevant: nDCG, MRR, MAP and recall, as trec_eval computes them.

A run gives each query the scores of documents, and the judgments (qrels) give some documents of it
a grade. A document without a judgment counts as not relevant. Documents are ranked by their scores,
the highest first; of equal scores the one whose identifier is the greater text comes first, as in
trec_eval. The measures are means over the queries that have a judgment above 0, whether or not the
run has them.
"""

from collections.abc import Callable, Mapping, Sequence

from beambert.pipelines.tasks.ranking import (
    average_precision,
    ndcg,
    recall,
    reciprocal_rank,
    relevant,
)

# Grades of documents by query, and scores of documents by query.
Judgments = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Returns the documents of a query, the best first."""
    return sorted(scores, key=lambda document: (scores[document], document), reverse=True)


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
    queries = [query for query, judged in judgments.items() if relevant(list(judged.values()))]
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
