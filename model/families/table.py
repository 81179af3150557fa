"""The table of the families, and the reading of their configurations."""

from beambert.model.config import EncoderConfig, parse_config, shown
from beambert.model.families.debertav2 import DebertaV2
from beambert.model.families.descendants import Albert, DistilBert, Electra, Roberta
from beambert.model.families.family import Family
from beambert.model.families.modernbert import ModernBert

# Name of a family, `model_type` in configuration files -> its description.
FAMILIES: dict[str, Family] = {
    "bert": Family(),
    "roberta": Roberta(),
    "distilbert": DistilBert(),
    "albert": Albert(),
    "electra": Electra(),
    "modernbert": ModernBert(),
    "deberta-v2": DebertaV2(),
}


def family_of(config: EncoderConfig) -> Family:
    """Returns the family of a configuration."""
    return FAMILIES[config.family]


def read_config(text: str) -> EncoderConfig:
    """Reads the content of a configuration file of any family, which its `model_type` names.

    A `bert_config.json` of the original release names none, and is BERT's.

    Raises:
      ValueError: the family is unknown, or `EncoderConfig.from_values` refuses the content.
    """
    values = parse_config(text)
    name = values.get("model_type", "bert")
    if not isinstance(name, str) or name not in FAMILIES:
        raise ValueError(
            f"its model_type {shown(name)} is not a family of encoders here; they are "
            f"{', '.join(FAMILIES)}"
        )
    try:
        return FAMILIES[name].config.from_values(values)
    except ValueError as error:
        if "model_type" in values:
            raise
        raise ValueError(f"{error} (without a model_type it counts as a BERT)") from error
