"""A model, its optimizer and the graphs that train and evaluate it, under any strategy.

Keras's `fit` does not serve here. It fails under MultiWorkerMirroredStrategy, and under
MirroredStrategy with several steps in a call. It clips the gradients of each replica by themselves,
and it cannot resume inside an epoch.
"""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from beambert import io
from beambert.errors import InputError
from beambert.trainer.loop.checkpoints import MODEL, OPTIMIZER, check_shapes
from beambert.trainer.loop.config import REPLICA_SEED_STRIDE, OptimizerConfig
from beambert.trainer.loop.objectives import Objective, means
from beambert.trainer.loop.optimization import Optimizer, learning_rate_at
from beambert.trainer.loop.strategy import are_several, must_compile


class HeldOutPart(NamedTuple):
    """The held-out data of one source of a corpus.

    Attributes:
      name: name of the source.
      batches: distributed dataset.
      share: share of the source's held-out data that is in it.
    """

    name: str
    batches: Any
    share: float


@dataclasses.dataclass(frozen=True)
class Phase:
    """The steps on batches of one shape.

    Attributes:
      last_step: number of the whole run's steps when this phase is over; the next begins there.
      batches_from: function that returns the distributed training data from a step of the whole run
        on.
      evaluation: function that returns the distributed held-out data, all of them or a number of
        batches, as one dataset or as the parts of each source; None if there are none.
      sequences_a_step: number of sequences in an update, over all replicas.
      tokens_a_step: number of positions in a batch, padding included.
      evaluation_batches: number of batches of all held-out data; 0 if there are none.
      score: function of the outputs for all rows of the held-out data, which returns further
        metrics of an evaluation; None if the objective has no outputs. Its last call in a training
        has the outputs of the weights that are the result.
    """

    last_step: int
    batches_from: Callable[[int], Any]
    evaluation: Callable[[int | None], Any] | None
    sequences_a_step: int
    tokens_a_step: int
    evaluation_batches: int = 0
    score: Callable[[dict[str, np.ndarray]], Mapping[str, float]] | None = None


_SECONDS = "seconds"


class Trainer:
    """Runs updates, evaluates and predicts."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        build_model: Callable[[], keras.Model],
        objective: Objective,
        optimizer: OptimizerConfig,
        random_seed: int,
        *,
        gradient_accumulation_steps: int = 1,
        dtype: str = "float32",
    ):
        """Creates model and optimizer under the strategy.

        Args:
          strategy: strategy of the devices.
          build_model: function that returns the model with all its variables.
          objective: losses to minimize, and metrics.
          optimizer: parameters of the optimizer and of its learning rate.
          random_seed: seed of the dropout masks.
          gradient_accumulation_steps, dtype: see `LoopConfig`.
        """
        self.strategy = strategy
        self.objective = objective
        self.optimizer_config = optimizer
        self.dtype = dtype
        self._random_seed = random_seed
        self._parts = gradient_accumulation_steps
        with strategy.scope(), dtype_policy(dtype):
            self.model = build_model()
            self._variables = [v.value for v in self.model.trainable_variables]
            self._paths = [v.path for v in self.model.trainable_variables]
            self._optimizer = Optimizer(self._paths, self._variables, optimizer)
            self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="global_step")
        weights = dict.fromkeys(objective.weight_of.values())
        self._total_names = [*objective.weight_of, *weights, "gradient_norm"]
        # No `if` or `for` in the model depends on a tensor's value, so it needs no AutoGraph, which
        # would take longer than the tracing itself.
        self._compiled = functools.partial(
            tf.function, jit_compile=must_compile(strategy), autograph=False
        )
        ways = objective.ways()
        self._answers_by_way = [
            self._compiled(functools.partial(self._answers_of, answers_of))
            for answers_of in objective.answers()
        ]
        self._gradients_by_way = [
            self._compiled(functools.partial(self._gradients_of, sums_of)) for sums_of in ways
        ]
        self._sums_by_way = [
            self._compiled(functools.partial(self._evaluation_sums, sums_of)) for sums_of in ways
        ]

    def _by_way(self, functions: Sequence[Callable[..., Any]], features: Any, *others: Any) -> Any:
        """Calls the cheapest of the functions for a batch, which the objective's `way` selects."""
        way = self.objective.way(features)
        if way is None:
            return functions[0](features, *others)
        calls = [functools.partial(function, features, *others) for function in functions]
        return tf.switch_case(way, calls)

    def _gradients_of(
        self,
        sums_of: Callable[..., dict[str, tf.Tensor]],
        features: Mapping[str, tf.Tensor],
        loss_weights: Mapping[str, tf.Tensor],
        dropout_seed: tf.Tensor,
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the gradients and sums of a batch."""
        with tf.GradientTape() as tape:
            sums = sums_of(self.model, features, dropout_seed)
            loss = tf.add_n(
                [
                    self.objective.factor(name)
                    * (sums[name] / tf.maximum(loss_weights[self.objective.weight_of[name]], 1.0))
                    for name in self.objective.losses
                ]
            )
        gradients = tape.gradient(loss, self._variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums

    def _evaluation_sums(
        self, sums_of: Callable[..., dict[str, tf.Tensor]], features: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        return sums_of(self.model, features, None) | self.objective.weights(features)

    def _answers_of(
        self,
        answers_of: Callable[..., tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]],
        features: Mapping[str, tf.Tensor],
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        sums, outputs = answers_of(self.model, features)
        return sums | self.objective.weights(features), outputs

    def _replica_step(self, features: Mapping[str, tf.Tensor], step: tf.Tensor) -> tf.Tensor:
        """Does one update on one replica's share of the batch; returns the share's totals."""
        context = tf.distribute.get_replica_context()
        weights = self.objective.weights(features)
        global_weights = weights
        if context.num_replicas_in_sync > 1:
            # The losses are means over the global batch, so its weights divide them.
            global_weights = context.all_reduce(tf.distribute.ReduceOp.SUM, weights)
        # Replica and step decide the dropout masks, so a checkpoint needs no generator state.
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        replica_seed = self._random_seed + REPLICA_SEED_STRIDE * replica
        first_part = tf.cast(step, tf.int32) * self._parts
        gradients, sums = self._gradients_of_parts(
            features, global_weights, replica_seed, first_part
        )
        norm = self._optimizer.apply(gradients, step)
        totals = sums | weights | {"gradient_norm": norm / context.num_replicas_in_sync}
        return tf.stack([totals[name] for name in self._total_names])

    def _gradients_of_parts(
        self,
        features: Mapping[str, tf.Tensor],
        loss_weights: Mapping[str, tf.Tensor],
        replica_seed: tf.Tensor,
        first_part: tf.Tensor,
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Computes a batch in parts, one after the other, and adds up their gradients and sums."""
        parts = self._parts
        if parts == 1:
            seed = tf.stack([replica_seed, first_part])
            return self._by_way(self._gradients_by_way, features, loss_weights, seed)
        divided = {
            name: tf.reshape(value, [parts, value.shape[0] // parts, *value.shape[1:]])
            for name, value in features.items()
        }

        def add_part(part: tf.Tensor, totals: Any) -> tuple[tf.Tensor, Any]:
            some = {name: value[part] for name, value in divided.items()}
            seed = tf.stack([replica_seed, first_part + part])
            computed = self._by_way(self._gradients_by_way, some, loss_weights, seed)
            return part + 1, tf.nest.map_structure(tf.add, totals, computed)

        names = [*self.objective.weight_of, *self.objective.counts]
        nothing = [tf.zeros(v.shape, v.dtype) for v in self._variables], dict.fromkeys(names, 0.0)
        # The parts run one at a time; together they would need the memory of the whole batch.
        _, totals = tf.while_loop(
            lambda part, _: part < parts, add_part, (0, nothing), parallel_iterations=1
        )
        return totals

    def learning_rate(self, step: int) -> float:
        """Returns the learning rate of an update, counted from 0."""
        return float(learning_rate_at(step, self.optimizer_config))

    @property
    def steps_done(self) -> int:
        """Number of updates so far."""
        return int(self.step.numpy())

    def weights(self) -> dict[str, np.ndarray]:
        """Returns copies of the trained variables by name."""
        return _copies(self._named(self._variables))

    def set_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Sets the trained variables.

        Raises:
          ValueError: the weights are those of another model.
        """
        _assign(self._named(self._variables), weights)

    def state(self) -> dict[str, dict[str, np.ndarray]]:
        """Returns copies of the trained variables and of the optimizer's moments, by name."""
        return {MODEL: self.weights(), OPTIMIZER: _copies(self._moments())}

    def restore(self, step: int, state: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Sets the number of updates that are done, and what `state` has returned then.

        Raises:
          ValueError: the state is that of another model or optimizer; nothing is changed.
        """
        _assign(
            self._named(self._variables) | self._moments(),
            {**state[MODEL], **state[OPTIMIZER]},
        )
        self.step.assign(step)

    def _named(self, variables: Sequence[tf.Variable], suffix: str = "") -> dict[str, tf.Variable]:
        return {f"{path}{suffix}": v for path, v in zip(self._paths, variables, strict=True)}

    def _moments(self) -> dict[str, tf.Variable]:
        """Returns the moments by the names that they have in checkpoints of the original."""
        means = self._named(self._optimizer.means, "/adam_m")
        return means | self._named(self._optimizer.variances, "/adam_v")

    def train_steps(self, iterator: Any, steps: int) -> dict[str, float]:
        """Runs `steps` updates; returns their metrics and the mean norm of their gradients.

        Raises:
          NotFinite: the loss or the gradient of a step is not finite.
          InputError: the data cannot be read.
        """
        with _reading(self.strategy):
            totals, bad_step = self._train_steps(iterator, tf.constant(steps, tf.int64))
        values = dict(zip(self._total_names, totals.numpy().tolist(), strict=True))
        metrics = means(values, self.objective)
        metrics["gradient_norm"] = values["gradient_norm"] / steps
        if bad_step >= 0:
            raise NotFinite(int(bad_step), metrics)
        return metrics

    # There is one graph for each shape of batches: XLA cannot compile a graph with relaxed shapes.
    @functools.partial(tf.function, autograph=False)
    def _train_steps(self, iterator: Any, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def train_step(
            done: tf.Tensor, totals: tf.Tensor, bad_step: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            step = self.step.read_value()  # the first update has number 0
            outputs = self.strategy.run(self._replica_step, args=(next(iterator), step))
            outputs = self._sum_over_replicas(outputs)
            # The norm of the gradient is checked too: if only the last gradient is not finite, it
            # spoils the weights without a trace in the loss.
            is_bad = ~tf.reduce_all(tf.math.is_finite(outputs))
            bad_step = tf.where(is_bad & (bad_step < 0), step, bad_step)
            self.step.assign_add(1)
            return done + 1, totals + outputs, bad_step

        beginning = (
            tf.constant(0, tf.int64),
            tf.zeros([len(self._total_names)]),
            tf.constant(-1, tf.int64),
        )
        _, totals, bad_step = tf.while_loop(lambda done, *_: done < steps, train_step, beginning)
        return totals, bad_step

    def _sum_over_replicas(self, value: Any) -> tf.Tensor:
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)

    @functools.partial(tf.function, autograph=False)
    def _evaluation_step(self, features: Any) -> dict[str, tf.Tensor]:
        def replica_sums(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return self._by_way(self._sums_by_way, features)

        outputs = self.strategy.run(replica_sums, args=(features,))
        return {name: self._sum_over_replicas(value) for name, value in outputs.items()}

    @functools.partial(tf.function, autograph=False)
    def _answering_step(self, features: Any) -> tuple[dict[str, tf.Tensor], dict[str, Any]]:
        def replica_answers(features: Mapping[str, tf.Tensor]) -> tuple[Any, Any]:
            return self._by_way(self._answers_by_way, features)

        sums, outputs = self.strategy.run(replica_answers, args=(features,))
        return {name: self._sum_over_replicas(value) for name, value in sums.items()}, outputs

    def evaluate(
        self,
        dataset: tf.data.Dataset | list[HeldOutPart],
        report: Callable[[int], None] = lambda _: None,
        score: Callable[[dict[str, np.ndarray]], Mapping[str, float]] | None = None,
    ) -> dict[str, float]:
        """Returns the means of the objective's metrics over a dataset, without dropout.

        Of the parts of sources the result also has the metrics of each, as "NAME/metric". In those
        of all, a part counts as if all of its source had been read.

        Args:
          dataset: distributed dataset, or one for each source.
          report: called after each batch with the number of batches that are done.
          score: function of the outputs for each row of the dataset, in its order, which returns
            further metrics; None to compute no outputs.
        """
        if isinstance(dataset, list):
            return self._evaluate_parts(dataset, report)
        rows: dict[str, list[np.ndarray]] = {}
        metrics = self._metrics(self._totals(dataset, report, rows if score else None))
        if score:
            metrics |= score({name: np.concatenate(values) for name, values in rows.items()})
        return metrics

    def _evaluate_parts(
        self, parts: Sequence[HeldOutPart], report: Callable[[int], None]
    ) -> dict[str, float]:
        in_all: dict[str, float] = {}
        of_parts: dict[str, float] = {}
        steps = itertools.count(1)
        for part in parts:
            totals = self._totals(part.batches, lambda _: report(next(steps)), None)
            for name, value in totals.items():
                in_all[name] = in_all.get(name, 0.0) + value / part.share
            metrics = self._metrics(totals)
            of_parts |= {f"{part.name}/{name}": value for name, value in metrics.items()}
        return self._metrics(in_all) | of_parts

    def _totals(
        self,
        dataset: tf.data.Dataset,
        report: Callable[[int], None],
        rows: dict[str, list[np.ndarray]] | None,
    ) -> dict[str, float]:
        """Returns the sums of the metrics, and adds the outputs of each batch to `rows`."""
        totals: dict[str, float] = {}
        with _reading(self.strategy):
            for done, features in enumerate(dataset, start=1):
                if rows is not None:
                    sums, outputs = self._answering_step(features)
                    for name, value in outputs.items():
                        rows.setdefault(name, []).append(self._gathered(value))
                else:
                    sums = self._evaluation_step(features)
                for name, value in sums.items():
                    totals[name] = totals.get(name, 0.0) + float(value)
                report(done)
        if not totals:
            raise InputError("--eval_data: has no records; give a folder that has some")
        return totals

    def _metrics(self, totals: Mapping[str, float]) -> dict[str, float]:
        metrics = means(totals, self.objective)
        return metrics | self.objective.derived(metrics)

    def _gathered(self, value: Any) -> np.ndarray:
        return self.strategy.gather(value, axis=0).numpy()


def _copies(variables: Mapping[str, tf.Variable]) -> dict[str, np.ndarray]:
    return {name: np.array(variable.numpy()) for name, variable in variables.items()}


def _assign(variables: Mapping[str, tf.Variable], arrays: Mapping[str, np.ndarray]) -> None:
    check_shapes(arrays, {name: tuple(variable.shape) for name, variable in variables.items()})
    for name, variable in variables.items():
        variable.assign(arrays[name])


# Errors of files that are damaged, missing or forbidden.
_STORAGE_ERRORS = (
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
)


class NotFinite(Exception):
    """A step's loss or gradient is not finite.

    Attributes:
      step: number of the first such step.
      metrics: metrics of the graph call with that step.
    """

    def __init__(self, step: int, metrics: Mapping[str, float]):
        """Takes the step and the metrics."""
        super().__init__(f"step {step} is not finite")
        self.step = step
        self.metrics = metrics


@contextlib.contextmanager
def _reading(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns TensorFlow's errors about damaged or missing files into an `InputError`."""
    try:
        yield
    except _STORAGE_ERRORS as error:
        raise InputError(
            f"--data: cannot be read any more ({io.reason(error)}); find the "
            "damaged file with `beambert verify`, copy it again, and run the same command again, "
            "which continues"
        ) from error
    except tf.errors.UnavailableError as error:
        # Under several workers it is mostly another one that is gone, see `raise_on_lost_worker`.
        if are_several(strategy):
            raise
        raise InputError(
            "--data: its storage, or the TPU's machine, does not answer "
            f"({io.reason(error)}); run the same command again, which continues"
        ) from error


@contextlib.contextmanager
def dtype_policy(dtype: str) -> Iterator[None]:
    """Sets the type that Keras layers compute in, for layers made inside the context."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16" if dtype == "bfloat16" else dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
