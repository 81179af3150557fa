"""AdamW exactly as the original's optimization.py, under any tf.distribute strategy.

Own code rather than keras.optimizers.AdamW, which corrects the bias of the moments, clips each
replica's gradient before the sum, and adds epsilon elsewhere.
"""

from collections.abc import Sequence

import tensorflow as tf

from trainer.config import OptimizerConfig


def learning_rate_at(step: tf.Tensor, config: OptimizerConfig) -> tf.Tensor:
    """Returns the learning rate of update `step`, counted from 0 (optimization.py).

    Linear warm-up from 0, then linear decay to 0 at `num_train_steps`. The decay counts from
    step 0, so the rate drops by the warm-up's share where the warm-up ends.
    """
    step = tf.cast(step, tf.float32)
    decayed = 1.0 - tf.minimum(step / config.num_train_steps, 1.0)
    warming = step / max(config.num_warmup_steps, 1)
    return config.learning_rate * tf.where(step < config.num_warmup_steps, warming, decayed)


def uses_weight_decay(path: str) -> bool:
    """Whether a variable decays: all but layer norms and biases (optimization.py)."""
    return not ("layer_norm" in path or path.endswith("bias"))


@tf.function(jit_compile=True, reduce_retracing=True)
def _adam_update(
    parameter: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    gradient: tf.Tensor,
    learning_rate: tf.Tensor,
    weight_decay_rate: float,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """AdamWeightDecayOptimizer.apply_gradients of the original: no bias correction."""
    mean = beta_1 * mean + (1.0 - beta_1) * gradient
    variance = beta_2 * variance + (1.0 - beta_2) * tf.square(gradient)
    update = mean / (tf.sqrt(variance) + epsilon) + weight_decay_rate * parameter
    return parameter - learning_rate * update, mean, variance


class AdamW:
    """The optimizer and its two moments of every variable."""

    def __init__(
        self, paths: Sequence[str], variables: Sequence[tf.Variable], config: OptimizerConfig
    ):
        """Creates the moments; call under the strategy's scope.

        Args:
          paths: of the variables; decide what decays.
          variables: to train.
          config: of the update.
        """
        self._config = config
        self._variables = list(variables)
        self._decays = [uses_weight_decay(path) for path in paths]
        self.means = [self._zeros_like(v) for v in variables]
        self.variances = [self._zeros_like(v) for v in variables]

    @staticmethod
    def _zeros_like(variable: tf.Variable) -> tf.Variable:
        return tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False)

    def apply(self, gradients: Sequence[tf.Tensor], step: tf.Tensor) -> tf.Tensor:
        """Updates every variable; call in replica context.

        Args:
          gradients: this replica's share of the global gradient: they are summed over replicas,
            and only the sum is clipped.
          step: of this update, from 0.

        Returns:
          The norm of the global gradient before clipping.
        """
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync > 1:
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, list(gradients))
        clipped, norm = tf.clip_by_global_norm(gradients, self._config.clip_norm)
        learning_rate = learning_rate_at(step, self._config)
        # Keras's own way to update mirrored variables from identical gradients, with no second
        # reduction.
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._update_all, context.strategy, clipped, learning_rate
        )
        return norm

    def _update_all(
        self, strategy: tf.distribute.Strategy, gradients: Sequence[tf.Tensor], rate: tf.Tensor
    ) -> None:
        moments = zip(self.means, self.variances, strict=True)
        for variable, (mean, variance), gradient, decays in zip(
            self._variables, moments, gradients, self._decays, strict=True
        ):
            strategy.extended.update(
                variable,
                self._update_one,
                args=(mean, variance, gradient, rate),
                kwargs={"decays": decays},
                group=False,
            )

    def _update_one(
        self,
        variable: tf.Variable,
        mean: tf.Variable,
        variance: tf.Variable,
        gradient: tf.Tensor,
        rate: tf.Tensor,
        decays: bool,
    ) -> None:
        config = self._config
        new_variable, new_mean, new_variance = _adam_update(
            variable.read_value(),
            mean.read_value(),
            variance.read_value(),
            gradient,
            rate,
            config.weight_decay_rate if decays else 0.0,
            config.beta_1,
            config.beta_2,
            config.epsilon,
        )
        variable.assign(new_variable)
        mean.assign(new_mean)
        variance.assign(new_variance)
