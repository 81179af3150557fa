"""The checks of the paths of encoders, which a command makes before it imports TensorFlow."""

import os
import re

from beambert import io
from beambert.errors import InputError


def check_config(model: str | None) -> None:
    """Refuses a local bert_config.json that does not exist; sizes and None pass.

    Raises:
      InputError: the file does not exist.
    """
    if model and model.endswith(".json") and io.is_local(model) and not os.path.exists(model):
        raise InputError(f"--model={model}: no such file; check the path, or name a size")


def check_weights(path: str, flag: str) -> None:
    """Refuses a path of this machine that is neither a folder nor the prefix of a TF1 checkpoint.

    Paths on other storage pass, and are looked at when they are read.

    Args:
      path: path of the weights.
      flag: name of the flag that gave the path, for error messages.

    Raises:
      InputError: there is neither.
    """
    if io.is_local(path):
        refuse_missing(path, flag)


def refuse_missing(path: str, flag: str) -> None:
    """Does what `check_weights` does, on any storage."""
    path = path.rstrip("/")
    if not io.is_folder(path) and not io.exists(f"{path}.index"):
        if io.exists(path):
            raise InputError(
                f"{flag}={path}: is a file; name the folder of the model, or a TF1 checkpoint "
                "without the ending .index"
            )
        raise InputError(f"{flag}={path}: no such folder or checkpoint; {_remedy(path)}")


def _remedy(path: str) -> str:
    """Returns the advice for a path that does not exist, which may be a name of the Hub."""
    if not re.fullmatch(r"([\w-]+/)?[\w.-]*[a-z][\w.-]*", path, re.ASCII) or path.endswith(".ckpt"):
        return "check the path"
    folder = path.rpartition("/")[2]
    return (
        "check the path; nothing is downloaded, so if it is a name of the Hugging Face Hub, get "
        f"the folder first with `hf download {path} --local-dir {folder}`"
    )
