"""Relative scores against their definition, with the buckets that transformers computes."""

import numpy as np
import pytest
import tensorflow as tf

from beambert.model import deberta
from beambert.model.config import preset
from beambert.model.deberta import Distances, bucket_of, relative_scores
from beambert.model.families.debertav2 import DebertaV2Config
from beambert.model.flops import forward_flops

# make_log_bucket_position of transformers 5.23, for 256 buckets and 512 positions.
BUCKETS = {1: 1, 128: 128, 129: 129, 130: 130, 200: 169, 201: 170, 300: 207, 510: 255, 511: 255}


def test_buckets_are_those_of_transformers():
    for distance, bucket in BUCKETS.items():
        assert bucket_of(np.array([distance, -distance]), 256, 512).tolist() == [bucket, -bucket]
    # Of 8 buckets and 14 positions.
    found = bucket_of(np.arange(14), 8, 14).tolist()
    assert found == [0, 1, 2, 3, 4, 5, 6, 6, 6, 7, 7, 7, 7, 7]


def arrays(length: int, rows: int):
    random = np.random.default_rng(1)
    contents = random.standard_normal((2, 2, 3, length, 4)).astype(np.float32)
    return (*contents, *random.standard_normal((2, rows, 12)).astype(np.float32))


@pytest.mark.parametrize("block", [128, 4])
@pytest.mark.parametrize(
    ("length", "buckets", "positions"), [(1, 4, 9), (2, 2, 9), (9, 4, 9), (6, 8, 7), (23, 6, 31)]
)
def test_each_score_is_the_sum_of_two_products(length, buckets, positions, block, monkeypatch):
    monkeypatch.setattr(deberta, "BLOCK", block)
    distances = Distances.of(length, buckets, positions)
    query, key, query_of, key_of = arrays(length, distances.end - distances.first)
    found = relative_scores(*(tf.constant(x) for x in (query, key, query_of, key_of)), distances)
    query_of, key_of = (x.reshape(-1, 3, 4) for x in (query_of, key_of))
    for i in range(length):
        for j in range(length):
            bucket = bucket_of(np.array([i - j]), buckets, positions)[0]
            row = np.clip(bucket + buckets, 0, 2 * buckets - 1) - distances.first
            expected = (query[:, :, i] * key_of[row] + key[:, :, j] * query_of[row]).sum(-1)
            np.testing.assert_allclose(found[:, :, i, j], expected, atol=1e-5)


def test_a_step_counts_the_products_with_distances():
    """A token of 128 is also multiplied with 256 distances, twice; of 300 there are blocks."""
    sizes = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2}
    deberta = DebertaV2Config(30522, **sizes, intermediate_size=512)
    more = forward_flops(deberta, 3, 128, 20) - forward_flops(preset("tiny"), 3, 128, 20)
    assert more == 2 * 2 * 3 * 128 * (2 * 256) * 128
    more = forward_flops(deberta, 3, 300, 20) - forward_flops(preset("tiny"), 3, 300, 20)
    blocks = 128 * (300 + 128) + 128 * (300 + 128) + 44 * (300 + 44)
    assert more == pytest.approx(2 * 2 * 3 * (2 * blocks) * 128)
