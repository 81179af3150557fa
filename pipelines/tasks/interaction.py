"""Late interaction: scores of documents by the vectors of their tokens and of a query's.

The score of a document is the sum over the tokens of the query of the greatest cosine with any
token of the document, MaxSim (Khattab and Zaharia 2020, ColBERT, arXiv 2004.12832, section 3.3).

Shape suffixes: N examples, Q tokens of a query, D documents, T tokens of all documents, H
components of a vector.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.tasks.ranking import best_of

# Vectors are kept in 16 bits, as ColBERT keeps them (section 3.4 of the paper).
KEPT = np.float16
# Further signatures of a SavedModel, for the vectors of queries and for those of documents.
QUERIES, DOCUMENTS = "queries", "documents"
# Numbers of queries and of tokens of documents whose cosines are computed at once: some megabytes.
_QUERIES_AT_A_TIME, _TOKENS_AT_A_TIME = 16, 1 << 13


def max_sim(
    queries_NQH: NDArray[np.floating], documents: Sequence[NDArray[np.floating]]
) -> NDArray[np.float32]:
    """Returns the score of each document for each query, float32 [N, D].

    Args:
      queries_NQH: vectors of the tokens of queries, of length 1.
      documents: vectors of the tokens of each document that count, of length 1, [tokens, H]; at
        least one of each.
    """
    scores = np.empty((len(queries_NQH), len(documents)), np.float32)
    flat = queries_NQH.reshape(-1, queries_NQH.shape[-1]).astype(np.float32)
    for some in _in_parts([len(document) for document in documents]):
        tokens_TH = np.concatenate(documents[some]).astype(np.float32)
        starts = np.cumsum([0, *(len(document) for document in documents[some][:-1])])
        greatest = np.maximum.reduceat(flat @ tokens_TH.T, starts, axis=1)
        shape = (len(queries_NQH), queries_NQH.shape[1], -1)
        scores[:, some] = greatest.reshape(shape).sum(axis=1)
    return scores


def _in_parts(lengths: Sequence[int]) -> Iterator[slice]:
    """Yields slices of the documents with about as many tokens as are computed at once."""
    parts = np.cumsum(lengths) // _TOKENS_AT_A_TIME
    start = 0
    for _, group in itertools.groupby(parts.tolist()):
        end = start + len(list(group))
        yield slice(start, end)
        start = end


def best_by_interaction(
    text_ids_NS: NDArray[np.int64],
    queries_NQH: NDArray[np.floating],
    documents: Sequence[NDArray[np.floating]],
) -> NDArray[np.int64]:
    """Returns the texts with the greatest scores for each row's query, int64 [N, at most DEPTH].

    Args:
      text_ids_NS: see `ranking.best_of`.
      queries_NQH: vectors of the tokens of the queries.
      documents: vectors of the tokens of all other texts, see `max_sim`, row by row.
    """

    def scores_of(some: slice, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return max_sim(queries_NQH[some], [documents[place] for place in places.tolist()])

    return best_of(text_ids_NS, scores_of, _QUERIES_AT_A_TIME)
