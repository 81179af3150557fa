"""Learning rates of the steps, beside their formulas."""

import numpy as np
import pytest
import tensorflow as tf

from beambert.trainer.loop.config import OptimizerConfig
from beambert.trainer.loop.optimization import learning_rate_at


@pytest.mark.parametrize("optimizer", ["adamw_corrected", "lamb"])
def test_a_corrected_decay_starts_where_the_warmup_ends(optimizer):
    config = OptimizerConfig(1.0, 100, 40, optimizer=optimizer)
    rates = [float(learning_rate_at(tf.constant(step), config)) for step in (0, 20, 40, 70, 100)]
    assert rates == pytest.approx([0, 0.5, 1, 0.5, 0])


@pytest.mark.parametrize(
    ("step", "rate"),
    # Warm-up of 40 of 100 steps: the decay has been counting all along, hence the drop at 40.
    [(0, 0.0), (1, 0.025), (39, 0.975), (40, 0.6), (41, 0.59), (99, 0.01), (100, 0.0), (150, 0.0)],
)
def test_learning_rate(step, rate):
    config = OptimizerConfig(1.0, num_train_steps=100, num_warmup_steps=40)
    actual = learning_rate_at(tf.constant(step, tf.int64), config).numpy()
    assert actual == pytest.approx(rate, abs=1e-6)


def test_without_warmup_the_first_rate_is_the_peak():
    config = OptimizerConfig(2e-5, num_train_steps=10, num_warmup_steps=0)
    assert learning_rate_at(tf.constant(0), config).numpy() == pytest.approx(2e-5)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_schedules_beside_their_formulas(optimizer):
    def rates(schedule, **more):
        config = OptimizerConfig(0.5, 100, 10, optimizer=optimizer, schedule=schedule, **more)
        return [float(learning_rate_at(tf.constant(step), config)) for step in range(101)]

    rise = [0.5 * step / 10 for step in range(10)]
    cosine = [0.25 * (1 + np.cos(np.pi * (step - 10) / 90)) for step in range(10, 101)]
    np.testing.assert_allclose(rates("cosine"), rise + cosine, atol=1e-6)
    trapezoid = [0.5 * min(1, (100 - step) / 25) for step in range(10, 101)]
    np.testing.assert_allclose(rates("trapezoid", decay_share=0.25), rise + trapezoid, atol=1e-6)
