"""Local attention, and attention within documents."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from beambert.model import attention, layers
from beambert.model.attention import attend_locally, rotated
from beambert.model.config import BertConfig
from beambert.model.deberta import DebertaEncoder
from beambert.model.encoder import BertEncoder
from beambert.model.families import modernbert
from beambert.model.families.debertav2 import DebertaV2Config
from beambert.model.families.modernbert import ModernBertConfig
from beambert.model.layers import score_bias
from beambert.model.modernbert_encoder import ModernBertEncoder
from beambert.model.unpadding import Packing
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
@pytest.mark.slow
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
    assert config.attended(23) == (2 * 23 + 2 * 6) / 4
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


SEPARATOR = 3
LENGTH = 40
# Numbers of tokens of the documents in each row, without their separators; the rest is padding.
ROWS = [(9, 17, 4), (38,)]


def random_rows():
    """Returns ids and mask [B, L], and for each row the beginnings and ends of its documents."""
    random = np.random.default_rng(4)
    ids, mask, places = np.zeros((2, LENGTH), np.int32), np.zeros((2, LENGTH), np.int32), []
    for row, lengths in enumerate(ROWS):
        ends = np.cumsum([length + 1 for length in lengths])
        mask[row, : ends[-1]] = 1
        ids[row, : ends[-1]] = random.integers(5, 50, ends[-1])
        ids[row, ends - 1] = SEPARATOR
        places.append(list(zip([0, *ends[:-1]], ends, strict=True)))
    return ids, mask, places


def modern_encoder(monkeypatch, in_parts: bool) -> ModernBertEncoder:
    """Returns an encoder whose layers have global and local attention, one each."""
    if in_parts:
        monkeypatch.setattr(modernbert, "WHOLE_SCORES", LENGTH - 1)
        monkeypatch.setattr(attention, "QUERIES", 16)
    config = ModernBertConfig(
        50, 16, 2, 2, 24, local_attention=8, global_attn_every_n_layers=2, initializer_range=0.3
    )
    return ModernBertEncoder(config, seed=1)


def outputs_and_gradient(encoder, ids, mask, upstream, packing=None):
    """Returns the last layer's output [B, L, H], and the gradient of the word embeddings."""

    def loss():
        found = encoder.encode(ids, mask, np.zeros_like(ids), packing=packing)
        found = packing.unpack(found) if packing else found
        found = ops.reshape(found, upstream.shape)
        return ops.sum(found * upstream), found

    if keras.backend.backend() == "jax":
        import jax

        def loss_of(value):
            with keras.StatelessScope([(encoder.word_embeddings, value)]):
                return loss()

        gradient, found = jax.grad(loss_of, has_aux=True)(encoder.word_embeddings.value)
        return np.array(found), np.array(gradient)
    with tf.GradientTape() as tape:
        total, found = loss()
    return found.numpy(), tape.gradient(total, encoder.word_embeddings.value)


def deberta_encoder() -> DebertaEncoder:
    """Returns an encoder with logarithmic buckets."""
    config = DebertaV2Config(50, 16, 2, 2, 24, initializer_range=0.3, position_buckets=8)
    return DebertaEncoder(config, seed=1)


def encoder_of_documents(way, monkeypatch):
    """Returns an encoder that tells documents apart, rows, upstream gradients and a packing."""
    rows = _, mask, _ = random_rows()
    encoder = modern_encoder(monkeypatch, way == "parts")
    if "deberta" in way:
        encoder = deberta_encoder()
    encoder.separator = SEPARATOR
    upstream = np.random.default_rng(5).standard_normal((2, LENGTH, 16)).astype(np.float32)
    upstream *= mask[..., None]
    packing = Packing.of(ops.convert_to_tensor(mask), int(mask.sum())) if "packed" in way else None
    return encoder, rows, upstream, packing


@pytest.mark.parametrize("way", ["parts", "packed", "deberta, packed"])
@pytest.mark.slow
def test_a_document_is_read_as_if_it_were_alone(way, monkeypatch):
    """Outputs and gradients; rotary and relative positions tell distances only."""
    encoder, (ids, mask, places), upstream, packing = encoder_of_documents(way, monkeypatch)
    together, gradient = outputs_and_gradient(encoder, ids, mask, upstream, packing)
    encoder.separator = None
    gradients = []
    for row, documents in enumerate(places):
        for first, end in documents:
            part = (slice(row, row + 1), slice(first, end))
            alone, its = outputs_and_gradient(encoder, ids[part], mask[part], upstream[part])
            np.testing.assert_allclose(together[part], alone, atol=1e-5)
            gradients.append(its)
    np.testing.assert_allclose(gradient, sum(map(tf.convert_to_tensor, gradients)), atol=1e-4)
    across, _ = outputs_and_gradient(encoder, ids, mask, upstream, packing)
    first, end = places[0][1]
    assert np.abs(across[0, first:end] - together[0, first:end]).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_long_row_is_read_the_same_once_compiled(jit_compile, monkeypatch):
    if jit_compile and not has_xla():
        pytest.skip("needs XLA for the processor")
    ids, mask, _ = random_rows()
    encoder = modern_encoder(monkeypatch, in_parts=False)
    encoder.separator = SEPARATOR
    whole = encoder.encode(ids, mask, ids).numpy()
    parts = modern_encoder(monkeypatch, in_parts=True)
    parts.separator = SEPARATOR
    read = tf.function(lambda: parts.encode(tf.constant(ids), mask, ids), jit_compile=jit_compile)
    is_token = mask.reshape(-1) > 0
    np.testing.assert_allclose(read().numpy()[is_token], whole[is_token], atol=1e-5)


@pytest.mark.parametrize("separator", [SEPARATOR, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", ["whole", "parts", "bert", "splash"])
def test_fused_attention_is_the_plain_one(way, separator, monkeypatch):
    """Outputs and gradients of windows, documents and padding.

    Keras computes in its place, or JAX where Keras uses it, as in test_engines.py.
    """
    if way == "splash":
        if keras.backend.backend() != "jax":
            pytest.skip("is of JAX")
        # Three blocks of scores to each side.
        monkeypatch.setitem(globals(), "LENGTH", 384)
        monkeypatch.setitem(globals(), "ROWS", [(9, 170, 100), (360,)])
    ids, mask, _ = random_rows()
    encoder = modern_encoder(monkeypatch, way == "parts")
    if way == "bert":
        encoder = bert_encoder()
    encoder.separator = separator
    upstream = np.random.default_rng(5).standard_normal((2, LENGTH, 16)).astype(np.float32)
    upstream *= mask[..., None]
    plain = outputs_and_gradient(encoder, ids, mask, upstream)
    shapes = []

    def attend(query, key, value, bias=None, key_value_seq_lengths=None, local_window_size=None):
        if way == "splash":
            from beambert.trainer.loop.engines.jax import attend_by_splash

            shapes.append(query.shape[:2])
            masking = bias, key_value_seq_lengths, local_window_size
            return attend_by_splash(query, key, value, *masking, interpret=True)
        if local_window_size is not None:
            return None
        shapes.append(query.shape[:2])
        if keras.backend.backend() == "jax":
            import jax

            masking = {"bias": bias, "key_value_seq_lengths": key_value_seq_lengths}
            return jax.nn.dot_product_attention(query, key, value, **masking, implementation="xla")
        seen = None
        if key_value_seq_lengths is not None:
            seen = tf.sequence_mask(key_value_seq_lengths, key.shape[1])[:, None, None]
        return ops.dot_product_attention(query, key, value, bias, seen)

    with layers.attention_by(attend):
        fused = outputs_and_gradient(encoder, ids, mask, upstream)
    local = (2, LENGTH) if way in ("bert", "splash") else (2 * -(-LENGTH // 4), 4)
    assert shapes == [(2, LENGTH), local]
    np.testing.assert_allclose(fused[0][mask > 0], plain[0][mask > 0], atol=1e-5)
    np.testing.assert_allclose(fused[1], plain[1], atol=1e-4)
    with layers.attention_by(lambda *_, **__: None):
        again = outputs_and_gradient(encoder, ids, mask, upstream)
    np.testing.assert_array_equal(again[0], plain[0])


@pytest.mark.parametrize("way", ["parts", "deberta, packed"])
def test_layers_computed_again_are_the_same(way, monkeypatch):
    """Outputs and gradients, without dropout; Keras does it for JAX, as in test_engines.py."""
    if keras.backend.backend() != "jax":
        pytest.skip("is of JAX")
    encoder, (ids, mask, _), upstream, packing = encoder_of_documents(way, monkeypatch)
    once = outputs_and_gradient(encoder, ids, mask, upstream, packing)
    calls, remat = [], keras.remat
    monkeypatch.setattr(keras, "remat", lambda call: calls.append(call) or remat(call))
    with layers.layers_recomputed(True):
        again = outputs_and_gradient(encoder, ids, mask, upstream, packing)
    assert len(calls) == 2
    np.testing.assert_allclose(again[0][mask > 0], once[0][mask > 0], atol=1e-5)
    np.testing.assert_allclose(again[1], once[1], atol=1e-5)


def bert_encoder() -> BertEncoder:
    config = BertConfig(50, 16, 2, 2, 24, max_position_embeddings=LENGTH, initializer_range=0.3)
    return BertEncoder(config, seed=1)


def test_one_document_does_not_change_another_in_a_bert():
    """Its table tells positions in the row, so that a document alone would have others."""
    ids, mask, places = random_rows()
    encoder = bert_encoder()
    encoder.separator = SEPARATOR
    (_, (first, end), _), _ = places
    changed = ids.copy()
    changed[0, :first] = np.where(ids[0, :first] == SEPARATOR, SEPARATOR, 7)
    changed[0, end] = 8
    before, after = (
        encoder.encode(each, mask, np.zeros_like(each)).numpy().reshape(2, LENGTH, -1)
        for each in (ids, changed)
    )
    np.testing.assert_array_equal(after[0, first:end], before[0, first:end])
    assert np.abs(after[0, :first] - before[0, :first]).max() > 0.01
    encoder.separator = None
    across = encoder.encode(changed, mask, np.zeros_like(ids)).numpy().reshape(2, LENGTH, -1)
    assert np.abs(across[0, first:end] - before[0, first:end]).max() > 0.01
