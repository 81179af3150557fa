"""The families that keep most of BERT's layers: RoBERTa, DistilBERT, ALBERT and ELECTRA.

- RoBERTa (Liu et al. 2019, arXiv 1907.11692) is BERT with masked LM alone. Positions count from the
  padding token's id plus 1, and there is one segment.
- DistilBERT (Sanh et al. 2019, arXiv 1910.01108) has half of the layers and no segments.
- ALBERT (Lan et al. 2019, arXiv 1909.11942) has narrow embeddings and one layer for all depths.
- ELECTRA (Clark et al. 2020, arXiv 2003.10555) has narrower embeddings in small sizes, and learns
  by replaced token detection. Its configuration is the discriminator's.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from beambert.model.config import (
    ABSOLUTE,
    BERT_SIZES,
    ENCODER_ALONE,
    EncoderConfig,
    SegmentedConfig,
    require_id,
    sizes_of,
)
from beambert.model.families.family import (
    MASKED_LM,
    MULTIPLE_CHOICE,
    PRE_TRAINING,
    SEQUENCE_CLASSIFICATION,
    Family,
    without_pooler,
)
from beambert.model.objectives import MLM, RTD, SOP


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
    fixed = ABSOLUTE | ENCODER_ALONE
    # RobertaLMHead of transformers has this activation whatever hidden_act is.
    head_act: ClassVar[str] = "gelu"

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

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "DistilBertConfig":
        """Returns the configuration of a file; the names of BERT count before the family's own."""
        names = ("hidden_size", "num_hidden_layers", "num_attention_heads")
        common = {cls.file_names[name]: values[name] for name in names if name in values}
        return super().from_values({**values, **common})


_DISTILBERT_LAYER = r"distilbert\.encoder\.(layer\.\d+)\."


class DistilBert(Family):
    """DistilBERT, as DistilBertForMaskedLM of transformers has it."""

    title = "DistilBERT"
    config = DistilBertConfig
    # Those of BERT with half of the layers.
    sizes = {
        name: {**size, "num_hidden_layers": size["num_hidden_layers"] // 2}
        for name, size in BERT_SIZES.items()
    }
    objectives = (MLM,)
    class_prefix = "DistilBert"
    pretraining_classes = {MLM: MASKED_LM}
    model_prefix = "distilbert."
    names = {
        _DISTILBERT_LAYER + theirs: rf"distilbert.transformer.\1.{ours}"
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
    fixed = ABSOLUTE | {"num_hidden_groups": 1, "inner_group_num": 1, "net_structure_type": 0}
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


_ALBERT_LAYER = r"albert\.encoder\.layer\.0\."
_ALBERT_GROUP = "albert.encoder.albert_layer_groups.0.albert_layers.0."


class Albert(Family):
    """ALBERT, as AlbertForPreTraining of transformers has it."""

    title = "ALBERT"
    config = AlbertConfig
    # Table 1 of the paper; the rates are those of ALBERT's second version.
    sizes = BERT_SIZES | {"xlarge": sizes_of(24, 2048, 16), "xxlarge": sizes_of(12, 4096, 64)}
    encoder_class = ("encoder", "SharedLayerEncoder")
    objectives = (SOP, MLM)
    class_prefix = "Albert"
    pretraining_classes = {SOP: PRE_TRAINING, MLM: MASKED_LM}
    model_prefix = "albert."
    names = {
        r"albert\.embeddings_project\.": "albert.encoder.embedding_hidden_mapping_in.",
        _ALBERT_LAYER + r"attention\.self\.": f"{_ALBERT_GROUP}attention.",
        _ALBERT_LAYER + r"attention\.output\.": f"{_ALBERT_GROUP}attention.",
        _ALBERT_LAYER + r"intermediate\.dense\.": f"{_ALBERT_GROUP}ffn.",
        _ALBERT_LAYER + r"output\.dense\.": f"{_ALBERT_GROUP}ffn_output.",
        _ALBERT_LAYER + r"output\.LayerNorm\.": f"{_ALBERT_GROUP}full_layer_layer_norm.",
        r"albert\.pooler\.dense\.": "albert.pooler.",
        r"cls\.seq_relationship\.": "sop_classifier.classifier.",
        r"cls\.predictions\.(transform\.)?": "predictions.",
    }
    task_names = without_pooler("albert")


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
    fixed = ABSOLUTE | ENCODER_ALONE
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
    # Table 6 of the paper: small has the width 256 and embeddings of 128.
    sizes = {
        name: {**size, "embedding_size": size["hidden_size"]} for name, size in BERT_SIZES.items()
    }
    sizes["small"] = {**sizes_of(12, 256, 4), "embedding_size": 128}
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
