"""DistilBERT (Sanh et al. 2019, arXiv 1910.01108): BERT with half of the layers, no segments."""

import dataclasses
from typing import ClassVar

from beambert.model.config import BERT_SIZES, EncoderConfig
from beambert.model.families.family import (
    MASKED_LM,
    Family,
    without_pooler,
)
from beambert.model.objectives import MLM


@dataclasses.dataclass(frozen=True)
class DistilBertConfig(EncoderConfig):
    """The sizes and rates of a DistilBERT; the defaults are those of transformers.

    Attributes:
      num_hidden_layers: number of layers, half of BERT base's (section 3).
      initializer_range: standard deviation of initial weights.
    """

    family: ClassVar[str] = "distilbert"
    file_names = {
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
    }
    drops_attention_output: ClassVar[bool] = False
    # DistilBertForSequenceClassification has a dense layer where BERT has its pooler.
    pooler_act: ClassVar[str] = "relu"

    num_hidden_layers: int = 6
    initializer_range: float = 0.02


_LAYER = r"distilbert\.encoder\.(layer\.\d+)\."


class DistilBert(Family):
    """DistilBERT, as DistilBertForMaskedLM of transformers has it."""

    title = "DistilBERT"
    config = DistilBertConfig
    objectives = (MLM,)
    class_prefix = "DistilBert"
    pretraining_classes = {MLM: MASKED_LM}
    model_prefix = "distilbert."
    names = {
        _LAYER + theirs: rf"distilbert.transformer.\1.{ours}"
        for theirs, ours in {
            r"attention\.self\.query": "attention.q_lin",
            r"attention\.self\.key": "attention.k_lin",
            r"attention\.self\.value": "attention.v_lin",
            r"attention\.output\.dense": "attention.out_lin",
            r"attention\.output\.LayerNorm": "sa_layer_norm",
            r"intermediate\.dense": "ffn.lin1",
            r"output\.dense": "ffn.lin2",
            r"output\.LayerNorm": "output_layer_norm",
        }.items()
    } | {
        r"cls\.predictions\.transform\.dense": "vocab_transform",
        r"cls\.predictions\.transform\.LayerNorm": "vocab_layer_norm",
        r"cls\.predictions\.": "vocab_projector.",
        r"distilbert\.pooler\.dense": "pre_classifier",
    }
    task_names = without_pooler("distilbert")

    def sized(self, name: str, vocab_size: int, padding: int) -> DistilBertConfig:
        """Returns the configuration of a size of BERT with half of the layers."""
        sizes = BERT_SIZES[name]
        return DistilBertConfig(
            vocab_size, **{**sizes, "num_hidden_layers": sizes["num_hidden_layers"] // 2}
        )
