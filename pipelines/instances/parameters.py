"""What decides how a document becomes instances."""

import dataclasses

# Values of --pairs.
BALANCED, REFERENCE = "balanced", "reference"


@dataclasses.dataclass(frozen=True)
class InstanceParameters:
    """What shapes instances; the names and defaults are the original script's flags.

    Attributes:
      max_seq_length: tokens of a record.
      max_predictions_per_seq: slots for predictions of a record.
      masked_lm_prob: share of tokens to predict.
      short_seq_prob: how often a document's pairs aim at a shorter length.
      dupe_factor: passes over the documents, each with other pairs and masks.
      do_whole_word_mask: hide all pieces of a word or none.
      random_seed: seeds every draw.
      pairs: "balanced", or "reference" for the original's distribution of pairs and masks.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    dupe_factor: int = 10
    do_whole_word_mask: bool = False
    random_seed: int = 12345
    pairs: str = BALANCED
