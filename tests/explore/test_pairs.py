"""The pairs of typed documents and what is told of their origin."""

import numpy as np
import pytest

from beambert.explore.instances import make_pairs
from beambert.pipelines.pretraining.masks import TokenIds


@pytest.fixture(scope="module")
def ids(vocabulary):
    return TokenIds.of(vocabulary)


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


def test_nothing_gives_no_pairs(ids):
    assert make_pairs([], ids, 40, 0.0, seed=1)[0] == []
    assert make_pairs([[[]], [[], []]], ids, 40, 0.0, seed=1)[0] == []
    assert make_pairs([[[1, 2]]], ids, 40, 0.0, seed=1)[0] == []  # there is no other document
