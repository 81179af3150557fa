"""Masks of a typed text, and pairs of typed documents."""

import numpy as np
import pytest

from beambert.explore.instances import (
    PAPER,
    SPANS,
    MaskingSettings,
    frame,
    make_pairs,
    mask_text,
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


def test_the_row_is_that_of_the_record(ids):
    texts = documents(3)
    pairs, counts = make_pairs(texts, ids, 40, 0.0, seed=1)
    assert len(pairs) == counts.is_next + counts.random_next
    a, b = pairs[0].a, pairs[0].b
    expected = [ids.classify, *a, ids.separate, *b, ids.separate]
    row = pairs[0].inputs
    assert row["input_ids"][0, : len(expected)].tolist() == expected
    assert row["input_mask"].sum() == len(expected)
    assert row["segment_ids"].sum() == len(b) + 1
