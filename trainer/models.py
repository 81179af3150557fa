"""The Keras model of each pre-training objective and of each kind of task."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from beambert import io
from beambert.errors import InputError
from beambert.model.classifier import PLAIN_HEAD, Head
from beambert.model.config import EncoderConfig
from beambert.model.deberta import DebertaReplacedTokenPretrainer
from beambert.model.objectives import RTD
from beambert.model.pretrainer import BertPretrainer
from beambert.model.replaced_tokens import ElectraPretrainer, ReplacedTokenPretrainer
from beambert.model_files import SAVED_MODEL_FOLDER, WEIGHTS_FILE
from beambert.trainer import model_folders
from beambert.trainer.loop.engine import has_tensorflow
from beambert.trainer.tasks.base import objective_of_kind

# Family -> its model of replaced token detection; that of the others has layers of BERT.
_REPLACED_TOKENS = {"deberta-v2": DebertaReplacedTokenPretrainer}


def build_pretrainer(
    training: Mapping[str, Any], config: EncoderConfig, seed: int = 0
) -> BertPretrainer | ReplacedTokenPretrainer:
    """Returns the model of a pre-training with initial weights.

    Args:
      training: content of training.json.
      config: configuration of the encoder.
      seed: seed of every initial weight.
    """
    objective = training["objective"]
    if objective == RTD:
        pretrainer = _REPLACED_TOKENS.get(config.family, ElectraPretrainer)
        return pretrainer(config, training["generator_size"], seed)
    return BertPretrainer(config, seed, objective)


def pretrained_model(found: model_folders.ModelFolder) -> BertPretrainer | ReplacedTokenPretrainer:
    """Returns the pre-trained model of a folder, with its weights.

    Raises:
      InputError: the weights cannot be read.
    """
    model = build_pretrainer(found.training, found.config)
    model_folders.load_weights(model, found.path)
    return model


def build_model(
    kind: str, config: EncoderConfig, num_labels: int, seed: int, head: Head = PLAIN_HEAD
) -> keras.Model:
    """Returns the model of a kind of task."""
    return objective_of_kind(kind).model(config, num_labels, seed, head)


def task_model(found: model_folders.ModelFolder) -> keras.Model:
    """Returns the fine-tuned model of a folder, with its weights.

    Raises:
      InputError: the weights cannot be read.
    """
    training = found.training
    head = Head(
        training["freeze_encoder"],
        training["max_seq_length"] if "windows" in training else None,
        training["pooling"] or PLAIN_HEAD.pooling,
    )
    labels = len(training["labels"])
    model = build_model(training["kind"], found.config, labels, seed=0, head=head)
    model_folders.load_weights(model, found.path)
    _check_saved_model(model, found.path)
    return model


def _check_saved_model(model: keras.Model, path: str) -> None:
    """Refuses a folder whose SavedModel has other weights than the file of weights.

    `beambert evaluate` judges the one, and the files of other systems are made from the other.

    Raises:
      InputError: they differ.
    """
    from beambert import saved_models

    saved_model = f"{path}/{SAVED_MODEL_FOLDER}"
    if not has_tensorflow() or not io.exists(saved_model):
        return
    try:
        served = Counter(_digest(value) for _, value in saved_models.variables(saved_model))
    except (*io.storage_errors(), ValueError) as error:
        raise io.refusal(saved_model, "read", io.reason(error)) from error
    if served != Counter(_digest(variable.numpy()) for variable in model.weights):
        raise InputError(
            f"{saved_model}: has other weights than {WEIGHTS_FILE} next to it; copy the folder "
            "again or fine-tune again"
        )


def _digest(value: np.ndarray) -> bytes:
    return hashlib.sha256(repr((value.shape, str(value.dtype))).encode() + value.tobytes()).digest()
