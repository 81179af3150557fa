"""The optimizers and their schedule of the learning rate.

AdamW is exactly that of the original's optimization.py; the others are its corrected form, LAMB and
Muon. keras.optimizers computes something else: it clips each replica's gradient before the sum,
corrects the bias of the moments, and adds epsilon elsewhere.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from beambert.trainer.loop.config import (
    ADAMW,
    COSINE,
    LAMB,
    LINEAR,
    MUON,
    TRAPEZOID,
    OptimizerConfig,
)
from beambert.trainer.loop.engine import Engine
from beambert.trainer.loop.objectives import Tensor

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


def orthogonalized(matrix: Tensor) -> Tensor:
    """Returns the nearest orthogonal matrix, roughly: most of its singular values are 0.7 to 1.2.

    Those that are far less than the largest stay less than 0.7.

    Args:
      matrix: float32 [rows, columns].
    """
    rows, columns = matrix.shape
    x = ops.transpose(matrix) if rows > columns else matrix
    x = x / (_norm(x) + _LEAST_NORM)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        product = ops.matmul(x, ops.transpose(x))
        x = a * x + ops.matmul(b * product + c * ops.matmul(product, product), x)
    return ops.transpose(x) if rows > columns else x


def _norm(x: Tensor) -> Tensor:
    return ops.sqrt(ops.sum(ops.square(x)))


def _update_matrix(
    parameter: Tensor,
    mean: Tensor,
    gradient: Tensor,
    step: Tensor,
    config: OptimizerConfig,
) -> tuple[Tensor, Tensor]:
    """Returns a matrix and its momentum after an update by Muon (`muon_update` of muon.py)."""
    mean = _MOMENTUM * mean + (1.0 - _MOMENTUM) * gradient
    # Nesterov's momentum.
    update = orthogonalized(_MOMENTUM * mean + (1.0 - _MOMENTUM) * gradient)
    update = update * _ROOT_MEAN_SQUARE * math.sqrt(max(parameter.shape))
    rate = learning_rate_at(step, config)
    return parameter - rate * (update + config.weight_decay_rate * parameter), mean


def _update(
    parameter: Tensor,
    mean: Tensor,
    variance: Tensor,
    gradient: Tensor,
    step: Tensor,
    config: OptimizerConfig,
    decays: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns a variable and its two moments after an update, by the configured optimizer.

    "adamw" is AdamWeightDecayOptimizer.apply_gradients of the original. LAMB adapts the learning
    rate of the variables that decay; layer norms and biases keep the common rate.
    """
    mean = config.beta_1 * mean + (1.0 - config.beta_1) * gradient
    variance = config.beta_2 * variance + (1.0 - config.beta_2) * ops.square(gradient)
    rate = learning_rate_at(step, config)
    if config.optimizer == ADAMW:
        update = mean / (ops.sqrt(variance) + config.epsilon)
    else:
        updates = ops.cast(step + 1, "float32")
        # expm1 keeps the digits that 1 - beta ** updates would lose.
        mean_share = -ops.expm1(updates * math.log(config.beta_1))
        variance_share = -ops.expm1(updates * math.log(config.beta_2))
        update = (mean / mean_share) / (ops.sqrt(variance / variance_share) + config.epsilon)
    if decays:
        update = update + config.weight_decay_rate * parameter
    if decays and config.optimizer == LAMB:
        norms = _norm(parameter), _norm(update)
        rate = rate * ops.where(ops.minimum(*norms) > 0, norms[0] / norms[1], 1.0)
    return parameter - rate * update, mean, variance


class Optimizer:
    """The optimizer, with two moments for every variable.

    Attributes:
      means, variances: the moments.
    """

    def __init__(
        self,
        paths: Sequence[str],
        variables: Sequence[Any],
        config: OptimizerConfig,
        engine: Engine,
    ):
        """Creates the moments; call under the engine's scope.

        Args:
          paths: paths of the variables, which decide what decays.
          variables: variables to train.
          config: parameters of the update.
          engine: engine of the training.
        """
        self._config, self._engine = config, engine
        is_muon = config.optimizer == MUON
        are_matrices = [is_muon and is_hidden_matrix(path) for path in paths]
        self.means = [engine.zeros(v.shape, v.dtype) for v in variables]
        # Muon has no second moment.
        self.variances = [
            engine.zeros(() if is_matrix else v.shape, v.dtype)
            for v, is_matrix in zip(variables, are_matrices, strict=True)
        ]
        # Which side of a matrix is longer decides how it is computed.
        of_matrix = engine.compiled(_update_matrix)
        of_others = engine.compiled(_update, reduce_retracing=True)
        self._states, self._updates = [], []
        for path, is_matrix, state in zip(
            paths,
            are_matrices,
            zip(variables, self.means, self.variances, strict=True),
            strict=True,
        ):
            self._states.append(state[:2] if is_matrix else state)
            update, more = (of_matrix, ()) if is_matrix else (of_others, (uses_weight_decay(path),))
            self._updates.append(functools.partial(self._update_one, update, more))

    def apply(self, gradients: Sequence[Tensor], step: Tensor) -> Tensor:
        """Updates every variable; call for each replica.

        Args:
          gradients: this replica's share of the global gradient. The shares are summed over the
            replicas, and the sum is clipped.
          step: number of this update, counted from 0.

        Returns:
          The norm of the global gradient before clipping.
        """
        gradients = self._engine.all_reduce(list(gradients))
        norm = ops.sqrt(ops.sum(ops.stack([ops.sum(ops.square(each)) for each in gradients])))
        clip = self._config.clip_norm
        # A norm that is not finite makes everything so.
        scale = clip * ops.minimum(1.0 / norm, 1.0 / clip) + (norm - norm)
        clipped = [gradient * scale for gradient in gradients]
        self._engine.update(self._updates, self._states, clipped, step)
        return norm

    def _update_one(
        self, update: Callable[..., tuple[Tensor, ...]], more: tuple[bool, ...], *arguments: Any
    ) -> None:
        *state, gradient, step = arguments
        old = [self._engine.value(each) for each in state]
        new = update(*old, gradient, step, self._config, *more)
        for target, value in zip(state, new, strict=True):
            target.assign(value)


def learning_rate_at(step: Tensor, config: OptimizerConfig) -> Tensor:
    """Returns the learning rate at a step of the schedule, counted from 0.

    The rate grows linearly from 0 in the warm-up, then decays to 0 at `num_train_steps`. The linear
    decay of the original counts from step 0 (optimization.py), so where the warm-up ends, the rate
    drops by the warm-up's share of the steps. All others count from the end of the warm-up.
    """
    step, num_train_steps = ops.cast(step, "float32"), config.num_train_steps
    warmup = config.num_warmup_steps
    start = 0 if config.optimizer == ADAMW and config.schedule == LINEAR else warmup
    decayed = 1.0 - ops.minimum((step - start) / (num_train_steps - start), 1.0)
    if config.schedule == COSINE:
        decayed = 0.5 * (1.0 - ops.cos(math.pi * decayed))
    elif config.schedule == TRAPEZOID:
        steps_left = ops.maximum(num_train_steps - step, 0.0)
        decayed = ops.minimum(steps_left / (config.decay_share * num_train_steps), 1.0)
    return config.learning_rate * ops.where(step < warmup, step / max(warmup, 1), decayed)
