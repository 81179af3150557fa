"""The optimizers and their schedule of the learning rate.

AdamW is exactly that of the original's optimization.py; the others are its corrected form, LAMB and
Muon. keras.optimizers computes something else: it clips each replica's gradient before the sum,
corrects the bias of the moments, and adds epsilon elsewhere.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

from beambert.trainer.loop.config import (
    ADAMW,
    COSINE,
    LAMB,
    LINEAR,
    MUON,
    TRAPEZOID,
    OptimizerConfig,
)
from beambert.trainer.loop.strategy import must_compile

# Constants of Muon (muon.py in github.com/KellerJordan/Muon): the decay rate of its momentum, the
# number of iterations, their coefficients, and what is added to the norm.
_MOMENTUM = 0.95
_ITERATIONS = 5
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_LEAST_NORM = 1e-7
# The root of the mean square of AdamW's updates, to which Muon's are scaled, so that one learning
# rate serves both (Liu et al. 2025, arXiv 2502.16982, section 2.2).
_ROOT_MEAN_SQUARE = 0.2


def uses_weight_decay(path: str) -> bool:
    """Returns whether a variable decays: all except layer norms and biases (optimization.py)."""
    return not ("layer_norm" in path or path.endswith("bias"))


def is_hidden_matrix(path: str) -> bool:
    """Returns whether a variable is a matrix of a layer, whose updates Muon orthogonalizes."""
    return "encoder/layer_" in path and path.endswith("kernel")


def orthogonalized(matrix: tf.Tensor) -> tf.Tensor:
    """Returns the nearest orthogonal matrix, roughly: most of its singular values are 0.7 to 1.2.

    Those that are far less than the largest stay less than 0.7.

    Args:
      matrix: float32 [rows, columns].
    """
    rows, columns = matrix.shape
    x = tf.transpose(matrix) if rows > columns else matrix
    x /= tf.norm(x) + _LEAST_NORM
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        product = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * product + c * tf.matmul(product, product), x)
    return tf.transpose(x) if rows > columns else x


def _update_matrix(
    parameter: tf.Tensor,
    mean: tf.Tensor,
    gradient: tf.Tensor,
    step: tf.Tensor,
    config: OptimizerConfig,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a matrix and its momentum after an update by Muon (`muon_update` of muon.py)."""
    mean = _MOMENTUM * mean + (1.0 - _MOMENTUM) * gradient
    # Nesterov's momentum.
    update = orthogonalized(_MOMENTUM * mean + (1.0 - _MOMENTUM) * gradient)
    update *= _ROOT_MEAN_SQUARE * math.sqrt(max(parameter.shape))
    rate = learning_rate_at(step, config)
    return parameter - rate * (update + config.weight_decay_rate * parameter), mean


def _update(
    parameter: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    gradient: tf.Tensor,
    step: tf.Tensor,
    config: OptimizerConfig,
    decays: bool,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns a variable and its two moments after an update, by the configured optimizer.

    "adamw" is AdamWeightDecayOptimizer.apply_gradients of the original. LAMB adapts the learning
    rate of the variables that decay; layer norms and biases keep the common rate.
    """
    mean = config.beta_1 * mean + (1.0 - config.beta_1) * gradient
    variance = config.beta_2 * variance + (1.0 - config.beta_2) * tf.square(gradient)
    rate = learning_rate_at(step, config)
    if config.optimizer == ADAMW:
        update = mean / (tf.sqrt(variance) + config.epsilon)
    else:
        updates = tf.cast(step + 1, tf.float32)
        # expm1 keeps the digits that 1 - beta ** updates would lose.
        mean_share = -tf.math.expm1(updates * math.log(config.beta_1))
        variance_share = -tf.math.expm1(updates * math.log(config.beta_2))
        update = (mean / mean_share) / (tf.sqrt(variance / variance_share) + config.epsilon)
    if decays:
        update += config.weight_decay_rate * parameter
    if decays and config.optimizer == LAMB:
        norms = tf.norm(parameter), tf.norm(update)
        rate *= tf.where(tf.minimum(*norms) > 0, norms[0] / norms[1], 1.0)
    return parameter - rate * update, mean, variance


class Optimizer:
    """The optimizer, with two moments for every variable."""

    def __init__(
        self, paths: Sequence[str], variables: Sequence[tf.Variable], config: OptimizerConfig
    ):
        """Creates the moments; call under the strategy's scope.

        Args:
          paths: paths of the variables, which decide what decays.
          variables: variables to train.
          config: parameters of the update.
        """
        self._config = config
        self._variables = list(variables)
        self._decays = [uses_weight_decay(path) for path in paths]
        is_muon = config.optimizer == MUON
        self._are_matrices = [is_muon and is_hidden_matrix(path) for path in paths]
        self.means = [self._zeros(v, v.shape) for v in variables]
        # Muon has no second moment.
        self.variances = [
            self._zeros(v, () if is_matrix else v.shape)
            for v, is_matrix in zip(variables, self._are_matrices, strict=True)
        ]
        is_compiled = must_compile(tf.distribute.get_strategy())
        self._update = tf.function(
            _update, jit_compile=is_compiled, reduce_retracing=True, autograph=False
        )
        # Which side of a matrix is longer decides how it is computed.
        self._update_matrix = tf.function(_update_matrix, jit_compile=is_compiled, autograph=False)

    @staticmethod
    def _zeros(variable: tf.Variable, shape: Sequence[int]) -> tf.Variable:
        return tf.Variable(tf.zeros(shape, variable.dtype), trainable=False)

    def apply(
        self,
        gradients: Sequence[tf.Tensor],
        step: tf.Tensor,
    ) -> tf.Tensor:
        """Updates every variable; call in replica context.

        Args:
          gradients: this replica's share of the global gradient. The shares are summed over the
            replicas, and the sum is clipped.
          step: number of this update, counted from 0.

        Returns:
          The norm of the global gradient before clipping.
        """
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync > 1:
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, list(gradients))
        clipped, norm = tf.clip_by_global_norm(gradients, self._config.clip_norm)
        # Keras updates mirrored variables from identical gradients in the same way. There is no
        # second reduction.
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._update_all,
            context.strategy,
            clipped,
            step,
        )
        return norm

    def _update_all(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[tf.Tensor],
        step: tf.Tensor,
    ) -> None:
        moments = zip(self.means, self.variances, strict=True)
        for variable, (mean, variance), gradient, decays, is_matrix in zip(
            self._variables, moments, gradients, self._decays, self._are_matrices, strict=True
        ):
            strategy.extended.update(
                variable,
                self._update_one,
                args=(mean, variance, gradient, step),
                kwargs={"decays": decays, "is_matrix": is_matrix},
                group=False,
            )

    def _update_one(
        self,
        variable: tf.Variable,
        mean: tf.Variable,
        variance: tf.Variable,
        gradient: tf.Tensor,
        step: tf.Tensor,
        decays: bool,
        is_matrix: bool,
    ) -> None:
        if is_matrix:
            state, update, more = (variable, mean), self._update_matrix, ()
        else:
            state, update, more = (variable, mean, variance), self._update, (decays,)
        old = [each.read_value() for each in state]
        new = update(*old, gradient, step, self._config, *more)
        for target, value in zip(state, new, strict=True):
            target.assign(value)


def learning_rate_at(step: tf.Tensor, config: OptimizerConfig) -> tf.Tensor:
    """Returns the learning rate at a step of the schedule, counted from 0.

    The rate grows linearly from 0 in the warm-up, then decays to 0 at `num_train_steps`. The linear
    decay of the original counts from step 0 (optimization.py), so where the warm-up ends, the rate
    drops by the warm-up's share of the steps. All others count from the end of the warm-up.
    """
    step, num_train_steps = tf.cast(step, tf.float32), config.num_train_steps
    warmup = config.num_warmup_steps
    start = 0 if config.optimizer == ADAMW and config.schedule == LINEAR else warmup
    decayed = 1.0 - tf.minimum((step - start) / (num_train_steps - start), 1.0)
    if config.schedule == COSINE:
        decayed = 0.5 * (1.0 - tf.cos(math.pi * decayed))
    elif config.schedule == TRAPEZOID:
        steps_left = tf.maximum(num_train_steps - step, 0.0)
        decayed = tf.minimum(steps_left / (config.decay_share * num_train_steps), 1.0)
    return config.learning_rate * tf.where(step < warmup, step / max(warmup, 1), decayed)
