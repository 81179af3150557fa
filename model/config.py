"""The shape of an encoder, that of a BERT, and the names of BERT's published shapes.

`BertConfig` has the fields of the original release's `bert_config.json`. So it can read published
files, and the original code and its descendants can read the files that it writes. The other
families' configurations are in `families`. This module does not import Keras, so that a data
pipeline or a launcher can look up a size without loading it.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar

# "gelu" is the erf form of Hendrycks and Gimpel (arXiv:1606.08415, section 2), and "gelu_new" its
# tanh approximation (same section). `modeling.get_activation` also knows the other two.
ACTIVATIONS = ("gelu", "gelu_new", "relu", "tanh")

# What layer norms of the original release add to the variance.
ORIGINAL_EPSILON = 1e-12

# Keys of configuration files that change the arithmetic -> the value that means the arithmetic of
# all families here, and that of those that read these keys. Any other unknown key is meant for
# another program or family (directionality, pooler_*, architectures ...) and is ignored.
_FIXED = {"tie_word_embeddings": True}
ABSOLUTE = {"position_embedding_type": "absolute"}
ENCODER_ALONE = {"is_decoder": False, "add_cross_attention": False}


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """What the configurations of all families have; a family's own class adds to it.

    Attributes:
      vocab_size: number of tokens; 30522 for the uncased English release of BERT (its
        bert_config.json).
      hidden_size: width H of the encoder; 768 is BERT base (Devlin et al. 2019, section 3).
      num_hidden_layers: number of layers; 12 is BERT base (same section).
      num_attention_heads: number of attention heads; 12 is BERT base (same section).
      intermediate_size: width of the feed-forward layer, 4H (same section, footnote 3).
      hidden_act: activation of the feed-forward layer and of the masked-LM head, one of
        `ACTIVATIONS` (Devlin et al. 2019, A.2).
      hidden_dropout_prob: probability that an activation is dropped, "0.1 on all layers" (A.2).
      attention_probs_dropout_prob: probability that an attention weight is dropped (`BertConfig` in
        the original modeling.py).
      max_position_embeddings: number of positions (A.2).

    Raises:
      ValueError: a field has the wrong type or an impossible value, or the heads do not divide the
        width; the message names the field and the value.
    """

    # Name of the family, `model_type` in configuration files.
    family: ClassVar[str] = "bert"
    # The family's names of fields in configuration files, where they are others.
    file_names: ClassVar[Mapping[str, str]] = {}
    # Keys of configuration files besides `_FIXED` whose value must be this one.
    fixed: ClassVar[Mapping[str, Any]] = {}
    # Position of the first token in the table of positions.
    first_position: ClassVar[int] = 0
    # Whether each position has an embedding.
    has_position_table: ClassVar[bool] = True
    # Number of segments that the encoder distinguishes. One that distinguishes none reads any.
    segments: ClassVar[int | None] = None
    # Whether a dense layer takes the embeddings to the width of the layers.
    projects_embeddings: ClassVar[bool] = False
    # This is added to the variance.
    layer_norm_eps = ORIGINAL_EPSILON
    # Whether attention's output is dropped before the residual sum.
    drops_attention_output: ClassVar[bool] = True
    # Activations of the masked-LM head, where it is not `hidden_act`, and of the pooler.
    head_act: ClassVar[str | None] = None
    pooler_act: ClassVar[str] = "tanh"
    # Number of matrices H x F in a feed-forward layer.
    feed_forward_matrices: ClassVar[int] = 2

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512

    def __post_init__(self) -> None:
        """Refuses values that no model can be built with."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in _POSITIVE_INTEGERS:
                _require_positive_integer(field.name, value)
            elif field.name.endswith(("_prob", "_dropout")):
                require_number(field.name, value)
                if not 0 <= value < 1:
                    raise ValueError(f"{field.name} must be in [0, 1), but is {value}")
            elif field.name in _POSITIVE_NUMBERS:
                require_number(field.name, value)
                if not 0 < value < float("inf"):
                    raise ValueError(f"{field.name} must be positive and finite, but is {value}")
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"{self.file_names.get('hidden_act', 'hidden_act')} must be one of "
                f"{', '.join(ACTIVATIONS)}, but is {shown(self.hidden_act)}"
            )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by "
                f"num_attention_heads {self.num_attention_heads}"
            )

    @property
    def longest_sequence(self) -> int:
        """Number of tokens of the longest sequence."""
        return self.max_position_embeddings - self.first_position

    @property
    def embedding_width(self) -> int:
        """Width of the embeddings."""
        return getattr(self, "embedding_size", self.hidden_size)

    def attended(self, length: int) -> float:
        """Returns the mean number of positions that attention computes for one, over the layers.

        Args:
          length: number of positions of a sequence.
        """
        return length

    def with_longest_sequence(self, length: int) -> "EncoderConfig":
        """Returns the configuration for sequences of up to `length` tokens."""
        return dataclasses.replace(self, max_position_embeddings=length + self.first_position)

    def with_dropout(self, rate: float) -> "EncoderConfig":
        """Returns the configuration with another rate of dropout everywhere."""
        names = [f.name for f in dataclasses.fields(self)]
        rates = [name for name in names if name.endswith(("_prob", "_dropout"))]
        return dataclasses.replace(self, **dict.fromkeys(rates, rate))

    def identity(self) -> dict[str, Any]:
        """Returns the values that distinguish this configuration from all others."""
        values = dataclasses.asdict(self)
        return values if self.family == "bert" else values | {"model_type": self.family}

    def to_values(self) -> dict[str, Any]:
        """Returns the content of a configuration file, with the family's names."""
        return {self.file_names.get(name, name): value for name, value in self.identity().items()}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "EncoderConfig":
        """Returns the configuration of a `bert_config.json` or of a Hugging Face `config.json`.

        Fields that it leaves out get their defaults. Unknown keys are ignored unless they
        ask for arithmetic that this package lacks, such as relative positions.

        Args:
          values: content of a file of this family.

        Raises:
          ValueError: it lacks `vocab_size`, asks for arithmetic that is not the family's, or has a
            value that the family refuses.
        """
        if "vocab_size" not in values:
            raise ValueError("the configuration lacks vocab_size")
        names = [field.name for field in dataclasses.fields(cls)]
        for key, expected in {**_FIXED, "model_type": cls.family, **cls.fixed}.items():
            if key not in names and values.get(key, expected) != expected:
                raise ValueError(
                    f"the configuration has {key} {shown(values[key])}, but this model only knows "
                    f"{expected!r}"
                )
        fields = {name: cls.file_names.get(name, name) for name in names}
        return cls(**{ours: values[name] for ours, name in fields.items() if name in values})

    def to_json(self) -> str:
        """Returns JSON for `table.read_config`, in the original release's layout."""
        return json.dumps(self.to_values(), indent=2, sort_keys=True) + "\n"


def parse_config(text: str) -> dict[str, Any]:
    """Returns the content of a configuration file.

    Raises:
      ValueError: it is not a JSON object.
    """
    try:
        values = json.loads(text)
    except RecursionError:
        raise ValueError("the configuration is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the configuration is not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise ValueError(
            f"the configuration must be a JSON object, but is a {type(values).__name__}"
        )
    return values


class SegmentedConfig(EncoderConfig):
    """What families that distinguish segments have in common, `type_vocab_size` of them."""

    @property
    def segments(self) -> int:
        """Number of segments that the encoder distinguishes."""
        return self.type_vocab_size


@dataclasses.dataclass(frozen=True)
class BertConfig(SegmentedConfig):
    """The sizes and rates of a BERT: the content of a `bert_config.json`.

    Attributes:
      type_vocab_size: number of segments, sentence A and sentence B (every published
        bert_config.json).
      initializer_range: standard deviation of the truncated normal distribution of initial weights
        (`BertConfig` in the original modeling.py).
      layer_norm_eps: what layer norms add to the variance, as in tf.contrib.layers.layer_norm,
        which the original modeling.py calls.
    """

    fixed = ABSOLUTE | ENCODER_ALONE

    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = ORIGINAL_EPSILON

    def identity(self) -> dict[str, Any]:
        """Returns the values of `EncoderConfig.identity`; the original's files have no epsilon."""
        values = super().identity()
        if self.layer_norm_eps == ORIGINAL_EPSILON:
            del values["layer_norm_eps"]
        return values


_POSITIVE_INTEGERS = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "max_position_embeddings", "type_vocab_size", "embedding_size"),
    *("local_attention", "position_buckets", "global_attn_every_n_layers"),
)
_POSITIVE_NUMBERS = ("initializer_range", "layer_norm_eps", "global_rope_theta", "local_rope_theta")


def shown(value: Any) -> str:
    """Returns a value of a file for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _require_positive_integer(field: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{field} must be a positive integer, but is {shown(value)}")


def require_number(field: str, value: Any) -> None:
    """Raises ValueError unless the value is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{field} must be a number, but is {shown(value)}")


def require_id(field: str, value: Any) -> None:
    """Raises ValueError unless the value is the id of a token."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{field} must be an integer from 0 on, but is {shown(value)}")


def sizes_of(layers: int, width: int, heads: int) -> dict[str, int]:
    """Returns the sizes of an encoder whose feed-forward layers have the width 4H."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }


# The 24 sizes of Turc et al. 2019, by their names in the original release's README. In all of them,
# and in BERT large, a head has width 64 (arXiv:1908.08962, table 1; Devlin et al. 2019, section 3).
_PUBLISHED = {
    f"L-{layers}_H-{width}": sizes_of(layers, width, width // 64)
    for layers in (2, 4, 6, 8, 10, 12)
    for width in (128, 256, 512, 768)
}

# The same README has short names for five of them. BERT large is the paper's (Devlin et al. 2019,
# section 3).
BERT_SIZES = _PUBLISHED | {
    "tiny": _PUBLISHED["L-2_H-128"],
    "mini": _PUBLISHED["L-4_H-256"],
    "small": _PUBLISHED["L-4_H-512"],
    "medium": _PUBLISHED["L-8_H-512"],
    "base": _PUBLISHED["L-12_H-768"],
    "large": sizes_of(24, 1024, 16),
}
