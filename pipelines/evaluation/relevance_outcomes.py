"""The outcomes of candidates that are ranked by their relevance for a query."""

import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.evaluation.outcome_base import ArrayOutcomes, Record, column
from beambert.pipelines.tasks.ranking import random_order_scores, relevance_scores


@dataclasses.dataclass(frozen=True)
class RelevanceOutcomes(ArrayOutcomes):
    """The outcomes of a reranking; they are those of queries, each with all of its candidates.

    Attributes:
      ndcg_at_10: nDCG of the first ten candidates, [queries].
      mrr_at_10: reciprocal rank of the first relevant one of them, [queries].
      random_ndcg_at_10, random_mrr_at_10: the means of the same over all orders.
    """

    ndcg_at_10: NDArray[np.float64]
    mrr_at_10: NDArray[np.float64]
    random_ndcg_at_10: NDArray[np.float64]
    random_mrr_at_10: NDArray[np.float64]

    FEATURES = ("query_id", "number", "score")
    METRICS = ("ndcg_at_10", "mrr_at_10")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        queries, labels, scores = (column(records, name) for name in cls.FEATURES)
        found = relevance_scores(queries, labels, scores), random_order_scores(queries, labels)
        return cls(*(each[name] for each in found for name in cls.METRICS))

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name; 0 without a query that has a relevant candidate."""
        return {name: float(getattr(self, name).mean()) if len(self) else 0.0 for name in names}

    def undefined(self) -> frozenset[str]:
        """Returns all metrics if no candidate is relevant."""
        return frozenset() if len(self) else frozenset(self.METRICS)

    def constants(self) -> list[tuple[str, Self]]:
        """Returns a random order."""
        both = (self.random_ndcg_at_10, self.random_mrr_at_10)
        return [("a random order", type(self)(*both, *both))]
