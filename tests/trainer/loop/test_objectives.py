"""What counts as a correct answer, beside NumPy's own function."""

import numpy as np
import pytest
import tensorflow as tf

from beambert.trainer.loop.objectives import is_correct

SHAPES = [(5,), (50, 7), (6, 4, 3), (64, 1000)]


def drawn(shape):
    """Logits of few different values, so that many are equal, and labels."""
    generator = np.random.default_rng(len(shape))
    logits = generator.integers(-3, 4, shape) * generator.choice([0.5, 20.0], shape)
    labels = generator.integers(0, shape[-1], shape[:-1])
    return tf.constant(logits, tf.float32), tf.constant(labels, tf.int32)


@pytest.mark.parametrize("shape", SHAPES)
def test_correct_is_the_first_of_the_largest(shape):
    logits, labels = drawn(shape)
    expected = np.argmax(logits, axis=-1) == labels.numpy()
    np.testing.assert_array_equal(is_correct(logits, labels), expected)


def test_nothing_is_correct_if_a_logit_is_no_number():
    logits = tf.constant([[np.nan, 1.0], [1.0, np.nan]])
    for label in (0, 1):
        assert is_correct(logits, tf.constant([label, label])).numpy().tolist() == [0.0, 0.0]
