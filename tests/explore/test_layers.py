"""The inside of an encoder is what the encoder computes."""

import numpy as np
import pytest

from beambert.explore.layers import (
    layer_answers,
    masked_answers,
    next_probability,
    read_layers,
    single,
)

IDS = np.array([2, 10, 4, 12, 3, 13, 14, 20, 3], np.int32)
SEGMENTS = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1], np.int32)


@pytest.fixture(scope="module")
def model(material):
    return material.model("encoder")


def test_layers_are_those_of_the_encoder(model):
    features = single(IDS, SEGMENTS)
    layers = read_layers(model.encoder, features)
    whole, _ = model.encoder(*features.values())
    np.testing.assert_allclose(layers.outputs[-1], np.array(whole)[0], atol=1e-6)
    config = model.config
    assert layers.outputs.shape == (config.num_hidden_layers + 1, len(IDS), config.hidden_size)
    heads = (config.num_hidden_layers, config.num_attention_heads)
    assert layers.attention.shape == (*heads, len(IDS), len(IDS))
    np.testing.assert_allclose(layers.attention.sum(axis=-1), 1, atol=1e-5)


def test_attention_is_softmax_of_queries_times_keys(model):
    """Computed again with numpy from the weights."""
    layers = read_layers(model.encoder, single(IDS, SEGMENTS))
    attention = model.encoder.encoder_layers[1].attention.self_attention
    x, size = layers.outputs[1], model.config.hidden_size // model.config.num_attention_heads
    query, key = (
        x @ np.array(each.kernel) + np.array(each.bias) for each in (attention.query, attention.key)
    )
    scores = query[:, size : 2 * size] @ key[:, size : 2 * size].T / size**0.5
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(layers.attention[1, 1], expected, atol=1e-5)


def test_answers_are_those_of_the_model(model):
    features = single(IDS, SEGMENTS)
    (answer,) = masked_answers(model, features, np.array([2]), np.array([11]))
    given = {**features, "masked_lm_positions": np.array([[2]])}
    logits = model(given)
    expected = np.array(logits["masked_lm_logits"])[0, 0]
    assert [index for index, _ in answer.best] == np.argsort(-expected)[:5].tolist()
    log_total = np.log(np.exp(expected.astype(float)).sum())
    assert answer.loss == pytest.approx(log_total - expected[11], abs=1e-4)
    assert answer.rank == 1 + (expected > expected[11]).sum()
    last = layer_answers(model, read_layers(model.encoder, features).outputs, 2, 11)[-1]
    assert last.loss == pytest.approx(answer.loss, abs=1e-4)
    a, b = np.array(logits["next_sentence_logits"])[0]
    assert next_probability(model, features) == pytest.approx(1 / (1 + np.exp(b - a)), abs=1e-5)
    assert masked_answers(model, features, np.array([], int), []) == []
