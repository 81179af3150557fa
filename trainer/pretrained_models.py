"""The Keras model for each objective of pre-training."""

from collections.abc import Mapping
from typing import Any

from beambert.model.config import EncoderConfig
from beambert.model.deberta_replaced_tokens import DebertaReplacedTokenPretrainer
from beambert.model.objectives import BERT, RTD
from beambert.model.pretrainer import BertPretrainer
from beambert.model.replaced_tokens import ElectraPretrainer, ReplacedTokenPretrainer
from beambert.trainer import model_folders

# Family -> its model of replaced token detection; that of the others has layers of BERT.
_REPLACED_TOKENS = {"deberta-v2": DebertaReplacedTokenPretrainer}


def objective_of(training: Mapping[str, Any]) -> str:
    """Returns the objective of a pre-training.

    Args:
      training: content of training.json, which names every objective but BERT's own.
    """
    return training.get("objective", BERT)


def build_pretrainer(
    training: Mapping[str, Any], config: EncoderConfig, seed: int = 0
) -> BertPretrainer | ReplacedTokenPretrainer:
    """Returns the model of a pre-training with initial weights.

    Args:
      training: content of training.json.
      config: configuration of the encoder.
      seed: seed of every initial weight.
    """
    objective = objective_of(training)
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
