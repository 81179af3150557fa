"""Spans: beside a walk token by token, and the figures of SpanBERT's section 3.1."""

import numpy as np
import pytest

from beambert.pipelines.pretraining.masks import (
    TokenIds,
    choose_spans,
    draw_lengths,
    mask_rows,
    span_shares,
)
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

PIECES = [f"w{i}" for i in range(60)] + [f"##p{i}" for i in range(30)]
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *PIECES))
IDS = TokenIds.of(VOCABULARY)
FIRST = VOCABULARY.id_of("w0")


def rows_of(count, length, seed, unknown_share=0.05):
    """Rows [CLS] A [SEP] B [SEP] of random pieces, some of them [UNK], and their masks."""
    random = np.random.default_rng(seed)
    ids = random.integers(FIRST, FIRST + len(PIECES), (count, length)).astype(np.int32)
    ids[random.random(ids.shape) < unknown_share] = IDS.unknown
    used = np.arange(length) < random.integers(6, length + 1, count)[:, None]
    last = used.sum(axis=1) - 1
    ids[:, 0] = IDS.classify
    ids[np.arange(count), random.integers(2, last - 1)] = IDS.separate
    ids[np.arange(count), last] = IDS.separate
    return np.where(used, ids, IDS.padding), used.astype(np.uint8)


def walk(order, is_start, is_fixed, wanted, lengths):
    """The positions of each span of one row, as section 3.1 says it, token by token."""
    chosen, spans, lengths = set(), [], iter(lengths)
    for anchor in order:
        if len(chosen) == wanted:
            break
        if is_fixed[anchor] or anchor in chosen:
            continue
        place = anchor
        while not is_start[place] and not is_fixed[place - 1]:
            place -= 1
        spans.append([])
        words = next(lengths)
        while len(chosen) < wanted and place < len(is_fixed) and not is_fixed[place]:
            if place not in chosen:
                chosen.add(place)
                spans[-1].append(place)
            place += 1
            if place == len(is_fixed) or is_start[place] or is_fixed[place]:
                words -= 1
                if not words:
                    break
    return spans


@pytest.mark.parametrize("share", [0.02, 0.15, 0.6])
def test_beside_a_walk(share):
    ids, used = rows_of(120, 48, seed=3)
    random = np.random.Generator(np.random.PCG64(7))
    key = random.permuted(np.tile(np.arange(48, dtype=np.uint32), (120, 1)), axis=1)
    is_start, is_fixed = ~IDS.is_continuation[ids], IDS.is_fixed[ids]
    wanted = np.minimum(np.clip(used.sum(axis=1) * share, 1, 24), (~is_fixed).sum(axis=1))
    wanted, lengths = wanted.astype(int), draw_lengths(120, 24, random)
    positions, numbers = choose_spans(key, is_start, is_fixed, wanted, lengths)
    for row in range(120):
        expected = walk(
            np.argsort(key[row]).tolist(), is_start[row], is_fixed[row], wanted[row], lengths[row]
        )
        places = sorted((place, number) for number, each in enumerate(expected) for place in each)
        assert positions[row, : wanted[row]].tolist() == [place for place, _ in places]
        assert numbers[row, : wanted[row]].tolist() == [number for _, number in places]
        assert (positions[row, wanted[row] :] == 48).all()


def test_lengths_are_those_of_the_paper():
    lengths = draw_lengths(2000, 100, np.random.Generator(np.random.PCG64(1)))
    assert lengths.min() == 1 and lengths.max() == 10
    assert span_shares() @ np.arange(1, 11) == pytest.approx(3.8, abs=0.005)
    assert lengths.mean() == pytest.approx(3.8, abs=0.03)
    # Geometric: each length is 0.8 times as frequent as the one before.
    counts = np.bincount(lengths.ravel())[1:]
    assert counts[1:] / counts[:-1] == pytest.approx(np.full(9, 0.8), abs=0.03)


@pytest.fixture(scope="module")
def masked():
    ids, used = rows_of(4000, 128, seed=5)
    found = mask_rows(
        ids,
        used,
        max_predictions_per_seq=20,
        masked_lm_prob=0.15,
        do_whole_word_mask=False,
        do_span_mask=True,
        ids=IDS,
        random=np.random.Generator(np.random.PCG64(1)),
    )
    return ids, used, found


def test_a_share_of_the_tokens_is_predicted(masked):
    ids, used, found = masked
    expected = np.clip(np.rint(used.sum(axis=1) * 0.15), 1, 20)
    expected = np.minimum(expected, (~IDS.is_fixed[ids]).sum(axis=1))
    assert (found["masked_lm_weights"].sum(axis=1) == expected).all()
    row, slot = np.nonzero(found["masked_lm_weights"])
    place = found["masked_lm_positions"][row, slot]
    assert (found["masked_lm_ids"][row, slot] == ids[row, place]).all()
    assert not IDS.is_fixed[ids[row, place]].any()
    assert (np.diff(place)[np.diff(row) == 0] > 0).all()


def test_a_span_is_hidden_alike_and_80_10_10_of_the_spans(masked):
    """Neighbours are hidden alike, but where one span ends and the next begins."""
    ids, _, found = masked
    row, slot = np.nonzero(found["masked_lm_weights"])
    place = found["masked_lm_positions"][row, slot]
    shown = found["input_ids"][row, place]
    way = np.where(shown == IDS.mask, 0, np.where(shown == ids[row, place], 2, 1))
    shares = np.bincount(way) / len(way)
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
    is_next = (np.diff(row) == 0) & (np.diff(place) == 1)
    # If tokens were drawn alone, 0.8² + 2 · 0.1² = 66 % of the neighbours would be hidden alike.
    assert (way[1:] == way[:-1])[is_next].mean() > 0.9


def test_a_row_that_has_nothing_to_predict():
    ids = np.array([[IDS.classify, IDS.unknown, IDS.separate, IDS.unknown, IDS.separate]], np.int32)
    is_fixed = IDS.is_fixed[ids]
    key = np.arange(5, dtype=np.uint32)[None]
    positions, numbers = choose_spans(key, ~is_fixed, is_fixed, np.array([0]), np.array([[3, 2]]))
    assert positions.tolist() == [[5, 5]] and numbers.shape == (1, 2)
