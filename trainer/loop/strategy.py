"""The devices that a job trains on."""

import contextlib
import functools
import time

import tensorflow as tf

from beambert.errors import InputError
from beambert.pipelines.storage.tensorflow_files import reason
from beambert.trainer.loop.config import AUTO, BFLOAT16, FLOAT32
from beambert.trainer.loop.workers import are_several, make_multi_worker, tf_config

# GPUs multiply bfloat16 in hardware from this compute capability on (Ampere; CUDA C++ Programming
# Guide, section "Compute Capabilities").
BFLOAT16_CAPABILITY = (8, 0)
# TensorFlow's words for a machine without a TPU.
_NO_TPU = "TPUs not found in the cluster"
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


def make_strategy(name: str, tpu: str | None = None) -> tf.distribute.Strategy:
    """Returns the strategy for the devices of this machine or cluster.

    Args:
      name: one of `STRATEGIES`. "auto" takes a TPU if one is named, several workers if TF_CONFIG
        names them, several GPUs if there are any, and one device otherwise.
      tpu: name or address of a TPU, or "local" on a TPU VM.

    Raises:
      InputError: there is no such strategy, the TPU cannot be used, TF_CONFIG is not valid,
        or a worker that it names does not answer.
    """
    if name not in STRATEGIES:
        raise InputError(f"--strategy={name}: choose one of {', '.join(STRATEGIES)}")
    _grow_memory()
    if name == "auto":
        name = _detect(tpu)
    if name == "tpu":
        return _make_tpu(tpu)
    if name == "multi_worker":
        return make_multi_worker()
    if name == "mirrored":
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _make_tpu(tpu: str | None) -> tf.distribute.Strategy:
    flag = f"--tpu={tpu}" if tpu else "--strategy=tpu"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu or "local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    # A name is looked up by Google Cloud's libraries and servers, which raise all of these.
    except (ValueError, RuntimeError, OSError, ImportError, tf.errors.OpError) as error:
        if _NO_TPU in str(error):
            raise InputError(
                f"{flag}: this machine has no TPU; leave the flag out, or run it on a TPU VM"
            ) from error
        raise InputError(
            f"{flag}: cannot be used ({reason(error)}); check the name, and that this machine is "
            "in the TPU's project on Google Cloud"
        ) from error


def _grow_memory() -> None:
    """Lets TensorFlow take a GPU's memory as it needs it; else it takes all of it at the start."""
    for gpu in tf.config.list_physical_devices("GPU"):
        # It cannot be changed once the GPU is in use; then another part of the program has decided.
        with contextlib.suppress(RuntimeError):
            tf.config.experimental.set_memory_growth(gpu, True)


def resolve_dtype(dtype: str, strategy: tf.distribute.Strategy) -> str:
    """Returns the type of the matrix products.

    Args:
      dtype: one of `DTYPES`; "auto" takes bfloat16 on TPUs and on GPUs that multiply it in
        hardware, and float32 elsewhere.
      strategy: devices that the products are computed on.
    """
    if dtype != AUTO:
        return dtype
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return BFLOAT16
    gpus = tf.config.list_physical_devices("GPU")
    details = map(tf.config.experimental.get_device_details, gpus)
    capabilities = [found.get("compute_capability", (0, 0)) for found in details]
    is_native = gpus and min(capabilities) >= BFLOAT16_CAPABILITY
    return BFLOAT16 if is_native else FLOAT32


def describe_devices(strategy: tf.distribute.Strategy) -> str:
    """Returns the number and the kind of the devices: "2 devices (NVIDIA A100)"."""
    count = strategy.num_replicas_in_sync
    text = f"{count} device{'s' * (count > 1)}"
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return f"{text} (TPU)"
    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    names = sorted({found.get("device_name", "GPU") for found in details})
    return f"{text} ({', '.join(names) or 'CPU'})"


def _detect(tpu: str | None) -> str:
    if tpu:
        return "tpu"
    cluster = tf_config().get("cluster") or {}
    if len(cluster.get("worker", ())) + len(cluster.get("chief", ())) > 1:
        return "multi_worker"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one_device"


def check_batch(strategy: tf.distribute.Strategy, batch_size: int, parts: int = 1) -> None:
    """Refuses a batch that cannot be divided evenly among the replicas and their parts.

    Raises:
      InputError: the batch size is not a multiple of their number.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % (replicas * parts):
        among = [f"the {replicas} replicas"] if replicas > 1 else []
        among += [f"--gradient_accumulation_steps={parts}"] if parts > 1 else []
        raise InputError(
            f"--train_batch_size={batch_size}: not divisible by {' times '.join(among)}; "
            f"take a multiple of {replicas * parts}"
        )


def must_compile(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether functions need `jit_compile`, as they do everywhere except on a TPU's host.

    On a TPU, `strategy.run` compiles the whole step anyway, and TensorFlow's package for the host
    of a TPU has no XLA for the processor.
    """
    return not isinstance(strategy, tf.distribute.TPUStrategy) and has_xla()


@functools.cache
def has_xla() -> bool:
    """Returns whether TensorFlow can compile for this machine's processor."""
    try:
        tf.function(lambda: tf.constant(1.0) + 1.0, jit_compile=True)()
    except tf.errors.NotFoundError:
        return False
    return True


def matmul_peak(strategy: tf.distribute.Strategy, dtype: str) -> float:
    """Returns what `measure_matmul_peak` does; a process that trains often measures once."""
    key = type(strategy), strategy.num_replicas_in_sync, dtype
    if key not in _peaks:
        _peaks[key] = measure_matmul_peak(strategy, dtype)
    return _peaks[key]


_peaks: dict[tuple[type, int, str], float] = {}


def measure_matmul_peak(strategy: tf.distribute.Strategy, dtype: str) -> float:
    """Returns the floating-point operations a second that matrix products reach on all replicas.

    The rate is measured, since data sheets do not have it for every device and clock.
    """
    is_cpu = not (
        isinstance(strategy, tf.distribute.TPUStrategy) or tf.config.list_logical_devices("GPU")
    )
    # The matrices are wide enough to reach the peak, and small enough to take little time.
    width, products, repeats = (1024, 10, 3) if is_cpu else (8192, 20, 3)

    def multiply(seed: tf.Tensor) -> tf.Tensor:
        # The matrix is random: products of a constant would be computed at compile time.
        matrix = tf.random.stateless_normal([width, width], seed, stddev=width**-0.5)
        matrix = product = tf.cast(matrix, dtype)
        for _ in range(products):
            product = tf.matmul(product, matrix)
        return tf.reduce_sum(tf.cast(product, tf.float32))

    @functools.partial(tf.function, autograph=False)
    def multiply_everywhere(seed: tf.Tensor) -> tf.Tensor:
        sums = strategy.run(multiply, args=(seed,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, sums, axis=None)

    seconds = []
    for repeat in range(repeats + 1):
        started = time.perf_counter()
        multiply_everywhere(tf.constant([repeat, 0])).numpy()
        seconds.append(time.perf_counter() - started)
    return strategy.num_replicas_in_sync * products * 2 * width**3 / min(seconds)


def replicas_here(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of replicas on this machine."""
    if are_several(strategy):
        return len(strategy.extended.worker_devices)
    return strategy.num_replicas_in_sync
