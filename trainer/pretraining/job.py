"""The job of a pre-training and how its flags are read. This module does not import TensorFlow."""

import argparse
import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from beambert import io
from beambert.config import check_settings, setting
from beambert.errors import InputError
from beambert.model.families.table import FAMILIES
from beambert.model.objectives import BERT, GENERATOR_DEPTH, GENERATOR_SIZE, OBJECTIVES, RTD
from beambert.pipelines.records.contract import (
    INFO_FILE,
    MASKED_LM_PROB,
    RecordsInfo,
    check_finished,
)
from beambert.trainer.loop.config import (
    DYNAMIC,
    RANDOM,
    SHORT_RUN_WARMUP_SHARE,
    STATIC,
    TRAPEZOID,
    LoopConfig,
    OptimizerConfig,
    TrainingFolders,
    default_learning_rate,
    default_warmup_steps,
)
from beambert.trainer.pretraining import recipes
from beambert.trainer.weights.adaptation import KEEP, lora_setting, positions_setting
from beambert.trainer.weights.config_files import folder_of, read_config_file

_BASE = recipes.bert_base()
# Share of the steps on long sequences; A.2 of the paper.
LONG_SHARE = 0.1
# Loading and compiling take most of a shorter time.
LEAST_SECONDS = 15.0
# Fewer steps teach random weights next to nothing; `tiny` needs 2,000 (docs/pretraining.md).
FEW_STEPS = 500
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
# Settings of which one says how long to train, and those that --init decides.
LENGTHS = ("num_train_steps", "num_train_epochs", "budget")
OF_ENCODER = ("model", "family", "initializer_range")
# A value of --eval_data that names its source, as `beambert data --source` does.
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)")


def few_steps_warning(steps: int, seconds: float) -> str:
    """Returns a warning if a time allows too few steps, with the time that enough need, else ""."""
    if steps >= FEW_STEPS:
        return ""
    more = math.ceil(seconds * (FEW_STEPS / steps - 1) / 60)
    return (
        f"{steps} steps teach next to nothing; {FEW_STEPS} need a --budget that is {more}min longer"
    )


def parse_budget(value: str) -> float:
    """Returns the seconds of a time such as "30min" or "6h".

    Raises:
      InputError: the value is not a time, or too short.
    """
    found = re.fullmatch(rf"(\d+(?:\.\d*)?)({'|'.join(_SECONDS)})", value)
    if not found:
        raise InputError(f"--budget={value}: must be a time, such as 90s, 30min, 6h or 2d")
    seconds = float(found[1]) * _SECONDS[found[2]]
    if seconds < LEAST_SECONDS:
        raise InputError(f"--budget={value}: must be at least {LEAST_SECONDS:g}s")
    return seconds


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


def warmup_share(init: str | None) -> float:
    """Returns the default share of the steps in which the rate rises."""
    return recipes.CONTINUED_WARMUP_SHARE if init else SHORT_RUN_WARMUP_SHARE


def default_epochs(data: str) -> float:
    """Returns the default passes over records where an encoder is continued.

    Records that have the text several times need fewer passes.

    Raises:
      InputError: it is not a finished records folder.
    """
    check_finished(data, "--data")
    path = f"{data}/{INFO_FILE}"
    info = RecordsInfo.from_json(io.read_bytes(path, "--data").decode(), path)
    copies = info.passes or 1
    return recipes.default_passes(info.counts.get("filled_tokens", 0) / copies) / copies


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingJob:
    """The parameters of a pre-training.

    Attributes:
      output: folders to write to.
      optimizer: parameters of the optimizer.
      loop: parameters of the training loop.

    Raises:
      InputError: a value cannot be used, or not together with another.
    """

    data: str = setting(group="data", metavar="DIR", help="records folder made by `beambert data`")
    eval_data: tuple[str, ...] = setting(
        (),
        metavar="[NAME=]DIR",
        help="held-out records; several as NAME=DIR, one for each source, to see the loss of each "
        "(default: eval in --data, if it exists, or the folder of each source in it)",
    )
    long_data: str | None = setting(
        None,
        metavar="DIR",
        help="records of longer sequences for the last steps; its folder eval is held-out data",
    )
    long_data_share: float = setting(
        LONG_SHARE, above=0, below=1, help="share of the steps on --long_data"
    )
    objective: str = setting(
        BERT,
        group="objective",
        choices=OBJECTIVES,
        help="bert: masked LM and next sentence prediction; mlm: masked LM alone, as RoBERTa; sop: "
        "masked LM and sentence-order prediction, as ALBERT, on records of --pairs=sop; copy: "
        "masked LM and recognition of noisy copies, on records of --pairs=copy; rtd: "
        "replaced token detection, as ELECTRA and DeBERTa-v3; mlm and rtd also on records without "
        "pairs",
    )
    generator_size: float | None = setting(
        None,
        above=0,
        maximum=1,
        help="width of the generator of --objective=rtd as a share of the encoder's (default: "
        f"{GENERATOR_SIZE}); with --family=deberta-v2 its depth (default: {GENERATOR_DEPTH})",
    )
    masking: str | None = setting(
        None,
        choices=(STATIC, DYNAMIC),
        help="static: masks of the records; dynamic: new ones in each epoch (default: static; "
        "dynamic on records without masks, and with --mask_rate or --do_whole_word_mask)",
    )
    mask_rate: tuple[float, float] | None = setting(
        None,
        above=0,
        below=1,
        metavar="RATE[:RATE]",
        parse=parse_rates,
        help="with drawn masks: share of the tokens to predict, or shares at the first step and at "
        "the last, between which it changes linearly (default: masked_lm_prob of the records; "
        f"{MASKED_LM_PROB} on records without masks)",
    )
    do_whole_word_mask: bool | None = setting(
        None,
        help="with drawn masks: whether to mask either all pieces of a word or none (default: as "
        "the records were masked; False on records without masks)",
    )
    attend_within_documents: bool = setting(
        False,
        help="let a token attend to its own document only, where records of `beambert data "
        "--pairs=none` have sentences of several; needs --objective=mlm",
    )
    distill_from: str | None = setting(
        None,
        metavar="PATH",
        help="teacher of the encoder, with the vocabulary of the records: any path that --init "
        "takes; its masked-LM distribution is learned besides --objective, and its hidden states "
        "if they are as wide as the student's (default: no teacher)",
    )
    family: str | None = setting(
        None,
        group="encoder",
        choices=FAMILIES,
        help="family of the encoder that --model names a size of",
    )
    model: str | None = setting(
        None, help="size of the encoder (tiny … large, L-2_H-128 …) or a bert_config.json"
    )
    init: str | None = setting(
        None,
        metavar="PATH",
        help="weights to start from: a model folder, a TF1 checkpoint or a Hugging Face folder; "
        "tokens that the records' vocabulary has besides (see `beambert vocab`) begin as the mean "
        "of the pieces that they take the place of (default: random weights)",
    )
    init_positions: str = positions_setting()
    lora_rank: int = lora_setting()
    dropout: float | None = setting(
        None, minimum=0, below=1, metavar="RATE", help="dropout of the layers and of attention"
    )
    initializer_range: float | None = setting(
        None, above=0, maximum=1, help="standard deviation of the random weights"
    )
    budget: float | None = setting(
        None,
        group="length",
        metavar="TIME",
        parse=parse_budget,
        help="time (90s, 30min, 6h, 2d) from the beginning to the finished model, in place of "
        "--num_train_steps; a few seconds of training measure how many steps it allows",
    )
    num_train_epochs: float | None = setting(
        None,
        above=0,
        metavar="N",
        help="passes over the records of --data, in place of --num_train_steps (default with "
        "--init: 3 over a text of up to 10 MB, 2 up to 100 MB, 1 over more)",
    )
    output: TrainingFolders
    optimizer: OptimizerConfig = OptimizerConfig(
        _BASE["learning_rate"], _BASE["num_train_steps"], _BASE["num_warmup_steps"]
    )
    loop: LoopConfig = LoopConfig(_BASE["train_batch_size"])

    def __post_init__(self) -> None:
        """Checks the values, and those that need or exclude another."""
        check_settings(self)
        if self.budget and self.num_train_epochs:
            raise InputError(
                f"--num_train_epochs={self.num_train_epochs}: --budget decides it; leave one of "
                "them out"
            )
        if self.init == RANDOM:
            raise InputError(
                "--init=random: a pre-training begins with random weights unless --init names "
                "others; leave it out"
            )
        for name in OF_ENCODER:
            if self.init and (value := getattr(self, name)) is not None:
                raise InputError(f"--{name}={value}: --init decides it; leave one of them out")
        for name, default, needs, is_met in (
            ("init_positions", KEEP, "--init", bool(self.init)),
            ("lora_rank", 0, "--init", bool(self.init)),
            ("generator_size", None, f"--objective={RTD}", self.objective == RTD),
            ("long_data_share", LONG_SHARE, "--long_data", bool(self.long_data)),
        ):
            if (value := getattr(self, name)) != default and not is_met:
                raise InputError(f"--{name}={value}: needs {needs}; leave it out")

    @classmethod
    def by_recipe(cls, recipe: str | None = None, **given: Any) -> Self:
        """Returns the job of a recipe, as the command's --recipe, and of values that are given.

        With `init` some defaults follow from the encoder's configuration and from the records'
        info.json, which are read.

        Args:
          recipe: name of a recipe; None with `init`, for the settings of continuing, or for those
            of bert_base.
          given: fields of the job, of its optimizer or of its loop, such as `data`, `output`,
            `init`, `train_batch_size` or `num_train_steps`.

        Raises:
          InputError: there is no such recipe, it is one for another encoder, or a value cannot be
            used.
        """
        if init := given.get("init"):
            config = read_config_file(folder_of(init, "--init"), "--init")
            if recipe:
                recipes.check_fits(recipe, config, init)
            else:
                has_lora = given.get("lora_rank", 0) > 0
                rate = default_learning_rate(config.hidden_size, False, has_lora)
                given.setdefault("learning_rate", rate)
                if given.keys().isdisjoint(LENGTHS):
                    given["num_train_epochs"] = default_epochs(given["data"])
        return cls.from_values(recipe, given)

    @classmethod
    def from_values(cls, recipe: str | None, given: Mapping[str, Any]) -> Self:
        """Returns the job as `by_recipe`, which has added the defaults that follow from files.

        Raises:
          InputError: there is no such recipe, or a value cannot be used.
        """
        for decisive in ("budget", "num_train_epochs"):
            for name in ("num_train_steps", "num_warmup_steps"):
                if given.get(decisive) and name in given:
                    raise InputError(
                        f"--{name}={given[name]}: --{decisive} decides it; leave one of them out"
                    )
        values = recipes.find(recipe, given.get("init"))
        if "num_train_steps" in given:
            values.pop("num_warmup_steps", None)
        if given.get("masking") == STATIC:
            values.pop("mask_rate", None)
        if str(given.get("model")).endswith(".json"):
            values.pop("family", None)  # The file names it.
        if given.get("init"):
            values = {n: value for n, value in values.items() if n not in OF_ENCODER}
        values |= given
        if "decay_share" in given and values.get("schedule") != TRAPEZOID:
            raise InputError(
                f"--decay_share={given['decay_share']}: needs --schedule={TRAPEZOID}; leave it out"
            )
        values.setdefault("num_train_steps", 1)  # The passes or the budget decide it later.
        if "num_warmup_steps" not in values:
            share = warmup_share(given.get("init"))
            values["num_warmup_steps"] = default_warmup_steps(values["num_train_steps"], share)
        parts = {}
        for name, part in (("optimizer", OptimizerConfig), ("loop", LoopConfig)):
            names = {field.name for field in dataclasses.fields(part)} & values.keys()
            parts[name] = part(**{each: values.pop(each) for each in names})
        return cls(**values, **parts)

    def drawn_mask_flags(self) -> dict[str, str]:
        """Returns name -> value of the flags besides `masking` that are not their defaults."""
        found = {}
        if self.mask_rate:
            found["mask_rate"] = rates_text(self.mask_rate)
        if self.do_whole_word_mask is not None:
            found["do_whole_word_mask"] = str(self.do_whole_word_mask)
        return found
