"""Flags that the training commands share. This module does not import TensorFlow."""

import argparse
import os

from beambert.errors import InputError
from beambert.flags import FlagGroup, FlagParser
from beambert.storage import check_folder, is_local
from beambert.trainer.loop.config import DTYPES, OPTIMIZERS, TRACKERS, LoopConfig, OptimizerConfig
from beambert.trainer.retrieval.settings import WAYS, way_of
from beambert.trainer.weights.adaptation import KEEP, POSITION_WAYS
from beambert.trainer.weights.given_path import check_weights


def add_loop_flags(
    parser: FlagGroup,
    *,
    batch_size: int,
    learning_rate: float | None,
    optimizer: str,
    default_rates: str = "%(default)s",
) -> None:
    """Adds the flags of the optimizer and the loop, with defaults of the command.

    Args:
      parser: parser to add the flags to.
      batch_size, learning_rate, optimizer: defaults of the flags.
      default_rates: description of the default learning rate.
    """
    add = parser.add_argument
    add(
        "--train_batch_size",
        type=int,
        default=batch_size,
        help="examples per step (default: %(default)s)",
    )
    add(
        "--learning_rate",
        type=float,
        default=learning_rate,
        help=f"peak learning rate (default: {default_rates})",
    )
    add(
        "--weight_decay_rate",
        type=float,
        default=OptimizerConfig.weight_decay_rate,
        help="weight decay (default: %(default)s)",
    )
    add(
        "--optimizer",
        default=optimizer,
        help=f"{', '.join(OPTIMIZERS)}: that of the original BERT, Adam with bias correction, one "
        "for large batches, one that orthogonalizes the updates of matrices (default: %(default)s)",
    )
    add(
        "--gradient_accumulation_steps",
        type=int,
        default=LoopConfig.gradient_accumulation_steps,
        help="number of parts into which a device splits its share of a batch, if it does not fit "
        "in memory (default: %(default)s)",
    )
    add(
        "--dtype",
        default=LoopConfig.dtype,
        help=f"number format of matrix products, {' or '.join(DTYPES)}; auto is bfloat16 on TPUs "
        "and on GPUs that have it, float32 elsewhere (default: %(default)s)",
    )
    add(
        "--random_seed",
        type=int,
        default=LoopConfig.random_seed,
        help="random seed (default: %(default)s)",
    )
    add(
        "--save_checkpoints_steps",
        type=int,
        default=LoopConfig.save_checkpoints_steps,
        help="number of steps between checkpoints (default: %(default)s)",
    )
    add(
        "--strategy",
        default="auto",
        help="tf.distribute strategy: auto, one_device, mirrored, multi_worker or tpu "
        "(default: %(default)s)",
    )
    add("--tpu", help="name or address of a TPU, or local on a TPU VM")
    add(
        "--tracker",
        metavar="NAME",
        help=f"{' or '.join(TRACKERS)}: service that also gets the metrics; its own environment "
        "variables configure it",
    )


def add_positions_flag(parser: FlagGroup) -> None:
    """Adds the flag about positions on which the encoder of `--init` was not trained."""
    parser.add_argument(
        "--init_positions",
        choices=POSITION_WAYS,
        default=KEEP,
        help="what to do with positions on which the encoder of --init was not trained: keep its "
        "values, tile (repeat the trained ones) or interpolate (stretch them); the last two also "
        "give it more positions than it has (default: %(default)s)",
    )


def add_asking_flags(parser: FlagParser, texts: str, results: str) -> None:
    """Adds the flags of an encoder, its inputs, and the file of its answers.

    Args:
      parser: parser of the command.
      texts: what the texts on the command line are.
      results: what the file gets.
    """
    parser.add_argument("texts", nargs="*", metavar="TEXT", help=texts)
    parser.add_argument(
        "--model",
        required=True,
        metavar="DIR",
        help="encoder of `beambert pretrain`, a Hugging Face folder, or a TF1 checkpoint",
    )
    parser.add_argument("--input", metavar="FILE", help="UTF-8 file with a text on each line")
    parser.add_argument(
        "--output", metavar="FILE", help=f"file that gets {results} as JSON (default: the console)"
    )


def add_output_flags(parser: FlagGroup) -> None:
    """Adds the flags of the output folders."""
    # Vertex AI gives a job the paths of its outputs in these environment variables.
    default = os.environ.get("AIP_MODEL_DIR") or None
    parser.add_argument(
        "--model_dir",
        default=default,
        required=default is None,
        metavar="DIR",
        help="model folder to make (default: $AIP_MODEL_DIR)",
    )
    parser.add_argument(
        "--checkpoint_dir",
        default=os.environ.get("AIP_CHECKPOINT_DIR") or None,
        metavar="DIR",
        help="folder of the checkpoints (default: $AIP_CHECKPOINT_DIR, or checkpoints in "
        "--model_dir)",
    )
    parser.add_argument(
        "--tensorboard_dir",
        default=os.environ.get("AIP_TENSORBOARD_LOG_DIR") or None,
        metavar="DIR",
        help="folder of TensorBoard's logs (default: $AIP_TENSORBOARD_LOG_DIR, or tensorboard in "
        "--model_dir)",
    )


def loop_config(flags: argparse.Namespace, **more: int) -> LoopConfig:
    """Returns the configuration of the loop from the flags of `add_loop_flags`."""
    return LoopConfig(
        train_batch_size=flags.train_batch_size,
        random_seed=flags.random_seed,
        gradient_accumulation_steps=flags.gradient_accumulation_steps,
        dtype=flags.dtype,
        save_checkpoints_steps=flags.save_checkpoints_steps,
        tracker=flags.tracker,
        **more,
    )


def check_config(model: str | None) -> None:
    """Refuses a local bert_config.json that does not exist; sizes and None pass.

    Raises:
      InputError: the file does not exist.
    """
    if model and model.endswith(".json") and is_local(model) and not os.path.exists(model):
        raise InputError(f"--model={model}: no such file; check the path, or name a size")


def add_finding_flags(parser: FlagParser) -> None:
    """Adds the flags that say in which index passages are found, and how."""
    add = parser.add_argument
    add("--index", required=True, metavar="DIR", help="folder that `beambert index` finished")
    add("--model", metavar="DIR", help="model that made the embeddings")
    add(
        "--by",
        choices=WAYS,
        help="what passages are found by (default: both with --model, or else words; vectors if "
        "the index has no words)",
    )
    add(
        "--reranker",
        metavar="DIR",
        help="model of --task=rerank or late_interaction that compares the tokens of the query "
        "with those of the best passages, and ranks them again",
    )
    add("--prefix", help="what is put before each query (default: what was put before the texts)")


def check_finding_flags(flags: argparse.Namespace) -> None:
    """Checks what can be seen of the flags before TensorFlow is loaded.

    Raises:
      InputError: one of them cannot be used.
    """
    way_of(flags.by, flags.model)
    check_folder(flags.index, f"--index={flags.index}")
    if flags.model:
        check_weights(flags.model, "--model")
