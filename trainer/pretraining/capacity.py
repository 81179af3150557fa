"""The number of rows that the tokens of a batch take without padding, and their cost."""

import math

from beambert.model.unpadding import Capacity
from beambert.trainer.pretraining.dealing import SEQUENCES_DEALT
from beambert.trainer.pretraining.masks import MaskingRules, own_rates
from beambert.trainer.pretraining.records import Records

# There are rows for the mean number of tokens plus so many standard errors. A batch that needs more
# rows is computed with its padding.
STANDARD_ERRORS = 2
# So many hosts may share the sequences that are dealt together. With more hosts, more batches need
# more rows than there are.
HOSTS = 4
# The number of rows is a multiple of this, since devices multiply blocks of rows.
ROWS_MULTIPLE = 16
# With a smaller share of padding, leaving it out gains nothing.
LEAST_PADDING = 0.05


def capacity_for(
    records: Records, batch_size: int, rules: MaskingRules | None = None
) -> Capacity | None:
    """Returns the numbers of rows for batches that `deal` made; None if there is little padding.

    Args:
      records: records; their info.json has the mean numbers of tokens and predictions.
      batch_size: number of sequences that are computed together.
      rules: rules by which masks are drawn; None for those of the records.
    """
    counts = records.info.counts
    if not counts.get("instances"):
        return None
    slots = rules.slots if rules else records.max_predictions_per_seq
    filled = counts["filled_tokens"] / counts["instances"]
    if rules is None or (records.info.has_masks and rules.rates == own_rates(records)):
        chosen = counts["predictions"] / counts["instances"]
    else:
        chosen = max(1, max(rules.rates) * filled)
    tokens = _rows(filled, records.max_seq_length, batch_size)
    predictions = _rows(min(chosen, slots), slots, batch_size)
    if tokens > (1 - LEAST_PADDING) * batch_size * records.max_seq_length:
        return None
    return Capacity(tokens, min(predictions, batch_size * slots))


def _rows(mean: float, most: int, batch_size: int) -> int:
    # A distribution in [0, most] with this mean has at most this deviation (Bhatia and Davis 2000).
    deviation = math.sqrt(mean * (most - mean))
    mean += STANDARD_ERRORS * deviation / math.sqrt(max(SEQUENCES_DEALT / HOSTS, batch_size))
    return math.ceil(batch_size * mean / ROWS_MULTIPLE) * ROWS_MULTIPLE
