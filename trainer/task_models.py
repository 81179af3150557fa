"""The model and the objective of each kind of task."""

import keras

from model.classifier import BertClassifier, BertTokenClassifier
from model.config import BertConfig
from pipelines.tasks import CHOICE, CLASSIFICATION, REGRESSION, SPAN, TAGGING
from trainer.task_objectives import (
    ChoiceObjective,
    ClassificationObjective,
    RegressionObjective,
    SpanObjective,
    TaggingObjective,
    TaskObjective,
)

# What words are that belong to no entity, and those that a sequence has no room for.
OUTSIDE = "O"

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
