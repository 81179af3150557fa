"""DeBERTa-v3 (He et al. 2020, arXiv 2006.03654, and 2021, arXiv 2111.09543): relative positions.

Attention also scores contents with distances, which have embeddings of their own. There are no
absolute positions and no segments. `transformers` calls the architecture that of version 2.
"""

from typing import Any

from beambert.model.config import BERT_SIZES, sizes_of
from beambert.model.families.debertav2_config import DebertaV2Config
from beambert.model.families.family import (
    MASKED_LM,
    MULTIPLE_CHOICE,
    SEQUENCE_CLASSIFICATION,
    Family,
    without_pooler,
)
from beambert.model.objectives import MLM

# The two published sizes that BERT doesn't have; base and large are BERT's.
_SIZES = BERT_SIZES | {"xsmall": sizes_of(12, 384, 6), "small": sizes_of(6, 768, 12)}

_SELF = r"deberta-v2\.encoder\.layer\.(\d+)\.attention\.self\."
_POOLER = {r"deberta-v2\.pooler\.": "pooler."}


class DebertaV2(Family):
    """DeBERTa-v3, as DebertaV2ForMaskedLM of transformers has it."""

    title = "DeBERTa-v3"
    config = DebertaV2Config
    objectives = (MLM,)
    class_prefix = "DebertaV2"
    pretraining_classes = {MLM: MASKED_LM}
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

    @property
    def size_names(self) -> tuple[str, ...]:
        """Names of the sizes: those of BERT, and the two further ones of the paper."""
        return tuple(_SIZES)

    def sized(self, name: str, vocab_size: int, padding: int) -> DebertaV2Config:
        """Returns the configuration of a size of the paper, or of BERT where it has none."""
        return DebertaV2Config(vocab_size, **_SIZES[name])

    def encoder(self, config: Any, seed: int = 0, has_pooler: bool = True) -> Any:
        """Returns an encoder with initial weights."""
        from beambert.model.deberta_encoder import DebertaEncoder

        return DebertaEncoder(config, seed, has_pooler)
