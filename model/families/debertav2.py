"""DeBERTa-v3 (He et al. 2020, arXiv 2006.03654, and 2021, arXiv 2111.09543): relative positions.

Attention also scores contents with distances, which have embeddings of their own. There are no
absolute positions and no segments. `transformers` calls the architecture that of version 2.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from beambert.model.config import BERT_SIZES, sizes_of
from beambert.model.embedding_deltas import SUFFIX, WORD_EMBEDDINGS
from beambert.model.families.debertav2_config import DebertaV2Config
from beambert.model.families.family import (
    ENCODER,
    MASKED_LM,
    MULTIPLE_CHOICE,
    SEQUENCE_CLASSIFICATION,
    Family,
    without_pooler,
)
from beambert.model.objectives import GENERATOR_DEPTH, MLM, RTD

# The two published sizes that BERT doesn't have; base and large are BERT's.
_SIZES = BERT_SIZES | {"xsmall": sizes_of(12, 384, 6), "small": sizes_of(6, 768, 12)}

_SELF = r"deberta-v2\.encoder\.layer\.(\d+)\.attention\.self\."
_TABLE = f"deberta-v2/{WORD_EMBEDDINGS}"
# Beginning of a path in the generator -> that in a model with masked LM.
_GENERATOR = {"generator/": "deberta-v2/", "generator_predictions/": "cls/predictions/"}
_POOLER = {r"deberta-v2\.pooler\.": "pooler."}


class DebertaV2(Family):
    """DeBERTa-v3, as DebertaV2ForMaskedLM of transformers has it."""

    title = "DeBERTa-v3"
    config = DebertaV2Config
    objectives = (MLM, RTD)
    class_prefix = "DebertaV2"
    pretraining_classes = {MLM: MASKED_LM}
    generator_size = GENERATOR_DEPTH
    # `transformers` has no class with the head, and the published models name none.
    discriminator_class = "DebertaV2Model"
    generator_class = "DebertaV2ForMaskedLM"
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

    def generator_config(self, config: DebertaV2Config, size: float) -> DebertaV2Config:
        """Returns the configuration of the generator: as wide, with fewer layers.

        Args:
          config: configuration of the discriminator.
          size: depth of the generator as a share of the discriminator's; at least one layer.
        """
        return config.shallower(size)

    def described_as_pair(self, config: DebertaV2Config) -> dict[str, Any]:
        """Returns nothing: the encoder's values say it all."""
        return {}

    def discriminator_name(self, path: str) -> tuple[str, bool] | None:
        """Returns a variable's name in the published discriminators."""
        return None if path.startswith(tuple(_GENERATOR)) else self.namer(ENCODER)(path)

    def generator_name(self, path: str) -> tuple[str, bool] | None:
        """Returns a variable's name in the exported generator, which has the shared embeddings."""
        if path == _TABLE:
            return self.namer(MASKED_LM)(path)
        for own, of_masked_lm in _GENERATOR.items():
            if path.startswith(own):
                return self.namer(MASKED_LM)(of_masked_lm + path.removeprefix(own))
        return None

    def with_generator(
        self, weights: Mapping[str, np.ndarray], of_generator: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Returns the weights of the pre-training model; the embeddings' difference is delta."""
        found = dict(weights)
        for path, value in of_generator.items():
            for own, of_masked_lm in _GENERATOR.items():
                if path.startswith(of_masked_lm) and path != _TABLE:
                    found[own + path.removeprefix(of_masked_lm)] = value
        if _TABLE in weights and _TABLE in of_generator:
            shared = of_generator[_TABLE]
            if shared.shape == weights[_TABLE].shape:
                found |= {_TABLE: shared, f"{_TABLE}{SUFFIX}": weights[_TABLE] - shared}
        return found
