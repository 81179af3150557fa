"""ELECTRA (Clark et al. 2020, arXiv 2003.10555): BERT with narrower embeddings in small sizes.

It learns by replaced token detection. Its configuration is the discriminator's.
"""

import dataclasses
from typing import ClassVar

from beambert.model.config import BERT_SIZES, SegmentedConfig, sizes_of
from beambert.model.families.family import (
    MASKED_LM,
    MULTIPLE_CHOICE,
    PRE_TRAINING,
    SEQUENCE_CLASSIFICATION,
    Family,
    without_pooler,
)
from beambert.model.objectives import MLM, RTD

# Table 6 of the paper: small has the width 256 and embeddings of 128.
_SIZES = BERT_SIZES | {"small": {**sizes_of(12, 256, 4), "embedding_size": 128}}


@dataclasses.dataclass(frozen=True)
class ElectraConfig(SegmentedConfig):
    """The sizes and rates of an ELECTRA; the defaults are those of transformers, its small.

    Attributes:
      embedding_size: width of the embeddings.
      type_vocab_size: number of segments.
      initializer_range: standard deviation of initial weights.
      layer_norm_eps: what layer norms add to the variance.
    """

    family: ClassVar[str] = "electra"
    # ElectraGeneratorPredictions of transformers has this activation whatever hidden_act is.
    head_act: ClassVar[str] = "gelu"
    # ElectraClassificationHead has a dense layer where BERT has its pooler.
    pooler_act: ClassVar[str] = "gelu"

    hidden_size: int = 256
    num_attention_heads: int = 4
    intermediate_size: int = 1024
    embedding_size: int = 128
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12

    @property
    def projects_embeddings(self) -> bool:
        """Whether a dense layer takes the embeddings to the width of the layers."""
        return self.embedding_size != self.hidden_size


class Electra(Family):
    """ELECTRA, as ElectraForPreTraining and ElectraForMaskedLM of transformers have it."""

    title = "ELECTRA"
    config = ElectraConfig
    objectives = (RTD, MLM)
    class_prefix = "Electra"
    pretraining_classes = {RTD: PRE_TRAINING, MLM: MASKED_LM}
    model_prefix = "electra."
    names = {
        r"cls\.predictions\.transform\.": "generator_predictions.",
        r"cls\.predictions\.": "generator_lm_head.",
    }
    task_names = {
        SEQUENCE_CLASSIFICATION: {
            r"electra\.pooler\.": "classifier.",
            r"classifier\.": "classifier.out_proj.",
        },
        MULTIPLE_CHOICE: {r"electra\.pooler\.dense\.": "sequence_summary.summary."},
        **without_pooler("electra"),
    }

    def sized(self, name: str, vocab_size: int, padding: int) -> ElectraConfig:
        """Returns the configuration of a size of the paper, or of BERT where it has none."""
        sizes = _SIZES[name]
        return ElectraConfig(vocab_size, **{"embedding_size": sizes["hidden_size"], **sizes})
