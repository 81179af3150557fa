"""JAX as the engine of a training: all devices of this machine, or of the hosts of a cluster.

Each device computes its share of a batch as a replica of TensorFlow's does, with the same dropout
masks, so both engines compute the same but for the order of additions.
"""

import atexit
import contextlib
import dataclasses
import functools
import itertools
import math
import os
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.experimental import multihost_utils
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel,
    splash_attention_mask,
)
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from beambert import process
from beambert.errors import InputError
from beambert.model import layers
from beambert.trainer.loop.config import AUTO, BFLOAT16, FLOAT32
from beambert.trainer.loop.engine import InputContext, TooLargeError, jax_devices

if TYPE_CHECKING:
    from beambert.trainer.loop.steps import Trainer

# Batches that are made and sent to the devices while they compute.
_BATCHES_AHEAD = 4
# Their thread has this long for its batch when they are not wanted any more.
_SECONDS_TO_END = 10.0
_AXIS = "data"
# Lengths of sequences are multiples of this.
_LEAST_LENGTH_STEP = 8
# GPUs multiply bfloat16 in hardware from this compute capability on, see `strategy`. It is also the
# least of cuDNN's attention.
_CAPABILITY = 8.0
# How XLA's errors begin in a host when another one is gone. Some are of the type ValueError.
_LOST = re.compile(
    "(ABORTED|CANCELLED|DEADLINE_EXCEEDED|FAILED_PRECONDITION|INTERNAL|UNAVAILABLE|UNKNOWN): "
)
# On CPUs XLA takes products from YNNPACK, but no sums: the gradient of the output bias, a sum over
# columns, would take a fifth of a step of a small model.
_CPU_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}
# Widest heads that cuDNN's attention takes on every such GPU.
_WIDEST_HEAD = 128
# Tokens that splash attention computes at once, most and least: the sides of its blocks of scores.
_MOST_AT_ONCE = 512
_LEAST_AT_ONCE = splash_attention_kernel.NUM_LANES


class Jax:
    """All devices that JAX finds.

    Attributes:
      fused_attention: what computes attention, see `layers.attention_by`; None for plain products.
    """

    def __init__(self, checkpoints_gradients: bool = False) -> None:
        """Takes the devices; see `jax_devices` and `layers.layers_recomputed`."""
        self._checkpoints_gradients = checkpoints_gradients
        cache = os.path.expanduser("~/.cache/beambert/xla")
        if not jax.config.jax_compilation_cache_dir:
            jax.config.update("jax_compilation_cache_dir", cache)
        self._devices = jax_devices()
        self._mesh = jax.sharding.Mesh(np.array(self._devices), (_AXIS,))
        self.fused_attention = _attend_by_cudnn if self._is_recent_gpu else None
        if self._devices[0].platform == "tpu":
            self.fused_attention = attend_by_splash

    @property
    def _is_recent_gpu(self) -> bool:
        """Whether the devices are GPUs that compute bfloat16 and attention of cuDNN."""
        # Set for GPUs of NVIDIA only.
        return float(getattr(self._devices[0], "compute_capability", 0) or 0) >= _CAPABILITY

    @property
    def num_replicas_in_sync(self) -> int:
        """Number of devices, over all hosts."""
        return len(self._devices)

    @property
    def are_several(self) -> bool:
        """Whether there are several hosts."""
        return jax.process_count() > 1

    @property
    def is_chief(self) -> bool:
        """Whether this host writes and prints."""
        return jax.process_index() == 0

    def gathered(self, values: Sequence[int]) -> np.ndarray:
        """Returns the values of all hosts, int [hosts, values]."""
        return multihost_utils.process_allgather(np.array(values, np.int32)).reshape(
            -1, len(values)
        )

    def describe_devices(self) -> str:
        """Returns the number and the kind of the devices: "2 devices (cpu, JAX)"."""
        count = len(self._devices)
        kinds = sorted({device.device_kind for device in self._devices})
        return f"{count} device{'s' * (count > 1)} ({', '.join(kinds)}, JAX)"

    def resolve_dtype(self, dtype: str) -> str:
        """Returns the type of the matrix products; "auto" takes bfloat16 where it is fast."""
        if dtype != AUTO:
            return dtype
        is_native = self._devices[0].platform == "tpu" or self._is_recent_gpu
        return BFLOAT16 if is_native else FLOAT32

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turns errors about a host that is gone into an `InputError`."""
        try:
            yield
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            if not self.are_several or not _LOST.match(str(error)):
                raise
            raise InputError(
                f"JAX_COORDINATOR_ADDRESS: another host of the training is gone "
                f"({str(error).splitlines()[0]}); run the same command again on every host, which "
                "continues"
            ) from error

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the context in which variables are made."""
        return contextlib.nullcontext()

    # Data

    def distribute(
        self, batches_of: Callable[[InputContext], Iterator[Mapping[str, np.ndarray]]]
    ) -> Iterator[dict[str, jax.Array]]:
        """Yields batches on the devices, which a thread makes ahead of their use.

        Args:
          batches_of: function of a host's share that yields the batches of its replicas in turn.
        """
        share = InputContext(jax.process_count(), jax.process_index(), len(self._devices))
        local = len(jax.local_devices())
        sharding = NamedSharding(self._mesh, P(_AXIS))

        def made() -> Iterator[dict[str, jax.Array]]:
            batches = iter(batches_of(share))
            while some := list(itertools.islice(batches, local)):
                yield {
                    name: jax.make_array_from_process_local_data(
                        sharding, np.concatenate([batch[name] for batch in some])
                    )
                    for name in some[0]
                }

        return _ahead(made(), _BATCHES_AHEAD)

    # What the program of a step is made of

    def compiled(self, function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        """Returns the function, since the whole step is compiled."""
        return function

    def variables(self, variables: Sequence[keras.Variable]) -> list[keras.Variable]:
        """Returns what the optimizer updates for the variables of a model."""
        return list(variables)

    def value(self, variable: keras.Variable) -> jax.Array:
        """Returns the value of what `variables` or `zeros` has returned."""
        return variable.value

    def zeros(self, shape: Sequence[int], dtype: Any) -> keras.Variable:
        """Returns a new variable for a moment."""
        return keras.Variable(jnp.zeros(shape, dtype), trainable=False, autocast=False)

    @property
    def replica(self) -> Any:
        """Number of this replica, in the program of a step."""
        return jax.lax.axis_index(_AXIS)

    def all_reduce(self, values: Any) -> Any:
        """Returns the sums of the values over the replicas."""
        return jax.lax.psum(values, _AXIS)

    def gradients(
        self, function: Callable[[], tuple[Any, Any]], variables: Sequence[keras.Variable]
    ) -> tuple[list[jax.Array], Any]:
        """Returns the gradients of the first value of a function, and its second value."""
        outer = keras.src.backend.common.global_state.get_global_attribute("stateless_scope")

        def of(values: Sequence[jax.Array]) -> tuple[Any, Any]:
            with keras.StatelessScope() as scope:
                scope.state_mapping = {**outer.state_mapping}
                scope.state_mapping |= {
                    id(v): value for v, value in zip(variables, values, strict=True)
                }
                with layers.layers_recomputed(self._checkpoints_gradients):
                    return function()

        return jax.grad(of, has_aux=True)(_values(variables))

    def sum_over_parts(self, parts: int, function: Callable[[Any], Any], nothing: Any) -> Any:
        """Returns the sums of what a function returns for the numbers of parts, one at a time."""
        nothing = jax.tree.map(jnp.asarray, nothing)
        return jax.lax.fori_loop(
            0, parts, lambda part, totals: jax.tree.map(jnp.add, totals, function(part)), nothing
        )

    def update(
        self,
        functions: Sequence[Callable[..., None]],
        states: Sequence[Sequence[keras.Variable]],
        gradients: Sequence[jax.Array],
        step: jax.Array,
    ) -> None:
        """Calls each function with its state, a gradient and the step."""
        for function, state, gradient in zip(functions, states, gradients, strict=True):
            function(*state, gradient, step)

    def rounded_length(self, length: int, takes_any_length: bool) -> int:
        """Returns a length that is as great, of which there are few, as each is compiled for."""
        return _rounded(length, _LEAST_LENGTH_STEP)

    def function(
        self, function: Callable[..., Any], model: keras.Model, takes_any_length: bool = False
    ) -> Callable[..., np.ndarray]:
        """Returns a function of arrays [B, ...] that computes with a model in a compiled program.

        Args:
          function: the same function of JAX's arrays, which returns an array [B, ...].
          model: the model that it computes with.
          takes_any_length: whether TensorFlow can compute all shapes in one graph.
        """
        variables = model.variables
        values = _values(variables)

        @jax.jit
        def compiled(values: list[jax.Array], *arrays: jax.Array) -> jax.Array:
            with self.traced(variables, values):
                return function(*arrays)

        def call(*arrays: np.ndarray) -> np.ndarray:
            rows = len(arrays[0])
            missing = _rounded(rows, 1) - rows
            filled = [np.concatenate([array, array[:1].repeat(missing, 0)]) for array in arrays]
            return np.asarray(compiled(values, *filled))[:rows]

        return call

    def compile(self, trainer: "Trainer") -> "_Programs":
        """Returns the programs of a trainer."""
        return _Programs(self, self._mesh, trainer)

    @contextlib.contextmanager
    def traced(
        self, variables: Sequence[keras.Variable], values: Sequence[jax.Array]
    ) -> Iterator[keras.StatelessScope]:
        """Returns the context in which a program is traced: the variables have the values."""
        pairs = list(zip(variables, values, strict=True))
        with layers.attention_by(self.fused_attention), keras.StatelessScope(pairs) as scope:
            yield scope


def _values(variables: Sequence[keras.Variable]) -> list[jax.Array]:
    return [variable.value for variable in variables]


class _Programs:
    """The compiled functions that train and evaluate. Variables are on all devices."""

    def __init__(self, engine: Jax, mesh: jax.sharding.Mesh, trainer: "Trainer"):
        self._engine, self._trainer = engine, trainer
        self._changing = [*trainer.variables, *trainer.moments]
        changing = set(map(id, self._changing))
        others = [*trainer.model.variables, *trainer.objective.fixed_variables]
        self._fixed = [variable for variable in others if id(variable) not in changing]
        self._everywhere = NamedSharding(mesh, P())
        for variable in (*self._changing, *self._fixed):
            variable.assign(jax.device_put(np.asarray(variable.value), self._everywhere))
        shared = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
        self._step = jax.jit(
            shared(self._replica_step, in_specs=(P(), P(), P(_AXIS), P(), P(), P()), out_specs=P()),
            donate_argnums=0,
            compiler_options=_CPU_OPTIONS if mesh.devices.item(0).platform == "cpu" else None,
        )
        self._answer = jax.jit(
            shared(self._replica_answers, in_specs=(P(), P(_AXIS)), out_specs=(P(), P(_AXIS)))
        )
        # Shapes of a batch -> the program of its step.
        self._steps: dict[Any, jax.stages.Compiled] = {}

    def train_steps(self, iterator: Any, first: int, steps: int) -> tuple[np.ndarray, int]:
        """Runs updates; returns the sums of their totals, and the first bad step or -1."""
        state, fixed = _values(self._changing), _values(self._fixed)
        # With arrays of the host the step would be compiled twice.
        totals, bad_step = (
            jax.make_array_from_process_local_data(self._everywhere, value)
            for value in (np.zeros(len(self._trainer.total_names), np.float32), np.int32(-1))
        )
        try:
            for step in range(first, first + steps):
                arguments = state, fixed, next(iterator), np.int32(step), totals, bad_step
                state, totals, bad_step = self._step_for(arguments)(*arguments)
        finally:
            # The old values are gone, since the program takes their memory.
            for variable, value in zip(self._changing, state, strict=True):
                variable.assign(value)
        return np.asarray(totals), int(bad_step)

    def _step_for(self, arguments: Sequence[Any]) -> jax.stages.Compiled:
        """Returns the program of a step for batches of this shape.

        Raises:
          TooLargeError: it takes more memory than a device has.
        """
        shapes = tuple((name, value.shape) for name, value in sorted(arguments[2].items()))
        if shapes not in self._steps:
            program = self._step.lower(*arguments).compile()
            check_memory(program.memory_analysis(), _free_bytes(jax.local_devices()[0]))
            self._steps[shapes] = program
        return self._steps[shapes]

    def evaluate(self, batches: Any) -> Iterator[tuple[dict[str, float], dict[str, np.ndarray]]]:
        """Yields the sums of each batch over the replicas, and the outputs of its rows."""
        values = _values([*self._changing, *self._fixed])
        for features in batches:
            sums, outputs = self._answer(values, features)
            gathered = multihost_utils.process_allgather(outputs, tiled=True)
            yield {name: float(value) for name, value in sums.items()}, gathered

    def _replica_step(
        self,
        state: list[jax.Array],
        fixed: list[jax.Array],
        features: Mapping[str, jax.Array],
        step: jax.Array,
        totals: jax.Array,
        bad_step: jax.Array,
    ) -> tuple[list[jax.Array], jax.Array, jax.Array]:
        variables = [*self._changing, *self._fixed]
        with self._engine.traced(variables, [*state, *fixed]) as scope:
            outputs = self._trainer.replica_step(features, step)
        outputs = jax.lax.psum(outputs, _AXIS)
        is_bad = ~jnp.isfinite(outputs).all() & (bad_step < 0)
        state = [scope.get_current_value(variable) for variable in self._changing]
        return state, totals + outputs, jnp.where(is_bad, step, bad_step)

    def _replica_answers(
        self, values: list[jax.Array], features: Mapping[str, jax.Array]
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        with self._engine.traced([*self._changing, *self._fixed], values):
            sums, outputs = self._trainer.replica_answers(features)
            return jax.lax.psum(sums, _AXIS), outputs


def check_memory(needed: Any, free: int | None) -> None:
    """Refuses a program whose arrays do not fit into a device; XLA sizes all of them beforehand.

    Args:
      needed: result of `jax.stages.Compiled.memory_analysis`, for a device.
      free: bytes that the device can still take; None if it does not say.

    Raises:
      TooLargeError: they do not fit.
    """
    if needed is None or free is None:
        return
    # The arguments are in the device already, and the outputs take their place.
    further = needed.temp_size_in_bytes + needed.output_size_in_bytes - needed.alias_size_in_bytes
    if further > free:
        raise TooLargeError(further, free)


def _free_bytes(device: jax.Device) -> int | None:
    """Returns the memory that is left for arrays; None if the device does not say."""
    if device.platform == "cpu":
        return process.free_bytes()
    stats = device.memory_stats() or {}
    return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None


def _rounded(number: int, least: int) -> int:
    """Returns a number that is up to a quarter greater, of which there are four in each octave."""
    step = max(least, 1 << max(number.bit_length() - 3, 0))
    return -(-number // step) * step


def _attend_by_cudnn(
    query_BCND: jax.Array, key_BWND: jax.Array, value_BWND: jax.Array, **masking: jax.Array
) -> jax.Array | None:
    """Returns attention by cuDNN; None for what it lacks (`check_is_flash_attention` in JAX)."""
    width = query_BCND.shape[-1]
    is_even = query_BCND.shape[1] % 2 == key_BWND.shape[1] % 2 == 0
    if query_BCND.dtype.itemsize != 2 or width % 8 or width > _WIDEST_HEAD or not is_even:
        return None
    if "local_window_size" in masking:
        return None
    return jax.nn.dot_product_attention(
        query_BCND, key_BWND, value_BWND, **masking, implementation="cudnn"
    )


def attend_by_splash(
    query_BLND: jax.Array,
    key_BLND: jax.Array,
    value_BLND: jax.Array,
    bias: jax.Array | None = None,
    key_value_seq_lengths: jax.Array | None = None,
    local_window_size: int | None = None,
    interpret: bool = False,
) -> jax.Array | None:
    """Returns splash attention; None for lengths that do not fill the blocks of its kernels.

    Args:
      query_BLND, key_BLND, value_BLND, key_value_seq_lengths, local_window_size: see
        `layers.attention_by`.
      bias: float [B, 1, L, L], 0 within the documents of a row, which follow each other.
      interpret: whether any device computes what the kernels would, slowly.
    """
    length, heads, width = query_BLND.shape[1:]
    if key_BLND.shape[1] != length or length % _LEAST_AT_ONCE:
        return None
    if bias is None:
        segment_BL = jnp.arange(length) < key_value_seq_lengths[:, None]
    else:
        # The first token that one sees tells its document. Padding, which none sees, is the last.
        sees_BLL = bias[:, 0] > layers.MASKED_SCORE / 2
        is_seen_BL = jnp.diagonal(sees_BLL, axis1=1, axis2=2)
        segment_BL = jnp.where(is_seen_BL, jnp.argmax(sees_BLL, axis=-1), length)
    segments = splash_attention_kernel.SegmentIds(*[segment_BL.astype(jnp.int32)] * 2)
    mask = splash_attention_mask.FullMask((length, length))
    if local_window_size is not None:
        window = (local_window_size, local_window_size)
        mask = splash_attention_mask.LocalMask((length, length), window, offset=0)
    sizes = dataclasses.fields(splash_attention_kernel.BlockSizes)
    size = math.gcd(length, _MOST_AT_ONCE)
    attend = splash_attention_kernel.make_splash_mha_single_device(
        splash_attention_mask.MultiHeadMask([mask] * heads),
        block_sizes=splash_attention_kernel.BlockSizes(
            **{each.name: size for each in sizes if each.name.startswith("block_")}
        ),
        interpret=interpret,
    )
    inputs = (query_BLND * width**-0.5, key_BLND, value_BLND)
    context_BNLD = jax.vmap(attend)(*(jnp.swapaxes(x, 1, 2) for x in inputs), segments)
    return jnp.swapaxes(context_BNLD, 1, 2)


def _ahead(iterator: Iterator[Any], most: int) -> Iterator[Any]:
    """Yields what a thread takes from an iterator, at most some elements ahead."""
    made: queue.Queue[Any] = queue.Queue(most)
    ended, is_over = object(), threading.Event()

    def put(element: Any) -> bool:
        while not is_over.is_set():
            with contextlib.suppress(queue.Full):
                made.put(element, timeout=0.1)
                return True
        return False

    def take() -> None:
        try:
            for element in iterator:
                if not put(element):
                    return
            put(ended)
        except Exception as error:
            put(error)

    thread = threading.Thread(target=take, daemon=True)

    def end() -> None:
        is_over.set()
        thread.join(_SECONDS_TO_END)

    thread.start()
    # The end of Python would end the thread within JAX, which aborts the process.
    atexit.register(end)
    try:
        while (element := made.get()) is not ended:
            if isinstance(element, Exception):
                raise element
            yield element
    finally:
        end()
        atexit.unregister(end)
