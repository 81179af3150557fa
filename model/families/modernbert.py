"""ModernBERT (Warner et al. 2024, arXiv 2412.13663): rotary positions, local and global attention.

Layer norms come before attention and the feed-forward layer, which is gated. Only the decoder has
a bias, and there are no segments.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from beambert.model.config import EncoderConfig, shown
from beambert.model.families.family import MASKED_LM, QUESTION_ANSWERING, Family
from beambert.model.objectives import COPY, MLM

GLOBAL, LOCAL = "full_attention", "sliding_attention"
CLS, MEAN = "cls", "mean"

# Longest sequences whose scores are held whole for the backward pass. At 8,192 tokens parts take a
# ninth of the memory and, on two busy cores, 1.1 to 2 times the time.
WHOLE_SCORES = 2048


@dataclasses.dataclass(frozen=True)
class ModernBertConfig(EncoderConfig):
    """The sizes and rates of a ModernBERT; the defaults are those of transformers, its base.

    Attributes:
      hidden_dropout_prob: dropout inside the feed-forward layer.
      initializer_range: standard deviation of initial weights.
      layer_norm_eps: what layer norms add to the variance.
      embedding_dropout: dropout of the embeddings.
      global_attn_every_n_layers: layers 0, n, 2n … attend to the whole sequence.
      local_attention: window of the others; a token sees half of it to each side.
      global_rope_theta, local_rope_theta: bases of the rotary positions of both kinds of layers.
      classifier_pooling: what a classifier reads, "cls" for the first token, "mean" for the mean.
    """

    family: ClassVar[str] = "modernbert"
    file_names = {
        "hidden_act": "hidden_activation",
        "hidden_dropout_prob": "mlp_dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "layer_norm_eps": "norm_eps",
    }
    fixed = {
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "decoder_bias": True,
        "classifier_bias": False,
        "classifier_activation": "gelu",
        "rope_scaling": None,
        "sliding_window": None,
    }
    has_position_table: ClassVar[bool] = False
    feed_forward_matrices: ClassVar[int] = 3

    vocab_size: int = 50368
    num_hidden_layers: int = 22
    intermediate_size: int = 1152
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 8192
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-5
    embedding_dropout: float = 0.0
    global_attn_every_n_layers: int = 3
    local_attention: int = 128
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    classifier_pooling: str = CLS

    def __post_init__(self) -> None:
        """Refuses values that no model can be built with."""
        super().__post_init__()
        if self.hidden_size // self.num_attention_heads % 2:
            raise ValueError(
                f"rotary positions need heads of even width, but hidden_size {self.hidden_size} "
                f"and num_attention_heads {self.num_attention_heads} make one of "
                f"{self.hidden_size // self.num_attention_heads}"
            )
        if self.local_attention < 2:
            raise ValueError(f"local_attention must be at least 2, but is {self.local_attention}")
        if self.classifier_pooling not in (CLS, MEAN):
            raise ValueError(
                f"classifier_pooling must be {CLS} or {MEAN}, but is "
                f"{shown(self.classifier_pooling)}"
            )

    @property
    def reach(self) -> int:
        """Number of tokens to each side that a token sees in a local layer."""
        return self.local_attention // 2

    def is_global(self, layer: int) -> bool:
        """Returns whether a layer, counted from 0, attends to the whole sequence."""
        return layer % self.global_attn_every_n_layers == 0

    def attended(self, length: int) -> float:
        """Returns the mean number of positions that attention computes for one, over the layers."""
        computed = [
            length if self.is_global(layer) else min(length, 3 * self.reach)
            for layer in range(self.num_hidden_layers)
        ]
        return sum(computed) / len(computed)

    def holds_scores(self, length: int) -> bool:
        """Returns whether global layers hold all scores of a sequence for the backward pass.

        With dropout they do, which is drawn for all of them at once.
        """
        return length <= WHOLE_SCORES or self.attention_probs_dropout_prob > 0

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "ModernBertConfig":
        """Returns the configuration of the content of a file, of any version of transformers."""
        values = dict(values)
        if layer_types := values.pop("layer_types", None):
            values["global_attn_every_n_layers"] = _period(layer_types)
            layers = values.get("num_hidden_layers", cls.num_hidden_layers)
            if len(layer_types) != layers:
                raise ValueError(
                    f"layer_types has {len(layer_types)} names, but num_hidden_layers is {layers}"
                )
        ropes = _object("rope_parameters", values.get("rope_parameters"))
        if ropes.keys() - {GLOBAL, LOCAL}:
            raise ValueError(
                f"rope_parameters must have the keys {GLOBAL} and {LOCAL}, but has "
                f"{shown(sorted(ropes))}"
            )
        for kind, name in ((GLOBAL, "global_rope_theta"), (LOCAL, "local_rope_theta")):
            rope = _object(f"rope_parameters.{kind}", ropes.get(kind))
            rope_type = rope.get("rope_type", rope.get("type", "default"))
            if rope_type != "default":
                raise ValueError(
                    f"the configuration has rope_type {shown(rope_type)}, but this model only "
                    "knows 'default'"
                )
            if "rope_theta" in rope:
                values[name] = rope["rope_theta"]
        return super().from_values(values)


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"{name} must be an object, but is {shown(value)}")
    return value or {}


def _period(layer_types: Any) -> int:
    """Returns n, where one layer in n attends to the whole sequence, the first of each n.

    Raises:
      ValueError: the layers are others.
    """
    names = layer_types if isinstance(layer_types, list) else []
    later = [index for index, each in enumerate(names) if index and each == GLOBAL]
    period = later[0] if later else len(names)
    if layer_types != [LOCAL if index % period else GLOBAL for index in range(len(names))]:
        raise ValueError(
            f"layer_types must be {GLOBAL} in equal distances from the first layer on, and "
            f"{LOCAL} in between, but is {shown(layer_types)}"
        )
    return period


# Layers and width -> sizes. Those of the paper are base and large (table 4); L-17_H-768, tiny,
# mini, small and medium have the parameters of BERT's sizes with the same vocabulary.
_SIZES = {
    name: {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": inner,
    }
    for name, layers, width, inner in (
        ("tiny", 3, 128, 192),
        ("mini", 6, 256, 384),
        ("small", 6, 512, 768),
        ("medium", 11, 512, 768),
        ("L-17_H-768", 17, 768, 1152),
        ("base", 22, 768, 1152),
        ("large", 28, 1024, 2624),
    )
}


_LAYER = r"modernbert\.encoder\.layer\.(\d+)\."


class ModernBert(Family):
    """ModernBERT, as ModernBertForMaskedLM of transformers has it."""

    title = "ModernBERT"
    config = ModernBertConfig
    sizes = _SIZES
    encoder_class = ("modernbert_encoder", "ModernBertEncoder")
    head_class = ("modernbert_encoder", "ModernBertMaskedLMHead")
    objectives = (MLM, COPY)
    class_prefix = "ModernBert"
    # Its classes in transformers have no head for pairs.
    pretraining_classes = {MLM: MASKED_LM, COPY: MASKED_LM}
    model_prefix = "model."
    names = {
        r"modernbert\.embeddings\.word_embeddings\.": "model.embeddings.tok_embeddings.",
        r"modernbert\.embeddings\.LayerNorm\.": "model.embeddings.norm.",
        _LAYER + r"attention\.LayerNorm\.": r"model.layers.\1.attn_norm.",
        _LAYER + r"attention\.self\.": r"model.layers.\1.attn.Wqkv.",
        _LAYER + r"attention\.output\.": r"model.layers.\1.attn.Wo.",
        _LAYER + r"feed_forward\.LayerNorm\.": r"model.layers.\1.mlp_norm.",
        _LAYER + r"feed_forward\.intermediate\.": r"model.layers.\1.mlp.Wi.",
        _LAYER + r"feed_forward\.output\.": r"model.layers.\1.mlp.Wo.",
        r"modernbert\.LayerNorm\.": "model.final_norm.",
        r"modernbert\.head\.LayerNorm\.": "head.norm.",
        r"modernbert\.head\.": "head.",
        r"cls\.predictions\.": "decoder.",
        r"cls\.seq_relationship\.": None,
    }
    # Also ModernBertForQuestionAnswering calls its layer on top "classifier".
    task_names = {QUESTION_ANSWERING: {}}
