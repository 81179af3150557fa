"""The memory that a training takes, estimated from the shape of a model."""

import math

from beambert.model.config import EncoderConfig
from beambert.model.shapes import variable_shapes

_FLOAT_BYTES = 4
# The weights, their gradients, and the optimizer's two moments.
_COPIES = 4


def parameters(config: EncoderConfig) -> int:
    """Returns the number of weights of the pre-training model."""
    return sum(math.prod(shape) for shape in variable_shapes(config).values())


def electra_parameters(config: EncoderConfig, generator: EncoderConfig) -> int:
    """Returns the number of weights of a discriminator and its generator.

    Args:
      config, generator: their configurations; the embeddings are the discriminator's.
    """
    h, g, v = config.hidden_size, generator.hidden_size, config.vocab_size
    e = config.embedding_width
    projection = sum((e + 1) * width for width in (h, g) if e != width)
    heads = (g + 1) * e + 2 * e + v + (h + 1) * (h + 1)
    return _embeddings(config) + _layers(config) + projection + _layers(generator) + heads


def disentangled_parameters(config: EncoderConfig, generator: EncoderConfig) -> int:
    """Returns the number of weights of a DeBERTa-v3 and its generator, with both tables.

    Args:
      config, generator: their configurations.
    """
    # The discriminator has the row of a classifier in the place of masked LM's biases.
    both = parameters(config) + parameters(generator)
    return both - config.vocab_size + config.hidden_size + 1


def _embeddings(config: EncoderConfig) -> int:
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    return (rows + 2) * config.embedding_width


def _layers(config: EncoderConfig) -> int:
    h, f = config.hidden_size, config.intermediate_size
    return config.num_hidden_layers * (4 * h * (h + 1) + 2 * h * f + f + h + 4 * h)


def state_bytes(weights: int, parts: int = 1) -> int:
    """Returns the bytes of weights, gradients and moments.

    Args:
      weights: number of weights of the model.
      parts: number of parts of a batch; of several the gradients are added up in a further copy.
    """
    return (_COPIES + (parts > 1)) * _FLOAT_BYTES * weights


def teacher_bytes(config: EncoderConfig) -> int:
    """Returns the bytes of the weights of a model that is not trained."""
    return _FLOAT_BYTES * parameters(config)


def relation_bytes(heads: int, length: int) -> int:
    """Returns the bytes of the relations of a sequence, student's and teacher's.

    Args:
      heads: number of relation heads.
      length: tokens of a sequence, padding included.
    """
    return 3 * 2 * _FLOAT_BYTES * heads * length * length


def activation_bytes(config: EncoderConfig, length: int, predictions: int) -> int:
    """Returns the bytes that the forward pass of a sequence leaves for the backward pass.

    In a layer a position needs 16 values for each element of the width and 2 for each weight of
    attention, and a byte where dropout is drawn (Korthikanti et al. 2022, arXiv 2205.05198, section
    4.1). On a processor XLA keeps 20 and 3 values, measured with the sizes tiny, mini and small,
    within a tenth. The masked-LM head keeps the logits and their gradients.

    Args:
      config: configuration of the model.
      length: tokens of a sequence, padding included.
      predictions: prediction slots of a sequence; 0 without a masked-LM head.
    """
    width = (20 * _FLOAT_BYTES + 2) * config.hidden_size
    attention = (3 * _FLOAT_BYTES + 1) * config.num_attention_heads * config.held_scores(length)
    head = 2 * _FLOAT_BYTES * predictions * config.vocab_size
    return int(config.num_hidden_layers * length * (width + attention)) + head
