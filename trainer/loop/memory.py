"""The memory of a training: whether it will be enough, and one sentence when it was not."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator

import tensorflow as tf

from beambert import machine_memory
from beambert.errors import InputError
from beambert.pipelines.storage.tensorflow_files import reason

# TensorFlow's and XLA's own programs for a training step; measured with `--model=tiny`.
PROGRAM_BYTES = 400 << 20
# Words of libraries about memory, in errors of other types.
_OUT_OF_MEMORY = re.compile("bad_alloc|out of memory|RESOURCE_EXHAUSTED", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Memory:
    """The memory that a training takes and has, in bytes.

    Attributes:
      state: weights, gradients and moments of all replicas on this machine.
      state_of_parts: the same if batches are computed in parts.
      sequence: activations of a sequence.
      replicas: number of replicas.
      here: number of them on this machine.
      free: memory that is free; None if it is not known.
    """

    state: int
    state_of_parts: int
    sequence: int
    replicas: int
    here: int
    free: int | None

    def needed(self, batch_size: int, parts: int) -> int:
        """Returns the memory for batches of a size, computed in a number of parts."""
        at_once = batch_size // self.replicas // parts * self.here
        state = self.state_of_parts if parts > 1 else self.state
        return PROGRAM_BYTES + state + at_once * self.sequence

    def warning(self, batch_size: int, parts: int) -> str:
        """Returns a sentence that says what would fit; "" if the training fits or nobody knows."""
        needed = self.needed(batch_size, parts)
        if self.free is None or needed <= self.free:
            return ""
        return (
            f"--train_batch_size={batch_size}: the training takes about {needed / 1e9:.1f} GB of "
            f"memory, and {self.free / 1e9:.1f} GB are free; {self.remedy(batch_size, parts)}"
        )

    def remedy(self, batch_size: int, parts: int) -> str:
        """Returns the advice to someone whose training takes too much memory."""
        unknown = self.free is None or self.needed(batch_size, parts) <= self.free
        each = batch_size // self.replicas
        divisors = [n for n in range(parts + 1, each + 1) if each % n == 0]
        fits = (n for n in divisors if unknown or self.needed(batch_size, n) <= self.free)
        if more := next(fits, None):
            return (
                f"give --gradient_accumulation_steps={more}, which computes the same in smaller "
                "parts, or a smaller --train_batch_size"
            )
        least = self.replicas * parts
        sizes = range(batch_size - 1, least - 1, -1)
        sizes = (n for n in sizes if n % least == 0)
        smaller = next((n for n in sizes if unknown or self.needed(n, parts) <= self.free), None)
        if smaller:
            return f"give --train_batch_size={smaller}"
        return "choose a smaller model, or a machine with more memory"


@contextlib.contextmanager
def memory_told(memory: Memory, batch_size: int, parts: int) -> Iterator[None]:
    """Turns errors about the want of memory into a sentence.

    The system ends some processes without an error; the warning before has told them.

    Raises:
      InputError: the memory is not enough.
    """
    try:
        yield
    except (MemoryError, RuntimeError, tf.errors.OpError) as error:
        is_memory = isinstance(error, MemoryError | tf.errors.ResourceExhaustedError)
        if not is_memory and not _OUT_OF_MEMORY.search(str(error)):
            raise
        raise InputError(
            f"--train_batch_size={batch_size}: the memory is not enough ({reason(error)}); "
            f"{memory.remedy(batch_size, parts)}"
        ) from error


def free_bytes() -> int | None:
    """Returns the memory that a training can still take; None if the system does not say."""
    if tf.config.list_physical_devices("GPU") or tf.config.list_logical_devices("TPU"):
        return None  # They have memory of their own.
    return machine_memory.free_bytes()
