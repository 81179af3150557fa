"""Local attention and rotary positions against their definitions, written out with numpy."""

import numpy as np
import pytest
import tensorflow as tf

from beambert.model import attention
from beambert.model.attention import attend_locally, rotated
from beambert.model.families import modernbert
from beambert.model.families.modernbert import ModernBertConfig
from beambert.model.flops import forward_flops
from beambert.model.layers import score_bias
from beambert.model.modernbert_encoder import ModernBertEncoder
from beambert.trainer.loop.strategy import has_xla


def arrays(length: int, seed: int = 1):
    random = np.random.default_rng(seed)
    query, key, value = random.standard_normal((3, 2, 3, length, 4)).astype(np.float32)
    mask = (np.arange(length) < np.array([length, length // 2 + 1])[:, None]).astype(np.int32)
    return query, key, value, mask


def attended_one_by_one(query, key, value, mask, reach):
    """Each token by itself: the softmax over the tokens in reach."""
    found = np.zeros_like(value)
    batch, heads, length, width = query.shape
    for b in range(batch):
        for n in range(heads):
            for place in np.flatnonzero(mask[b]):
                seen = [k for k in np.flatnonzero(mask[b]) if abs(k - place) <= reach]
                scores = key[b, n, seen].astype(float) @ query[b, n, place] / np.sqrt(width)
                weights = np.exp(scores - scores.max())
                found[b, n, place] = weights @ value[b, n, seen] / weights.sum()
    return found


@pytest.mark.parametrize(("length", "reach"), [(2, 2), (6, 2), (7, 2), (8, 2), (23, 3), (40, 5)])
def test_blocks_attend_as_each_token_would(length, reach):
    query, key, value, mask = arrays(length)
    found = attend_locally(query, key, value, mask, reach).numpy()
    expected = attended_one_by_one(query, key, value, mask, reach)
    is_token = np.broadcast_to(mask[:, None, :, None] > 0, found.shape)
    np.testing.assert_allclose(found[is_token], expected[is_token], atol=1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_parts_of_long_sequences_are_the_whole(jit_compile, monkeypatch):
    """Outputs and gradients; padding fills up the last part."""
    if jit_compile and not has_xla():
        pytest.skip("needs XLA for the processor")
    monkeypatch.setattr(attention, "QUERIES", 8)
    query, key, value, mask = (tf.constant(array) for array in arrays(23))
    upstream = tf.constant(np.random.default_rng(5).standard_normal(query.shape, np.float32))

    def outputs(attend):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            context = attend(query, key, value, score_bias(mask, 23))
            loss = tf.reduce_sum(context * upstream)
        return [context, *tape.gradient(loss, [query, key, value])]

    whole = outputs(attention.attend)
    parts = tf.function(lambda: outputs(attention.attend_in_parts), jit_compile=jit_compile)()
    for mine, expected in zip(parts, whole, strict=True):
        np.testing.assert_allclose(mine, expected, atol=1e-5)
    expected = attended_one_by_one(*(each.numpy() for each in (query, key, value, mask)), reach=23)
    is_token = np.broadcast_to(mask.numpy()[:, None, :, None] > 0, expected.shape)
    np.testing.assert_allclose(parts[0].numpy()[is_token], expected[is_token], atol=1e-5)


def test_a_model_reads_a_long_sequence_in_parts(monkeypatch):
    ids = np.random.default_rng(2).integers(5, 50, (2, 23))
    mask = (np.arange(23) < [[23], [11]]).astype(int)
    config = ModernBertConfig(50, 16, 4, 2, 24, local_attention=4)
    encoder = ModernBertEncoder(config, seed=1)
    whole = encoder.encode(ids, mask, ids).numpy()
    monkeypatch.setattr(modernbert, "WHOLE_SCORES", 20)
    monkeypatch.setattr(attention, "QUERIES", 8)
    assert config.held_scores(23) == 2 * 6 / 4 and config.attended(23) == (2 * 23 + 2 * 6) / 4
    is_token = mask.reshape(-1) > 0
    found = encoder.encode(ids, mask, ids).numpy()
    np.testing.assert_allclose(found[is_token], whole[is_token], atol=1e-5)
    assert not np.array_equal(found[is_token], whole[is_token])


def test_a_token_out_of_reach_has_no_gradient():
    query, key, value, mask = (tf.constant(array) for array in arrays(30))
    with tf.GradientTape() as tape:
        tape.watch([key, value])
        context = attend_locally(query, key, value, tf.ones_like(mask), 3)[:, :, 10]
    for gradient in tape.gradient(context, [key, value]):
        moved = np.abs(gradient.numpy()).sum(axis=(0, 1, 3)) > 0
        assert np.flatnonzero(moved).tolist() == list(range(7, 14))


def test_scores_depend_on_distances_alone():
    """Su et al. 2021, equation 11: the same two vectors score alike wherever they stand."""
    vectors = np.random.default_rng(3).standard_normal((2, 1, 1, 1, 6)).astype(np.float32)
    query, key = (
        rotated(np.tile(vector, (1, 1, 40, 1)), 100.0).numpy()[0, 0] for vector in vectors
    )
    scores = query @ key.T
    for distance in (0, 1, 7):
        along = np.diagonal(scores, distance)
        np.testing.assert_allclose(along, along[0], atol=1e-5)
    assert abs(scores[0, 1] - scores[1, 0]) > 1e-3


def test_the_operations_of_local_layers_grow_with_their_window():
    config = ModernBertConfig(100, global_attn_every_n_layers=22)
    whole = ModernBertConfig(100, global_attn_every_n_layers=1)
    lengths = (2048, 4096)
    local, full = (
        [forward_flops(each, 1, length, 0) / length for length in lengths]
        for each in (config, whole)
    )
    # One layer of 22 is global.
    assert (local[1] - local[0]) * 22 == pytest.approx(full[1] - full[0])
