"""The size of ELECTRA's generator, from that of its discriminator. A pure function."""

import dataclasses

from beambert.model.config import EncoderConfig

# Width of an attention head of the generator (`get_generator_config` of the original).
_HEAD_WIDTH = 64


def generator_config(config: EncoderConfig, size: float) -> EncoderConfig:
    """Returns the configuration of the generator: as many layers, narrower ones.

    The embeddings are the discriminator's; only the layers have the generator's width
    (`get_generator_config` of the original's run_pretraining.py).

    Args:
      config: configuration of the discriminator.
      size: width of the generator as a share of the discriminator's.

    Raises:
      ValueError: no generator has that size.
    """
    width = round(config.hidden_size * size)
    return dataclasses.replace(
        config,
        hidden_size=width,
        intermediate_size=4 * width,
        num_attention_heads=max(1, width // _HEAD_WIDTH),
    )
