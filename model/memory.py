"""The memory that a training takes, estimated from the shape of a model."""

from beambert.model.config import BertConfig

_FLOAT_BYTES = 4
# The weights, their gradients, and the optimizer's two moments.
_COPIES = 4


def parameters(config: BertConfig) -> int:
    """Returns the number of weights of the pre-training model."""
    h, v = config.hidden_size, config.vocab_size
    heads = 2 * h * (h + 1) + 2 * h + v + 2 * (h + 1)
    return _embeddings(config) + _layers(config) + heads


def electra_parameters(config: BertConfig, generator: BertConfig) -> int:
    """Returns the number of weights of a discriminator and its generator.

    Args:
      config, generator: their configurations; the embeddings are the discriminator's.
    """
    h, g, v = config.hidden_size, generator.hidden_size, config.vocab_size
    projection = (h + 1) * g if h != g else 0
    heads = (g + 1) * h + 2 * h + v + (h + 1) * (h + 1)
    return _embeddings(config) + _layers(config) + projection + _layers(generator) + heads


def _embeddings(config: BertConfig) -> int:
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    return (rows + 2) * config.hidden_size


def _layers(config: BertConfig) -> int:
    h, f = config.hidden_size, config.intermediate_size
    return config.num_hidden_layers * (4 * h * (h + 1) + 2 * h * f + f + h + 4 * h)


def state_bytes(weights: int, parts: int = 1) -> int:
    """Returns the bytes of weights, gradients and moments.

    Args:
      weights: number of weights of the model.
      parts: number of parts of a batch; of several the gradients are added up in a further copy.
    """
    return (_COPIES + (parts > 1)) * _FLOAT_BYTES * weights


def teacher_bytes(config: BertConfig) -> int:
    """Returns the bytes of the weights of a model that is not trained."""
    return _FLOAT_BYTES * parameters(config)


def relation_bytes(heads: int, length: int) -> int:
    """Returns the bytes of the relations of a sequence, student's and teacher's.

    Args:
      heads: number of relation heads.
      length: tokens of a sequence, padding included.
    """
    return 3 * 2 * _FLOAT_BYTES * heads * length * length


def activation_bytes(config: BertConfig, length: int, predictions: int) -> int:
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
    attention = (3 * _FLOAT_BYTES + 1) * config.num_attention_heads * length
    head = 2 * _FLOAT_BYTES * predictions * config.vocab_size
    return config.num_hidden_layers * length * (width + attention) + head
