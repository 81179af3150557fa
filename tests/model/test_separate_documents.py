"""Rows of several documents across which no token attends, beside each document by itself."""

import numpy as np
import pytest
import tensorflow as tf

from beambert.model import attention
from beambert.model.config import BertConfig
from beambert.model.deberta import DebertaEncoder
from beambert.model.encoder import BertEncoder
from beambert.model.families import modernbert
from beambert.model.families.debertav2 import DebertaV2Config
from beambert.model.families.modernbert import ModernBertConfig
from beambert.model.modernbert_encoder import ModernBertEncoder
from beambert.model.unpadding import Packing
from beambert.trainer.loop.strategy import has_xla

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
    table = encoder.word_embeddings.value
    with tf.GradientTape() as tape:
        found = encoder.encode(ids, mask, np.zeros_like(ids), packing=packing)
        found = packing.unpack(found) if packing else found
        found = tf.reshape(found, upstream.shape)
        loss = tf.reduce_sum(found * upstream)
    return found.numpy(), tape.gradient(loss, table)


def deberta_encoder() -> DebertaEncoder:
    """Returns an encoder with logarithmic buckets."""
    config = DebertaV2Config(50, 16, 2, 2, 24, initializer_range=0.3, position_buckets=8)
    return DebertaEncoder(config, seed=1)


@pytest.mark.parametrize("way", ["whole", "parts", "packed", "deberta", "deberta, packed"])
def test_a_document_is_read_as_if_it_were_alone(way, monkeypatch):
    """Outputs and gradients; rotary and relative positions tell distances only."""
    ids, mask, places = random_rows()
    encoder = modern_encoder(monkeypatch, way == "parts")
    if "deberta" in way:
        encoder = deberta_encoder()
    encoder.separator = SEPARATOR
    upstream = np.random.default_rng(5).standard_normal((2, LENGTH, 16)).astype(np.float32)
    upstream *= mask[..., None]
    packing = Packing.of(tf.constant(mask), int(mask.sum())) if "packed" in way else None
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


def test_one_document_does_not_change_another_in_a_bert():
    """Its table tells positions in the row, so that a document alone would have others."""
    ids, mask, places = random_rows()
    encoder = BertEncoder(
        BertConfig(50, 16, 2, 2, 24, max_position_embeddings=LENGTH, initializer_range=0.3), seed=1
    )
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
