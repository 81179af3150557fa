"""The flags about masks that a training draws; this module does not import TensorFlow."""

import argparse
import dataclasses
import math
from collections.abc import Sequence

from beambert.errors import InputError
from beambert.pipelines.records.contract import (
    MASK_SHARE,
    MASKED_LM_PROB,
    RANDOM_SHARE,
    SAME_SHARE,
)

# The flag has percentages.
MASK_REPLACEMENTS = (100 * MASK_SHARE, 100 * RANDOM_SHARE, 100 * SAME_SHARE)


def parse_rates(text: str) -> tuple[float, float]:
    """Returns the rates at the first step and at the last, from "0.3:0.15" or "0.15".

    Raises:
      ArgumentTypeError: the text is neither; argparse names the flag.
    """
    first, colon, last = text.partition(":")
    try:
        return float(first), float(last if colon else first)
    except ValueError as error:
        message = f"{text!r} is neither a share nor two shares with a colon between them"
        raise argparse.ArgumentTypeError(message) from error


def rates_text(rates: tuple[float, float]) -> str:
    """Returns the text that `parse_rates` reads."""
    first, last = rates
    return f"{first!r}" if first == last else f"{first!r}:{last!r}"


def parse_replacements(text: str) -> tuple[float, ...]:
    """Returns the percentages in a text such as "80,10,10".

    Raises:
      ArgumentTypeError: the text is no such list; argparse names the flag.
    """
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError as error:
        message = f"{text!r} are not three numbers with commas between them"
        raise argparse.ArgumentTypeError(message) from error


def replacements_text(replacements: Sequence[float]) -> str:
    """Returns the text that `parse_replacements` reads."""
    return ",".join(f"{percent:.15g}" for percent in replacements)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskFlags:
    """The flags about masks.

    Attributes:
      masking: "static" for the records' masks, "dynamic" for others in every epoch; None takes
        those of the records if they have any.
      mask_rate: share of the tokens to predict where masks are drawn, at the first step and at the
        last, between which it changes linearly; None for that of the records, and for the paper's
        0.15 if they have no masks.
      mask_replacements: percentages of the chosen tokens that become [MASK], become a random token,
        and stay, where masks are drawn.
      do_whole_word_mask: whether to hide all pieces of a word or none, where masks are drawn; None
        for the rule of the records.
    """

    masking: str | None = None
    mask_rate: tuple[float, float] | None = None
    mask_replacements: tuple[float, ...] = MASK_REPLACEMENTS
    do_whole_word_mask: bool | None = None

    def of_drawn(self) -> dict[str, str]:
        """Returns name -> text of the flags besides `masking` that are not their defaults."""
        found = {}
        if self.mask_rate:
            found["mask_rate"] = rates_text(self.mask_rate)
        if self.mask_replacements != MASK_REPLACEMENTS:
            found["mask_replacements"] = replacements_text(self.mask_replacements)
        if self.do_whole_word_mask is not None:
            found["do_whole_word_mask"] = str(self.do_whole_word_mask)
        return found

    def check(self) -> None:
        """Refuses values out of range.

        Raises:
          InputError: a rate is not between 0 and 1, or the percentages are not 100 in all.
        """
        if self.mask_rate and not all(0 < rate < 1 for rate in self.mask_rate):
            raise InputError(
                f"--mask_rate={rates_text(self.mask_rate)}: must be more than 0 and less than 1; "
                f"the paper's is {MASKED_LM_PROB}"
            )
        percents = self.mask_replacements
        is_whole = len(percents) == 3 and math.isclose(sum(percents), 100)
        if not is_whole or min(percents) < 0:
            raise InputError(
                f"--mask_replacements={replacements_text(percents)}: must be three percentages "
                "that are 100 in all: of [MASK], of random tokens and of tokens that stay; the "
                f"paper's are {replacements_text(MASK_REPLACEMENTS)}"
            )
