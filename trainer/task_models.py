"""The model and the objective of each kind of task."""

from collections.abc import Sequence

import keras

from model.classifier import BertClassifier, BertTokenClassifier
from model.config import BertConfig
from pipelines.entities import OUTSIDE
from pipelines.tasks import CHOICE, CLASSIFICATION, REGRESSION, SPAN, TAGGING
from trainer.task_objectives import (
    ChoiceObjective,
    ClassificationObjective,
    RegressionObjective,
    SpanObjective,
    TaggingObjective,
    TaskObjective,
)

OBJECTIVES: dict[str, type[TaskObjective]] = {
    CLASSIFICATION: ClassificationObjective,
    REGRESSION: RegressionObjective,
    CHOICE: ChoiceObjective,
    TAGGING: TaggingObjective,
    SPAN: SpanObjective,
}


def build_model(
    kind: str, config: BertConfig, num_labels: int, seed: int, freeze_encoder: bool = False
) -> keras.Model:
    """Returns the model of a kind of task."""
    if kind == SPAN:
        return BertTokenClassifier(config, 2, seed, freeze_encoder, head_dropout=0.0)
    if kind == TAGGING:
        return BertTokenClassifier(config, num_labels, seed, freeze_encoder)
    outputs = num_labels if kind == CLASSIFICATION else 1
    return BertClassifier(config, outputs, seed, freeze_encoder)


def outside_index(labels: Sequence[str]) -> int:
    """Returns the label of a word that a sequence has no room for: that of no entity, if any is."""
    return labels.index(OUTSIDE) if OUTSIDE in labels else 0
