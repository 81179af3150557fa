"""Claims of output folders: a folder is free, claimed by a job, finished by it, or foreign.

A command marks its output folder with the file `_UNFINISHED` when it starts and with `_SUCCESS`
when it is done. Both files contain the job, that is, everything that decides the output. A file
that is being written has a name that begins with `_tmp-`, beside its final place; it is renamed
when it is complete.

Nothing here reads or writes files. So the commands on Beam's file systems and those on TensorFlow's
share the names and the messages.
"""

import json
import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beambert.pipelines.shared.errors import InputError

# Marks a complete folder, by the convention of Hadoop and Spark.
MARKER_FILE = "_SUCCESS"
# It is written first and removed last. It marks a folder that a job has begun to fill.
UNFINISHED_FILE = "_UNFINISHED"
# An evaluation writes one of these two files last, with the reasons for its decision.
BLESSED, NOT_BLESSED = "BLESSED", "NOT_BLESSED"
# The results of an evaluation.
METRICS_FILE, REPORT_FILE = "metrics.json", "report.html"
# Prefix of files and folders that are being written; a killed run may leave some behind.
TEMPORARY_PREFIX = "_tmp-"
# Prefix of the names of lock files, which are temporary too, see `locks`.
LOCK_PREFIX = f"{TEMPORARY_PREFIX}lock"


def aside(path: str) -> str:
    """Returns a new temporary path beside a path, to write to and then to rename."""
    folder, name = os.path.split(path)
    # In the same folder, the rename stays on one file system.
    return os.path.join(folder, f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}-{name}")


def is_aside(name: str, final_name: str = "") -> bool:
    """Returns whether a name is temporary, see `aside`; `final_name` limits it to that name."""
    if not final_name:
        return name.startswith(TEMPORARY_PREFIX)
    pattern = f"{TEMPORARY_PREFIX}[0-9a-f]{{32}}-{re.escape(final_name)}"
    return re.fullmatch(pattern, name) is not None


def is_left(name: str) -> bool:
    """Returns whether only a killed command can have left a file or folder in a locked folder."""
    # Beam's sink of text files names its temporary folders so.
    return name.startswith((TEMPORARY_PREFIX, "beam-temp-")) and not name.startswith(LOCK_PREFIX)


def absolute(path: str) -> str:
    """Returns the absolute path of a file or folder, which all spellings of it share."""
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def named(path: str, flag: str = "") -> str:
    """Returns a path as messages name it: `--flag=path`, or the path alone without a flag."""
    return f"{flag}={path}" if flag else path


def refusal(name: str, done: str, reason: str, remedy: str = "") -> InputError:
    """Returns the error for an operation that the file system refuses.

    Args:
      name: file or folder as messages name it, see `named`.
      done: participle of the operation: "read", "written", …
      reason: message of the file system.
      remedy: advice to the user; "" if the reason says enough.
    """
    return InputError(f"{name}: cannot be {done} ({reason})" + (remedy and f"; {remedy}"))


def serialize_job(job: Mapping[str, Any]) -> bytes:
    """Returns the content of the marker files."""
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
      folder: path of the folder, for messages.
      names: names of the files in it.
      read: function that returns the content of one of them.
      job: everything that decides the output.
      flag: flag that names the folder, for messages.

    Returns:
      True if the same job has finished there; False if it may begin or continue.

    Raises:
      InputError: the folder holds files of another job or other files.
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
    except (ValueError, RecursionError):
        found = {}  # The write was cut off. Nothing else can be in the folder yet.
    difference = first_difference(found, json.loads(serialize_job(job)))
    if difference and (state == MARKER_FILE or len(names) > 1):
        what = "finished result" if state == MARKER_FILE else "unfinished work"
        raise InputError(
            f"{flag}={folder}: already holds the {what} of another job ({difference}); "
            "choose another or delete it"
        )
    return state == MARKER_FILE


def first_difference(there: Any, here: Any, path: str = "") -> str:
    """Returns the name and both values of the first difference between two jobs, "" if none."""
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
