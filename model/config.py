"""The shape of a BERT and the names of the published shapes.

`BertConfig` has the fields of the original release's `bert_config.json`, so a published file can be
read and a written one can be read by the original code and by its descendants. Nothing here imports
Keras: a data pipeline or a launcher may ask for a size without paying for a framework.
"""

import dataclasses
import json
from typing import Any

# "gelu" is the erf form of Hendrycks and Gimpel (arXiv:1606.08415, section 2), "gelu_new" its tanh
# approximation (same section); the other two are what `modeling.get_activation` also knows.
ACTIVATIONS = ("gelu", "gelu_new", "relu", "tanh")

# Keys of other writers of bert_config.json that change the arithmetic, with the only value that
# means the arithmetic of this package. Any other unknown key is a note to another program
# (directionality, pooler_*, architectures, transformers_version ...) and is ignored.
_FIXED_BY_THE_PAPER = {
    "model_type": "bert",
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """What decides the variables and the arithmetic of a BERT; `bert_config.json` as a type.

    Raises:
      ValueError: a field has the wrong type or an impossible value, or the heads do not divide the
        width; the message is one sentence naming the field and the value.
    """

    vocab_size: int
    # Number of word pieces; 30522 for the uncased English release (its bert_config.json).
    hidden_size: int = 768
    # Width H of the encoder; 768 is BERT base (Devlin et al. 2019, section 3).
    num_hidden_layers: int = 12
    # Number of layers L; 12 is BERT base (Devlin et al. 2019, section 3).
    num_attention_heads: int = 12
    # Number of heads A; 12 is BERT base (Devlin et al. 2019, section 3).
    intermediate_size: int = 3072
    # Width of the feed-forward layer, 4H (Devlin et al. 2019, section 3, footnote 3).
    hidden_act: str = "gelu"
    # Activation of the feed-forward layer and the masked-LM transform (Devlin et al. 2019, A.2).
    hidden_dropout_prob: float = 0.1
    # Probability of dropping an activation, "0.1 on all layers" (Devlin et al. 2019, A.2).
    attention_probs_dropout_prob: float = 0.1
    # Probability of dropping an attention weight (`BertConfig` in the original modeling.py).
    max_position_embeddings: int = 512
    # Longest sequence in tokens (Devlin et al. 2019, A.2).
    type_vocab_size: int = 2
    # Number of segments, sentence A and sentence B (every published bert_config.json).
    initializer_range: float = 0.02
    # Standard deviation of the truncated normal (`BertConfig` in the original modeling.py).

    def __post_init__(self) -> None:
        """Refuses what cannot be built."""
        for field in _INTEGER_FIELDS:
            _require_positive_integer(field, getattr(self, field))
        for field in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            _require_number(field, getattr(self, field))
            if not 0 <= getattr(self, field) < 1:
                raise ValueError(f"{field} must be in [0, 1), but is {getattr(self, field)}.")
        _require_number("initializer_range", self.initializer_range)
        if not 0 < self.initializer_range < float("inf"):
            raise ValueError(
                f"initializer_range must be positive and finite, but is {self.initializer_range}."
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"hidden_act must be one of {', '.join(ACTIVATIONS)}, but is {self.hidden_act!r}."
            )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by "
                f"num_attention_heads {self.num_attention_heads}."
            )

    @classmethod
    def from_json(cls, text: str) -> "BertConfig":
        """Reads the text of a `bert_config.json` or of a Hugging Face `config.json`.

        Fields that the text leaves out get their defaults. Unknown keys are ignored unless they
        ask for arithmetic that this package does not do, such as relative positions.

        Args:
          text: a JSON object.

        Returns:
          The configuration.

        Raises:
          ValueError: the text is not a JSON object, lacks `vocab_size`, asks for arithmetic that is
            not BERT's, or has a value that `BertConfig` refuses.
        """
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"The BERT configuration is not valid JSON: {error}.") from error
        if not isinstance(values, dict):
            raise ValueError(
                f"The BERT configuration must be a JSON object, but is a {type(values).__name__}."
            )
        if "vocab_size" not in values:
            raise ValueError("The BERT configuration lacks vocab_size.")
        for key, expected in _FIXED_BY_THE_PAPER.items():
            if values.get(key, expected) != expected:
                raise ValueError(
                    f"The BERT configuration has {key} {values[key]!r}, "
                    f"but this model only knows {expected!r}."
                )
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})

    def to_json(self) -> str:
        """Writes the JSON text that `from_json` reads, in the original release's layout."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"


_INTEGER_FIELDS = tuple(f.name for f in dataclasses.fields(BertConfig) if f.type is int)


def _require_positive_integer(field: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{field} must be a positive integer, but is {value!r}.")


def _require_number(field: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{field} must be a number, but is {value!r}.")


def _published(layers: int, width: int) -> dict[str, int]:
    # Heads of 64 and a feed-forward width of 4H in every size (Turc et al. 2019, arXiv:1908.08962,
    # table 1, and section 3 of Devlin et al. 2019).
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
    }


# The 24 sizes of Turc et al. 2019 as the original release's README names them.
_PUBLISHED = {
    f"L-{layers}_H-{width}": _published(layers, width)
    for layers in (2, 4, 6, 8, 10, 12)
    for width in (128, 256, 512, 768)
}

# Names of the same README for five of them, and BERT large (Devlin et al. 2019, section 3).
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
      vocab_size: number of word pieces; the default is the uncased English vocabulary's.

    Returns:
      The configuration.

    Raises:
      ValueError: no size has that name; the message lists the names.
    """
    if name not in _PRESETS:
        raise ValueError(f"Unknown model size {name!r}; choose one of {', '.join(PRESETS)}.")
    return BertConfig(vocab_size=vocab_size, **_PRESETS[name])
