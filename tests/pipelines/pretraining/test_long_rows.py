"""Rows of up to 8,192 tokens: masks at every position alike, and few rows at a time."""

import numpy as np
import pytest

from beambert.pipelines.pretraining.masks import TokenIds, mask_rows, position_bits
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = [f"w{i}" for i in range(40)] + [f"##p{i}" for i in range(20)]
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))
IDS = TokenIds.of(VOCABULARY)
ROWS = 24


@pytest.mark.parametrize("length", [128, 4095, 4096, 8191, 8192])
def test_a_key_holds_every_position(length):
    """And a key of a position is never that of a token that may not be chosen."""
    assert 0 <= length - 1 < int(position_bits(length))
    # Rows that fit into 12 bits are masked as they always were.
    assert length > 4095 or position_bits(length) == 4095


def rows_of(length: int, seed: int = 0):
    ids = np.random.default_rng(seed).integers(5, len(VOCABULARY), (ROWS, length), np.int32)
    ids[:, 0], ids[:, -1] = IDS.classify, IDS.separate
    ids[::2, length // 2] = IDS.separate
    return ids, np.ones(ids.shape, np.uint8)


@pytest.mark.parametrize("length", [4096, 8192])
@pytest.mark.parametrize("kind", ["tokens", "words", "spans"])
def test_masks_of_long_rows(length, kind):
    ids, mask = rows_of(length)
    most = round(length * 0.15)
    masked = mask_rows(
        ids,
        mask,
        max_predictions_per_seq=most,
        masked_lm_prob=0.15,
        do_whole_word_mask=kind == "words",
        do_span_mask=kind == "spans",
        ids=IDS,
        random=np.random.Generator(np.random.PCG64(1)),
    )
    positions, labels = masked["masked_lm_positions"], masked["masked_lm_ids"]
    assert (masked["masked_lm_weights"].sum(axis=1) == most).all()
    assert (np.diff(positions, axis=1) > 0).all() and positions.max() < length
    assert np.array_equal(np.take_along_axis(ids, positions, axis=1), labels)
    restored = masked["input_ids"].copy()
    np.put_along_axis(restored, positions, labels, axis=1)
    assert np.array_equal(restored, ids) and (labels > 4).all()
    # Each eighth of the row has its share: 12.5 % of the predictions, within five deviations.
    eighths = np.bincount(positions.ravel() * 8 // length, minlength=8)
    alike = {"tokens": 1, "words": 1.5, "spans": 6}[kind]
    deviation = (positions.size / 8 * 7 / 8 * alike) ** 0.5
    assert np.abs(eighths - positions.size / 8).max() < 5 * deviation
    if kind == "words":
        is_chosen = np.zeros(ids.shape, bool)
        np.put_along_axis(is_chosen, positions, True, axis=1)
        continues = IDS.is_continuation[ids]
        continues[:, 1:] &= ids[:, :-1] != IDS.separate
        continues[:, :2] = False
        assert (is_chosen[:, 1:] == is_chosen[:, :-1])[continues[:, 1:]].all()
