"""Compiled loops draw as Python's random.Random does, and compute what the plain Python does."""

import contextlib
import random
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from support.pair_corpora import corpora, exact

from beambert.pipelines.pretraining import kernels, pairs
from beambert.pipelines.records import counting, encoding


def test_draws_are_those_of_random():
    state, reference = pairs.random_state("pairs 12345 3 0"), random.Random("pairs 12345 3 0")
    for turn in range(2000):
        bits = turn % 140
        assert kernels.draw(state) == reference.random()
        assert kernels.draw_below(state, 1 + turn) == int(reference.random() * (1 + turn))
        assert kernels.draw_heads(state, bits) == (bits and reference.getrandbits(bits).bit_count())


@contextlib.contextmanager
def plain(module):
    """Replaces the compiled functions of a module by the plain ones."""
    functions = {n: f.py_func for n, f in vars(module).items() if hasattr(f, "py_func")}
    with mock.patch.multiple(module, **functions):
        yield


@pytest.mark.parametrize("kind", ["next", "reference", "sop", "copy"])
def test_pairs_of_the_plain_functions(kind):
    def build(corpus):
        lengths = [length for document in corpus for length in document]
        sentences = [len(document) for document in corpus]
        same = {"max_seq_length": 24, "short_seq_prob": 0.3, "seed": 5}
        if kind == "copy":
            rows, counts = pairs.build_copies(lengths, sentences, **same)
            return rows.tolist(), counts
        balance = None if kind == "reference" else pairs.Balance()
        same |= {"balance": balance, "swaps": kind == "sop"}
        rows, counts = pairs.build_pairs(lengths, sentences, **same)
        return rows.tolist(), counts, balance

    @exact
    @given(corpora)
    def check(corpus):
        compiled = build(corpus)
        with plain(kernels):
            assert build(corpus) == compiled

    check()


def test_rows_of_the_plain_functions():
    draw = np.random.default_rng(0)
    rows, length, slots = 30, 40, 7
    keys = draw.permutation(rows * length).astype(np.uint32).reshape(rows, length) * 1_000_003
    fixed, starts = draw.random((2, rows, length)) < 0.3
    wanted = np.minimum(draw.integers(0, slots + 1, rows), (~fixed).sum(axis=1))
    ids = draw.integers(0, 30_000, (rows, length), np.int32)
    rolls = draw.random((rows, slots), np.float32)
    tokens = kernels.choose_tokens(keys, fixed, wanted, slots)
    words = kernels.choose_words(keys, starts, fixed, wanted, slots)
    shares = (np.float32(0.8), np.float32(0.9))
    hidden = kernels.hide(ids, tokens, rolls, ids, 4, *shares, slots + 1)
    for row in range(rows):
        free = np.flatnonzero(~fixed[row])
        smallest = sorted(free[np.argsort(keys[row, free])][: wanted[row]])
        assert tokens[row].tolist() == smallest + [length] * (slots - wanted[row])
    with plain(kernels):
        assert np.array_equal(kernels.choose_words(keys, starts, fixed, wanted, slots), words)
        again = kernels.hide(ids, tokens, rolls, ids, 4, *shares, slots + 1)
    assert all(map(np.array_equal, hidden, again))


def test_records_of_the_plain_functions():
    draw = np.random.default_rng(1)
    rows = {
        "a": draw.integers(0, 1 << 28, (20, 9)).astype(np.int32),
        "b": draw.integers(0, 2, (20, 200)).astype(np.uint8),
        "c": draw.random((20, 3), np.float32),
    }
    examples = encoding.encode_examples(rows)
    with plain(encoding):
        assert np.array_equal(encoding.encode_examples(rows), examples)


@pytest.mark.parametrize("label", [True, False])
def test_counts_of_the_plain_functions(label):
    """Rows at random, so that every kind of fault occurs."""
    draw = np.random.default_rng(2)
    features = [draw.integers(-1, 9, (99, 6), np.int32), *draw.integers(0, 2, (2, 99, 6))]
    features += [*draw.integers(-1, 7, (2, 99, 3)), draw.integers(0, 2, (99, 3)).astype(np.float32)]
    features.append(draw.integers(0, 3, (99, 1))[:, : int(label)])
    found = []
    for count in (counting.count_rows, counting.count_rows.py_func):
        histograms = tuple(np.zeros(size, np.int64) for size in (7, 4, 7, 7, 6))
        result = count(*features, (0, 1, 2, 3, 4), np.arange(8) < 5, histograms)
        found.append([each.tolist() for each in (*result, *histograms)])
    assert found[0] == found[1]
    assert all(found[0][1][:11])
