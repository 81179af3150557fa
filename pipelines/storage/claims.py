"""Whose an output folder is: ours to fill, ours and finished, or somebody else's.

A folder that a command fills holds `_UNFINISHED` from the start and `_SUCCESS` from the end; both
contain the job, that is, everything that decides the output. What is being written stands beside
its place under a name that begins with `_tmp-`, and is then renamed.

Nothing here reads or writes, so that commands on Beam's file systems and those on TensorFlow's use
the same names and say the same sentences.
"""

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beambert.pipelines.shared.errors import InputError

# The Hadoop and Spark convention for "everything in this folder is complete".
MARKER_FILE = "_SUCCESS"
# It is written first and removed last: it tells our own unfinished folder from somebody else's.
UNFINISHED_FILE = "_UNFINISHED"
# An evaluation writes one of these last, with the reasons; what it found stands in the two files.
BLESSED, NOT_BLESSED = "BLESSED", "NOT_BLESSED"
METRICS_FILE, REPORT_FILE = "metrics.json", "report.html"
# The names of files and folders that are being written begin so; a killed run may leave some.
TEMPORARY_PREFIX = "_tmp-"


def aside(path: str) -> str:
    """Returns a new path beside another, to write to before it is renamed to that."""
    folder, name = os.path.split(path)
    # Beside it, so that the rename stays on one file system.
    return os.path.join(folder, f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}-{name}")


def is_aside(name: str, final_name: str = "") -> bool:
    """Whether a name is one that `aside` gives, to anything or to what will have a final name."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(final_name and f"-{final_name}")


def absolute(path: str) -> str:
    """Returns the one name of a file or folder, wherever and however a command asks for it."""
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def named(path: str, flag: str = "") -> str:
    """Returns what messages call a path: with the flag that it was given by, if any."""
    return f"{flag}={path}" if flag else path


def refusal(name: str, done: str, reason: str, remedy: str = "") -> InputError:
    """Returns the error that says what storage refuses.

    Args:
      name: of the file or folder, see `named`.
      done: what can't be done: "read", "written", …
      reason: what the file system says.
      remedy: what to do about it, if more than mending that.
    """
    return InputError(f"{name}: cannot be {done} ({reason})" + (remedy and f"; {remedy}"))


def serialize_job(job: Mapping[str, Any]) -> bytes:
    """Returns what the two marker files hold."""
    return (json.dumps(job, indent=1, ensure_ascii=False) + "\n").encode()


def is_finished(
    folder: str,
    names: Sequence[str],
    read: Callable[[str], bytes],
    job: Mapping[str, Any],
    flag: str,
) -> bool:
    """Decides whether a job may write to a folder.

    Args:
      folder: for messages.
      names: of the files in it.
      read: returns the content of one of them.
      job: what is to be made.
      flag: the folder was given by, for messages.

    Returns:
      True if the same job is finished there; False if it may begin or continue.

    Raises:
      InputError: the folder holds something else.
    """
    names = [name for name in names if not is_aside(name)]
    state = next((n for n in (MARKER_FILE, UNFINISHED_FILE) if n in names), None)
    if state is None:
        if names:
            raise InputError(
                f"{flag}={folder}: already holds something else ({names[0]} …); choose another"
            )
        return False
    try:
        found = json.loads(read(state))
    except ValueError:
        found = {}  # cut off while being written; nothing else can be in the folder yet
    difference = first_difference(found, json.loads(serialize_job(job)))
    if difference and (state == MARKER_FILE or len(names) > 1):
        what = "finished result" if state == MARKER_FILE else "unfinished work"
        raise InputError(
            f"{flag}={folder}: already holds the {what} of another job ({difference}); "
            "choose another or delete it"
        )
    return state == MARKER_FILE


def first_difference(there: Any, here: Any, path: str = "") -> str:
    """Names the first value in which two jobs differ, with both values; empty if none."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in {**here, **there}:
            inner = f"{path}.{name}" if path else name
            found = first_difference(there.get(name), here.get(name), inner)
            if found:
                return found
        return ""
    if there == here:
        return ""
    return f"{path} there {_short(there)}, here {_short(here)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"
