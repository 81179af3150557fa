"""The floating-point operations of a training step's matrix products."""

from beambert.model.config import EncoderConfig
from beambert.model.unpadding import Capacity


def training_flops(
    config: EncoderConfig,
    sequences: int,
    length: int,
    predictions: int,
    capacity: Capacity | None = None,
) -> float:
    """Returns the floating-point operations of an update of the pre-training model.

    A multiplication and an addition are two operations. The backward pass takes twice as many as
    the forward pass (Kaplan et al. 2020, arXiv 2001.08361, section 2.1). In a layer, a token takes
    4 H² multiplications for attention's projections, 2 H F for the feed-forward layer, 3 H F for a
    gated one, and 2 L H for the scores and the weighted values, where L counts the positions that
    are computed. The masked-LM head is computed at the predicted positions
    only. Embeddings, norms, pooler and next-sentence head are left out; they take less than 1 %.

    Args:
      config: configuration of the model.
      sequences: number of sequences in a batch.
      length: tokens of a sequence, padding included.
      predictions: prediction slots of a sequence; 0 without a masked-LM head.
      capacity: numbers of rows that are computed, except in attention; None if all are.
    """
    return 3 * forward_flops(config, sequences, length, predictions, capacity)


def forward_flops(
    config: EncoderConfig,
    sequences: int,
    length: int,
    predictions: int,
    capacity: Capacity | None = None,
) -> float:
    """Returns the floating-point operations of the forward pass; see `training_flops`."""
    h, e = config.hidden_size, config.embedding_width
    capacity = capacity or Capacity(sequences * length, sequences * predictions)
    head = capacity.predictions * (h * e + e * config.vocab_size)
    return 2 * (_layers(config, sequences, length, capacity) + head)


def electra_flops(
    config: EncoderConfig,
    generator: EncoderConfig,
    sequences: int,
    length: int,
    predictions: int,
    capacity: Capacity | None = None,
) -> float:
    """Returns the floating-point operations of an update of a discriminator and its generator.

    Args:
      config, generator: configurations of the two; the embeddings are the discriminator's.
      sequences, length, predictions, capacity: see `training_flops`.
    """
    h, g, e = config.hidden_size, generator.hidden_size, config.embedding_width
    capacity = capacity or Capacity(sequences * length, sequences * predictions)
    layers = sum(_layers(each, sequences, length, capacity) for each in (config, generator))
    is_counted = e == g or generator.projects_embeddings  # with its layers
    projection = 0 if is_counted else capacity.tokens * e * g
    heads = capacity.tokens * h * h + capacity.predictions * (g * e + e * config.vocab_size)
    return 3 * 2 * (layers + projection + heads)


def _layers(config: EncoderConfig, sequences: int, length: int, capacity: Capacity) -> float:
    """Returns the multiplications of the layers in the forward pass."""
    h, f = config.hidden_size, config.intermediate_size
    by_row = capacity.tokens * (4 * h * h + config.feed_forward_matrices * h * f)
    attention = sequences * length * 2 * config.attended(length) * h
    projection = capacity.tokens * config.embedding_width * h if config.projects_embeddings else 0
    return config.num_hidden_layers * (by_row + attention) + projection
