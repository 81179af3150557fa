"""Masks of one text, as the data job draws them. Pure."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from beambert.pipelines.instances.masking import TokenIds, mask_rows
from beambert.pipelines.records.contract import MASK_SHARE, MASKED_LM_PROB, RANDOM_SHARE

# Number of draws whose mean is shown beside the expectation.
DRAWS = 1000
# Ways in which a chosen token is hidden.
AS_MASK, AS_OTHER, AS_SAME = "mask", "other", "same"
# What is chosen at a time.
TOKENS, WORDS, SPANS = "tokens", "whole words", "spans of words"


@dataclasses.dataclass(frozen=True)
class MaskingSettings:
    """How the tokens of a text are chosen and hidden.

    Attributes:
      rate: share of the tokens to predict (`masked_lm_prob`; 0.15 in the paper).
      mask_share: share of the chosen tokens that become [MASK]; 0.8 in the paper.
      random_share: share of the chosen tokens that become a random token; 0.1 in the paper. The
        rest stays as it is.
      unit: what is chosen at a time, `TOKENS`, `WORDS` or `SPANS`.
      seed: seed of every draw.
    """

    rate: float
    mask_share: float
    random_share: float
    unit: str
    seed: int

    @property
    def shares(self) -> dict[str, float]:
        """The share of the chosen tokens for each way of hiding them; their sum is 1."""
        random = min(self.random_share, 1 - self.mask_share)
        return {AS_MASK: self.mask_share, AS_OTHER: random, AS_SAME: 1 - self.mask_share - random}


# Paper, section 3.1, task 1.
PAPER = MaskingSettings(MASKED_LM_PROB, MASK_SHARE, RANDOM_SHARE, TOKENS, 1)


@dataclasses.dataclass(frozen=True)
class Masked:
    """A text before and after masking.

    Attributes:
      ids: int32 [tokens], the text with [CLS] and [SEP].
      shown: int32 [tokens], the text with masks.
      positions: int32 [chosen], places of the tokens to predict, ascending.
    """

    ids: np.ndarray
    shown: np.ndarray
    positions: np.ndarray

    def ways(self, ids: TokenIds) -> list[str]:
        """Returns how each chosen token is hidden."""
        return _ways(self.ids[self.positions], self.shown[self.positions], ids)


def frame(tokens: Sequence[int], ids: TokenIds, most: int) -> np.ndarray:
    """Returns [CLS] tokens [SEP], int32 with at most `most` ids."""
    return np.array([ids.classify, *tokens[: most - 2], ids.separate], np.int32)


def mask_text(framed: np.ndarray, ids: TokenIds, settings: MaskingSettings) -> Masked:
    """Masks a text once.

    Args:
      framed: int32 [tokens], see `frame`.
      ids: ids of the vocabulary.
      settings: how the tokens are chosen and hidden.
    """
    rows = _masked(framed[None], ids, settings)
    used = rows["masked_lm_weights"][0] > 0
    return Masked(framed, rows["input_ids"][0], rows["masked_lm_positions"][0][used])


def mean_counts(framed: np.ndarray, ids: TokenIds, settings: MaskingSettings) -> dict[str, float]:
    """Returns way -> mean number of tokens that are hidden so in `DRAWS` draws."""
    rows = _masked(np.repeat(framed[None], DRAWS, axis=0), ids, settings)
    row, slot = np.nonzero(rows["masked_lm_weights"])
    place = rows["masked_lm_positions"][row, slot]
    ways = _ways(rows["masked_lm_ids"][row, slot], rows["input_ids"][row, place], ids)
    return {way: ways.count(way) / DRAWS for way in settings.shares}


def _masked(ids_NL: np.ndarray, ids: TokenIds, settings: MaskingSettings) -> dict[str, np.ndarray]:
    return mask_rows(
        ids_NL,
        np.ones(ids_NL.shape, np.uint8),
        max_predictions_per_seq=ids_NL.shape[1],
        masked_lm_prob=settings.rate,
        do_whole_word_mask=settings.unit == WORDS,
        do_span_mask=settings.unit == SPANS,
        ids=ids,
        random=np.random.Generator(np.random.PCG64([settings.seed, 0])),
        mask_share=settings.mask_share,
        random_share=settings.random_share,
    )


def _ways(labels: np.ndarray, shown: np.ndarray, ids: TokenIds) -> list[str]:
    ways = np.where(shown == labels, AS_SAME, np.where(shown == ids.mask, AS_MASK, AS_OTHER))
    return ways.tolist()
