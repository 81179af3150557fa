"""The masks that a training draws by itself: how many, of which tokens, and what replaces them."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from beambert.errors import InputError
from beambert.pipelines.instances.masking import TokenIds
from beambert.pipelines.instances.parameters import REFERENCE
from beambert.pipelines.records.contract import MASK_SHARE, MASKED_LM_PROB, RANDOM_SHARE
from beambert.trainer.loop.config import DYNAMIC, STATIC
from beambert.trainer.pretraining.mask_flags import MASK_REPLACEMENTS, MaskFlags
from beambert.trainer.pretraining.records import Records


@dataclasses.dataclass(frozen=True)
class MaskingRules:
    """The rules by which masks are drawn.

    Attributes:
      rates: shares of a row's tokens to predict, at the first step and from the last step on; in
        between the share changes linearly.
      slots: prediction slots of a row.
      do_whole_word_mask: whether to hide all pieces of a word or none.
      ids: ids of the vocabulary.
      last_step: number of the last step, from 0.
      mask_share: share of the chosen tokens that become [MASK].
      random_share: share of the chosen tokens that become a random token.
    """

    rates: tuple[float, float]
    slots: int
    do_whole_word_mask: bool
    ids: TokenIds
    last_step: int = 0
    mask_share: float = MASK_SHARE
    random_share: float = RANDOM_SHARE

    @property
    def is_changing(self) -> bool:
        """Whether the share changes in the training."""
        return self.rates[0] != self.rates[1]

    @classmethod
    def of(
        cls,
        records: Records,
        rates: tuple[float, float] | None = None,
        replacements: Sequence[float] = MASK_REPLACEMENTS,
        do_whole_word_mask: bool | None = None,
        steps: int = 1,
    ) -> "MaskingRules":
        """Returns the rules for a folder's records.

        Args:
          records: the folder.
          rates: see above; None for the share by which the records were masked, and for that of
            the paper where they have no masks.
          replacements: percentages of [MASK], of random tokens and of tokens that stay.
          do_whole_word_mask: see above; None for the rule by which the records were masked.
          steps: number of steps in which the share changes.

        Raises:
          InputError: the records hide spans.
        """
        parameters = records.info.parameters
        if parameters.get("do_span_mask"):
            raise InputError(
                "--masking=dynamic: cannot hide spans, as these records do; leave the flag out, or "
                "make the records with another `beambert data --masks`"
            )
        own = own_rates(records)
        is_own = rates is None and records.info.has_masks
        rates = rates or own
        slots = slots_for(max(rates), records.max_seq_length)
        return cls(
            rates,
            records.max_predictions_per_seq if is_own else slots,
            own_words(records) if do_whole_word_mask is None else do_whole_word_mask,
            TokenIds.of(records.vocabulary, is_reference=parameters.get("pairs") == REFERENCE),
            steps - 1,
            replacements[0] / 100,
            replacements[1] / 100,
        )


def own_rates(records: Records) -> tuple[float, float]:
    """Returns the rates by which records were masked; those of the paper if they are not."""
    rate = records.info.parameters.get("masked_lm_prob", MASKED_LM_PROB)
    return rate, rate


def own_words(records: Records) -> bool:
    """Returns whether records were masked by whole words; False if they are not masked."""
    return bool(records.info.parameters.get("do_whole_word_mask"))


def slots_for(rate: float, length: int) -> int:
    """Returns the number of prediction slots that a rate needs, as `beambert data` counts them."""
    return min(max(1, math.ceil(length * rate)), length)


def rules_for(
    flags: MaskFlags, folders: Sequence[Records], steps: int
) -> list[MaskingRules] | list[None]:
    """Returns the rules by which the masks of each folder's records are drawn; None if they aren't.

    Args:
      flags: what is asked for.
      folders: all folders that the training reads.
      steps: number of steps in which the rate changes.

    Raises:
      InputError: a value is out of range or has no effect, the masks of records that have none are
        asked for, or records hide spans.
    """
    flags.check()
    without = [folder.folder for folder in folders if not folder.info.has_masks]
    is_drawn = flags.masking == DYNAMIC
    is_drawn |= flags.masking is None and len(without) == len(folders)
    if without and not is_drawn:
        flag = f"--masking={flags.masking}" if flags.masking else "--masking"
        raise InputError(
            f"{flag}: the records in {without[0]} have no masks; give --masking=dynamic, or make "
            "records with `beambert data --masks=static`"
        )
    if is_drawn:
        given = flags.mask_rate, flags.mask_replacements, flags.do_whole_word_mask
        return [MaskingRules.of(each, *given, steps) for each in folders]
    for name, text in flags.of_drawn().items():
        raise InputError(
            f"--{name}={text}: the masks are those of the records; give --masking=dynamic too, or "
            "leave it out"
        )
    return [None] * len(folders)


def mask_settings(flags: MaskFlags, folders: Sequence[Records]) -> dict[str, Any]:
    """Returns the settings of the masks for training.json; those at their defaults are left out.

    Args:
      flags: what is asked for.
      folders: all folders that the training reads.
    """
    has_masks = any(folder.info.has_masks for folder in folders)
    found = flags.of_drawn()
    # With the rate that they were masked at, records with masks keep their slots only if no rate is
    # given.
    if not has_masks and flags.mask_rate == (MASKED_LM_PROB, MASKED_LM_PROB):
        del found["mask_rate"]
    if all(flags.do_whole_word_mask == own_words(folder) for folder in folders):
        del found["do_whole_word_mask"]
    is_drawn = flags.masking == DYNAMIC or not has_masks
    return {"masking": DYNAMIC if is_drawn else STATIC, **found}
