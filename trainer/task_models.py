"""The model and the objective of each kind of task."""

from collections.abc import Sequence

import keras

from beambert.model.classifier import BertClassifier, BertTokenClassifier
from beambert.model.config import BertConfig
from beambert.pipelines.tasks.declarations import (
    CLASSIFICATION,
    SPAN,
    TAGGING,
)
from beambert.pipelines.tasks.entities import OUTSIDE
from beambert.trainer import model_folders


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


def task_model(found: model_folders.ModelFolder) -> keras.Model:
    """Returns the fine-tuned model of a folder.

    Raises:
      InputError: its weights can't be read.
    """
    training = found.training
    freeze_encoder = training.get("freeze_encoder", False)
    model = build_model(training["kind"], found.config, len(training["labels"]), 0, freeze_encoder)
    model_folders.load_weights(model, found.path)
    return model
