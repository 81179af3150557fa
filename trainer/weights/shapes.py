"""The variables of a pre-training model: their shapes, and how large their files may be."""

import dataclasses
import functools
import math

from beambert.model.config import BertConfig
from beambert.model.pretrainer import BertPretrainer


@functools.cache
def variable_shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Returns the paths of all variables of a pre-training model with their shapes."""
    # A small model with one layer has the same variables. Each of its sizes is another one, so that
    # it shows which size stands in a shape; other layers differ in their number.
    small = dataclasses.replace(
        config,
        vocab_size=101,
        hidden_size=7,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=103,
        max_position_embeddings=107,
        type_vocab_size=109,
    )
    names = ("vocab_size", "hidden_size", "intermediate_size", "max_position_embeddings")
    names += ("type_vocab_size",)
    sizes = {getattr(small, name): getattr(config, name) for name in names}
    return {
        variable.path.replace("layer_0", f"layer_{index}"): tuple(
            sizes.get(size, size) for size in variable.shape
        )
        for variable in BertPretrainer(small).variables
        for index in range(config.num_hidden_layers if "layer_0" in variable.path else 1)
    }


def most_bytes(config: BertConfig) -> int:
    """Returns the greatest size of files with these weights: 8 bytes each, twice, and heads."""
    numbers = sum(math.prod(shape) for shape in variable_shapes(config).values())
    return 16 * numbers + (1 << 28)
