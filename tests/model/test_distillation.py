"""The losses of a student beside an implementation in PyTorch."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from support.golden_arrays import features_of

from beambert.model.checkpoint_names import hugging_face_name
from beambert.model.config import BERT_SIZES, BertConfig
from beambert.model.flops import forward_flops, training_flops
from beambert.model.pretrainer import BertPretrainer
from beambert.model.unpadding import Capacity
from beambert.trainer.loop.objectives import means
from beambert.trainer.pretraining.distillation import Teacher, cosine_losses, soft_target_losses
from beambert.trainer.pretraining.objective import PretrainingObjective
from beambert.trainer.weights.initial import open_initial

GOLDEN = pathlib.Path(__file__).parents[1] / "trainer" / "golden_distillation"


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / "arrays.npz"))


@pytest.fixture(scope="module")
def features(golden) -> dict[str, tf.Tensor]:
    return features_of(golden)


@pytest.fixture(scope="module")
def student() -> BertPretrainer:
    weights = open_initial(str(GOLDEN / "student"), "--init")
    model = BertPretrainer(weights.config)
    assert weights.load_into(model, "--init") == []
    return model


# 21 tokens and 6 predictions: with the padding, with rows that just suffice, with rows to spare.
@pytest.mark.parametrize("capacity", [None, Capacity(21, 6), Capacity(26, 8)])
def test_losses_and_gradients_are_those_of_pytorch(student, golden, features, capacity):
    weights = open_initial(str(GOLDEN / "answers"), "--distill_from")
    teacher = Teacher.of(weights, student.config, length=10, segments=2)
    own = PretrainingObjective({(3, 10): capacity} if capacity else {})
    objective = teacher.objective(own, tf.distribute.get_strategy(), "float32")
    totals = objective.weights(features)
    assert (objective.way(features) is None) == (capacity is None)
    with tf.GradientTape() as tape:
        sums = objective.ways()[capacity is not None](student, features, None)
        loss = tf.add_n(
            [
                objective.factor(one_loss) * sums[one_loss] / totals[objective.weight_of[one_loss]]
                for one_loss in objective.losses
            ]
        )
    variables = {variable.path: variable.value for variable in student.trainable_variables}
    gradients = tape.gradient(loss, variables)

    found = means({each: value.numpy() for each, value in (sums | totals).items()}, objective)
    theirs = {
        each.removeprefix("answers/"): value
        for each, value in golden.items()
        if each.startswith("answers/")
    }
    losses = {each: float(value) for each, value in theirs.items() if each.endswith("loss")}
    assert losses.keys() == {*objective.losses, "loss"}
    assert {one_loss: found[one_loss] for one_loss in losses} == pytest.approx(losses, rel=1e-5)
    for path, gradient in gradients.items():
        renamed, is_transposed = hugging_face_name(path)
        expected = theirs.pop(f"gradients/{renamed}")
        expected = expected.T if is_transposed else expected
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5, err_msg=path)
    assert theirs.keys() == losses.keys()


def test_a_teacher_says_nothing_to_its_equal():
    x = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    np.testing.assert_allclose(soft_target_losses(x, x, 2.0), 0, atol=1e-6)
    np.testing.assert_allclose(cosine_losses(x, 3 * x), 0, atol=1e-6)
    np.testing.assert_allclose(cosine_losses(x, -x), 2, atol=1e-6)
    # Rows of padding may be zero.
    np.testing.assert_array_equal(cosine_losses(0 * x, 0 * x), 1)


def test_the_gradient_of_soft_targets_keeps_its_size():
    """Near equal logits it is their difference from the mean, whatever the temperature."""
    student = tf.constant([[0.3, -0.1, 0.2, -0.4]]) * 1e-3
    found = []
    for temperature in (1.0, 2.0, 8.0):
        with tf.GradientTape() as tape:
            tape.watch(student)
            loss = soft_target_losses(student, tf.zeros_like(student), temperature)
        found.append(tape.gradient(loss, student))
    np.testing.assert_allclose(found[1:], [student / 4] * 2, rtol=1e-2)


def test_operations_count_the_teacher():
    weights = open_initial(str(GOLDEN / "answers"), "--distill_from")
    teacher = Teacher.of(weights, BertConfig(58, **BERT_SIZES["tiny"]), length=10, segments=2)
    # Three layers of width 16, with 21 rows and 3 sequences of 10, and 6 predictions.
    layer = 21 * (4 * 16 * 16 + 2 * 16 * 24) + 3 * 10 * 2 * 10 * 16
    flops = forward_flops(teacher.config, 3, 10, 3, Capacity(21, 6))
    assert flops == 2 * (3 * layer + 6 * (16 * 16 + 16 * 58))
    forward = forward_flops(BertConfig(30522, **BERT_SIZES["tiny"]), 4, 10, 2)
    assert training_flops(BertConfig(30522, **BERT_SIZES["tiny"]), 4, 10, 2) == 3 * forward
