"""Loads and calls SavedModels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert.pipelines.shared.errors import InputError


def load(path: str, name: str) -> Any:
    """Loads a SavedModel.

    Args:
      path: path of its folder, on any file system of TensorFlow.
      name: flag and path of the model, for messages.

    Raises:
      InputError: the model cannot be loaded.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

    try:
        return tf.saved_model.load(path)
    except Exception as error:  # A damaged file may raise any exception.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{name}: cannot be loaded ({reason}); copy it again, or export it again"
        ) from error


def call(
    model: Any, inputs: Mapping[str, np.ndarray | Sequence[Any]], signature: str = "serving_default"
) -> dict[str, np.ndarray]:
    """Returns the outputs of a loaded SavedModel for a batch, by their names.

    Args:
      model: the loaded model, see `load`.
      inputs: the batch, by the names of the signature's inputs.
      signature: name of the signature to call.
    """
    import tensorflow as tf

    given = {name: tf.constant(values) for name, values in inputs.items()}
    outputs = model.signatures[signature](**given)
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def call_on_texts(
    model: Any, texts: Sequence[Mapping[str, str | Sequence[str]]]
) -> dict[str, np.ndarray]:
    """Returns the outputs for a batch of texts, each given by the names of the model's inputs."""
    return call(model, {name: [one[name] for one in texts] for name in texts[0]})
