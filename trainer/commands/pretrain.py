"""The command `beambert pretrain` and its flags."""

import argparse
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.config import add_settings, read_settings, setting
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.io import is_local
from beambert.pipelines.records.contract import check_finished
from beambert.process import loading
from beambert.trainer.loop.config import (
    LONGEST_DEFAULT_WARMUP,
    Devices,
    LoopConfig,
    OptimizerConfig,
    TrainingFolders,
)
from beambert.trainer.pretraining.job import (
    LENGTHS,
    OF_ENCODER,
    PretrainingJob,
    parse_eval_data,
)
from beambert.trainer.pretraining.recipes import (
    CONTINUED_WARMUP_SHARE,
    RECIPES,
    bert_base,
    continued,
    find,
)
from beambert.trainer.weights.given_path import check_config, check_weights

EXAMPLES = """examples:
  # pre-train a small encoder on this machine, and evaluate it on records/eval
  beambert pretrain --data=records --model=tiny --model_dir=encoder --num_train_steps=1000 \\
      --train_batch_size=64 --learning_rate=1e-3

  # follow the paper's recipe on a TPU: 90 % of the steps at 128 tokens, the rest at 512
  beambert data --max_seq_length=128,512 --input='gs://bucket/text/*' --vocab_file=vocab.txt \\
      --output=gs://bucket/records
  beambert pretrain --recipe=bert_base --data=gs://bucket/records/128 \\
      --long_data=gs://bucket/records/512 --model_dir=gs://bucket/base --strategy=tpu \\
      --dtype=bfloat16

  # use this machine for half an hour, whatever number of steps that is
  beambert pretrain --recipe=tiny --data=records/32 --model_dir=encoder --budget=30min

  # what it would take on this machine
  beambert pretrain --recipe=tiny --data=records/32 --model_dir=encoder --dry_run

  # continue from a published encoder on your own text, with records made with its vocab.txt
  beambert pretrain --init=bert-base-uncased --data=records --model_dir=legal

  # a ModernBERT from random weights, of the parameters of BERT tiny
  beambert pretrain --recipe=modern_tiny --data=records/32 --model_dir=modern --budget=45min

  # learn by replaced token detection, as ELECTRA
  beambert pretrain --objective=rtd --recipe=tiny --data=records/32 --model_dir=encoder

  # learn also from a larger encoder, with records made with its vocab.txt
  beambert pretrain --recipe=tiny --model=mini --distill_from=bert-base-uncased --data=records \\
      --model_dir=mini

If the training is interrupted, the same command continues from the newest checkpoint.
"""


# Flags that --budget decides if they are not given.
_OF_BUDGET = ("num_train_steps", "num_warmup_steps")


@dataclasses.dataclass(frozen=True)
class Command:
    """The settings of the command that are not the job's."""

    recipe: str | None = setting(
        None,
        choices=RECIPES,
        help="recipe that sets the defaults of other flags; docs/pretraining.md compares them "
        "(default: the settings of bert_base, or with --init those of continuing)",
    )
    dry_run: bool = setting(
        False,
        help="print the steps, operations and time that the training would take, at a rate that a "
        "few seconds of training measure; writes nothing",
    )


def build_parser(recipe: Mapping[str, Any] | None = None) -> FlagParser:
    """Returns the parser of the flags of `pretrain`, with the defaults of a recipe."""
    recipe = bert_base() if recipe is None else recipe
    parser = FlagParser(
        prog="beambert pretrain",
        description="Pre-trains BERT on records by masked LM and next sentence prediction, or by "
        "another --objective.",
        examples=EXAMPLES,
    )
    of_others = dict.fromkeys((*OF_ENCODER, *_OF_BUDGET))
    of_model = "that of the model, {}"
    warmup = recipe.get("num_warmup_steps")
    texts = {
        "family": f"{recipe.get('family', 'bert')}, or that of --init",
        "model": f"{recipe.get('model', 'base')}, or that of --init",
        "learning_rate": str(recipe["learning_rate"] or "by the encoder's width, as in finetune"),
        "dropout": str(recipe.get("dropout", of_model.format(0.1))),
        "initializer_range": str(recipe.get("initializer_range", of_model.format(0.02))),
        "num_train_steps": "that of --recipe, or see --num_train_epochs",
        "num_warmup_steps": (f"{warmup}; " if warmup else "")
        + "with --num_train_steps, a tenth of them, with --init 6 %, at most "
        f"{LONGEST_DEFAULT_WARMUP:,}",
    }
    for declared in (
        *(Command, PretrainingJob, TrainingFolders),
        *(OptimizerConfig, LoopConfig, Devices),
    ):
        defaults = {**recipe, **of_others}
        add_settings(parser, declared, defaults=defaults, default_texts=texts)
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `pretrain`.

    Raises:
      InputError: a flag or a file cannot be used.
    """
    started = time.monotonic()
    flags, given = _parse(argv)
    command, devices = read_settings(Command, flags), read_settings(Devices, flags)
    job = PretrainingJob.by_recipe(command.recipe, **given)
    _check_paths(flags)
    _check_length(flags)
    with loading():
        from beambert.trainer.loop.engine import choose_engine, make_engine

        choose_engine(devices)
        from beambert.trainer.pretraining.run import estimate, pretrain
    engine = make_engine(devices)
    if job.init:
        print(_describe_continuing(job), flush=True)
    if command.dry_run:
        print("\n".join(estimate(job, engine)))
    else:
        pretrain(job, engine, started)


def check_values(argv: Sequence[str]) -> None:
    """Checks the values of the flags without reading any file.

    Args:
      argv: arguments of the command.

    Raises:
      InputError: a flag cannot be used.
    """
    flags, given = _parse(argv)
    # With --init the rate follows from the encoder, which is not read.
    rate = {} if flags.recipe else {"learning_rate": bert_base()["learning_rate"]}
    PretrainingJob.from_values(flags.recipe, {**rate, **given})
    _check_length(flags)


def _check_length(flags: argparse.Namespace) -> None:
    if not any(getattr(flags, name) for name in ("init", "recipe", *LENGTHS)):
        raise InputError("--num_train_steps: is missing; give it, --budget or --recipe")


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Returns the flags, and the values for `PretrainingJob.by_recipe` that are given."""
    parser = build_parser(_recipe_of(argv))
    flags = parser.parse_args(list(argv))
    others = (Command, Devices, TrainingFolders)
    names = {field.name for declared in others for field in dataclasses.fields(declared)}
    given = {
        name: value
        for name, value in vars(flags).items()
        if name not in names and value != parser.get_default(name)
    }
    return flags, given | {"output": read_settings(TrainingFolders, flags)}


def _describe_continuing(job: PretrainingJob) -> str:
    """Returns the settings that decide what a continued encoder keeps and learns."""
    optimizer = job.optimizer
    return (
        f"continuing {job.init}: {job.loop.train_batch_size} sequences a step, peak rate "
        f"{optimizer.learning_rate:g}, {optimizer.optimizer}; the defaults are "
        f"{continued()['train_batch_size']}, the rate of fine-tuning at the encoder's width, and a "
        f"warm-up over {CONTINUED_WARMUP_SHARE:.0%} of the steps (docs/start.md)"
    )


def _check_paths(flags: argparse.Namespace) -> None:
    """Checks the local paths before TensorFlow is imported, which takes seconds.

    Raises:
      InputError: a folder or a file does not exist, or is not a finished records folder.
    """
    given = [("data", flags.data), ("long_data", flags.long_data)]
    given += [("eval_data", folder) for folder in parse_eval_data(flags.eval_data).values()]
    for name, folder in given:
        if folder is not None and is_local(folder):
            check_finished(folder, f"--{name}")
    for name in ("init", "distill_from"):
        path = getattr(flags, name)
        if path:
            check_weights(path, f"--{name}")
    check_config(flags.model)


def _recipe_of(argv: Sequence[str]) -> dict[str, Any]:
    """Returns the recipe that the flags name, whose defaults `--help` must show."""
    parser = FlagParser(add_help=False)
    parser.add_argument("--recipe")
    parser.add_argument("--init")
    flags = parser.parse_known_args(list(argv))[0]
    # The parser of all flags refuses a name that is none.
    return find(flags.recipe if flags.recipe in RECIPES else None, flags.init)
