"""The losses of vectors beside sentence-transformers', and gradients with and without a cache."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from beambert.model.config import BertConfig
from beambert.model.sentence_encoder import SentenceEncoder
from beambert.trainer.tasks import vectors as vector_objectives
from beambert.trainer.tasks.vectors import encode_in_parts, part_seed

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden_losses.json").read_text())
SMALL = BertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)


def loss_of(case, vectors, ids, weights):
    """The mean loss of a batch, with the settings of a golden case."""

    def loss(some):
        if case["loss"] == "in_batch":
            given = some, ids, weights, case["temperature"]
            return tf.reduce_mean(vector_objectives.in_batch(*given)[0])
        found, scores = vector_objectives.cosines(some), tf.constant(case["scores"])
        if case["loss"] == "cosent":
            return vector_objectives.cosent(found, scores, weights, case["temperature"])
        return tf.reduce_mean(tf.math.squared_difference(found, scores))

    return vector_objectives.at_dims(loss, vectors, case.get("matryoshka_dims", ()))


def different_ids(vectors):
    return tf.reshape(tf.range(np.prod(vectors.shape[:2]), dtype=tf.int64), vectors.shape[:2])


@pytest.mark.parametrize("name", GOLDEN)
def test_losses_and_gradients_are_sentence_transformers(name):
    case = GOLDEN[name]
    vectors = tf.Variable(case["vectors"])
    with tf.GradientTape() as tape:
        value = loss_of(case, vectors, different_ids(vectors), tf.ones(vectors.shape[0]))
    assert float(value) == pytest.approx(case["value"], abs=1e-5, rel=1e-5)
    np.testing.assert_allclose(tape.gradient(value, vectors), case["gradient"], atol=1e-5)


@pytest.mark.parametrize("name", ["two negatives", "cosent"])
def test_rows_that_fill_up_a_batch_do_not_count(name):
    case = GOLDEN[name]
    real = tf.constant(case["vectors"])
    filled = tf.concat([real, real[:2] + 1.0], 0)
    weights = tf.concat([tf.ones(6), tf.zeros(2)], 0)
    if name == "cosent":
        scores = tf.constant([*case["scores"], 9.0, -9.0])
        found = vector_objectives.cosent(
            vector_objectives.cosines(filled), scores, weights, case["temperature"]
        )
        assert float(found) == pytest.approx(case["value"], abs=1e-5)
        return
    losses, _ = vector_objectives.in_batch(
        filled, different_ids(filled), weights, case["temperature"]
    )
    assert float(tf.reduce_mean(losses[:6])) == pytest.approx(case["value"], abs=1e-5)


def in_batch_by_hand(vectors, ids, temperature):
    """The same with loops over rows, and a set of the texts that are no negatives."""
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    losses = []
    for row in range(len(units)):
        right = {ids[other][1] for other in range(len(ids)) if ids[other][0] == ids[row][0]}
        logits = [units[row, 0] @ units[row, 1] / temperature]
        for other in range(len(units)):
            for place in range(1, units.shape[1]):
                is_own = (other, place) == (row, 1)
                if not is_own and ids[other][place] not in {*right, ids[row][0]}:
                    logits.append(units[row, 0] @ units[other, place] / temperature)
        losses.append(np.log(np.sum(np.exp(logits))) - logits[0])
    return losses


def test_equal_texts_are_no_negatives():
    vectors = np.random.default_rng(3).normal(size=(5, 3, 4))
    # Rows 0 and 1 ask for the same text, rows 2 and 3 are the same question, and the text of row 4
    # is the question of row 0; the negative of row 1 is the right text of row 2, and so right for
    # the question of row 3 too.
    ids = [[1, 2, 11], [3, 2, 5], [4, 5, 13], [4, 6, 14], [7, 1, 15]]
    arguments = tf.constant(vectors, tf.float32), tf.constant(ids, tf.int64), tf.ones(5), 0.1
    losses, _ = vector_objectives.in_batch(*arguments)
    np.testing.assert_allclose(losses, in_batch_by_hand(vectors, ids, 0.1), rtol=1e-5)
    # It makes a difference: with other ids the same vectors have greater losses.
    others, _ = vector_objectives.in_batch(arguments[0], different_ids(vectors), *arguments[2:])
    assert (np.array(losses) < np.array(others) - 1e-3).sum() >= 4


def test_whole_vectors_are_learnt_beside_their_parts():
    """Each width once, whether the whole one is listed or not."""
    vectors = tf.constant(np.random.default_rng(4).normal(size=(3, 2, 6)), tf.float32)

    def loss(some):
        return tf.reduce_sum(some**2)

    expected = sum(np.sum(vectors.numpy()[..., :width] ** 2) for width in (6, 4, 2))
    for dims in ((4, 2), (6, 4, 2), (2, 6, 4)):
        found = vector_objectives.at_dims(loss, vectors, dims)
        assert float(found) == pytest.approx(expected, rel=1e-5)


def small_batch(rows, length=8):
    random = np.random.default_rng(5)
    ids = random.integers(5, 40, (rows, length))
    lengths = random.integers(3, length + 1, rows)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    ids, mask = tf.constant(ids * mask, tf.int32), tf.constant(mask)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}


def contrastive(vectors):
    pairs = tf.reshape(vectors, [-1, 2, vectors.shape[-1]])
    weights = tf.ones(pairs.shape[0])
    return tf.reduce_mean(vector_objectives.in_batch(pairs, different_ids(pairs), weights, 0.05)[0])


def gradients(model, vectors_of, compiled):
    """The loss of a batch and its gradient by each variable."""
    variables = [variable.value for variable in model.trainable_variables]

    def run():
        with tf.GradientTape() as tape:
            loss = contrastive(vectors_of())
        return loss, tape.gradient(loss, variables)

    loss, found = tf.function(run, jit_compile=compiled, autograph=False)()
    return float(loss), [tf.convert_to_tensor(gradient).numpy() for gradient in found]


@pytest.fixture(scope="module")
def model():
    return SentenceEncoder(SMALL, seed=1)


@pytest.mark.parametrize(
    ("compiled", "size"), [pytest.param(True, 4, marks=pytest.mark.slow), (False, 5)]
)
def test_cached_gradients_equal_those_of_the_whole_batch(model, compiled, size):
    features = small_batch(12)
    loss, whole = gradients(model, lambda: model(features), compiled)
    cached_loss, cached = gradients(
        model,
        lambda: encode_in_parts(lambda some, _: model(some), features, None, size),
        compiled,
    )
    assert cached_loss == pytest.approx(loss, rel=1e-6)
    assert len(cached) == len(whole) == len(model.trainable_variables)
    for one, other in zip(cached, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert max(np.abs(gradient).max() for gradient in whole) > 0.1


@pytest.mark.release
def test_cached_gradients_have_the_masks_of_their_vectors(model):
    """Dropout is on: each part is encoded with the seed of its number, in both passes."""
    features, seed = small_batch(12), tf.constant([7, 9])

    def encode(some, seed):
        return model(some, dropout_seed=seed)

    def part_by_part():
        parts = [
            encode({name: value[n * 4 : n * 4 + 4] for name, value in features.items()}, part)
            for n, part in enumerate(part_seed(seed, n) for n in range(3))
        ]
        return tf.concat(parts, 0)

    loss, whole = gradients(model, part_by_part, True)
    cached_loss, cached = gradients(model, lambda: encode_in_parts(encode, features, seed, 4), True)
    assert cached_loss == pytest.approx(loss, rel=1e-6)
    for one, other in zip(cached, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    without, _ = gradients(model, lambda: model(features), True)
    assert abs(loss - without) > 1e-3


def test_equal_rows_in_two_parts_have_other_masks(model):
    one = small_batch(1)
    features = {name: tf.tile(value, [4, 1]) for name, value in one.items()}
    vectors = encode_in_parts(
        lambda some, seed: model(some, dropout_seed=seed), features, tf.constant([7, 9]), 2
    )
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-3
