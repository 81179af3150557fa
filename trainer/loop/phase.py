"""A phase of a training: some of its steps, and the data for them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


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
