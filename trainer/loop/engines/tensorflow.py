"""TensorFlow as the engine of a training, under any `tf.distribute` strategy.

Keras's `fit` does not serve here. It fails under MultiWorkerMirroredStrategy, and under
MirroredStrategy with several steps in a call. It clips the gradients of each replica by themselves,
and it cannot resume inside an epoch.
"""

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from beambert import io
from beambert.errors import InputError
from beambert.trainer.loop.config import AUTO, BFLOAT16, FLOAT32
from beambert.trainer.loop.strategy import has_xla

if TYPE_CHECKING:
    from beambert.trainer.loop.steps import Trainer

# Lengths of sequences are multiples of this for a model that needs a graph for each length, so that
# there are few graphs and little padding.
LENGTH_STEP = 8
# GPUs multiply bfloat16 in hardware from this compute capability on (Ampere; CUDA C++ Programming
# Guide, section "Compute Capabilities").
_BFLOAT16_CAPABILITY = (8, 0)
# The errors that TensorFlow raises in a process when another one is gone.
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.UnavailableError,
)


class TensorFlow:
    """The devices of a strategy.

    Attributes:
      strategy: the strategy.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None):
        """Takes the strategy; None for that of one device."""
        self.strategy = strategy or tf.distribute.get_strategy()
        self._failure: InputError | None = None

    @property
    def num_replicas_in_sync(self) -> int:
        """Number of devices, over all hosts."""
        return self.strategy.num_replicas_in_sync

    @property
    def are_several(self) -> bool:
        """Whether there are several hosts, each with its own process."""
        return isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy)

    @property
    def is_chief(self) -> bool:
        """Whether this host writes and prints."""
        if not self.are_several:
            return True
        resolver = self.strategy.cluster_resolver
        if resolver.task_type == "worker":
            return resolver.task_id == 0 and "chief" not in resolver.cluster_spec().jobs
        return resolver.task_type == "chief"

    def gathered(self, values: Sequence[int]) -> np.ndarray:
        """Returns the values of all hosts, int [rows, values]; a host may have several rows."""
        return _gathered(self.strategy, tf.constant([values], tf.int64)).numpy()

    @property
    def _is_tpu(self) -> bool:
        return isinstance(self.strategy, tf.distribute.TPUStrategy)

    def describe_devices(self) -> str:
        """Returns the number and the kind of the devices: "2 devices (NVIDIA A100)"."""
        count = self.num_replicas_in_sync
        names = sorted({each.get("device_name", "GPU") for each in _gpus()})
        kinds = "TPU" if self._is_tpu else ", ".join(names) or "CPU"
        return f"{count} device{'s' * (count > 1)} ({kinds})"

    def resolve_dtype(self, dtype: str) -> str:
        """Returns the type of the matrix products; "auto" takes bfloat16 where it is fast."""
        if dtype != AUTO:
            return dtype
        capabilities = [each.get("compute_capability", (0, 0)) for each in _gpus()]
        is_native = capabilities and min(capabilities) >= _BFLOAT16_CAPABILITY
        return BFLOAT16 if self._is_tpu or is_native else FLOAT32

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turns errors about a host that is gone into an `InputError`."""
        try:
            yield
        except _LOST as error:
            if not self.are_several:
                raise
            cause = re.search("aborted by: (.+)", str(error))
            raise InputError(
                "TF_CONFIG: another worker of the training is gone "
                f"({cause[1] if cause else io.reason(error)}); run the same command again for "
                "every worker, which continues"
            ) from error

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the context in which variables are made."""
        return self.strategy.scope()

    # Data

    def distribute(
        self, batches_of: Callable[[tf.distribute.InputContext], Iterator[Mapping[str, np.ndarray]]]
    ) -> Any:
        """Returns the batches of the replicas as a distributed dataset.

        Args:
          batches_of: function of a host's share that yields the batches of its replicas in turn.
        """

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = iter(batches_of(context))
            first = next(batches, {})
            spec = {name: tf.TensorSpec(v.shape, v.dtype) for name, v in first.items()}
            rest = itertools.chain([first] if first else [], self._kept(batches))
            made = tf.data.Dataset.from_generator(lambda: rest, output_signature=spec)
            return made.prefetch(2 * context.num_replicas_in_sync // context.num_input_pipelines)

        self._failure = None
        return self.strategy.distribute_datasets_from_function(dataset)

    def _kept(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yields batches; keeps an error, of which TensorFlow leaves the words alone."""
        try:
            yield from batches
        except InputError as error:
            self._failure = error
            raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Raises the error of the batches' iterator in the place of TensorFlow's."""
        try:
            yield
        except tf.errors.OpError:
            if self._failure:
                raise self._failure from None
            raise

    # What the graph of a step is made of

    def compiled(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Returns a function that XLA compiles."""
        # No `if` or `for` in the model depends on a tensor's value, so it needs no AutoGraph, which
        # would take longer than the tracing itself.
        # On a TPU `strategy.run` compiles the whole step, and TensorFlow's package for its host has
        # no XLA for the processor.
        is_compiled = not self._is_tpu and has_xla()
        return tf.function(function, jit_compile=is_compiled, autograph=False, **options)

    def variables(self, variables: Sequence[Any]) -> list[tf.Variable]:
        """Returns what the optimizer updates for the variables of a model."""
        return [variable.value for variable in variables]

    def value(self, variable: tf.Variable) -> tf.Tensor:
        """Returns the value of what `variables` or `zeros` has returned."""
        return variable.read_value()

    def zeros(self, shape: Sequence[int], dtype: Any) -> tf.Variable:
        """Returns a new variable for a moment."""
        return tf.Variable(tf.zeros(shape, dtype), trainable=False)

    @property
    def replica(self) -> Any:
        """Number of this replica, in its own context."""
        context = tf.distribute.get_replica_context()
        return tf.cast(context.replica_id_in_sync_group, tf.int32)

    def all_reduce(self, values: Any) -> Any:
        """Returns the sums of the values over the replicas."""
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return values
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    def gradients(
        self, function: Callable[[], tuple[Any, Any]], variables: Sequence[tf.Variable]
    ) -> tuple[list[tf.Tensor], Any]:
        """Returns the gradients of the first value of a function, and its second value."""
        with tf.GradientTape() as tape:
            loss, others = function()
        found = tape.gradient(loss, variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in found], others

    def sum_over_parts(self, parts: int, function: Callable[[Any], Any], nothing: Any) -> Any:
        """Returns the sums of what a function returns for the numbers of parts, one at a time."""

        def add(part: tf.Tensor, totals: Any) -> tuple[tf.Tensor, Any]:
            return part + 1, tf.nest.map_structure(tf.add, totals, function(part))

        # Together they would need the memory of the whole batch.
        _, totals = tf.while_loop(
            lambda part, _: part < parts, add, (0, nothing), parallel_iterations=1
        )
        return totals

    def update(
        self,
        functions: Sequence[Callable[..., None]],
        states: Sequence[Sequence[tf.Variable]],
        gradients: Sequence[tf.Tensor],
        step: tf.Tensor,
    ) -> None:
        """Calls each function with its state, a gradient and the step, once for all replicas."""

        def update_all(strategy: Any, gradients: Sequence[tf.Tensor], step: tf.Tensor) -> None:
            for function, (variable, *others), gradient in zip(
                functions, states, gradients, strict=True
            ):
                arguments = (*others, gradient, step)
                strategy.extended.update(variable, function, args=arguments, group=False)

        # Keras updates mirrored variables from identical gradients in the same way. There is no
        # second reduction.
        tf.__internal__.distribute.interim.maybe_merge_call(
            update_all, tf.distribute.get_replica_context().strategy, gradients, step
        )

    def rounded_length(self, length: int, takes_any_length: bool) -> int:
        """Returns a length that is as great, of which there are few if each is compiled for."""
        return length if takes_any_length else -(-length // LENGTH_STEP) * LENGTH_STEP

    def function(
        self, function: Callable[..., Any], model: keras.Model, takes_any_length: bool = False
    ) -> Callable[..., np.ndarray]:
        """Returns a function of arrays [B, ...] that computes with a model in a graph.

        There is one graph for all shapes, or one for each shape but for B.

        Args:
          function: the same function of tensors, which returns a tensor [B, ...].
          model: the model that it computes with.
          takes_any_length: whether one graph serves for all shapes.
        """
        graphs: dict[Any, Callable[..., tf.Tensor]] = {}

        def call(*arrays: np.ndarray) -> np.ndarray:
            key = None if takes_any_length else tuple(array.shape[1:] for array in arrays)
            if key not in graphs:
                specs = [
                    tf.TensorSpec(
                        [None] * array.ndim if takes_any_length else [None, *array.shape[1:]],
                        array.dtype,
                    )
                    for array in arrays
                ]
                graphs[key] = tf.function(function, autograph=False).get_concrete_function(*specs)
            return graphs[key](*map(tf.constant, arrays)).numpy()

        return call

    def compile(self, trainer: "Trainer") -> "_Graphs":
        """Returns the graphs of a trainer."""
        return _Graphs(self, trainer)


def _gpus() -> list[dict[str, Any]]:
    """Returns what TensorFlow knows of each GPU."""
    found = tf.config.list_physical_devices("GPU")
    return [tf.config.experimental.get_device_details(gpu) for gpu in found]


# TensorFlow warns of the same outside of a graph.
@tf.function(autograph=False)
def _gathered(strategy: tf.distribute.Strategy, mine: tf.Tensor) -> tf.Tensor:
    return strategy.gather(strategy.run(lambda: mine), axis=0)


class _Graphs:
    """The graphs that train and evaluate."""

    def __init__(self, engine: TensorFlow, trainer: "Trainer"):
        self._engine, self._trainer = engine, trainer

    def train_steps(self, iterator: Any, first: int, steps: int) -> tuple[np.ndarray, int]:
        """Runs updates; returns the sums of their totals, and the first bad step or -1."""
        with self._engine._reading():
            totals, bad_step = self._train_steps(
                iterator, tf.constant(first, tf.int64), tf.constant(steps, tf.int64)
            )
        return totals.numpy(), int(bad_step)

    # There is one graph for each shape of batches: XLA cannot compile a graph with relaxed shapes.
    @functools.partial(tf.function, autograph=False)
    def _train_steps(
        self, iterator: Any, first: tf.Tensor, steps: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        strategy = self._engine.strategy

        def train_step(
            done: tf.Tensor, totals: tf.Tensor, bad_step: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            step = first + done
            outputs = strategy.run(self._trainer.replica_step, args=(next(iterator), step))
            outputs = strategy.reduce(tf.distribute.ReduceOp.SUM, outputs, axis=None)
            # The norm of the gradient is checked too: if only the last gradient is not finite, it
            # spoils the weights without a trace in the loss.
            is_bad = ~tf.reduce_all(tf.math.is_finite(outputs))
            bad_step = tf.where(is_bad & (bad_step < 0), step, bad_step)
            return done + 1, totals + outputs, bad_step

        beginning = (
            tf.constant(0, tf.int64),
            tf.zeros([len(self._trainer.total_names)]),
            tf.constant(-1, tf.int64),
        )
        _, totals, bad_step = tf.while_loop(lambda done, *_: done < steps, train_step, beginning)
        return totals, bad_step

    def evaluate(self, batches: Any) -> Iterator[tuple[dict[str, float], dict[str, np.ndarray]]]:
        """Yields the sums of each batch over the replicas, and the outputs of its rows."""
        with self._engine._reading():
            for features in batches:
                sums, outputs = self._evaluation_step(features)
                gathered = {
                    name: self._engine.strategy.gather(value, axis=0).numpy()
                    for name, value in outputs.items()
                }
                yield {name: float(value) for name, value in sums.items()}, gathered

    @functools.partial(tf.function, autograph=False)
    def _evaluation_step(self, features: Any) -> tuple[dict[str, tf.Tensor], dict[str, Any]]:
        strategy = self._engine.strategy
        sums, outputs = strategy.run(self._trainer.replica_answers, args=(features,))
        summed = {
            name: strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
            for name, value in sums.items()
        }
        return summed, outputs
