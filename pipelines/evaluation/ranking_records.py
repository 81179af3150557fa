"""The prediction records of texts that must find others by their vectors."""

from collections.abc import Sequence
from typing import Any

from beambert.pipelines.evaluation.outcome_base import Record
from beambert.pipelines.evaluation.record_base import (
    Mistake,
    PredictionRecords,
    check_finite,
    excerpt,
)
from beambert.pipelines.tasks.examples import VectorExample
from beambert.pipelines.tasks.ranking import text_id
from beambert.pipelines.tasks.saved_models import Model

# Greatest number of characters of a text in a report.
_MOST_OF_TEXT = 280


class RankingRecords(PredictionRecords):
    """Records of an embedding; `RankingPredictor` makes its answers."""

    WEIGHT = ("missed", "whose right text has the worst rank")

    @staticmethod
    def truth(example: VectorExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the ids of the texts."""
        return {"text_ids": [text_id(text) for text in example.sequences]}

    @staticmethod
    def check(record: Record, model: Model) -> None:
        """Refuses vectors that are not finite, whose measures are not either."""
        check_finite(record, "ndcg_at_10", model)

    @staticmethod
    def mistake(record: Record, example: VectorExample) -> Mistake:
        """Returns a mistake whose weight is 1 less the reciprocal rank of the first right text."""
        found = record["found"][0].decode()
        return Mistake(
            example.text,
            excerpt(example.text_b, _MOST_OF_TEXT),
            excerpt(found, _MOST_OF_TEXT),
            1 - record["mrr_at_10"][0],
        )
