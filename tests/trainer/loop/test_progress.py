"""The rates of a progress line, and the metrics in it."""

import numpy as np
import pytest
import tensorflow as tf

from beambert import console
from beambert.trainer.loop import progress
from beambert.trainer.loop.objectives import is_correct
from beambert.trainer.loop.steps import Phase


def test_a_call_is_short_for_signals_and_a_line_is_rare(monkeypatch):
    """A signal waits for the end of a call, and nobody reads a line every two seconds."""
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    phase = Phase(1000, None, None, 4, tokens_a_step=512)
    meter, step, calls, lines = progress.Meter(1000, phase, 0), 0, [], []
    for seconds_a_step in [0.5] * 20 + [0.05] * 20 + [8.0] * 2:
        steps = meter.steps_a_call()
        meter.restart()
        now += steps * seconds_a_step
        step += steps
        meter.update(step, steps)
        calls.append(steps * seconds_a_step)
        if meter.is_due():
            lines.append(now)
    assert calls[:3] == [0.5, 0.5, 2.5] and calls[21:39] == pytest.approx([2.5] * 18)
    assert calls[-1] == 8.0  # one update
    assert lines[:4] == pytest.approx([0.5, 1.0, 11.0, 21.0], abs=0.6)
    assert len(lines) < 15


def test_what_ends_after_a_time_has_no_more_left_than_that(monkeypatch):
    now, lines = 0.0, []
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    report = console.show_progress("batches", lines.append, most=60.0)
    for done, seconds in enumerate((38, 10), start=1):
        now += seconds
        report(done, 100)
    assert lines == ["2 of 100 batches, 0.10/s, 12 s left"]


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
