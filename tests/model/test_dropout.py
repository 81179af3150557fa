"""Dropout without state: reproducible, independent between sites and seeds, unbiased."""

import numpy as np
import pytest
import tensorflow as tf

from beambert.model.classifier import BertClassifier
from beambert.model.config import BertConfig
from beambert.model.layers import dropout
from beambert.trainer.loop.strategy import has_xla

SIZE = 1 << 18
# Every statistic below is compared with 5 standard deviations, which an honest mask exceeds once in
# 1.7 million draws; the seeds are fixed, so the tests cannot flicker.
SIGMAS = 5.0


def mask(seed, site, rate=0.1, shape=(SIZE,)) -> np.ndarray:
    """Returns 1 for dropped elements and 0 for kept ones."""
    return (dropout(tf.ones(shape), rate, tf.constant(seed), site).numpy() == 0).astype("float64")


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.013])
@pytest.mark.parametrize("seed", [(0, 0), (1, 0), (0, 1), (-7, 2**31 - 1)])
def test_rate_is_within_its_binomial_bound(rate, seed):
    sigma = np.sqrt(rate * (1 - rate) / SIZE)
    assert abs(mask(seed, 3, rate).mean() - rate) < SIGMAS * sigma


def test_runs_and_rows_are_independent():
    dropped = mask((5, 6), 1) - 0.1
    sigma = 0.1 * 0.9 / np.sqrt(SIZE)
    for lag in (1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 512, 768, 4096, 1 << 14, 1 << 16):
        assert abs(np.mean(dropped[lag:] * dropped[:-lag])) < SIGMAS * sigma * 1.2, lag


@pytest.mark.parametrize(
    "other", [((5, 6), 2), ((5, 7), 1), ((6, 6), 1), ((6, 5), 1), ((5 + 2**31 - 8, 6), 1)]
)
def test_masks_of_other_sites_and_seeds_are_uncorrelated(other):
    first, second = mask((5, 6), 1) - 0.1, mask(*other) - 0.1
    assert abs(np.mean(first * second)) < SIGMAS * 0.1 * 0.9 / np.sqrt(SIZE)


def test_counts_in_blocks_spread_like_a_binomial():
    blocks = mask((8, 9), 4).reshape(-1, 64).sum(axis=1)
    expected = 64 * 0.1 * 0.9
    # The variance of a sample variance of n near-normal values is 2 / n of its square.
    assert abs(blocks.var() / expected - 1) < SIGMAS * np.sqrt(2 / len(blocks))


def test_expectation_is_preserved():
    x = tf.fill((SIZE,), 3.0)
    kept = dropout(x, 0.1, tf.constant([1, 2]), 0).numpy()
    assert set(np.unique(kept)) == {np.float32(0), np.float32(3.0) * np.float32(1 / 0.9)}
    assert abs(kept.mean() - 3.0) < SIGMAS * 3.0 * np.sqrt(0.1 / 0.9 / SIZE)


@pytest.mark.slow
@pytest.mark.parametrize("integers", ["int32", "int64"])
def test_same_mask_eagerly_in_a_graph_and_compiled(integers):
    seed = tf.constant([3, 4], integers)
    expected = mask((3, 4), 5, shape=(64, 33))

    def run(seed):
        return dropout(tf.ones((64, 33)), 0.1, seed, 5)

    for jit_compile in (False, True)[: 1 + has_xla()]:
        compiled = tf.function(run, jit_compile=jit_compile)(seed)
        np.testing.assert_array_equal(compiled.numpy() == 0, expected)


def test_gradient_uses_the_same_mask():
    x = tf.ones((1000,))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropout(x, 0.1, tf.constant([3, 4]), 5)
    np.testing.assert_array_equal(tape.gradient(y, x), y)


@pytest.fixture(scope="module")
def classifier() -> BertClassifier:
    return BertClassifier(BertConfig(50, 16, 2, 2, 32), num_labels=3)


@pytest.mark.slow
def test_model_is_a_function_of_the_seed(classifier):
    features = {
        "input_ids": np.arange(12).reshape(2, 6),
        "input_mask": np.ones((2, 6), "int64"),
        "segment_ids": np.zeros((2, 6), "int64"),
    }
    still = classifier(features)
    np.testing.assert_array_equal(still, classifier(features))
    seeded = classifier(features, dropout_seed=tf.constant([1, 2]))
    np.testing.assert_array_equal(seeded, classifier(features, dropout_seed=tf.constant([1, 2])))
    for other in ([1, 3], [2, 2], [2, 1]):
        logits = classifier(features, dropout_seed=tf.constant(other))
        assert np.abs(logits - seeded).max() > 1e-3
    assert np.abs(seeded - still).max() > 1e-3
    assert not classifier.non_trainable_variables


def test_every_site_of_a_model_has_a_number_of_its_own(classifier, monkeypatch):
    sites = []

    def record(x, rate, seed, site):
        sites.append((site, rate))
        return x

    monkeypatch.setattr("beambert.model.layers.dropout", record)
    monkeypatch.setattr("beambert.model.classifier.dropout", record)
    ids = np.zeros((1, 4), "int64")
    features = {"input_ids": ids, "input_mask": ids + 1, "segment_ids": ids}
    classifier(features, dropout_seed=tf.constant([1, 2]))
    assert [site for site, _ in sites] == list(range(8))
    assert {rate for _, rate in sites} == {0.1}
