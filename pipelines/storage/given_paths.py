"""Checks of paths that commands make before they load their libraries.

They look only at this machine; paths on other storage pass, and are looked at when they are read.
"""

import os

from beambert.errors import InputError

# The remedies for a folder that is missing.
CHECK, FINETUNE = "check the path", "name a folder that `beambert finetune` finished"


def is_local(path: str) -> bool:
    """Returns whether a path is one of this machine's own."""
    return "://" not in path


def has_wildcard(path: str) -> bool:
    """Returns whether a path is a pattern, with a character that Beam's file systems expand."""
    return bool(set(path) & set("*?["))


def check_folder(path: str, where: str, remedy: str = CHECK) -> None:
    """Refuses a folder that does not exist on this machine.

    Args:
      path: path of the folder.
      where: the flag with its value, or the path, for the error message.
      remedy: what to do about it.

    Raises:
      InputError: there is no such folder.
    """
    if is_local(path) and not os.path.isdir(path):
        raise InputError(f"{where}: no such folder; {remedy}")
