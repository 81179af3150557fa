"""RoBERTa (Liu et al. 2019, arXiv 1907.11692): BERT with masked LM alone.

Positions count from the padding token's id plus 1, and there is one segment.
"""

import dataclasses
from typing import Any, ClassVar

from beambert.model.config import BERT_SIZES, EncoderConfig, require_id
from beambert.model.families.family import (
    MASKED_LM,
    SEQUENCE_CLASSIFICATION,
    Family,
    without_pooler,
)
from beambert.model.objectives import MLM


@dataclasses.dataclass(frozen=True)
class RobertaConfig(EncoderConfig):
    """The sizes and rates of a RoBERTa; the defaults are those of RobertaConfig of transformers.

    Attributes:
      type_vocab_size: rows of the table of segments, of which only the first is read.
      initializer_range: standard deviation of initial weights.
      layer_norm_eps: what layer norms add to the variance.
      pad_token_id: id of the padding token, behind which positions begin.
    """

    family: ClassVar[str] = "roberta"

    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 1

    def __post_init__(self) -> None:
        """Refuses values that no model can be built with."""
        super().__post_init__()
        require_id("pad_token_id", self.pad_token_id)
        if self.longest_sequence < 1:
            raise ValueError(
                f"max_position_embeddings {self.max_position_embeddings} leaves no position "
                f"behind pad_token_id {self.pad_token_id}"
            )

    @property
    def first_position(self) -> int:
        """Position of the first token in the table of positions."""
        return self.pad_token_id + 1


class Roberta(Family):
    """RoBERTa, as RobertaForMaskedLM of transformers has it."""

    title = "RoBERTa"
    config = RobertaConfig
    objectives = (MLM,)
    class_prefix = "Roberta"
    pretraining_classes = {MLM: MASKED_LM}
    model_prefix = "roberta."
    names = {
        r"cls\.predictions\.transform\.LayerNorm\.": "lm_head.layer_norm.",
        r"cls\.predictions\.(transform\.)?": "lm_head.",
    }
    task_names = {
        SEQUENCE_CLASSIFICATION: {
            r"roberta\.pooler\.": "classifier.",
            r"classifier\.": "classifier.out_proj.",
        },
        **without_pooler("roberta"),
    }

    def sized(self, name: str, vocab_size: int, padding: int) -> Any:
        """Returns the configuration of a size of BERT, with the published rates of RoBERTa's."""
        config = RobertaConfig(
            vocab_size,
            **BERT_SIZES[name],
            type_vocab_size=1,
            layer_norm_eps=1e-5,
            pad_token_id=padding,
        )
        return config.with_longest_sequence(512)
