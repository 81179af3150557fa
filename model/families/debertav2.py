"""DeBERTa-v3 (He et al. 2020, arXiv 2006.03654, and 2021, arXiv 2111.09543): relative positions.

Attention also scores contents with distances, which have their own embeddings. There are no
absolute positions and no segments. `transformers` calls the architecture version 2.

In gradient-disentangled embedding sharing the discriminator's word embeddings are the sum of the
generator's and a delta (arXiv 2111.09543, section 3.3). They are saved as a table and a delta.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from beambert.model.config import BERT_SIZES, EncoderConfig, shown, sizes_of
from beambert.model.families.family import (
    MASKED_LM,
    MULTIPLE_CHOICE,
    SEQUENCE_CLASSIFICATION,
    Family,
    without_pooler,
)
from beambert.model.objectives import GENERATOR_DEPTH, MLM, RTD

# Positions that are multiplied with distances at once. A step on sequences of 512 takes an eighth
# less time than with all of them at once (tiny, two busy cores).
BLOCK = 128

# These are the values of transformers where a file has no value: the second version differs from
# the third in them.
_UNSAID = {
    "relative_attention": False,
    "position_biased_input": True,
    "pos_att_type": [],
    "share_att_key": False,
    "norm_rel_ebd": "none",
    "position_buckets": -1,
}


@dataclasses.dataclass(frozen=True)
class DebertaV2Config(EncoderConfig):
    """The sizes and rates of a DeBERTa-v3; the defaults are those of the published base.

    Attributes:
      initializer_range: standard deviation of initial weights.
      layer_norm_eps: what layer norms add to the variance.
      position_buckets: number of buckets for distances to each side; up to half of it each
        distance has a bucket to itself.
    """

    family: ClassVar[str] = "deberta-v2"
    fixed = {
        "relative_attention": True,
        "max_relative_positions": -1,
        "pos_att_type": ["p2c", "c2p"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "conv_kernel_size": 0,
        "pooler_hidden_act": "gelu",
    }
    has_position_table: ClassVar[bool] = False
    # ContextPooler of transformers.
    pooler_act: ClassVar[str] = "gelu"

    vocab_size: int = 128100
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-7
    position_buckets: int = 256

    def __post_init__(self) -> None:
        """Refuses values that no model can be built with."""
        super().__post_init__()
        if self.position_buckets < 2:
            raise ValueError(f"position_buckets must be at least 2, but is {self.position_buckets}")

    def attended(self, length: int) -> float:
        """Returns the mean number of positions that attention computes for one, over the layers.

        Queries and keys of a block are also multiplied with the distances of the block.
        """
        blocks = [min(BLOCK, length - first) for first in range(0, length, BLOCK)]
        return 2 * length + sum(block * block for block in blocks) / length

    def to_values(self) -> dict[str, Any]:
        """Returns the content of a configuration file, with what makes it version 3."""
        return super().to_values() | self.fixed

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "DebertaV2Config":
        """Returns the configuration of the content of a file."""
        values = _UNSAID | dict(values)
        kinds = values["pos_att_type"]
        if isinstance(kinds, str):
            kinds = [kind.strip() for kind in kinds.lower().split("|")]
        if isinstance(kinds, list) and set(kinds) == {"c2p", "p2c"}:
            kinds = cls.fixed["pos_att_type"]
        config = super().from_values(values | {"pos_att_type": kinds})
        for name, expected in (
            ("embedding_size", config.hidden_size),
            ("pooler_hidden_size", config.hidden_size),
            ("attention_head_size", config.hidden_size // config.num_attention_heads),
        ):
            if values.get(name, expected) != expected:
                raise ValueError(
                    f"the configuration has {name} {shown(values[name])}, but with its width this "
                    f"model only knows {expected}"
                )
        return config


# Name of a delta: that of its table with this ending.
SUFFIX = "_delta"
WORD_EMBEDDINGS = "embeddings/word_embeddings"
WORD_DELTA = WORD_EMBEDDINGS + SUFFIX


def merged(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns weights in which each delta is added to its table; without deltas, the same ones."""
    deltas = {path: value for path, value in weights.items() if path.endswith(WORD_DELTA)}
    tables = {
        (path := of_delta.removesuffix(SUFFIX)): weights[path] + delta
        for of_delta, delta in deltas.items()
    }
    rest = {path: value for path, value in weights.items() if path not in deltas}
    return rest | tables


def for_variables(
    weights: Mapping[str, np.ndarray], paths: Mapping[str, object]
) -> dict[str, np.ndarray]:
    """Returns weights in the form that a model has them.

    Args:
      weights: path -> array, with or without a delta.
      paths: the model's variables by their paths. If one of them is a delta, it begins at zero
        where the weights have none; if none is, deltas are added to their tables.
    """
    deltas = [path for path in paths if path.endswith(WORD_DELTA)]
    if not deltas:
        return merged(weights)
    zeros = {
        path: np.zeros_like(weights[table])
        for path in deltas
        if (table := path.removesuffix(SUFFIX)) in weights
    }
    return zeros | dict(weights)


_SELF = r"deberta-v2\.encoder\.layer\.(\d+)\.attention\.self\."
_POOLER = {r"deberta-v2\.pooler\.": "pooler."}


class DebertaV2(Family):
    """DeBERTa-v3, as DebertaV2ForMaskedLM of transformers has it."""

    title = "DeBERTa-v3"
    config = DebertaV2Config
    # The two further sizes are the paper's.
    sizes = BERT_SIZES | {"xsmall": sizes_of(12, 384, 6), "small": sizes_of(6, 768, 12)}
    encoder_class = ("deberta", "DebertaEncoder")
    objectives = (MLM, RTD)
    class_prefix = "DebertaV2"
    pretraining_classes = {MLM: MASKED_LM}
    generator_size = GENERATOR_DEPTH
    # `transformers` has no class with the head, and the published models name none.
    discriminator_class = "DebertaV2Model"
    detection_head = tuple(
        f"mask_predictions/{name}"
        for name in (
            *("layer_norm/gamma", "layer_norm/beta", "dense/kernel", "dense/bias"),
            *("classifier/kernel", "classifier/bias"),
        )
    )
    model_prefix = "deberta."
    names = {
        **{
            _SELF + rf"{name}\.": rf"deberta.encoder.layer.\1.attention.self.{name}_proj."
            for name in ("query", "key", "value")
        },
        r"deberta-v2\.": "deberta.",
    }
    task_names = {
        SEQUENCE_CLASSIFICATION: _POOLER,
        MULTIPLE_CHOICE: _POOLER,
        **without_pooler("deberta-v2"),
    }

    @staticmethod
    def generator_config(config: DebertaV2Config, size: float) -> DebertaV2Config:
        """Returns the configuration of the generator: as wide, with fewer layers.

        Args:
          config: configuration of the discriminator.
          size: depth of the generator as a share of the discriminator's; at least one layer.
        """
        layers = max(1, round(config.num_hidden_layers * size))
        return dataclasses.replace(config, num_hidden_layers=layers)
