"""The configuration of DeBERTa-v3 (He et al., arXiv 2006.03654 and 2111.09543)."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from beambert.model.config import EncoderConfig, shown

# Positions that are multiplied with distances at once. A step on sequences of 512 takes an eighth
# less time than with all of them at once (tiny, two busy cores).
BLOCK = 128

# These are the values of transformers where a file says nothing: the second version differs from
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

    def shallower(self, share: float) -> "DebertaV2Config":
        """Returns a configuration with a share of the layers, and at least one."""
        layers = max(1, round(self.num_hidden_layers * share))
        return dataclasses.replace(self, num_hidden_layers=layers)

    def to_values(self) -> dict[str, Any]:
        """Returns the content of a configuration file, which says what makes it version 3."""
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
