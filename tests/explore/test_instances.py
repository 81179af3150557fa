"""Masks of a typed text, and pairs of typed documents."""

import numpy as np
import pytest

from beambert.explore.instances import (
    PAPER,
    SPANS,
    TOKENS,
    MaskingSettings,
    frame,
    make_pairs,
    mask_text,
    mean_counts,
)
from beambert.pipelines.pretraining.masks import TokenIds


@pytest.fixture(scope="module")
def ids(vocabulary):
    return TokenIds.of(vocabulary)


def test_a_text_is_framed_and_cut(ids):
    assert frame([7, 8], ids, 10).tolist() == [ids.classify, 7, 8, ids.separate]
    assert frame(list(range(7, 27)), ids, 5).tolist() == [ids.classify, 7, 8, 9, ids.separate]


def test_only_chosen_tokens_change(ids):
    framed = frame(list(range(40, 90)), ids, 64)
    masked = mask_text(framed, ids, PAPER)
    assert len(masked.positions) == round(0.15 * len(framed))
    others = np.delete(np.arange(len(framed)), masked.positions)
    assert (masked.shown[others] == framed[others]).all()
    assert not {0, len(framed) - 1} & set(masked.positions.tolist())
    assert len(masked.ways(ids)) == len(masked.positions)


@pytest.mark.parametrize("shares", [(0.8, 0.1), (0.0, 1.0), (1.0, 0.0), (0.3, 0.3), (0.5, 0.9)])
def test_the_mean_is_what_the_shares_say(ids, shares):
    """Random tokens of 100 or so are now and then the hidden one, which then stays the same."""
    framed = frame(list(range(40, 90)), ids, 64)
    settings = MaskingSettings(0.2, *shares, TOKENS, 3)
    mean = mean_counts(framed, ids, settings)
    chosen = round(0.2 * len(framed))
    assert sum(mean.values()) == pytest.approx(chosen)
    for way, share in settings.shares.items():
        assert mean[way] / chosen == pytest.approx(share, abs=0.03)


def test_spans_are_hidden_in_a_row(ids):
    framed = frame(list(range(40, 90)), ids, 64)
    lengths = []
    for seed in range(40):
        places = mask_text(framed, ids, MaskingSettings(0.2, 1.0, 0.0, SPANS, seed)).positions
        lengths += [len(run) for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)]
    # Tokens that are chosen alone would make runs of 1.25 in the mean.
    assert np.mean(lengths) > 2.5


def documents(count: int) -> list[list[list[int]]]:
    """Documents whose sentences have tokens that occur nowhere else."""
    number = iter(range(10, 10_000))
    random = np.random.default_rng(1)
    return [
        [[next(number) for _ in range(random.integers(2, 9))] for _ in range(random.integers(2, 9))]
        for _ in range(count)
    ]


@pytest.mark.parametrize("length", [12, 24, 64])
def test_segments_are_where_they_are_said_to_be(ids, length):
    texts = documents(12)
    pairs, counts = make_pairs(texts, ids, length, 0.1, seed=5)
    assert len(pairs) == counts.is_next + counts.random_next > 10
    for pair in pairs:
        for segment in (pair.a, pair.b):
            of = texts[segment.document][segment.first : segment.last + 1]
            tokens = [token for sentence in of for token in sentence]
            end = len(tokens) - segment.cut_back
            assert tuple(tokens[segment.cut_front : end]) == segment.ids
            assert segment.cut_front < len(of[0]) and segment.cut_back < len(of[-1])
        assert (pair.a.document == pair.b.document) == pair.is_next
        if pair.is_next:
            assert pair.b.first >= pair.a.last


def test_the_row_is_that_of_the_record(ids):
    texts = documents(3)
    pairs, _ = make_pairs(texts, ids, 40, 0.0, seed=1)
    a, b = pairs[0].a.ids, pairs[0].b.ids
    expected = [ids.classify, *a, ids.separate, *b, ids.separate]
    row = pairs[0].inputs
    assert row["input_ids"][0, : len(expected)].tolist() == expected
    assert row["input_mask"].sum() == len(expected)
    assert row["segment_ids"].sum() == len(b) + 1
