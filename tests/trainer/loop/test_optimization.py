"""The optimizers and schedules, compared with their formulas and with other implementations."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from beambert.trainer.loop.config import OptimizerConfig
from beambert.trainer.loop.engines.tensorflow import TensorFlow
from beambert.trainer.loop.optimization import (
    Optimizer,
    learning_rate_at,
)

GOLDEN_MUON = pathlib.Path(__file__).parent.parent / "golden_muon.npz"
SHAPES = {
    "bert/dense/kernel": (4, 3),
    "bert/dense/bias": (3,),
    "bert/layer_norm/gamma": (3,),
    "bert/layer_norm/beta": (3,),
    "bert/embeddings/word_embeddings": (7, 4),
}
DECAYED = {"bert/dense/kernel", "bert/embeddings/word_embeddings"}


def reference_rate(step: int, peak: float, total: int, warmup: int) -> float:
    return peak * step / warmup if step < warmup else peak * (1 - step / total)


def reference_update(weights, means, variances, gradients, rate, clip):
    """One update of all variables, in place: optimization.py's formulas."""
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
    for name, gradient in gradients.items():
        gradient = gradient * clip / max(norm, clip)
        means[name] = 0.9 * means[name] + 0.1 * gradient
        variances[name] = 0.999 * variances[name] + 0.001 * gradient**2
        update = means[name] / (np.sqrt(variances[name]) + 1e-6)
        if name in DECAYED:
            update = update + 0.01 * weights[name]
        weights[name] = weights[name] - rate * update


def draw(random, scale: float = 1.0) -> dict[str, np.ndarray]:
    return {name: scale * random.standard_normal(shape) for name, shape in SHAPES.items()}


def float32(arrays: dict[str, np.ndarray]) -> list[tf.Tensor]:
    return [tf.constant(array, tf.float32) for array in arrays.values()]


def test_hundred_updates_equal_the_original_formulas():
    random = np.random.default_rng(3)
    weights = draw(random)
    means, variances = draw(random, 0.0), draw(random, 0.0)
    config = OptimizerConfig(0.05, num_train_steps=110, num_warmup_steps=20)
    variables = [tf.Variable(array) for array in float32(weights)]
    optimizer = Optimizer(list(SHAPES), variables, config, TensorFlow())
    apply = tf.function(optimizer.apply)
    start = {name: array.copy() for name, array in weights.items()}
    norms, reference_norms = [], []
    for step in range(100):
        # From far below to far above the clip.
        gradients = draw(random, 10.0 ** random.uniform(-3, 1))
        reference_norms.append(np.sqrt(sum((g**2).sum() for g in gradients.values())))
        norms.append(apply(float32(gradients), tf.constant(step, tf.int64)).numpy())
        rate = reference_rate(step, 0.05, 110, 20)
        reference_update(weights, means, variances, gradients, rate, 1.0)
    assert min(reference_norms) < 0.1 < 10 < max(reference_norms)
    np.testing.assert_allclose(norms, reference_norms, rtol=1e-5)
    for name, variable in zip(SHAPES, variables, strict=True):
        assert np.abs(weights[name] - start[name]).min() > 1e-3
        np.testing.assert_allclose(variable.numpy(), weights[name], rtol=1e-4, atol=1e-5)


def reference_corrected(optimizer, weights, means, variances, gradients, rate, updates):
    """AdamW, and algorithm 2 of You et al. 2020 (LAMB) with phi the identity, in float64."""
    for name, gradient in gradients.items():
        means[name] = 0.9 * means[name] + 0.1 * gradient
        variances[name] = 0.999 * variances[name] + 0.001 * gradient**2
        ratio = means[name] / (1 - 0.9**updates)
        ratio = ratio / (np.sqrt(variances[name] / (1 - 0.999**updates)) + 1e-6)
        if name in DECAYED:
            ratio = ratio + 0.01 * weights[name]
        if name in DECAYED and optimizer == "lamb":
            ratio *= np.linalg.norm(weights[name]) / np.linalg.norm(ratio)
        weights[name] = weights[name] - rate * ratio


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw_corrected", "lamb"])
def test_corrected_moments_and_trust_ratios_equal_the_papers_formulas(optimizer):
    random = np.random.default_rng(6)
    weights = draw(random)
    means, variances = draw(random, 0.0), draw(random, 0.0)
    variables = [tf.Variable(array) for array in float32(weights)]
    config = OptimizerConfig(0.02, 60, 0, optimizer=optimizer)
    apply = Optimizer(list(SHAPES), variables, config, TensorFlow()).apply
    for step in range(50):
        gradients = draw(random, 0.01)  # below the clip
        apply(float32(gradients), tf.constant(step, tf.int64))
        rate = 0.02 * (1 - step / 60)
        reference_corrected(optimizer, weights, means, variances, gradients, rate, step + 1)
    for name, variable in zip(SHAPES, variables, strict=True):
        np.testing.assert_allclose(variable.numpy(), weights[name], rtol=1e-4, atol=1e-5)


def test_lamb_moves_weights_that_are_zero():
    """Without a norm there is no trust ratio, so the rate is the common one, as in Keras's Lamb."""
    variable = tf.Variable(tf.zeros([4, 3]))
    config = OptimizerConfig(0.02, 60, 0, optimizer="lamb", weight_decay_rate=0.0)
    optimizer = Optimizer(["bert/dense/kernel"], [variable], config, TensorFlow())
    optimizer.apply([tf.fill([4, 3], 0.01)], tf.constant(0, tf.int64))
    np.testing.assert_allclose(variable.numpy(), -0.02, rtol=1e-3)


@pytest.mark.slow
def test_replicas_clip_and_apply_their_sum_once(two_devices):
    random = np.random.default_rng(4)
    weights = draw(random)
    means, variances = draw(random, 0.0), draw(random, 0.0)
    parts = [draw(random, 5.0), draw(random, 5.0)]
    config = OptimizerConfig(0.1, num_train_steps=10, num_warmup_steps=0, clip_norm=0.1)
    strategy = two_devices
    with strategy.scope():
        variables = [tf.Variable(array) for array in float32(weights)]
        optimizer = Optimizer(list(SHAPES), variables, config, TensorFlow(strategy))
    both = [tf.stack(pair) for pair in zip(*(float32(part) for part in parts), strict=True)]

    @tf.function
    def update():
        def on_replica():
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            gradients = [tf.gather(pair, replica) for pair in both]
            return optimizer.apply(gradients, tf.constant(0, tf.int64))

        return strategy.run(on_replica)

    norms = strategy.experimental_local_results(update())
    summed = {name: parts[0][name] + parts[1][name] for name in SHAPES}
    norm = np.sqrt(sum((gradient**2).sum() for gradient in summed.values()))
    np.testing.assert_allclose(norms, [norm, norm], rtol=1e-5)
    first_moment = np.concatenate([mean.numpy().ravel() for mean in optimizer.means])
    # A tenth of the clipped gradient, whose norm is 0.1.
    assert np.linalg.norm(first_moment) == pytest.approx(0.1 * 0.1, rel=1e-5)
    reference_update(weights, means, variances, summed, 0.1, 0.1)
    for name, variable in zip(SHAPES, variables, strict=True):
        for copy in strategy.experimental_local_results(variable):
            np.testing.assert_allclose(copy.numpy(), weights[name], rtol=1e-4, atol=1e-5)


def test_hundred_updates_by_muon_equal_its_authors():
    """Of matrices with more rows than columns, fewer, and as many; see make_golden_muon.py."""
    golden = np.load(GOLDEN_MUON)
    random = np.random.default_rng(7)
    variables, gradients = [], []
    for name in golden:
        shape = golden[name].shape
        variables.append(tf.Variable(tf.constant(random.standard_normal(shape), tf.float32)))
        drawn = [random.standard_normal(shape) * 10.0 ** random.uniform(-3, 1) for _ in range(100)]
        gradients.append(tf.constant(np.stack(drawn), tf.float32))
    start = [variable.numpy() for variable in variables]
    config = OptimizerConfig(0.02, 100, 0, weight_decay_rate=0.1, clip_norm=1e9, optimizer="muon")
    paths = [f"encoder/layer_0/{name}/kernel" for name in golden]
    apply = tf.function(Optimizer(paths, variables, config, TensorFlow()).apply)
    for step in range(100):
        apply([gradient[step] for gradient in gradients], tf.constant(step, tf.int64))
    for name, variable, before in zip(golden, variables, start, strict=True):
        assert np.abs(variable.numpy() - before).max() > 0.1
        np.testing.assert_allclose(variable.numpy(), golden[name], rtol=1e-3, atol=1e-4)


def test_muon_is_adamw_for_all_but_the_matrices_of_layers():
    random = np.random.default_rng(8)
    shapes = {"bert/encoder/layer_0/dense/kernel": (4, 3)} | SHAPES
    start = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    gradients = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    results = {}
    for name in ("muon", "adamw_corrected"):
        config = OptimizerConfig(0.01, 10, 0, optimizer=name)
        variables = [tf.Variable(array) for array in float32(start)]
        Optimizer(list(shapes), variables, config, TensorFlow()).apply(
            float32(gradients), tf.constant(0, tf.int64)
        )
        results[name] = [variable.numpy() for variable in variables]
    equal = [np.array_equal(*pair) for pair in zip(*results.values(), strict=True)]
    assert equal == [False] + [True] * len(SHAPES)
    # An update is as large as one of AdamW, whose root of the mean square is 0.2 to 0.4.
    change = results["muon"][0] - start["bert/encoder/layer_0/dense/kernel"]
    assert 0.1 < np.sqrt((change**2).mean()) / 0.01 < 0.4


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
