"""`python -m trainer.task COMMAND …`: the jobs of the trainer, by Vertex AI's convention."""

import argparse
import os
import sys
from collections.abc import Sequence

from pipelines.console import quiet_stderr, run_main
from trainer.config import LoopConfig, OptimizerConfig, default_warmup_steps

PRETRAIN_EPILOG = """examples:
  # a small encoder on this machine, evaluated on records/eval
  beambert pretrain --data=records --model=tiny --model_dir=encoder --num_train_steps=1000 \\
      --train_batch_size=64 --learning_rate=1e-3

  # the paper's recipe for sequences of 128 tokens, on the TPU of this host
  beambert pretrain --data=gs://bucket/records --model=base --model_dir=gs://bucket/base --tpu=local

Interrupted in whatever way, the same command continues from the newest checkpoint.
"""


def _add_loop_flags(
    parser: argparse.ArgumentParser, *, batch_size: int, learning_rate: float
) -> None:
    add = parser.add_argument
    add("--train_batch_size", type=int, default=batch_size, help="default: %(default)s")
    add("--learning_rate", type=float, default=learning_rate, help="peak (default: %(default)s)")
    add("--num_warmup_steps", type=int, help="default: a tenth of the steps, at most 10,000")
    add("--weight_decay_rate", type=float, default=0.01, help="default: %(default)s")
    add("--random_seed", type=int, default=LoopConfig.random_seed, help="default: %(default)s")
    add(
        "--save_checkpoints_steps",
        type=int,
        default=LoopConfig.save_checkpoints_steps,
        help="default: %(default)s",
    )
    add(
        "--eval_steps",
        type=int,
        default=LoopConfig.eval_steps,
        help="steps between evaluations on held-out data (default: %(default)s)",
    )
    add("--strategy", default="auto", help="auto, one_device, mirrored, multi_worker or tpu")
    add("--tpu", help="name or address of a TPU; local on a TPU VM")


def _model_dir_flag(parser: argparse.ArgumentParser) -> None:
    # Vertex AI tells a job by this variable where its model goes.
    default = os.environ.get("AIP_MODEL_DIR")
    parser.add_argument(
        "--model_dir",
        default=default,
        required=default is None,
        metavar="DIR",
        help="model folder to make (default: AIP_MODEL_DIR)",
    )


def build_pretrain_parser() -> argparse.ArgumentParser:
    """Returns the flags of `pretrain`."""
    parser = argparse.ArgumentParser(
        prog="beambert pretrain",
        description="Pre-trains BERT on records: masked LM and next sentence prediction.",
        epilog=PRETRAIN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--data", required=True, metavar="DIR", help="records folder made by `beambert data`")
    add("--eval_data", metavar="DIR", help="held-out records (default: eval in --data, if there)")
    add("--model", default="base", help="tiny … large, L-2_H-128 …, or a bert_config.json")
    _model_dir_flag(parser)
    # Paper, appendix A.2: 1,000,000 steps of 256 sequences, learning rate 1e-4.
    add("--num_train_steps", type=int, default=1_000_000, help="default: %(default)s")
    _add_loop_flags(parser, batch_size=256, learning_rate=1e-4)
    return parser


def _configs(
    flags: argparse.Namespace, num_train_steps: int
) -> tuple[OptimizerConfig, LoopConfig]:
    warmup = flags.num_warmup_steps
    optimizer = OptimizerConfig(
        learning_rate=flags.learning_rate,
        num_train_steps=num_train_steps,
        num_warmup_steps=default_warmup_steps(num_train_steps) if warmup is None else warmup,
        weight_decay_rate=flags.weight_decay_rate,
    )
    loop = LoopConfig(
        train_batch_size=flags.train_batch_size,
        random_seed=flags.random_seed,
        save_checkpoints_steps=flags.save_checkpoints_steps,
        eval_steps=flags.eval_steps,
    )
    return optimizer, loop


def pretrain_main(argv: Sequence[str]) -> None:
    """Runs `pretrain`.

    Raises:
      InputError: what was given can't be used.
    """
    flags = build_pretrain_parser().parse_args(list(argv))
    optimizer, loop = _configs(flags, flags.num_train_steps)
    with quiet_stderr():
        from trainer.pretraining import PretrainingJob, pretrain
        from trainer.strategy import make_strategy
    job = PretrainingJob(
        flags.data, flags.eval_data, flags.model, flags.model_dir, optimizer, loop
    )
    pretrain(job, make_strategy(flags.strategy, flags.tpu))


COMMANDS = {"pretrain": pretrain_main}


def main(argv: Sequence[str]) -> int:
    """Dispatches to a command; returns its exit status."""
    if not argv or argv[0] not in COMMANDS:
        print(f"usage: python -m trainer.task {{{','.join(COMMANDS)}}} …", file=sys.stderr)
        return 2
    return run_main(argv[0], COMMANDS[argv[0]], argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
