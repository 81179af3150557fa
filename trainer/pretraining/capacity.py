"""How many rows the tokens of a batch take without their padding."""

import math

from beambert.model.packing import Capacity
from beambert.trainer.pretraining.dealing import SEQUENCES_DEALT
from beambert.trainer.pretraining.records import Records

# Standard errors of that mean that there are rows for; a batch that needs more is computed padded.
STANDARD_ERRORS = 2
# That share the sequences that are dealt; with more of them more batches are computed padded.
HOSTS = 4
# Rows are a multiple of this: what a device multiplies at a time.
ROWS_MULTIPLE = 16
# Below this share of padding, leaving it out gains nothing.
LEAST_PADDING = 0.05


def capacity_for(records: Records, batch_size: int) -> Capacity | None:
    """Returns the rows for batches that `deal` made; None if there is too little padding.

    Args:
      records: whose info.json has the mean numbers of tokens and predictions.
      batch_size: sequences that are computed together.
    """
    counts = records.info.counts
    if not counts.get("instances"):
        return None
    tokens, predictions = (
        _rows(counts[name] / counts["instances"], most, batch_size)
        for name, most in (
            ("filled_tokens", records.max_seq_length),
            ("predictions", records.max_predictions_per_seq),
        )
    )
    if tokens > (1 - LEAST_PADDING) * batch_size * records.max_seq_length:
        return None
    return Capacity(tokens, min(predictions, batch_size * records.max_predictions_per_seq))


def _rows(mean: float, most: int, batch_size: int) -> int:
    # No distribution in [0, most] with this mean varies more (Bhatia and Davis 2000).
    deviation = math.sqrt(mean * (most - mean))
    mean += STANDARD_ERRORS * deviation / math.sqrt(max(SEQUENCES_DEALT / HOSTS, batch_size))
    return math.ceil(batch_size * mean / ROWS_MULTIPLE) * ROWS_MULTIPLE
