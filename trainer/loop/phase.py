"""A phase of a training: which data for which steps."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Phase:
    """The steps on data of one shape.

    Attributes:
      last_step: of the whole run; the next phase begins there.
      batches_from: returns the distributed training data from a step of the whole run on.
      evaluation: returns the distributed held-out data, of so many batches or all; or None.
      tokens_a_step: positions of a batch, padding included.
      flops_a_step: see `model.flops`.
    """

    last_step: int
    batches_from: Callable[[int], Any]
    evaluation: Callable[[int | None], Any] | None
    tokens_a_step: int
    flops_a_step: float
