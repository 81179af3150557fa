"""The engine of a training: which one, and what all of them do."""

import contextlib
import dataclasses
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from beambert.console import size
from beambert.errors import InputError
from beambert.io import reason, storage_errors
from beambert.process import is_installed
from beambert.trainer.loop.config import AUTO, JAX, TENSORFLOW, Devices, EngineSettings

if TYPE_CHECKING:
    import jax

    from beambert.trainer.loop.engines.jax import Jax
    from beambert.trainer.loop.engines.tensorflow import TensorFlow

    Engine = TensorFlow | Jax
else:
    Engine = Any

# Variables that name a cluster for JAX: the address of its first host, the number of hosts, and the
# number of this one.
_COORDINATOR = "JAX_COORDINATOR_ADDRESS"
_CLUSTER = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
# Words of libraries about memory, in errors of other types.
_OUT_OF_MEMORY = re.compile("bad_alloc|out of memory|resource_?exhausted", re.IGNORECASE)


class InputContext(NamedTuple):
    """The share of a host in the data; by default all of it. `tf.distribute.InputContext` is one.

    Attributes:
      num_input_pipelines: number of hosts.
      input_pipeline_id: number of this host.
      num_replicas_in_sync: number of replicas of all hosts.
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1


ONE_HOST = InputContext()


def choose_engine(devices: EngineSettings) -> str:
    """Returns the name of the engine, and makes Keras use it; call it before Keras is imported.

    "auto" takes JAX if it finds an accelerator, if a cluster is named for it, or if TensorFlow is
    not installed; after Keras is imported, what Keras uses.

    Raises:
      InputError: the engine is not installed, a flag is only for the other one, or Keras is in use
        with the other one.
    """
    name, strategy = devices.engine, getattr(devices, "strategy", AUTO)
    keras = sys.modules.get("keras")
    is_there = {each: is_installed(each) for each in (TENSORFLOW, JAX)}
    if name == AUTO and keras is not None:
        name = keras.backend.backend()
    elif name == AUTO:
        name = TENSORFLOW if is_there[TENSORFLOW] else JAX
        is_for_tensorflow = strategy != AUTO or os.environ.get("TF_CONFIG")
        if is_there[JAX] and not is_for_tensorflow:
            is_for_jax = _COORDINATOR in os.environ or jax_devices()[0].platform != "cpu"
            name = JAX if is_for_jax else name
    if not is_there[name]:
        extra = "" if name == TENSORFLOW else "[jax]"
        raise InputError(
            f"--engine={devices.engine}: {name} is not installed; install it with `pip install -e "
            f"'.{extra}'`"
        )
    if name == JAX and strategy != AUTO:
        raise InputError(
            f"--strategy={strategy}: is of --engine={TENSORFLOW}; leave it out, since JAX "
            "takes all devices that it finds"
        )
    if name == TENSORFLOW and getattr(devices, "gradient_checkpointing", False):
        raise InputError(f"--gradient_checkpointing: is of --engine={JAX}; leave it out")
    if keras is not None and keras.backend.backend() != name:
        raise InputError(
            f"--engine={name}: Keras is imported with {keras.backend.backend()} already; set "
            f"KERAS_BACKEND={name} before that"
        )
    os.environ["KERAS_BACKEND"] = name
    return name


def jax_devices() -> "Sequence[jax.Device]":
    """Returns the devices that JAX finds on all hosts of the cluster that it joins if one is named.

    Raises:
      InputError: the cluster cannot be joined; or JAX_PLATFORMS names other devices, and JAX would
        take the processor in their place.
    """
    import jax

    if os.environ.get(_COORDINATOR) and not jax.distributed.is_initialized():
        _join_cluster()
    try:
        return jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter where it knows none of them
        raise InputError(
            f"--engine={JAX}: the devices of JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')} "
            f"are not there ({reason(error)}); run it where they are, or take JAX_PLATFORMS=cpu"
        ) from error


def _join_cluster() -> None:
    """Joins the cluster; JAX asks the scheduler for what its variables leave out."""
    import jax
    from jax.experimental import multihost_utils

    try:
        counts = [os.environ.get(name) for name in _CLUSTER]
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            os.environ[_COORDINATOR], *(None if each is None else int(each) for each in counts)
        )
        # Processors connect at the first exchange, for which a host waits 30 seconds only.
        multihost_utils.sync_global_devices("joined")
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"{_COORDINATOR}={os.environ[_COORDINATOR]}: cannot be used ({reason(error)}); give "
            f"all hosts the same address and {_CLUSTER[0]}, and each its own {_CLUSTER[1]}"
        ) from error


def make_engine(devices: EngineSettings | None = None) -> Engine:
    """Returns the engine.

    Args:
      devices: what computes: `Devices` for all devices of this machine or cluster, as a training
        takes them; others for one device (default: any engine).

    Raises:
      InputError: the engine or the devices cannot be used.
    """
    devices = devices or EngineSettings()
    if choose_engine(devices) == JAX:
        from beambert.trainer.loop.engines.jax import Jax

        return Jax(getattr(devices, "gradient_checkpointing", False))
    from beambert.trainer.loop.engines.tensorflow import TensorFlow

    if not isinstance(devices, Devices):
        return TensorFlow()
    from beambert.trainer.loop.strategy import make_strategy

    return TensorFlow(make_strategy(devices.strategy))


def check_tensorflow(flag: str) -> None:
    """Refuses what only TensorFlow does, such as a value of a flag, where Keras cannot use it.

    Raises:
      InputError: TensorFlow is not installed, or Keras uses JAX.
    """
    if not has_tensorflow():
        raise InputError(f"{flag}: needs TensorFlow, which is not installed here; run it elsewhere")
    if os.environ.get("KERAS_BACKEND", TENSORFLOW) != TENSORFLOW:
        raise InputError(f"{flag}: needs TensorFlow; unset KERAS_BACKEND")


def has_tensorflow() -> bool:
    """Returns whether TensorFlow is installed."""
    return is_installed(TENSORFLOW)


def for_engine(job: Any, engine: Engine) -> Any:
    """Returns a job of a training with the number format that the engine's devices are fast in.

    Raises:
      InputError: the batch cannot be divided evenly among the replicas and their parts.
    """
    loop = dataclasses.replace(job.loop, dtype=engine.resolve_dtype(job.loop.dtype))
    batch_size, parts = loop.train_batch_size, loop.gradient_accumulation_steps
    replicas = engine.num_replicas_in_sync
    if batch_size % (replicas * parts):
        among = [f"the {replicas} devices"] if replicas > 1 else []
        among += [f"--gradient_accumulation_steps={parts}"] if parts > 1 else []
        raise InputError(
            f"--train_batch_size={batch_size}: not divisible by {' times '.join(among)}; "
            f"take a multiple of {replicas * parts}"
        )
    return dataclasses.replace(job, loop=loop)


def agree(engine: Engine, steps: int, stops: bool) -> tuple[int, bool]:
    """Returns the same for all hosts: the mean of their steps, and whether any of them stops."""
    if not engine.are_several:
        return steps, stops
    found = engine.gathered([steps, stops])
    return int(found[:, 0].mean()), bool(found[:, 1].any())


def check_same_step(engine: Engine, step: int) -> None:
    """Refuses to train if the hosts begin at different steps, from different weights.

    Raises:
      InputError: the steps differ; all hosts raise it.
    """
    steps = sorted(set(engine.gathered([step])[:, 0].tolist())) if engine.are_several else []
    if len(steps) > 1:
        raise InputError(
            "--model_dir: the workers found checkpoints of different steps "
            f"({', '.join(map(str, steps))}); give a --model_dir that all of them share"
        )


class TooLargeError(MemoryError):
    """A step needs more memory than there is.

    Attributes:
      times: how often the memory of its arrays is that which is free.
    """

    def __init__(self, needed: int, free: int):
        """Takes the bytes that a step needs and those that are free."""
        super().__init__(f"a step takes {size(needed)} more, and a device has {size(free)}")
        self.times = needed / max(free, 1)


@contextlib.contextmanager
def translate_out_of_memory(batch_size: int, parts: int) -> Iterator[None]:
    """Turns errors about exhausted memory into an `InputError`.

    Args:
      batch_size: number of examples in an update.
      parts: number of parts in which a replica computes its batch.

    Raises:
      InputError: the memory is not enough.
    """
    try:
        yield
    except (MemoryError, RuntimeError, *storage_errors()) as error:
        if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(
            f"{type(error).__name__} {error}"
        ):
            raise
        doublings = max(1, math.ceil(math.log2(getattr(error, "times", 2))))
        raise InputError(
            f"--train_batch_size={batch_size}: the memory is not enough ({reason(error)}); give "
            f"--gradient_accumulation_steps={parts << doublings}, which computes the same in "
            "smaller parts, or a smaller --train_batch_size"
        ) from error
