"""The names that transformers gives the variables of a generator of replaced token detection."""

import re

from beambert.model.checkpoint_names import hugging_face_name
from beambert.model.families.family import MASKED_LM
from beambert.model.families.table import FAMILIES

DEBERTA_TABLE = "deberta-v2/embeddings/word_embeddings"


def electra_name(path: str) -> tuple[str, bool] | None:
    """Returns a variable's name in ElectraForMaskedLM, which has the shared embeddings."""
    if path == "generator_predictions/output_bias":
        return "generator_lm_head.bias", False
    if not path.startswith(("generator", "bert/embeddings/", "electra/embeddings/")):
        return None
    name, is_transposed = hugging_face_name(path)
    return re.sub(r"^(bert|generator)\.", "electra.", name), is_transposed


def deberta_name(path: str) -> tuple[str, bool] | None:
    """Returns a variable's name in DebertaV2ForMaskedLM, which has the shared embeddings."""
    if not path.startswith("generator") and path != DEBERTA_TABLE:
        return None
    path = re.sub("^generator/", "deberta-v2/", path)
    path = re.sub("^generator_predictions/", "cls/predictions/", path)
    return FAMILIES["deberta-v2"].namer(MASKED_LM)(path)
