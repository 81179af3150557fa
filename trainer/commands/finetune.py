"""The command `beambert finetune`, and the flags that it shares with `beambert glue`.

TensorFlow is imported only after the flags have been checked.
"""

import argparse
from collections.abc import Sequence

from beambert.config import add_settings, read_settings
from beambert.flags import FlagParser
from beambert.pipelines.tasks.flags import LearningSettings, task_of
from beambert.pipelines.tasks.reading import split_path
from beambert.pipelines.tasks.task import TRAIN
from beambert.pipelines.tokenizers.folders import TokenizerSettings
from beambert.process import loading
from beambert.trainer.finetuning.settings import (
    FINETUNING_BATCH_SIZE,
    FINETUNING_OPTIMIZER,
    EncoderSettings,
    RecipeSettings,
)
from beambert.trainer.loop.config import (
    FINETUNING_LEARNING_RATES,
    RANDOM,
    WIDEST_LEARNING_RATE,
    Devices,
    LoopConfig,
    OptimizerConfig,
    TrainingFolders,
)
from beambert.trainer.loop.engine import choose_engine
from beambert.trainer.weights.given_path import check_config, check_weights

EXAMPLES = """examples:
  # fine-tune on GLUE's SST-2 from an encoder that `beambert pretrain` made
  beambert finetune --task=sst-2 --data_dir=glue/SST-2 --init=encoder --model_dir=sentiment

  # use your own classes: train.tsv and dev.tsv with the columns text and label
  beambert finetune --task=classification --data_dir=mine --init=encoder --model_dir=mine/model

  # start from random weights, to measure the effect of pre-training
  beambert finetune --task=classification --data_dir=mine --init=random --model_dir=mine/random \\
      --model=encoder/bert_config.json --vocab_file=encoder/vocab.txt

  # use columns with other names, numbers instead of labels, or CoNLL's columns of words and tags
  beambert finetune --task=classification --text_columns=body --label_column=topic \\
      --data_dir=news --init=encoder --model_dir=topics
  beambert finetune --task=regression --data_dir=ratings --init=encoder --model_dir=ratings-model
  beambert finetune --task=tagging --data_dir=entities --init=encoder --model_dir=tagger

  # answer SQuAD's questions
  beambert finetune --task=squad2.0 --data_dir=squad --init=encoder --model_dir=reader

  # try two rates; `beambert compare` shows the results side by side
  beambert finetune --task=rte --data_dir=glue/RTE --init=encoder --model_dir=rte/5e-5 \\
      --learning_rate=5e-5
  beambert finetune --task=rte --data_dir=glue/RTE --init=encoder --model_dir=rte/1e-4 \\
      --learning_rate=1e-4
  beambert compare rte/5e-5 rte/1e-4
"""
# Settings of the optimizer that are no flags here.
_OF_PRETRAINING = (
    *("num_train_steps", "num_warmup_steps", "beta_1", "beta_2", "schedule", "decay_share"),
)


def add_training_flags(parser: FlagParser) -> None:
    """Adds the flags of the encoder and the training, with the defaults of the paper's recipe."""
    add_settings(parser, EncoderSettings)
    add_settings(parser, TokenizerSettings, condition="with --init=random: ")
    add_settings(parser, RecipeSettings)
    rates = ", ".join(
        f"{rate:g} up to {width}" for width, rate in FINETUNING_LEARNING_RATES.items()
    )
    add_settings(
        parser,
        OptimizerConfig,
        leave_out=_OF_PRETRAINING,
        defaults={"learning_rate": None, "optimizer": FINETUNING_OPTIMIZER},
        default_texts={
            "learning_rate": f"by the encoder's width: {rates}, {WIDEST_LEARNING_RATE:g} for more"
        },
    )
    add_settings(
        parser,
        LoopConfig,
        leave_out=("eval_steps",),
        defaults={"train_batch_size": FINETUNING_BATCH_SIZE},
    )
    add_settings(parser, Devices)


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `finetune`."""
    parser = FlagParser(
        prog="beambert finetune",
        description="Fine-tunes an encoder on a task.",
        examples=EXAMPLES,
    )
    add_settings(parser, LearningSettings)
    add_settings(parser, TrainingFolders)
    add_training_flags(parser)
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `finetune`.

    Raises:
      InputError: a flag or a file cannot be used.
    """
    flags = build_parser().parse_args(list(argv))
    task, loop, devices = task_of(flags), _check_course(flags), read_settings(Devices, flags)
    # TensorFlow, whose import takes seconds, comes after what is seen at once.
    split_path(task, flags.data_dir, TRAIN)
    if flags.init != RANDOM:
        check_weights(flags.init, "--init")
    check_config(flags.model)
    with loading():
        choose_engine(devices)
        from beambert.trainer.finetuning.job import FinetuningJob
        from beambert.trainer.finetuning.run import finetune
        from beambert.trainer.loop.engine import make_engine
    output = read_settings(TrainingFolders, flags)
    job = read_settings(FinetuningJob, flags, task=task, loop=loop, output=output)
    finetune(job, make_engine(devices))


def check_values(argv: Sequence[str]) -> None:
    """Refuses values that no fine-tuning takes, without a look at any file.

    Args:
      argv: arguments of the command.

    Raises:
      InputError: a flag cannot be used.
    """
    flags = build_parser().parse_args(list(argv))
    task_of(flags)
    _check_course(flags)


def _check_course(flags: argparse.Namespace) -> LoopConfig:
    """Checks what decides the course of the training, and returns its loop.

    Raises:
      InputError: a flag cannot be used.
    """
    read_settings(RecipeSettings, flags)
    OptimizerConfig(
        learning_rate=1.0 if flags.learning_rate is None else flags.learning_rate,
        num_train_steps=1,  # It follows from the examples, which are not read yet.
        num_warmup_steps=0,
        weight_decay_rate=flags.weight_decay_rate,
        optimizer=flags.optimizer,
    )
    read_settings(Devices, flags)
    return read_settings(LoopConfig, flags)
