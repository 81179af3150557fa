"""The outcomes of texts that must find others by their vectors."""

import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.evaluation.outcome_base import ArrayOutcomes, Record, column
from beambert.pipelines.tasks.ranking import commonest, retrieval_scores


@dataclasses.dataclass(frozen=True)
class RankingOutcomes(ArrayOutcomes):
    """The outcomes of an embedding.

    Attributes:
      text_ids: ids of the query and of the text that it must find, [examples, 2].
      ndcg_at_10: nDCG of the first ten texts, [examples].
      mrr_at_10: reciprocal rank of the first right one of them, [examples].
      recall_at_10: share of the right texts among them, [examples].
    """

    text_ids: NDArray[np.int64]
    ndcg_at_10: NDArray[np.float64]
    mrr_at_10: NDArray[np.float64]
    recall_at_10: NDArray[np.float64]

    FEATURES = ("text_ids", "ndcg_at_10", "mrr_at_10", "recall_at_10")
    METRICS = ("ndcg_at_10", "mrr_at_10", "recall_at_10")

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        text_ids = np.array([record["text_ids"][:2] for record in records], np.int64)
        return cls(text_ids, *(column(records, name) for name in cls.METRICS))

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name."""
        return {name: float(getattr(self, name).mean()) for name in names}

    def constants(self) -> list[tuple[str, Self]]:
        """Returns the ranking that no query changes: the texts that most queries must find."""
        best = [commonest(self.text_ids)] * len(self)
        scores = retrieval_scores(self.text_ids, best)
        of_constant = type(self)(self.text_ids, *(scores[name] for name in self.METRICS))
        return [("the commonest texts", of_constant)]
