"""Whose an output folder is: ours to fill, ours and finished, or somebody else's. Pure.

A folder that a command fills holds `_UNFINISHED` from the start and `_SUCCESS` from the end; both
contain the job, that is, everything that decides the output.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beambert.pipelines.shared.errors import InputError

# Of files that are being written; a killed run may leave some.
TEMPORARY_PREFIX = "_tmp-"
# Of a version of a served model that is being written; TensorFlow Serving takes numbers alone.
UNFINISHED_ENDING = ".unfinished"


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
    names = [name for name in names if not name.startswith(TEMPORARY_PREFIX)]
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


# The Hadoop and Spark convention for "everything in this folder is complete".
MARKER_FILE = "_SUCCESS"
# Written first and removed last: tells our own unfinished folder from somebody else's.
UNFINISHED_FILE = "_UNFINISHED"
