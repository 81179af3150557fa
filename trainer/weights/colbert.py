"""The settings of a late interaction as checkpoints of the ColBERT project have them.

See https://github.com/stanford-futuredata/ColBERT, `colbert/infra/config/settings.py`. The weights
beside them are those of the encoder, and `linear.weight`.
"""

from typing import Any

from beambert.model.sentence_encoder import DIMENSIONS
from beambert.pipelines.model_inputs.interaction import Markers
from beambert.trainer.model_folders import ModelFolder

COLBERT_FILE = "artifact.metadata"


def colbert_settings(found: ModelFolder) -> dict[str, Any]:
    """Returns the settings of a model of late interaction."""
    markers = Markers.of(found.vocabulary)
    return {
        "dim": DIMENSIONS,
        "query_maxlen": found.training["query_length"],
        "doc_maxlen": found.training["max_seq_length"],
        "query_token_id": found.vocabulary.tokens[markers.query],
        "doc_token_id": found.vocabulary.tokens[markers.document],
        "query_token": "[Q]",
        "doc_token": "[D]",
        "similarity": "cosine",
        "mask_punctuation": True,
        "attend_to_mask_tokens": False,
    }
