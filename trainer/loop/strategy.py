"""The strategies of `tf.distribute`: a cluster, a TPU, GPUs or one device."""

import contextlib
import functools
import glob
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from beambert.errors import InputError
from beambert.io import reason

# The machines of a cluster start minutes apart, since each loads its image first.
MINUTES_TO_START = 10
# A longer wait is reported.
_SECONDS_UNREPORTED = 5.0
# gRPC waits longer after each attempt, by default up to two minutes.
_CHANNEL_OPTIONS = [("grpc.max_reconnect_backoff_ms", 2000)]


def tf_config() -> dict[str, Any]:
    """Returns the content of the variable TF_CONFIG, which names the workers; {} without it.

    Raises:
      InputError: the variable is not valid.
    """
    text = os.environ.get("TF_CONFIG") or "{}"
    with contextlib.suppress(ValueError):
        config = json.loads(text)
        if isinstance(config, dict) and isinstance(config.get("cluster") or {}, dict):
            return config
    raise InputError(
        f"TF_CONFIG={text}: must be a JSON object with a cluster and a task; fix it or unset it"
    )


def make_multi_worker() -> tf.distribute.Strategy:
    """Returns the strategy of the workers that TF_CONFIG names, once all of them answer.

    Raises:
      InputError: TF_CONFIG is not valid, or one of the workers does not answer.
    """
    config = tf_config()
    task = config.get("task")
    # TensorFlow also accepts an evaluator, but that process would train by itself.
    if config and (not isinstance(task, dict) or task.get("type") not in ("chief", "worker")):
        raise InputError(
            f"TF_CONFIG: its task is {json.dumps(task)}; the type must be chief or worker"
        )
    try:
        leader, others = _other_workers() if config else ("", [])
        # TensorFlow waits for the leader for an hour, and holds even Ctrl-C off meanwhile.
        wait_for_answers([leader] if leader else [])
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except (ValueError, tf.errors.OpError) as error:
        raise InputError(f"TF_CONFIG: cannot be used ({reason(error)})") from error
    _take_back_sigterm()
    # The others open their addresses once they have found the leader.
    wait_for_answers(others)
    return strategy


def _other_workers() -> tuple[str, list[str]]:
    """Returns the address of the first worker, "" if it is this one, and those of all others.

    Raises:
      ValueError: TF_CONFIG does not describe a cluster with this worker in it.
    """
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = resolver.cluster_spec()
    mine = cluster.task_address(resolver.task_type, resolver.task_id)
    addresses = [
        address
        for job in ("chief", "worker")
        if job in cluster.jobs
        for address in cluster.job_tasks(job)
    ]
    others = [address for address in addresses if address != mine]
    return (addresses[0] if addresses[0] != mine else ""), others


def wait_for_answers(addresses: Sequence[str], minutes: float = MINUTES_TO_START) -> None:
    """Returns once a gRPC server answers at each of the addresses.

    Args:
      addresses: pairs of host and port, such as "10.0.0.2:2222".
      minutes: longest time to wait.

    Raises:
      InputError: one of the addresses does not answer in that time.
    """
    import grpc

    begun = time.monotonic()
    for address in addresses:
        with grpc.insecure_channel(address, _CHANNEL_OPTIONS) as channel:
            ready = grpc.channel_ready_future(channel)
            with contextlib.suppress(grpc.FutureTimeoutError):
                ready.result(min(_SECONDS_UNREPORTED, 60 * minutes))
                continue
            print(f"waiting for the worker at {address} …", flush=True)
            left = 60 * minutes - (time.monotonic() - begun)
            try:
                ready.result(max(left, 0))
            except grpc.FutureTimeoutError as error:
                raise InputError(
                    f"TF_CONFIG: no worker has answered at {address} for {minutes:g} minutes; run "
                    "the same command there as well, or fix the address"
                ) from error


def _take_back_sigterm() -> None:
    """Gives SIGTERM back to Python. TensorFlow has taken it, and would do nothing with it."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)


# TensorFlow's words for a machine without a TPU.
_NO_TPU = "TPUs not found in the cluster"


def make_strategy(name: str) -> tf.distribute.Strategy:
    """Returns the strategy for the devices of this machine or cluster.

    Args:
      name: one of `config.STRATEGIES`. "auto" takes several workers if TF_CONFIG names them,
        several GPUs if there are any, and one device otherwise.

    Raises:
      InputError: the TPU cannot be used, TF_CONFIG is not valid, or a worker that it names does
        not answer.
    """
    _grow_memory()
    if name == "auto":
        name = _detect()
    if name == "tpu":
        return _make_tpu()
    if name == "multi_worker":
        return make_multi_worker()
    if name == "mirrored":
        if not tf.config.list_physical_devices("GPU"):
            if os.environ.get("NVIDIA_VISIBLE_DEVICES", "none") not in ("", "none", "void"):
                raise InputError(
                    "--strategy=mirrored: this container asks for GPUs (NVIDIA_VISIBLE_DEVICES), "
                    "and TensorFlow finds none; check the machine's GPUs and LD_LIBRARY_PATH, or "
                    "leave the flag out"
                )
            print("warning: --strategy=mirrored: TensorFlow finds no GPU; training on the CPU")
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _make_tpu() -> tf.distribute.Strategy:
    """Returns the strategy of this machine's TPU.

    A TPU of another machine would read its batches there, and they are made by Python here.
    """
    no_chips = "--strategy=tpu: this machine has no TPU; leave it out, or run it on a TPU VM"
    # Without chips libtpu ends the process.
    if not (glob.glob("/dev/accel*") or glob.glob("/dev/vfio/*")):
        raise InputError(no_chips)
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver("local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        if _NO_TPU in str(error):
            raise InputError(no_chips) from error
        raise InputError(
            f"--strategy=tpu: cannot be used ({reason(error)}); end what else uses the chips"
        ) from error


def _grow_memory() -> None:
    """Lets TensorFlow take a GPU's memory as it needs it; else it takes all of it at the start."""
    for gpu in tf.config.list_physical_devices("GPU"):
        # It cannot be changed once the GPU is in use; then another part of the program has decided.
        with contextlib.suppress(RuntimeError):
            tf.config.experimental.set_memory_growth(gpu, True)


def _detect() -> str:
    cluster = tf_config().get("cluster") or {}
    if len(cluster.get("worker", ())) + len(cluster.get("chief", ())) > 1:
        return "multi_worker"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one_device"


@functools.cache
def has_xla() -> bool:
    """Returns whether TensorFlow can compile for this machine's processor."""
    try:
        tf.function(lambda: tf.constant(1.0) + 1.0, jit_compile=True)()
    except tf.errors.NotFoundError:
        return False
    return True
