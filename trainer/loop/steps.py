"""A model, its optimizer and what an engine compiles of them: a step, an evaluation."""

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from beambert.errors import InputError
from beambert.trainer.loop.checkpoints import MODEL, OPTIMIZER
from beambert.trainer.loop.config import REPLICA_SEED_STRIDE, OptimizerConfig
from beambert.trainer.loop.engine import Engine
from beambert.trainer.loop.objectives import Features, Objective, Sums, Tensor, means
from beambert.trainer.loop.optimization import Optimizer, learning_rate_at
from beambert.trainer.weights.arrays import assign


class HeldOutPart(NamedTuple):
    """The held-out data of one source of a corpus.

    Attributes:
      name: name of the source.
      batches: distributed dataset.
      batches_of_all: number of batches, a part of one included, that all held-out data of the
        source would make.
    """

    name: str
    batches: Any
    batches_of_all: float


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
      evaluation_seconds: time after which an evaluation reads no further batch, of several sources
        each its part of it.
      score: function of the outputs for all rows of the held-out data, which returns further
        metrics of an evaluation; None if the objective has no outputs. Its last call in a training
        has the outputs of the weights that are the result.
    """

    last_step: int
    batches_from: Callable[[int], Any]
    evaluation: Callable[[int | None], Any] | None
    sequences_a_step: int
    tokens_a_step: int
    _: dataclasses.KW_ONLY
    evaluation_batches: int = 0
    evaluation_seconds: float = math.inf
    score: Callable[[dict[str, np.ndarray]], Mapping[str, float]] | None = None


class Trainer:
    """Runs updates, evaluates and predicts.

    Attributes:
      engine: engine of the training.
      model, objective: what is trained, and for what.
      steps_done: number of updates so far.
      variables, moments: what the updates change.
      total_names: names of the values that `replica_step` returns.
    """

    def __init__(
        self,
        engine: Engine,
        build_model: Callable[[], keras.Model],
        objective: Objective,
        optimizer: OptimizerConfig,
        random_seed: int,
        *,
        gradient_accumulation_steps: int = 1,
        dtype: str = "float32",
    ):
        """Creates model and optimizer in the scope of the engine.

        Args:
          engine: engine of the training.
          build_model: function that returns the model with all its variables.
          objective: losses to minimize, and metrics.
          optimizer: parameters of the optimizer and of its learning rate.
          random_seed: seed of the dropout masks.
          gradient_accumulation_steps, dtype: see `LoopConfig`.
        """
        self.engine = engine
        self.objective = objective
        self.optimizer_config = optimizer
        self.dtype = dtype
        self.steps_done = 0
        self._random_seed = random_seed
        self._parts = gradient_accumulation_steps
        with engine.scope(), dtype_policy(dtype):
            self.model = build_model()
            self.variables = engine.variables(self.model.trainable_variables)
            self._paths = [v.path for v in self.model.trainable_variables]
            self._optimizer = Optimizer(self._paths, self.variables, optimizer, engine)
        self.moments = [*self._optimizer.means, *self._optimizer.variances]
        weights = dict.fromkeys(objective.weight_of.values())
        self.total_names = [*objective.weight_of, *weights, "gradient_norm"]
        self._answers_by_way = [
            engine.compiled(functools.partial(self._answers_of, answers_of))
            for answers_of in objective.answers()
        ]
        self._gradients_by_way = [
            engine.compiled(functools.partial(self._gradients_of, sums_of))
            for sums_of in objective.ways()
        ]
        self._programs = engine.compile(self)

    # What the engine compiles

    def replica_step(self, features: Features, step: Tensor) -> Tensor:
        """Does one update on one replica's share of the batch; returns the share's totals."""
        weights = self.objective.weights(features)
        # The losses are means over the global batch, so its weights divide them.
        global_weights = self.engine.all_reduce(weights)
        # Replica and step decide the dropout masks, so a checkpoint needs no generator state.
        replica_seed = self._random_seed + REPLICA_SEED_STRIDE * self.engine.replica
        first_part = ops.cast(step, "int32") * self._parts
        gradients, sums = self._gradients_of_parts(
            features, global_weights, replica_seed, first_part
        )
        norm = self._optimizer.apply(gradients, step)
        totals = sums | weights
        totals["gradient_norm"] = norm / self.engine.num_replicas_in_sync
        return ops.stack([totals[name] for name in self.total_names])

    def replica_answers(self, features: Features) -> tuple[Sums, Sums]:
        """Returns the sums of the metrics of a share of a batch, and the outputs of its rows."""
        return self._by_way(self._answers_by_way, features)

    def _by_way(self, functions: Sequence[Callable[..., Any]], features: Any, *others: Any) -> Any:
        """Calls the cheapest of the functions for a batch, which the objective's `way` selects."""
        way = self.objective.way(features)
        if way is None:
            return functions[0](features, *others)
        calls = [functools.partial(function, features, *others) for function in functions]
        return ops.switch(way, calls)

    def _gradients_of(
        self,
        sums_of: Callable[..., Sums],
        features: Features,
        loss_weights: Sums,
        dropout_seed: Tensor,
    ) -> tuple[list[Tensor], Sums]:
        """Returns the gradients and sums of a batch."""

        def loss() -> tuple[Tensor, Sums]:
            sums = sums_of(self.model, features, dropout_seed)
            terms = [
                self.objective.factor(name)
                * (sums[name] / ops.maximum(loss_weights[self.objective.weight_of[name]], 1.0))
                for name in self.objective.losses
            ]
            return functools.reduce(ops.add, terms), sums

        return self.engine.gradients(loss, self.variables)

    def _answers_of(
        self, answers_of: Callable[..., tuple[Sums, Sums]], features: Features
    ) -> tuple[Sums, Sums]:
        sums, outputs = answers_of(self.model, features)
        return sums | self.objective.weights(features), outputs

    def _gradients_of_parts(
        self, features: Features, loss_weights: Sums, replica_seed: Tensor, first_part: Tensor
    ) -> tuple[list[Tensor], Sums]:
        """Computes a batch in parts, one after the other, and adds up their gradients and sums."""
        parts = self._parts
        if parts == 1:
            seed = ops.stack([replica_seed, first_part])
            return self._by_way(self._gradients_by_way, features, loss_weights, seed)
        divided = {
            name: ops.reshape(value, [parts, value.shape[0] // parts, *value.shape[1:]])
            for name, value in features.items()
        }

        def of_part(part: Tensor) -> tuple[list[Tensor], Sums]:
            some = {name: value[part] for name, value in divided.items()}
            seed = ops.stack([replica_seed, first_part + part])
            return self._by_way(self._gradients_by_way, some, loss_weights, seed)

        names = [*self.objective.weight_of, *self.objective.counts]
        nothing = (
            [ops.zeros(v.shape, v.dtype) for v in self.variables],
            {name: ops.zeros((), "float32") for name in names},
        )
        return self.engine.sum_over_parts(parts, of_part, nothing)

    def learning_rate(self, step: int) -> float:
        """Returns the learning rate of an update, counted from 0."""
        return float(learning_rate_at(step, self.optimizer_config))

    def weights(self) -> dict[str, np.ndarray]:
        """Returns copies of the trained variables by name."""
        return self._copies(self._named(self.variables))

    def set_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Sets the trained variables.

        Raises:
          ValueError: the weights are those of another model.
        """
        assign(self._named(self.variables), weights)

    def state(self) -> dict[str, dict[str, np.ndarray]]:
        """Returns copies of the trained variables and of the optimizer's moments, by name."""
        return {MODEL: self.weights(), OPTIMIZER: self._copies(self._moments())}

    def restore(self, step: int, state: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Sets the number of updates that are done, and what `state` has returned then.

        Raises:
          ValueError: the state is that of another model or optimizer; nothing is changed.
        """
        assign(
            self._named(self.variables) | self._moments(),
            {**state[MODEL], **state[OPTIMIZER]},
        )
        self.steps_done = step

    def _copies(self, variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {name: np.array(self.engine.value(each)) for name, each in variables.items()}

    def _named(self, variables: Sequence[Any], suffix: str = "") -> dict[str, Any]:
        return {f"{path}{suffix}": v for path, v in zip(self._paths, variables, strict=True)}

    def _moments(self) -> dict[str, Any]:
        """Returns the moments by the names that they have in checkpoints of the original."""
        means = self._named(self._optimizer.means, "/adam_m")
        return means | self._named(self._optimizer.variances, "/adam_v")

    def train_steps(self, iterator: Any, steps: int) -> dict[str, float]:
        """Runs `steps` updates; returns their metrics and the mean norm of their gradients.

        Raises:
          NotFinite: the loss or the gradient of a step is not finite.
          InputError: the data cannot be read.
        """
        totals, bad_step = self._programs.train_steps(iterator, self.steps_done, steps)
        self.steps_done += steps
        values = dict(zip(self.total_names, totals.tolist(), strict=True))
        metrics = means(values, self.objective)
        metrics["gradient_norm"] = values["gradient_norm"] / steps
        if bad_step >= 0:
            raise NotFinite(bad_step, metrics)
        return metrics

    def evaluate(
        self,
        dataset: Any,
        report: Callable[[int], None] = lambda _: None,
        score: Callable[[dict[str, np.ndarray]], Mapping[str, float]] | None = None,
        seconds: float = math.inf,
    ) -> dict[str, float]:
        """Returns the means of the objective's metrics over a dataset, without dropout.

        Of the parts of sources the result also has the metrics of each, as "NAME/metric". In those
        of all, a part counts as if all of its source had been read.

        Args:
          dataset: distributed dataset, or one for each source.
          report: called after each batch with the number of batches that are done.
          score: function of the outputs for each row of the dataset, in its order, which returns
            further metrics; None for none.
          seconds: time after which no further batch is read.
        """
        if isinstance(dataset, list):
            return self._evaluate_parts(dataset, report, seconds)
        rows: dict[str, list[np.ndarray]] = {}
        metrics = self._metrics(self._totals(dataset, report, rows, seconds))
        if score:
            metrics |= score({name: np.concatenate(values) for name, values in rows.items()})
        return metrics

    def _evaluate_parts(
        self,
        parts: Sequence[HeldOutPart],
        report: Callable[[int], None],
        seconds: float = math.inf,
    ) -> dict[str, float]:
        in_all: dict[str, float] = {}
        of_parts: dict[str, float] = {}
        done = 0

        def report_one(_: int) -> None:
            nonlocal done
            done += 1
            report(done)

        for part in parts:
            before = done
            totals = self._totals(part.batches, report_one, {}, seconds / len(parts))
            share = min(1.0, (done - before) / part.batches_of_all)
            for name, value in totals.items():
                in_all[name] = in_all.get(name, 0.0) + value / share
            metrics = self._metrics(totals)
            of_parts |= {f"{part.name}/{name}": value for name, value in metrics.items()}
        return self._metrics(in_all) | of_parts

    def _totals(
        self,
        dataset: Any,
        report: Callable[[int], None],
        rows: dict[str, list[np.ndarray]],
        seconds: float,
    ) -> dict[str, float]:
        """Returns the sums of the metrics, and adds the outputs of each batch to `rows`."""
        totals: dict[str, float] = {}
        end = time.monotonic() + seconds
        for done, (sums, outputs) in enumerate(self._programs.evaluate(dataset), start=1):
            for name, values in outputs.items():
                rows.setdefault(name, []).append(values)
            for name, value in sums.items():
                totals[name] = totals.get(name, 0.0) + value
            report(done)
            if time.monotonic() > end:
                break
        if not totals:
            raise InputError("--eval_data: has no records; give a folder that has some")
        return totals

    def _metrics(self, totals: Mapping[str, float]) -> dict[str, float]:
        metrics = means(totals, self.objective)
        return metrics | self.objective.derived(metrics)


class NotFinite(Exception):
    """A step's loss or gradient is not finite.

    Its arguments are the number of the first such step, and the metrics of the graph call with it.
    """


@contextlib.contextmanager
def dtype_policy(dtype: str) -> Iterator[None]:
    """Sets the type that Keras layers compute in, for layers made inside the context."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16" if dtype == "bfloat16" else dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
