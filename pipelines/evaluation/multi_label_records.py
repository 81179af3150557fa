"""The prediction records of tasks whose texts have any number of labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert.pipelines.evaluation.outcome_base import Record
from beambert.pipelines.evaluation.record_base import (
    Mistake,
    PredictionRecords,
    check_finite,
    text_of,
)
from beambert.pipelines.tasks.examples import MultiLabelExample
from beambert.pipelines.tasks.multi_label import THRESHOLD
from beambert.pipelines.tasks.saved_models import Model


class MultiLabelRecords(PredictionRecords):
    """Records of a multi-label classification."""

    WEIGHT = ("wrong labels", "with the most wrong or missed labels")

    @staticmethod
    def truth(example: MultiLabelExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns 1 for each label that applies."""
        return {"label_flags": [int(label in example.labels) for label in labels]}

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns the probabilities of all labels, and 1 for each label that is predicted."""
        probabilities = outputs["probabilities"][i]
        return {
            "prediction": [", ".join(_decoded(outputs["labels"][i])).encode()],
            "prediction_flags": (probabilities > THRESHOLD).astype(int).tolist(),
            "probabilities": probabilities.tolist(),
        }

    @staticmethod
    def check(record: Record, model: Model) -> None:
        """Refuses probabilities that are not finite."""
        check_finite(record, "probabilities", model)

    @staticmethod
    def mistake(record: Record, example: MultiLabelExample) -> Mistake:
        """Returns a mistake whose weight is the number of wrong or missed labels."""
        pairs = zip(record["label_flags"], record["prediction_flags"], strict=True)
        wrong = sum(true != predicted for true, predicted in pairs)
        predicted = record["prediction"][0].decode()
        expected = ", ".join(example.labels)
        return Mistake(text_of(example), expected or "–", predicted or "–", float(wrong))


def _decoded(names: np.ndarray) -> list[str]:
    return [name.decode(errors="replace") for name in names if name]
