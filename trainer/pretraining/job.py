"""The job of a pre-training and how its flags are read. This module does not import TensorFlow."""

import argparse
import dataclasses
import math
import os
import re
from collections.abc import Sequence
from typing import Any

from beambert.errors import InputError
from beambert.model.objectives import BERT, RTD
from beambert.pipelines.records.contract import (
    MASK_SHARE,
    MASKED_LM_PROB,
    RANDOM_SHARE,
    SAME_SHARE,
)
from beambert.trainer.loop.config import (
    TRAINING_FLAGS,
    LoopConfig,
    OptimizerConfig,
    TrainingFolders,
)
from beambert.trainer.pretraining import recipes
from beambert.trainer.weights.adaptation import KEEP, PIECES

_BASE = recipes.bert_base()
# The flag has percentages.
MASK_REPLACEMENTS = (100 * MASK_SHARE, 100 * RANDOM_SHARE, 100 * SAME_SHARE)
# Loading and compiling take most of a shorter time.
LEAST_SECONDS = 15.0
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_OPERATIONS = "flops"
# A value of --eval_data that names its source, as `beambert data --source` does.
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)")


@dataclasses.dataclass(frozen=True)
class Budget:
    """What a training may take; one of the two is None.

    Attributes:
      seconds: time from the beginning to the finished model, whatever is done in it.
      operations: floating-point operations of all updates, see `model.flops`.
    """

    seconds: float | None = None
    operations: float | None = None

    @classmethod
    def parse(cls, value: str) -> "Budget":
        """Returns the budget for a value such as "30min", "6h" or "1e17flops" names.

        Raises:
          InputError: the value is not a budget.
        """
        units = (*_SECONDS, _OPERATIONS)
        found = re.fullmatch(rf"(\d+(?:\.\d*)?(?:e\+?\d\d?)?)({'|'.join(units)})", value)
        amount = float(found[1]) if found else 0.0
        if not amount:
            raise InputError(
                f"--budget={value}: must be a time or a number of operations, such as 90s, 30min, "
                "6h, 2d or 1e17flops"
            )
        if found[2] == _OPERATIONS:
            return cls(operations=amount)
        seconds = amount * _SECONDS[found[2]]
        if seconds < LEAST_SECONDS:
            raise InputError(f"--budget={value}: must be at least {LEAST_SECONDS:g}s")
        return cls(seconds=seconds)


def parse_rates(text: str) -> tuple[float, float]:
    """Returns the rates at the first step and at the last, from "0.3:0.15" or "0.15".

    Raises:
      ArgumentTypeError: the value is neither; argparse names the flag.
    """
    first, colon, last = text.partition(":")
    try:
        return float(first), float(last if colon else first)
    except ValueError as error:
        message = f"{text!r} is neither a share nor two shares with a colon between them"
        raise argparse.ArgumentTypeError(message) from error


def rates_text(rates: tuple[float, float]) -> str:
    """Returns the string that `parse_rates` reads."""
    first, last = rates
    return f"{first!r}" if first == last else f"{first!r}:{last!r}"


def parse_replacements(text: str) -> tuple[float, ...]:
    """Returns the percentages in a value such as "80,10,10".

    Raises:
      ArgumentTypeError: the value is not a list of numbers; argparse names the flag.
    """
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError as error:
        message = f"{text!r} is not three numbers with commas between them"
        raise argparse.ArgumentTypeError(message) from error


def replacements_text(replacements: Sequence[float]) -> str:
    """Returns the string that `parse_replacements` reads."""
    return ",".join(f"{percent:.15g}" for percent in replacements)


def parse_eval_data(given: Sequence[str]) -> dict[str, str]:
    """Returns name -> folder of the values of --eval_data; the name of a single folder may be "".

    Raises:
      InputError: several folders lack names, or a name is there twice.
    """
    found: dict[str, str] = {}
    for text in given:
        named = None if os.path.isdir(text) else _NAMED.fullmatch(text)
        name, folder = named.groups() if named else ("", text)
        if not name and len(given) > 1:
            raise InputError(
                f"--eval_data={text}: has no name, but there are several; give each as NAME=DIR"
            )
        if name in found:
            raise InputError(f"--eval_data={text}: there are two {name}; name each once")
        found[name] = folder
    return found


def check_combinations(given: Any) -> None:
    """Refuses shares out of range, and values that need or exclude another.

    Args:
      given: parsed flags or a `PretrainingJob`, whose attributes are checked.

    Raises:
      InputError: a value cannot be used, or not together with another.
    """
    if given.init:
        _check_with_init(given)
    else:
        for name, default in (("init_positions", KEEP), ("init_tokens", PIECES)):
            if (value := getattr(given, name)) != default:
                raise InputError(f"--{name}={value}: needs --init; leave it out")
    if given.generator_size is not None and given.objective != RTD:
        raise InputError(
            f"--generator_size={given.generator_size}: needs --objective={RTD}; leave it out"
        )
    if not 0 < given.long_data_share < 1:
        raise InputError(f"--long_data_share={given.long_data_share}: must be in (0, 1)")
    if not 0 <= given.batch_ramp_share < 1:
        raise InputError(
            f"--batch_ramp_share={given.batch_ramp_share}: must be at least 0 and less than 1"
        )


def _check_with_init(given: Any) -> None:
    for name in ("model", "family"):
        if value := getattr(given, name):
            raise InputError(
                f"--{name}={value}: --init already sets the {name}; leave one of them out"
            )
    if given.initializer_range is not None:
        raise InputError(
            f"--initializer_range={given.initializer_range}: the weights are those of --init; "
            "leave it out"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingJob:
    """The parameters of a pre-training; the defaults are those of `beambert pretrain`.

    Attributes:
      data: records folder.
      eval_data: folder of held-out records, or several as "NAME=DIR", one for each source; None
        takes those in `data`/eval if that exists.
      long_data: folder of records with longer sequences, for the last steps; None for none. Its
        held-out records are in `long_data`/eval, if that exists.
      long_data_share: share of the steps on `long_data`.
      batch_ramp_share: share of the steps in which the batch grows from an eighth of its size, see
        `plan.RAMP_DIVISORS`; 0 for none.
      objective: what is learned from: "bert" for masked LM and next sentence prediction, "mlm" for
        masked LM alone, "sop" for masked LM and sentence-order prediction, "copy" for masked LM and
        recognition of noisy copies, "rtd" for replaced token detection, "ltr" for the next token,
        left to right.
      masking: "static" for the records' masks, "dynamic" for others in every epoch; None takes
        those of the records if they have any.
      mask_rate: share of the tokens to predict where masks are drawn, at the first step and at the
        last, between which it changes linearly; None for that of the records, and for the paper's
        0.15 if they have no masks.
      mask_replacements: percentages of the chosen tokens that become [MASK], become a random token,
        and stay, where masks are drawn.
      do_whole_word_mask: whether to hide all pieces of a word or none, where masks are drawn; None
        for the rule of the records.
      generator_size: size of the generator of "rtd" as a share of the encoder's, see
        `Family.generator_config`; None for the usual one of the family.
      family: name of the family of encoders, see `model.families`; None takes that of `init`
        or of the file that `model` names, or BERT.
      model: name of a size or path of a configuration file; None takes that of `init`, or base
        where that is None too.
      init: weights to start from, see `initial.open_initial`; None starts from random ones.
      init_positions: what to do with positions on which the encoder of `init` was not trained, one
        of `POSITION_WAYS`.
      init_tokens: how the embeddings of tokens begin that the vocabulary of the records has besides
        that of `init`, one of `TOKEN_WAYS`.
      distill_from: teacher, anything that `init` may be; None for none.
      attend_within_documents: whether a token attends to its own document only, where a record has
        sentences of several.
      dropout: rate of dropout in the layers and in attention; None for that of the model.
      initializer_range: standard deviation of random weights; None for that of the model.
      output: folders to write to.
      optimizer: parameters of the optimizer.
      loop: parameters of the training loop.
      budget: time or operations of the training, from which the number of steps follows; None for
        that of `optimizer`.

    Raises:
      InputError: a value cannot be used, or not together with another.
    """

    data: str
    eval_data: str | tuple[str, ...] | None = None
    long_data: str | None = None
    long_data_share: float = _BASE.long_data_share
    batch_ramp_share: float = 0.0
    objective: str = BERT
    masking: str | None = None
    mask_rate: tuple[float, float] | None = None
    mask_replacements: tuple[float, ...] = MASK_REPLACEMENTS
    do_whole_word_mask: bool | None = None
    generator_size: float | None = None
    family: str | None = None
    model: str | None = None
    init: str | None = None
    init_positions: str = KEEP
    init_tokens: str = PIECES
    distill_from: str | None = None
    attend_within_documents: bool = False
    dropout: float | None = None
    initializer_range: float | None = None
    output: TrainingFolders
    optimizer: OptimizerConfig = OptimizerConfig(
        _BASE.learning_rate, _BASE.num_train_steps, _BASE.num_warmup_steps
    )
    loop: LoopConfig = LoopConfig(_BASE.train_batch_size)
    budget: Budget | None = None

    def __post_init__(self) -> None:
        """Refuses values that cannot be used together."""
        check_combinations(self)

    def drawn_mask_flags(self) -> dict[str, str]:
        """Returns name -> value of the flags besides `masking` that are not their defaults."""
        found = {}
        if self.mask_rate:
            found["mask_rate"] = rates_text(self.mask_rate)
        if self.mask_replacements != MASK_REPLACEMENTS:
            found["mask_replacements"] = replacements_text(self.mask_replacements)
        if self.do_whole_word_mask is not None:
            found["do_whole_word_mask"] = str(self.do_whole_word_mask)
        return found

    def check_masks(self) -> None:
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


# The flags behind the values of `PretrainingPlan.identity`.
FLAGS_OF = (
    {
        "phases.0.records_sha256": "--data",
        "phases.1.records_sha256": "--long_data",
        "phases.0.eval_records_sha256": "--eval_data",
        "objective": "--objective",
        "generator_size": "--generator_size",
        "init_tokens": "--init_tokens",
        "distill_from_sha256": "--distill_from",
        "attend_within_documents": "--attend_within_documents",
        "batch_ramp_share": "--batch_ramp_share",
        "masking": "--masking",
        "mask_rate": "--mask_rate",
        "mask_replacements": "--mask_replacements",
        "do_whole_word_mask": "--do_whole_word_mask",
        "budget_seconds": "--budget",
        "optimizer.num_train_steps": "--num_train_steps",
        "optimizer.learning_rate": "--learning_rate",
        "optimizer.schedule": "--schedule",
        "optimizer.decay_share": "--decay_share",
        "optimizer.beta_1": "--beta_1",
        "optimizer.beta_2": "--beta_2",
        "model.model_type": "--family",
        "model.hidden_dropout_prob": "--dropout",
        "model.initializer_range": "--initializer_range",
        **TRAINING_FLAGS,
    },
    {
        "model": "--model",
        "optimizer.num_warmup_steps": "--num_warmup_steps",
        "phases.0.last_step": "--long_data_share",
    },
)
