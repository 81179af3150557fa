"""The phases of a training, and how fast a training with a time budget goes through them."""

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from beambert import storage
from beambert.errors import InputError
from beambert.model_files import SPENT_FILE
from beambert.trainer.loop.config import OptimizerConfig


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
      flops_a_step: floating-point operations of an update, see `model.flops`.
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
    flops_a_step: float
    evaluation_batches: int = 0
    score: Callable[[dict[str, np.ndarray]], Mapping[str, float]] | None = None


_SECONDS = "seconds"


class Course:
    """The step of its schedule at which a training is at each update.

    From the update `first` on, when it was at the step `position`, it goes evenly to the end of
    the schedule, which it reaches after the update `last`. The three numbers are in a variable, so
    that a checkpoint has them and a new plan compiles nothing anew.
    """

    def __init__(self, optimizer: OptimizerConfig):
        """Begins with as many updates as the schedule has steps; call under the strategy's scope.

        Args:
          optimizer: the schedule.
        """
        self.end = optimizer.num_train_steps
        self.variable = tf.Variable(
            [0.0, 0.0, float(self.end)], trainable=False, dtype=tf.float32, name="course"
        )

    def at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the step of the schedule at an update, as a float."""
        first, position, last = tf.unstack(self.variable.read_value())
        share = (tf.cast(step, tf.float32) - first) / (last - first)
        return position + share * (self.end - position)

    def position(self, step: int) -> float:
        """Returns the same outside of a graph."""
        return float(self.at(tf.constant(step)))

    @property
    def last(self) -> int:
        """Number of updates of the whole training, as planned now."""
        return int(self.variable.numpy()[2])

    def step_at(self, position: float) -> int:
        """Returns the first update at which the training is at a step of the schedule."""
        first, then, last = self.variable.numpy().tolist()
        share = (position - then) / (self.end - then)
        # Numbers of 32 bits end a little before or behind the step.
        return min(math.ceil(first + share * (last - first) - 1e-3), int(last))

    def change(self, step: int, updates: int) -> None:
        """Goes evenly to the end of the schedule in a number of updates from a step on."""
        self.variable.assign([float(step), self.position(step), float(step + updates)])


def updates_left(
    course: Course, step: int, phases: Sequence[Phase], seconds_a_step: float, seconds: float
) -> int:
    """Returns the number of updates to the end of the schedule, at least 1, that a time allows.

    Args:
      course: the position of the training in its schedule.
      step: number of updates that are done.
      phases: phases of the training by steps of the schedule. Their updates take times that are
        proportional to their operations.
      seconds_a_step: time of an update in the phase of that step.
      seconds: time that is left for all updates.
    """
    position = course.position(step)
    left = [
        (phase.last_step - max(position, first), phase.flops_a_step)
        for first, phase in zip([0, *(p.last_step for p in phases)], phases, strict=False)
        if phase.last_step > position
    ]
    here = left[0][1]
    rest = sum(steps for steps, _ in left)
    mean_seconds = seconds_a_step * sum(steps * flops for steps, flops in left) / (here * rest)
    return max(int(seconds / mean_seconds), 1)


class TimeSpent:
    """The time that a training has taken, in this process and in earlier ones."""

    def __init__(
        self,
        folder: str,
        started: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Starts the clock of this process.

        Args:
          folder: the model folder.
          started: time of the clock when this process began; None for now.
          clock: returns the seconds since any fixed moment.
        """
        self._path = f"{folder}/{SPENT_FILE}"
        self._clock = clock
        self._started = clock() if started is None else started
        self._before = 0.0

    def read(self) -> None:
        """Adds the time of earlier processes.

        Raises:
          InputError: the file is damaged.
        """
        if not storage.exists(self._path):
            return
        try:
            content: Any = json.loads(storage.read_bytes(self._path))
            self._before = float(content[_SECONDS])
            if not 0 <= self._before < math.inf:
                raise ValueError
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(
                f"{self._path}: is damaged; delete it, and the time of --budget counts anew"
            ) from error

    @property
    def seconds(self) -> float:
        """The time so far."""
        return self._before + self._clock() - self._started

    def save(self) -> None:
        """Writes the time so far to the folder."""
        storage.write_bytes(self._path, json.dumps({_SECONDS: self.seconds}).encode())
