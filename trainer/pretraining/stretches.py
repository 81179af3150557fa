"""Which steps of a pre-training take short sequences, and which take long ones."""

import dataclasses
from collections.abc import Sequence

from beambert.trainer.loop.config import EXTEND, Revision


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Steps on data of one length.

    Attributes:
      is_long: whether they take the long sequences.
      first_step: number of steps of the whole training that come before.
      last_step: number of steps of the whole training at its end.
      batches_before: number of batches that earlier stretches took from the same data.
    """

    is_long: bool
    first_step: int
    last_step: int
    batches_before: int


def stretches(
    num_train_steps: int, long_share: float | None, revisions: Sequence[Revision] = ()
) -> list[Stretch]:
    """Returns the stretches of a training, none of them empty, in their order.

    The long sequences take the last share of the planned steps and of the steps of an extension.
    They take all steps in which a training is finished early, since those are its last.

    Args:
      num_train_steps: number of steps that were planned at the beginning.
      long_share: share of the steps on long sequences; None if there are none.
      revisions: changes of the schedule, in their order.
    """
    ends = _divided(0, num_train_steps, long_share)
    for revision in revisions:
        first, last = revision.first_step, revision.last_step
        share = long_share if revision.kind == EXTEND else long_share and 1.0
        ends = [(is_long, min(end, first)) for is_long, end in ends]
        ends += _divided(first, last, share)
    found: list[Stretch] = []
    done, taken = 0, {False: 0, True: 0}
    for is_long, end in ends:
        if end <= done:
            continue
        if found and found[-1].is_long == is_long:
            found[-1] = dataclasses.replace(found[-1], last_step=end)
        else:
            found.append(Stretch(is_long, done, end, taken[is_long]))
        taken[is_long] += end - done
        done = end
    return found


def _divided(first: int, last: int, long_share: float | None) -> list[tuple[bool, int]]:
    """Returns whether a part of the steps is long, and the step that ends it, for each part."""
    if long_share is None:
        return [(False, last)]
    return [(False, last - round((last - first) * long_share)), (True, last)]
