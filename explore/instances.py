"""Masks and sentence pairs of typed text, drawn by the functions of the data job. Pure."""

import dataclasses
from collections.abc import Sequence
from random import Random

import numpy as np

from beambert.pipelines.pretraining.masks import TokenIds, assemble_rows, mask_rows, with_frame
from beambert.pipelines.pretraining.pairs import Balance, PairCounts, build_pairs
from beambert.pipelines.records.contract import (
    IS_NEXT,
    MASK_SHARE,
    MASKED_LM_PROB,
    RANDOM_SHARE,
)

# Ways in which a chosen token is hidden.
AS_MASK, AS_OTHER, AS_SAME = "mask", "other", "same"
# Units in which tokens are chosen.
TOKENS, WORDS, SPANS = "tokens", "whole words", "spans of words"


@dataclasses.dataclass(frozen=True)
class MaskingSettings:
    """How the tokens of a text are chosen and hidden.

    Attributes:
      rate: share of the tokens to predict (`masked_lm_prob`; 0.15 in the paper).
      mask_share: share of the chosen tokens that become [MASK]; 0.8 in the paper.
      random_share: share of the chosen tokens that become a random token; 0.1 in the paper. The
        rest stays as it is.
      unit: unit in which they are chosen, `TOKENS`, `WORDS` or `SPANS`.
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
      positions: int32 [chosen], positions of the tokens to predict, ascending.
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


@dataclasses.dataclass(frozen=True)
class Pair:
    """A pair of segments.

    Attributes:
      a, b: ids of the segments.
      is_next: whether B follows A in its document.
      inputs: feature -> [1, max_seq_length], the row of the record before masking.
    """

    a: list[int]
    b: list[int]
    is_next: bool
    inputs: dict[str, np.ndarray]


def make_pairs(
    documents: Sequence[Sequence[Sequence[int]]],
    ids: TokenIds,
    max_seq_length: int,
    short_seq_prob: float,
    seed: int,
) -> tuple[list[Pair], PairCounts]:
    """Pairs the sentences of documents in one pass.

    Args:
      documents: the ids of each sentence of each document; sentences without ids are left out.
      ids: ids of the vocabulary.
      max_seq_length: tokens of a pair, [CLS] and both [SEP] included.
      short_seq_prob: share of the documents whose pairs have a random shorter target length.
      seed: seed of every draw.
    """
    documents = [
        [sentence for sentence in one_document if len(sentence)] for one_document in documents
    ]
    documents = [one_document for one_document in documents if one_document]
    lengths = [len(sentence) for one_document in documents for sentence in one_document]
    sentences = [len(one_document) for one_document in documents]
    if not lengths:
        return [], PairCounts()
    drawn, counts = build_pairs(
        lengths,
        sentences,
        max_seq_length=max_seq_length,
        short_seq_prob=short_seq_prob,
        balance=Balance(),
        random=Random(f"pairs {seed} 0 0"),
    )
    tokens = np.array(
        [index for one_document in documents for s in one_document for index in s], np.int32
    )
    rows = assemble_rows(with_frame(tokens, max_seq_length), drawn, max_seq_length, ids)

    pairs = [
        Pair(
            tokens[pair[0] : pair[1]].tolist(),
            tokens[pair[2] : pair[3]].tolist(),
            pair[4] == IS_NEXT,
            {name: rows[name][number : number + 1] for name in rows},
        )
        for number, pair in enumerate(drawn.tolist())
    ]
    return pairs, counts
