"""The training loop: several updates in one graph call, under any tf.distribute strategy.

Not `fit`: it fails under MultiWorkerMirroredStrategy, and with several steps a call under
MirroredStrategy; it clips gradients and draws dropout masks per replica; it cannot resume inside
an epoch.
"""

import math
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import keras
import tensorflow as tf

from pipelines.errors import InputError
from trainer import folders
from trainer.config import REPLICA_SEED_STRIDE, LoopConfig, OptimizerConfig
from trainer.objectives import Objective, means
from trainer.optimization import AdamW, learning_rate_at
from trainer.progress import Meter, MetricsFile, describe_metrics
from trainer.strategy import agree, is_chief


class Trainer:
    """A model, its optimizer and the graphs that train and evaluate it."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        build_model: Callable[[], keras.Model],
        objective: Objective,
        optimizer: OptimizerConfig,
        random_seed: int,
    ):
        """Creates model and optimizer under the strategy.

        Args:
          strategy: of the devices.
          build_model: returns the model with all its variables.
          objective: to minimize.
          optimizer: and its schedule.
          random_seed: of the dropout masks.
        """
        self.strategy = strategy
        self.objective = objective
        self.optimizer_config = optimizer
        self._random_seed = random_seed
        with strategy.scope():
            self.model = build_model()
            self._variables = [v.value for v in self.model.trainable_variables]
            paths = [v.path for v in self.model.trainable_variables]
            self._optimizer = AdamW(paths, self._variables, optimizer)
            self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="global_step")
        # By name rather than by place in a list, so that a checkpoint can be read elsewhere.
        self.checkpoint = tf.train.Checkpoint(
            step=self.step,
            model=dict(zip(paths, self._variables, strict=True)),
            adam_m=dict(zip(paths, self._optimizer.means, strict=True)),
            adam_v=dict(zip(paths, self._optimizer.variances, strict=True)),
        )
        weights = dict.fromkeys(objective.weight_of.values())
        self._total_names = [*objective.weight_of, *weights, "gradient_norm"]
        # On a TPU, strategy.run compiles all of the step anyway.
        compiles_itself = isinstance(strategy, tf.distribute.TPUStrategy)
        self._gradients = tf.function(self._gradients_of_sums, jit_compile=not compiles_itself)

    def _gradients_of_sums(
        self,
        features: Mapping[str, tf.Tensor],
        loss_weights: Mapping[str, tf.Tensor],
        dropout_seed: tf.Tensor,
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        with tf.GradientTape() as tape:
            sums = self.objective.sums(self.model, features, dropout_seed)
            loss = tf.add_n(
                [
                    sums[name] / tf.maximum(loss_weights[self.objective.weight_of[name]], 1.0)
                    for name in self.objective.losses
                ]
            )
        gradients = tape.gradient(loss, self._variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums

    def _replica_step(
        self, features: Mapping[str, tf.Tensor], step: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """One update on one replica's part of the batch; returns its sums and weights."""
        context = tf.distribute.get_replica_context()
        weights = self.objective.weights(features)
        global_weights = weights
        if context.num_replicas_in_sync > 1:
            # The losses are means over the global batch, so they are divided by its weights.
            global_weights = context.all_reduce(tf.distribute.ReduceOp.SUM, weights)
        # Another mask on every replica and at every step, and nothing to keep in a checkpoint.
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        replica_seed = self._random_seed + REPLICA_SEED_STRIDE * replica
        seed = tf.stack([replica_seed, tf.cast(step, tf.int32)])
        gradients, sums = self._gradients(features, global_weights, seed)
        norm = self._optimizer.apply(gradients, step)
        return sums | weights | {"gradient_norm": norm / context.num_replicas_in_sync}

    @property
    def steps_done(self) -> int:
        """Updates so far."""
        return int(self.step.numpy())

    def train_steps(self, iterator: Any, steps: int) -> dict[str, float]:
        """Runs `steps` updates; returns the metrics over them and the gradients' mean norm."""
        values = self._train_steps(iterator, tf.constant(steps, tf.int64)).numpy().tolist()
        totals = dict(zip(self._total_names, values, strict=True))
        return means(totals, self.objective) | {"gradient_norm": totals["gradient_norm"] / steps}

    @tf.function(reduce_retracing=True)
    def _train_steps(self, iterator: Any, steps: tf.Tensor) -> tf.Tensor:
        totals = tf.zeros([len(self._total_names)])
        for _ in tf.range(steps):
            step = self.step.read_value()  # before it is counted: the first update is number 0
            outputs = self.strategy.run(self._replica_step, args=(next(iterator), step))
            totals += tf.stack([self._sum_over_replicas(outputs[n]) for n in self._total_names])
            self.step.assign_add(1)
        return totals

    def _sum_over_replicas(self, value: Any) -> tf.Tensor:
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)

    @tf.function(reduce_retracing=True)
    def _evaluation_step(self, features: Any) -> dict[str, tf.Tensor]:
        def replica_sums(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            sums = self.objective.sums(self.model, features, None)
            return sums | self.objective.weights(features)

        outputs = self.strategy.run(replica_sums, args=(features,))
        return {name: self._sum_over_replicas(value) for name, value in outputs.items()}

    def evaluate(self, dataset: tf.data.Dataset) -> dict[str, float]:
        """Returns the means of the objective's metrics over a dataset, without dropout."""
        totals: dict[str, float] = {}
        for features in dataset:
            for name, value in self._evaluation_step(features).items():
                totals[name] = totals.get(name, 0.0) + float(value)
        if not totals:
            raise InputError("--eval_data: there is nothing to evaluate on")
        return means(totals, self.objective)


class Interrupted(SystemExit):
    """Training was asked to stop and has saved its state."""


class _Stop:
    """SIGTERM or Ctrl-C: the loop saves and ends at the next call's end. A context manager.

    A second Ctrl-C interrupts at once.
    """

    def __init__(self):
        self._received: int | None = None

    def __enter__(self) -> "_Stop":
        numbers = (signal.SIGTERM, signal.SIGINT)
        self._previous = {number: signal.signal(number, self._receive) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _: object) -> None:
        self._received = number
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # Not `print`, which the signal may have interrupted.
            os.write(2, b"will save and stop; Ctrl-C again interrupts at once\n")

    @property
    def requested(self) -> bool:
        """Whether to end."""
        return self._received is not None

    @property
    def exit_status(self) -> int:
        """What a shell reports of a process that the signal ended; SIGTERM's for other workers."""
        return 128 + (self._received or signal.SIGTERM)


def train(
    trainer: Trainer,
    batches_from: Callable[[int], Any],
    evaluation: Callable[[int | None], Any] | None,
    config: LoopConfig,
    model_dir: str,
) -> dict[str, float]:
    """Trains to the last step, from the newest checkpoint in the folder if there is one.

    Args:
      trainer: fresh.
      batches_from: returns the distributed training data from a step on.
      evaluation: returns the distributed held-out data, of so many batches or all; or None.
      config: of the loop.
      model_dir: `checkpoints/` and `metrics.jsonl` go there.

    Returns:
      the metrics on all held-out data at the end; empty without any.

    Raises:
      InputError: no checkpoint can be read or written, or the loss is no number.
      Interrupted: after SIGTERM or Ctrl-C, with everything saved.
    """
    run = _Run(trainer, evaluation, config, model_dir)
    with _Stop() as stop:
        run.train_to_last_step(batches_from, stop)
    # All is saved: whatever ends the evaluation, the same command begins it again.
    return run.evaluate_at_the_end()


class _Run:
    """What one call of `train` works with."""

    def __init__(
        self,
        trainer: Trainer,
        evaluation: Callable[[int | None], Any] | None,
        config: LoopConfig,
        model_dir: str,
    ):
        """Restores the newest checkpoint."""
        self._trainer = trainer
        self._evaluation = evaluation
        self._config = config
        self._model_dir = model_dir
        self._manager = tf.train.CheckpointManager(
            trainer.checkpoint, f"{model_dir}/checkpoints", max_to_keep=config.keep_checkpoints
        )
        _restore(trainer, self._manager)
        self._last = trainer.optimizer_config.num_train_steps
        self._chief = is_chief(trainer.strategy)
        self._log = MetricsFile(f"{model_dir}/metrics.jsonl", trainer.steps_done)
        self._meter = Meter(self._last, config.train_batch_size)

    def train_to_last_step(self, batches_from: Callable[[int], Any], stop: _Stop) -> None:
        """Trains, evaluates and saves; ends early if asked to."""
        iterator = None
        while True:
            step = self._trainer.steps_done
            # Workers that ran different numbers of steps would wait for each other for ever.
            steps_a_call, stops = agree(
                self._trainer.strategy, self._meter.steps_a_call(), stop.requested
            )
            if stops:
                self._interrupt(step, stop.exit_status)
            if step >= self._last:
                return
            iterator = iterator or iter(batches_from(step))
            steps = min(steps_a_call, self._next_boundary(step) - step)
            self._train_steps(iterator, step, steps)
            self._evaluate_and_save(step + steps)

    def evaluate_at_the_end(self) -> dict[str, float]:
        """Returns the metrics on all held-out data."""
        metrics = self._trainer.evaluate(self._evaluation(None)) if self._evaluation else {}
        if metrics:
            self._log.write("eval", self._last, metrics)
            self._say(f"held out at the end: {describe_metrics(metrics)}")
        if self._chief:
            self._log.flush()
        return metrics

    def _say(self, line: str) -> None:
        if self._chief:
            print(line, flush=True)

    def _next_boundary(self, step: int) -> int:
        boundaries = [self._last, _next_multiple(step, self._config.save_checkpoints_steps)]
        if self._evaluation:
            boundaries.append(_next_multiple(step, self._config.eval_steps))
        return min(boundaries)

    def _interrupt(self, step: int, exit_status: int) -> NoReturn:
        if self._chief:
            _save(self._log, self._manager, step)
        self._say(
            f"stopped at step {step:,} of {self._last:,} and saved in {self._model_dir}; "
            "the same command continues"
        )
        raise Interrupted(exit_status)

    def _train_steps(self, iterator: Any, step: int, steps: int) -> None:
        """Runs one graph call from a step on, checks and logs what came of it."""
        self._meter.restart()
        metrics = self._trainer.train_steps(iterator, steps)
        self._check_finite(metrics, step, step + steps)
        step += steps
        rate = float(learning_rate_at(step - 1, self._trainer.optimizer_config))
        speed = self._meter.update(step, steps)
        self._log.write("train", step, metrics | {"learning_rate": rate} | speed)
        self._say(self._meter.line(step, metrics, rate))

    def _check_finite(self, metrics: Mapping[str, float], first: int, last: int) -> None:
        # The norm too: a last gradient that is no number spoils the weights, not the loss.
        if math.isfinite(metrics["loss"]) and math.isfinite(metrics["gradient_norm"]):
            return
        raise InputError(
            f"the loss is {metrics['loss']}, the gradient's norm {metrics['gradient_norm']} "
            f"between steps {first} and {last} (seed {self._config.random_seed}); lower "
            f"--learning_rate, or start from an earlier checkpoint in {self._model_dir}/checkpoints"
        )

    def _evaluate_and_save(self, step: int) -> None:
        config = self._config
        if self._evaluation and step % config.eval_steps == 0 and step < self._last:
            held_out = self._trainer.evaluate(self._evaluation(config.max_eval_batches))
            self._log.write("eval", step, held_out)
            self._say(f"held out at step {step:,}: {describe_metrics(held_out)}")
        if self._chief and (step % config.save_checkpoints_steps == 0 or step == self._last):
            _save(self._log, self._manager, step)


def _save(log: MetricsFile, manager: tf.train.CheckpointManager, step: int) -> None:
    log.flush()
    try:
        manager.save(checkpoint_number=step)
    except tf.errors.OpError as error:
        raise InputError(
            f"{manager.directory}: cannot be written ({folders.reason(error)}); "
            "mend that, then the same command continues"
        ) from error


def _restore(trainer: Trainer, manager: tf.train.CheckpointManager) -> None:
    """Loads the newest checkpoint that can be read."""
    for path in reversed(manager.checkpoints):
        try:
            status = trainer.checkpoint.restore(path)
            status.expect_partial()  # keeps TensorFlow from listing what is missing at exit
            status.assert_consumed()
        except (tf.errors.OpError, AssertionError, ValueError, IndexError) as error:
            reason = folders.reason(error)
            print(f"{path}: cannot be read ({reason}); trying the one before", flush=True)
        else:
            print(f"continuing from step {trainer.steps_done:,} ({path})", flush=True)
            return
    if manager.checkpoints:
        raise InputError(
            f"{manager.directory}: none of its checkpoints can be read; "
            "choose another --model_dir or delete it"
        )


def _next_multiple(step: int, interval: int) -> int:
    return (step // interval + 1) * interval
