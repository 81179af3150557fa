"""ALBERT (Lan et al. 2019, arXiv 1909.11942): narrow embeddings, one layer for all depths."""

import dataclasses
from typing import Any, ClassVar

from beambert.model.config import BERT_SIZES, SegmentedConfig, sizes_of
from beambert.model.families.family import (
    MASKED_LM,
    PRE_TRAINING,
    Family,
    without_pooler,
)
from beambert.model.objectives import MLM, SOP

# Table 1 of the paper.
_SIZES = BERT_SIZES | {"xlarge": sizes_of(24, 2048, 16), "xxlarge": sizes_of(12, 4096, 64)}


@dataclasses.dataclass(frozen=True)
class AlbertConfig(SegmentedConfig):
    """The sizes and rates of an ALBERT; the defaults are those of transformers, its xxlarge.

    Attributes:
      embedding_size: width of the embeddings; 128 in all sizes of the paper (table 1).
      type_vocab_size: number of segments.
      initializer_range: standard deviation of initial weights.
      layer_norm_eps: what layer norms add to the variance.
    """

    family: ClassVar[str] = "albert"
    fixed = {"num_hidden_groups": 1, "inner_group_num": 1, "net_structure_type": 0}
    projects_embeddings: ClassVar[bool] = True

    vocab_size: int = 30000
    hidden_size: int = 4096
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    embedding_size: int = 128
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12


_LAYER = r"albert\.encoder\.layer\.0\."
_THEIRS = "albert.encoder.albert_layer_groups.0.albert_layers.0."


class Albert(Family):
    """ALBERT, as AlbertForPreTraining of transformers has it."""

    title = "ALBERT"
    config = AlbertConfig
    objectives = (SOP, MLM)
    class_prefix = "Albert"
    pretraining_classes = {SOP: PRE_TRAINING, MLM: MASKED_LM}
    model_prefix = "albert."
    names = {
        r"albert\.embeddings_project\.": "albert.encoder.embedding_hidden_mapping_in.",
        _LAYER + r"attention\.self\.": f"{_THEIRS}attention.",
        _LAYER + r"attention\.output\.": f"{_THEIRS}attention.",
        _LAYER + r"intermediate\.dense\.": f"{_THEIRS}ffn.",
        _LAYER + r"output\.dense\.": f"{_THEIRS}ffn_output.",
        _LAYER + r"output\.LayerNorm\.": f"{_THEIRS}full_layer_layer_norm.",
        r"albert\.pooler\.dense\.": "albert.pooler.",
        r"cls\.seq_relationship\.": "sop_classifier.classifier.",
        r"cls\.predictions\.(transform\.)?": "predictions.",
    }
    task_names = without_pooler("albert")

    @property
    def size_names(self) -> tuple[str, ...]:
        """Names of the sizes: those of BERT, and the two further ones of the paper."""
        return tuple(_SIZES)

    def sized(self, name: str, vocab_size: int, padding: int) -> AlbertConfig:
        """Returns the configuration of a size, with the rates of ALBERT's second version."""
        return AlbertConfig(vocab_size, **_SIZES[name])

    def encoder(self, config: Any, seed: int = 0, has_pooler: bool = True) -> Any:
        """Returns an encoder whose layers have the same variables."""
        from beambert.model.encoder import SharedLayerEncoder

        return SharedLayerEncoder(config, seed, has_pooler)
