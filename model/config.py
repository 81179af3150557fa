"""The shape of a BERT and the names of the published shapes.

`BertConfig` has the fields of the original release's `bert_config.json`. So it can read published
files, and the original code and its descendants can read the files that it writes. This module does
not import Keras, so that a data pipeline or a launcher can look up a size without loading it.
"""

import dataclasses
import json
from typing import Any

# "gelu" is the erf form of Hendrycks and Gimpel (arXiv:1606.08415, section 2), and "gelu_new" its
# tanh approximation (same section). `modeling.get_activation` also knows the other two.
ACTIVATIONS = ("gelu", "gelu_new", "relu", "tanh")

# Keys of configuration files that change the arithmetic -> the value that means the arithmetic of
# this package. Any other unknown key is meant for another program (directionality, pooler_*,
# architectures, transformers_version ...) and is ignored.
_FIXED_BY_THE_PAPER = {
    "model_type": "bert",
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The sizes and rates of a BERT: the content of a `bert_config.json`.

    Attributes:
      vocab_size: number of word pieces; 30522 for the uncased English release (its
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
      max_position_embeddings: length of the longest sequence, in tokens (A.2).
      type_vocab_size: number of segments, sentence A and sentence B (every published
        bert_config.json).
      initializer_range: standard deviation of the truncated normal distribution of initial weights
        (`BertConfig` in the original modeling.py).
      is_decoder: whether a token sees only itself and those before it (`is_decoder` in a
        configuration of Hugging Face's); the model of the paper's section 5.1.

    Raises:
      ValueError: a field has the wrong type or an impossible value, or the heads do not divide the
        width; the message names the field and the value.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    is_decoder: bool = False

    def __post_init__(self) -> None:
        """Refuses values that no model can be built with."""
        for field in _INTEGER_FIELDS:
            _require_positive_integer(field, getattr(self, field))
        for field in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            _require_number(field, getattr(self, field))
            if not 0 <= getattr(self, field) < 1:
                raise ValueError(f"{field} must be in [0, 1), but is {getattr(self, field)}")
        _require_number("initializer_range", self.initializer_range)
        if not 0 < self.initializer_range < float("inf"):
            raise ValueError(
                f"initializer_range must be positive and finite, but is {self.initializer_range}"
            )
        if not isinstance(self.is_decoder, bool):
            raise ValueError(f"is_decoder must be true or false, but is {_shown(self.is_decoder)}")
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"hidden_act must be one of {', '.join(ACTIVATIONS)}, but is "
                f"{_shown(self.hidden_act)}"
            )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by "
                f"num_attention_heads {self.num_attention_heads}"
            )

    @classmethod
    def from_json(cls, text: str) -> "BertConfig":
        """Reads the text of a `bert_config.json` or of a Hugging Face `config.json`.

        Fields that the text leaves out get their defaults. Unknown keys are ignored unless they
        ask for arithmetic that this package lacks, such as relative positions.

        Args:
          text: a JSON object.

        Returns:
          The configuration.

        Raises:
          ValueError: the text is not a JSON object, lacks `vocab_size`, asks for arithmetic that is
            not BERT's, or has a value that `BertConfig` refuses.
        """
        try:
            values = json.loads(text, object_pairs_hook=_object)
        except RecursionError:
            raise ValueError("the BERT configuration is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"the BERT configuration is not valid JSON ({error})") from error
        if not isinstance(values, dict):
            raise ValueError(
                f"the BERT configuration must be a JSON object, but is a {type(values).__name__}"
            )
        if "vocab_size" not in values:
            raise ValueError("the BERT configuration lacks vocab_size")
        for key, expected in _FIXED_BY_THE_PAPER.items():
            if values.get(key, expected) != expected:
                raise ValueError(
                    f"the BERT configuration has {key} {_shown(values[key])}, "
                    f"but this model only knows {expected!r}"
                )
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})

    def values(self) -> dict[str, Any]:
        """Returns the fields by name, without `is_decoder` where it is false.

        The original release does not know it.
        """
        values = dataclasses.asdict(self)
        if not self.is_decoder:
            del values["is_decoder"]
        return values

    def to_json(self) -> str:
        """Returns JSON text for `from_json`, in the original release's layout."""
        return json.dumps(self.values(), indent=2, sort_keys=True) + "\n"


_INTEGER_FIELDS = tuple(f.name for f in dataclasses.fields(BertConfig) if f.type is int)
# Greatest values, far above those of any published encoder. A model of more is a mistake, and would
# fill any memory.
_GREATEST = {
    "vocab_size": 10_000_000,
    "hidden_size": 32_768,
    "num_hidden_layers": 1_000,
    "num_attention_heads": 4_096,
    "intermediate_size": 262_144,
    "max_position_embeddings": 1_048_576,
    "type_vocab_size": 65_536,
}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(n for n in names if names.count(n) > 1)!r} twice")
    return value


def _shown(value: Any) -> str:
    """Returns a value of a file for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _require_positive_integer(field: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{field} must be a positive integer, but is {_shown(value)}")
    if value > _GREATEST[field]:
        raise ValueError(f"{field} must be at most {_GREATEST[field]:,}, but is {_shown(value)}")


def _require_number(field: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{field} must be a number, but is {_shown(value)}")


def _published(layers: int, width: int) -> dict[str, int]:
    # In every size a head has width 64 and the feed-forward layer width 4H (Turc et al. 2019,
    # arXiv:1908.08962, table 1, and Devlin et al. 2019, section 3).
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
    }


# The 24 sizes of Turc et al. 2019, by their names in the original release's README.
_PUBLISHED = {
    f"L-{layers}_H-{width}": _published(layers, width)
    for layers in (2, 4, 6, 8, 10, 12)
    for width in (128, 256, 512, 768)
}

# The same README has short names for five of them. BERT large is the paper's (Devlin et al. 2019,
# section 3).
_PRESETS = _PUBLISHED | {
    "tiny": _PUBLISHED["L-2_H-128"],
    "mini": _PUBLISHED["L-4_H-256"],
    "small": _PUBLISHED["L-4_H-512"],
    "medium": _PUBLISHED["L-8_H-512"],
    "base": _PUBLISHED["L-12_H-768"],
    "large": _published(24, 1024),
}

PRESETS = tuple(_PRESETS)


def preset(name: str, vocab_size: int = 30522) -> BertConfig:
    """Returns the configuration of a published size.

    Args:
      name: `"L-2_H-128"` to `"L-12_H-768"`, or tiny, mini, small, medium, base or large.
      vocab_size: number of word pieces (default: that of the uncased English vocabulary).

    Returns:
      The configuration.

    Raises:
      ValueError: no size has that name; the message lists the names.
    """
    if name not in _PRESETS:
        raise ValueError(f"unknown model size {name!r}; choose one of {', '.join(PRESETS)}")
    return BertConfig(vocab_size=vocab_size, **_PRESETS[name])
