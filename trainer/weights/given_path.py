"""The check of the path of `--init`, which a command makes before it imports TensorFlow."""

import os
import re
from collections.abc import Callable

from beambert.pipelines.shared.errors import InputError


def check_weights(
    path: str,
    flag: str,
    is_folder: Callable[[str], bool] = os.path.isdir,
    exists: Callable[[str], bool] = os.path.exists,
) -> None:
    """Refuses a path that is neither a folder nor the prefix of a TF1 checkpoint.

    Args:
      path: path of the weights.
      flag: name of the flag that gave the path, for error messages.
      is_folder: returns whether there is a folder; on this machine by default.
      exists: returns whether there is a file; on this machine by default.

    Raises:
      InputError: there is neither.
    """
    path = path.rstrip("/")
    if not is_folder(path) and not exists(f"{path}.index"):
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
