"""Flags that the training commands share. This module does not import TensorFlow."""

import argparse
import os

from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.storage import check_folder, is_local
from beambert.trainer.retrieval.settings import WAYS, way_of
from beambert.trainer.weights.given_path import check_weights


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
