"""What is computed without padding is what is computed with it."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.model.config import BERT_SIZES, BertConfig
from beambert.model.flops import training_flops
from beambert.model.objectives import MLM
from beambert.model.pretrainer import BertPretrainer
from beambert.model.unpadding import Capacity, Packing
from beambert.trainer.pretraining.objective import MaskedLMObjective, PretrainingObjective

LENGTH, SLOTS = 12, 4
CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=16,
    initializer_range=0.5,
)


def make_features(lengths: list[int]) -> dict[str, tf.Tensor]:
    random = np.random.default_rng(7)
    lengths = np.array(lengths)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    used = np.arange(SLOTS) < np.minimum(SLOTS, lengths // 3)[:, None]
    positions = random.integers(0, lengths[:, None], used.shape) * used
    return {
        name: tf.constant(value.astype(np.float32 if value.dtype == float else np.int32))
        for name, value in {
            "input_ids": random.integers(5, 50, mask.shape) * mask,
            "input_mask": mask,
            "segment_ids": random.integers(0, 2, mask.shape) * mask,
            "masked_lm_positions": positions,
            "masked_lm_ids": random.integers(5, 50, used.shape) * used,
            "masked_lm_weights": used.astype(float),
            "next_sentence_labels": random.integers(0, 2, (len(lengths), 1)),
        }.items()
    }


@pytest.fixture(scope="module")
def model():
    return BertPretrainer(CONFIG, seed=3)


@pytest.fixture(scope="module")
def masked_lm():
    return BertPretrainer(CONFIG, seed=3, objective=MLM)


def sums_and_gradients(sums, model, features):
    with tf.GradientTape() as tape:
        values = sums(model, features, None)
        loss = tf.add_n([value for name, value in values.items() if name.endswith("loss")])
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    return values, [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


# Rows that just suffice, rows to spare, a row for every position.
@pytest.mark.slow
@pytest.mark.parametrize(("spare_tokens", "spare_predictions"), [(0, 0), (3, 2), (None, None)])
@pytest.mark.parametrize("lengths", [[12, 3, 7, 12], [1, 2, 12, 5], [12, 12, 12, 12]])
def test_sums_and_gradients_are_those_of_the_padded_batch(
    model, lengths, spare_tokens, spare_predictions
):
    features = make_features(lengths)
    tokens, predictions = len(lengths) * LENGTH, len(lengths) * SLOTS
    if spare_tokens is not None:
        tokens = min(tokens, sum(lengths) + spare_tokens)
        used = int(features["masked_lm_weights"].numpy().sum())
        predictions = min(predictions, used + spare_predictions)
    objective = PretrainingObjective({(4, LENGTH): Capacity(tokens, predictions)})
    assert objective.way(features)
    padded, padded_gradients = sums_and_gradients(objective.sums, model, features)
    packed, packed_gradients = sums_and_gradients(objective.ways()[1], model, features)
    for name, value in padded.items():
        np.testing.assert_allclose(packed[name], value, rtol=1e-5, err_msg=name)
    assert sum(np.abs(gradient).sum() for gradient in padded_gradients) > 1
    for mine, theirs in zip(packed_gradients, padded_gradients, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5 * max(1, np.abs(theirs).max()))


@pytest.mark.slow
def test_masked_lm_alone_is_that_part_of_the_whole(model, masked_lm):
    """With the padding and without; the gradients are those of the part's own loss."""
    features = make_features([12, 3, 7, 12])
    capacity = Capacity(36, int(features["masked_lm_weights"].numpy().sum()) + 1)
    alone = MaskedLMObjective({(4, LENGTH): capacity})
    with tf.GradientTape() as tape:
        both = PretrainingObjective().sums(model, features, None)
        loss = both["masked_lm_loss"]
    variables = {v.path: v for v in model.trainable_variables}
    expected = tape.gradient(loss, {path: v.value for path, v in variables.items()})
    for sums in alone.ways():
        values, gradients = sums_and_gradients(sums, masked_lm, features)
        assert set(values) == set(alone.weight_of) == {"masked_lm_loss", "masked_lm_accuracy"}
        for name, value in values.items():
            np.testing.assert_allclose(value, both[name], rtol=1e-5)
        for variable, gradient in zip(masked_lm.trainable_variables, gradients, strict=True):
            theirs = tf.convert_to_tensor(expected[variable.path]).numpy()
            np.testing.assert_allclose(gradient, theirs, atol=1e-5 * max(1, np.abs(theirs).max()))
    left_out = variables.keys() - {variable.path for variable in masked_lm.trainable_variables}
    assert {path.rpartition("/")[0] for path in left_out} == {
        "bert/pooler/dense",
        "cls/seq_relationship",
    }


def test_a_batch_with_more_tokens_or_predictions_does_not_fit():
    features = make_features([12, 3, 7, 12])
    used = int(features["masked_lm_weights"].numpy().sum())
    for capacity in (Capacity(33, used), Capacity(34, used - 1)):
        assert not PretrainingObjective({(4, LENGTH): capacity}).way(features)
    assert PretrainingObjective({(4, LENGTH): Capacity(34, used)}).way(features)
    assert PretrainingObjective({(4, LENGTH + 1): Capacity(34, used)}).way(features) is None


@settings(deadline=None, max_examples=50)
@given(st.lists(st.booleans(), min_size=12, max_size=12), st.integers(0, 12))
def test_packing_and_laying_out_are_inverse(mask, spare):
    mask = np.array(mask, np.int32).reshape(3, 4)
    capacity = min(mask.size, max(1, mask.sum() + spare))
    packing = Packing.of(tf.constant(mask), int(capacity))
    x = np.arange(1, 13, dtype=np.float32)[:, None]
    packed = packing.pack(tf.constant(x)).numpy()
    np.testing.assert_array_equal(packed[: mask.sum()], x[mask.ravel() > 0])
    np.testing.assert_array_equal(packing.unpack(packed).numpy(), x * mask.reshape(-1, 1))


def test_dropout_differs_between_rows_and_steps(model):
    config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.5)
    model = BertPretrainer(config, seed=3)
    features, capacity = make_features([12, 3, 7, 12]), Capacity(40, 10)
    logits = [
        model.packed_logits(features, capacity, tf.constant([1, step]))["masked_lm_logits"].numpy()
        for step in (0, 0, 1)
    ]
    np.testing.assert_array_equal(logits[0], logits[1])
    assert np.abs(logits[0] - logits[2]).max() > 0.1


def test_rows_that_are_left_out_take_no_operations():
    config = BertConfig(1000, **BERT_SIZES["tiny"])
    padded = training_flops(config, 4, 10, 2)
    assert training_flops(config, 4, 10, 2, Capacity(40, 8)) == padded
    # Two layers of 128 and 512, and the head; six operations for each multiplication.
    spared = 2 * 10 * (4 * 128 * 128 + 2 * 128 * 512) + 3 * (128 * 128 + 128 * 1000)
    assert padded - training_flops(config, 4, 10, 2, Capacity(30, 5)) == 6 * spared
