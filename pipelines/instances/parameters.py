"""The parameters that decide which instances are made of a document."""

import dataclasses
from typing import Any

from beambert.pipelines.records.contract import (
    COPY,
    MASK_PARAMETERS,
    MASKED_LM_PROB,
    NONE,
    SOP,
    STATIC,
)

# Values of --pairs, besides `NONE`, `SOP` and `COPY`.
NEXT, BALANCED, REFERENCE = "next", "balanced", "reference"
# Value of --pairs -> the one in info.json and in the marker. The default had another name once, and
# the folders from that time are still those of the same job.
RECORDED_PAIRS = {NEXT: BALANCED} | {name: name for name in (BALANCED, REFERENCE, NONE, SOP, COPY)}
# Values of --masks, besides `STATIC` and `NONE` -> the flag of the original, or of that form, which
# says the same and is recorded.
FLAGS_OF_MASKS = {"whole_word": "do_whole_word_mask", "span": "do_span_mask"}
MASKS = (STATIC, *FLAGS_OF_MASKS, NONE)
# Values of --random_next.
CORPUS, SOURCE = "corpus", "source"


@dataclasses.dataclass(frozen=True)
class InstanceParameters:
    """Parameters of the instances. Names and defaults are those of the original script's flags.

    Attributes:
      max_seq_length: tokens of a record, special tokens and padding included.
      max_predictions_per_seq: prediction slots of a record; 0 without masks.
      masked_lm_prob: share of the tokens to predict.
      short_seq_prob: share of the documents whose pairs aim at a shorter length; 0 without pairs.
      dupe_factor: number of passes over the documents, each with other pairs and masks.
      do_whole_word_mask: whether to hide all pieces of a word or none.
      do_span_mask: whether to hide spans of whole words.
      random_seed: seed of every draw.
      masks: "static", or "none" for records without masks, on which the parameters of masks have no
        effect.
      random_next: "corpus", or "source" to draw a random B from a document of A's own --input.
      pairs: "balanced"; "reference" for the original's distribution of pairs and masks; "none" for
        full sentences without pairs, see `packing`; "sop" for pairs in order and swapped ones;
        "copy" for pairs of a text and a noisy copy, see `copies`.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = MASKED_LM_PROB
    short_seq_prob: float = 0.1
    dupe_factor: int = 10
    do_whole_word_mask: bool = False
    do_span_mask: bool = False
    random_seed: int = 12345
    pairs: str = BALANCED
    random_next: str = CORPUS
    masks: str = STATIC

    def recorded(self) -> dict[str, Any]:
        """Returns name -> value for info.json, for what the records depend on."""
        left_out = {"masks"} if self.masks == STATIC else MASK_PARAMETERS
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if name not in left_out}
