"""Flags that the training commands share. This module does not import TensorFlow."""

import os

from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.storage import is_local


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
