"""ModernBERT (Warner et al. 2024, arXiv 2412.13663): rotary positions, local and global attention.

Layer norms come before attention and the feed-forward layer, which is gated. Nothing but the
decoder has a bias, and there are no segments.
"""

from typing import Any

from beambert.model.families.family import MASKED_LM, QUESTION_ANSWERING, Family
from beambert.model.families.modernbert_config import ModernBertConfig
from beambert.model.objectives import MLM

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
    objectives = (MLM,)
    class_prefix = "ModernBert"
    pretraining_classes = {MLM: MASKED_LM}
    model_prefix = "model."
    reads_vocab_txt = False
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
    }
    # Also ModernBertForQuestionAnswering calls its layer on top "classifier".
    task_names = {QUESTION_ANSWERING: {}}

    @property
    def size_names(self) -> tuple[str, ...]:
        """Names of the sizes."""
        return tuple(_SIZES)

    def sized(self, name: str, vocab_size: int, padding: int) -> ModernBertConfig:
        """Returns the configuration of a size."""
        return ModernBertConfig(vocab_size, **_SIZES[name])

    def encoder(self, config: Any, seed: int = 0, has_pooler: bool = True) -> Any:
        """Returns an encoder with initial weights."""
        from beambert.model.modernbert_encoder import ModernBertEncoder

        return ModernBertEncoder(config, seed, has_pooler)

    def masked_lm_head(self, config: Any, seed: int) -> Any:
        """Returns the masked-LM head without its variables."""
        from beambert.model.modernbert_encoder import ModernBertMaskedLMHead

        return ModernBertMaskedLMHead(config, seed)
