"""Several machines that train as one: how they find each other, agree, and end when one is lost."""

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from beambert.errors import InputError
from beambert.pipelines.storage.tensorflow_files import reason

# The machines of a cluster start minutes apart, since each loads its image first.
MINUTES_TO_START = 10
# A wait that is longer than this is told.
_SECONDS_UNTOLD = 5.0
# gRPC waits longer after each attempt, by default up to two minutes.
_CHANNEL_OPTIONS = [("grpc.max_reconnect_backoff_ms", 2000)]
# The errors that TensorFlow raises in a process when another one is gone.
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.UnavailableError,
)


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
        f"TF_CONFIG={text}: must be a JSON object with a cluster and a task; mend it or unset it"
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
      InputError: nobody answers at one of the addresses in that time.
    """
    import grpc

    begun = time.monotonic()
    for address in addresses:
        with grpc.insecure_channel(address, _CHANNEL_OPTIONS) as channel:
            ready = grpc.channel_ready_future(channel)
            with contextlib.suppress(grpc.FutureTimeoutError):
                ready.result(min(_SECONDS_UNTOLD, 60 * minutes))
                continue
            print(f"waiting for the worker at {address} …", flush=True)
            left = 60 * minutes - (time.monotonic() - begun)
            try:
                ready.result(max(left, 0))
            except grpc.FutureTimeoutError as error:
                raise InputError(
                    f"TF_CONFIG: no worker has answered at {address} for {minutes:g} minutes; run "
                    "the same command there as well, or mend the address"
                ) from error


def _take_back_sigterm() -> None:
    """Gives SIGTERM back to Python. TensorFlow has taken it, and would do nothing with it."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)


def are_several(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether the devices are those of several machines, each with a process of its own."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


@contextlib.contextmanager
def lost_worker_told(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns the errors about a worker that is gone into a sentence.

    Raises:
      InputError: another worker is gone.
    """
    try:
        yield
    except _LOST as error:
        if not are_several(strategy):
            raise
        cause = re.search("aborted by: (.+)", str(error))
        raise InputError(
            "TF_CONFIG: another worker of the training is gone "
            f"({cause[1] if cause else reason(error)}); run the same command again for every "
            "worker, which continues"
        ) from error


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes and prints; of several workers only one does."""
    if not are_several(strategy):
        return True
    resolver = strategy.cluster_resolver
    if resolver.task_type == "worker":
        return resolver.task_id == 0 and "chief" not in resolver.cluster_spec().jobs
    return resolver.task_type == "chief"


def agree(strategy: tf.distribute.Strategy, steps: int, stops: bool) -> tuple[int, bool]:
    """Returns the same for all workers: the mean of their steps, and whether any of them stops."""
    if not are_several(strategy):
        return steps, stops
    mean = _mean_over_replicas(strategy, tf.constant([steps, stops], tf.float32))
    mean_steps, stopping_share = mean.numpy().tolist()
    return int(mean_steps), stopping_share > 0


# TensorFlow warns of the same outside of a graph.
@tf.function(autograph=False)
def _mean_over_replicas(strategy: tf.distribute.Strategy, mine: tf.Tensor) -> tf.Tensor:
    everyones = strategy.run(lambda: mine)
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, everyones, axis=None)


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Returns once all workers have called it."""
    agree(strategy, 0, False)


def check_same_step(strategy: tf.distribute.Strategy, step: int) -> None:
    """Refuses to train if the workers begin at different steps, from different weights.

    Raises:
      InputError: the steps differ; all workers raise it.
    """
    if not are_several(strategy):
        return
    steps = sorted(set(_gathered(strategy, tf.constant([step], tf.int64)).numpy().tolist()))
    if len(steps) > 1:
        raise InputError(
            "--model_dir: the workers found checkpoints of different steps "
            f"({', '.join(map(str, steps))}); give a --model_dir and a --checkpoint_dir that all "
            "of them share"
        )


@tf.function(autograph=False)
def _gathered(strategy: tf.distribute.Strategy, mine: tf.Tensor) -> tf.Tensor:
    return strategy.gather(strategy.run(lambda: mine), axis=0)
