"""Which steps of a pre-training take short sequences, long ones, and smaller batches."""

import dataclasses
from collections.abc import Sequence

from beambert.trainer.loop.config import EXTEND, Revision

# A ramp begins with an eighth of the batch and doubles it three times, each after equally many
# steps. Geiping and Goldstein 2023 (arXiv 2212.14034) let it grow linearly, by whole parts that are
# computed one after the other. Here a batch need not have parts, and each size is compiled once.
RAMP_DIVISORS = (8, 4, 2)


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Steps on data of one length, in batches of one size.

    Attributes:
      is_long: whether they take the long sequences.
      first_step: number of steps of the whole training that come before.
      last_step: number of steps of the whole training at its end.
      batches_before: number of batches of this size that earlier stretches took from the same
        data.
      batch_divisor: the batch of the training has so many times the sequences of these.
      steps_of_smaller: divisor -> number of the batches that were smaller than these, which earlier
        stretches took from the same data.
    """

    is_long: bool
    first_step: int
    last_step: int
    batches_before: int
    batch_divisor: int = 1
    steps_of_smaller: tuple[tuple[int, int], ...] = ()


def stretches(
    num_train_steps: int,
    long_share: float | None,
    revisions: Sequence[Revision] = (),
    ramp_share: float = 0.0,
) -> list[Stretch]:
    """Returns the stretches of a training, none of them empty, in their order.

    The long sequences take the last share of the planned steps and of the steps of an extension.
    They take all steps in which a training is finished early, since those are its last.

    Args:
      num_train_steps: number of steps that were planned at the beginning.
      long_share: share of the steps on long sequences; None if there are none.
      revisions: changes of the schedule, in their order.
      ramp_share: share of the planned steps in which the batch grows, see `RAMP_DIVISORS`.
    """
    ends = _divided(0, num_train_steps, long_share)
    for revision in revisions:
        first, last = revision.first_step, revision.last_step
        share = long_share if revision.kind == EXTEND else long_share and 1.0
        ends = [(is_long, min(end, first)) for is_long, end in ends]
        ends += _divided(first, last, share)
    ramp = ramp_share * num_train_steps / len(RAMP_DIVISORS)
    ramp_ends = [(round(ramp * (i + 1)), divisor) for i, divisor in enumerate(RAMP_DIVISORS)]
    found: list[Stretch] = []
    done, taken = 0, {False: {}, True: {}}
    for is_long, last in ends:
        for ramp_end, divisor in (*ramp_ends, (last, 1)):
            end = min(ramp_end, last)
            if end <= done:
                continue
            before = taken[is_long]
            steps_before = before.get(divisor, 0)
            if found and (found[-1].is_long, found[-1].batch_divisor) == (is_long, divisor):
                found[-1] = dataclasses.replace(found[-1], last_step=end)
            else:
                smaller = tuple(item for item in before.items() if item[0] > divisor)
                found.append(Stretch(is_long, done, end, steps_before, divisor, smaller))
            before[divisor] = steps_before + end - done
            done = end
    return found


def _divided(first: int, last: int, long_share: float | None) -> list[tuple[bool, int]]:
    """Returns whether a part of the steps is long, and the step that ends it, for each part."""
    if long_share is None:
        return [(False, last)]
    return [(False, last - round((last - first) * long_share)), (True, last)]
