"""Flags that training commands share. No TensorFlow here."""

import argparse
import os

from beambert.pipelines.shared.flags import FlagParser
from beambert.trainer.loop.config import DTYPES, OPTIMIZERS, LoopConfig


def add_loop_flags(
    parser: FlagParser, *, batch_size: int, learning_rate: float, optimizer: str
) -> None:
    """Adds the flags of the optimizer and the loop, with a command's own defaults."""
    add = parser.add_argument
    add("--train_batch_size", type=int, default=batch_size, help="default: %(default)s")
    add("--learning_rate", type=float, default=learning_rate, help="peak (default: %(default)s)")
    add("--weight_decay_rate", type=float, default=0.01, help="default: %(default)s")
    add(
        "--optimizer",
        default=optimizer,
        help=f"{', '.join(OPTIMIZERS)}: the original's, the one with bias correction, the one for "
        "large batches (default: %(default)s)",
    )
    add(
        "--gradient_accumulation_steps",
        type=int,
        default=LoopConfig.gradient_accumulation_steps,
        help="parts that a device computes its share of a batch in, if all of it doesn't fit "
        "(default: %(default)s)",
    )
    add(
        "--dtype",
        default=LoopConfig.dtype,
        help=f"{' or '.join(DTYPES)}, of matrix products; bfloat16 on a TPU (default: %(default)s)",
    )
    add("--random_seed", type=int, default=LoopConfig.random_seed, help="default: %(default)s")
    add(
        "--save_checkpoints_steps",
        type=int,
        default=LoopConfig.save_checkpoints_steps,
        help="default: %(default)s",
    )
    add("--strategy", default="auto", help="auto, one_device, mirrored, multi_worker or tpu")
    add("--tpu", help="name or address of a TPU; local on a TPU VM")


def add_output_flags(parser: FlagParser) -> None:
    """Adds the flags that say where to write."""
    # Vertex AI tells a job by these variables where its results go.
    default = os.environ.get("AIP_MODEL_DIR")
    parser.add_argument(
        "--model_dir",
        default=default,
        required=default is None,
        metavar="DIR",
        help="model folder to make (default: AIP_MODEL_DIR)",
    )
    parser.add_argument(
        "--checkpoint_dir",
        default=os.environ.get("AIP_CHECKPOINT_DIR"),
        metavar="DIR",
        help="default: AIP_CHECKPOINT_DIR, or checkpoints in --model_dir",
    )
    parser.add_argument(
        "--tensorboard_dir",
        default=os.environ.get("AIP_TENSORBOARD_LOG_DIR"),
        metavar="DIR",
        help="default: AIP_TENSORBOARD_LOG_DIR, or tensorboard in --model_dir",
    )


def loop_config(flags: argparse.Namespace, **more: int) -> LoopConfig:
    """Returns what `add_loop_flags`' flags say of the loop."""
    return LoopConfig(
        train_batch_size=flags.train_batch_size,
        random_seed=flags.random_seed,
        gradient_accumulation_steps=flags.gradient_accumulation_steps,
        dtype=flags.dtype,
        save_checkpoints_steps=flags.save_checkpoints_steps,
        **more,
    )
