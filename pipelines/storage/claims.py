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

from beambert.errors import InputError
from beambert.json_objects import parse_object

# Marks a complete folder, by the convention of Hadoop and Spark.
MARKER_FILE = "_SUCCESS"
# It is written first and removed last. It marks a folder that a job has begun to fill.
UNFINISHED_FILE = "_UNFINISHED"
# An evaluation writes one of these two files last, with the reasons for its decision.
BLESSED, NOT_BLESSED = "BLESSED", "NOT_BLESSED"
# The results of an evaluation.
METRICS_FILE, REPORT_FILE = "metrics.json", "report.html"
MISTAKES_FILE = "mistakes.jsonl"
# Prefix of files and folders that are being written; a killed run may leave some behind.
TEMPORARY_PREFIX = "_tmp-"
# Prefix of the names of lock files, which are temporary too, see `locks`.
LOCK_PREFIX = f"{TEMPORARY_PREFIX}lock"
# Greatest number of flags that a refusal names.
MOST_FLAGS = 3

# Tables: path of a value in a job -> flag that sets it. The values of a table follow from those of
# the tables before it, unless their flags are given.
FlagsOf = Sequence[Mapping[str, str]]


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


def check_regular(path: str, flag: str = "", remedy: str = "name one") -> None:
    """Refuses what is no regular file, on this machine.

    A pipe would let a command wait for ever, and a device may never end.

    Args:
      path: path of a file; nothing is said of one that doesn't exist.
      flag: flag that names the file, for messages.
      remedy: advice to the user.

    Raises:
      InputError: it is another thing than a file.
    """
    if "://" not in path and os.path.exists(path) and not os.path.isfile(path):
        raise refusal(named(path, flag), "read", "it is not a regular file", remedy)


def serialize_job(job: Mapping[str, Any]) -> bytes:
    """Returns the content of the marker files."""
    return (json.dumps(job, indent=1, ensure_ascii=False) + "\n").encode()


def is_finished(
    folder: str,
    names: Sequence[str],
    read: Callable[[str], bytes],
    job: Mapping[str, Any],
    flag: str,
    flags_of: FlagsOf = (),
) -> bool:
    """Decides whether a job may write to a folder.

    Args:
      folder: path of the folder, for messages.
      names: names of the files in it.
      read: function that returns the content of one of them.
      job: everything that decides the output.
      flag: flag that names the folder, for messages.
      flags_of: the flags behind the values of the job, for messages.

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
                f"{flag}={folder}: already holds something else ({names[0]} …); choose another "
                "or delete it"
            )
        return False
    try:
        found = parse_object(read(state))
    except ValueError:
        found = {}  # The write was cut off. Nothing else can be in the folder yet.
    difference = describe_difference(found, json.loads(serialize_job(job)), flags_of)
    if difference and (state == MARKER_FILE or len(names) > 1):
        what = "finished result" if state == MARKER_FILE else "unfinished work"
        raise InputError(
            f"{flag}={folder}: already holds the {what} of another job ({difference}); "
            "choose another or delete it"
        )
    return state == MARKER_FILE


def describe_difference(there: Any, here: Any, flags_of: FlagsOf) -> str:
    """Returns what differs between two jobs, with both values; "" if they are equal.

    It names flags, as the user typed flags. A value that no flag of a table sets is named only if
    no flag differs.
    """
    if there == here:
        return ""
    if flags_of and isinstance(there, dict) and not there.keys() & here.keys():
        return "made by another command"
    for flags in flags_of:
        pairs = ((flag, _at(there, path), _at(here, path)) for path, flag in flags.items())
        told = [_describe_flag(flag, one, other) for flag, one, other in pairs if one != other]
        if told:
            more = f" and {len(told) - MOST_FLAGS} more" if len(told) > MOST_FLAGS else ""
            return "; ".join(told[:MOST_FLAGS]) + more
    return first_difference(there, here)


def _at(job: Any, path: str) -> Any:
    """Returns the value at a path such as "parameters.pairs" or "phases.0.data"; else None."""
    for name in path.split("."):
        if isinstance(job, dict):
            job = job.get(name)
        elif isinstance(job, list) and name.isdecimal() and int(name) < len(job):
            job = job[int(name)]
        else:
            return None
    return job


def _describe_flag(flag: str, there: Any, here: Any) -> str:
    """Returns a flag and its two values; of files, what is new; of large values, the flag alone."""
    if _are_files(there) and _are_files(here):
        before = {file["path"]: file for file in there}
        new = [file["path"] for file in here if file["path"] not in before]
        new += [f"{file['path']}, changed" for file in here if before.get(file["path"]) != file]
        gone = sorted(before.keys() - {file["path"] for file in here})
        example = new[0] if new else f"{gone[0]}, left out" if gone else "in another order"
        return f"{flag} there {_files(there)}, here {_files(here)}, such as {example}"
    if _is_large(there) or _is_large(here):
        return f"{flag} is another one"
    return f"{flag} there {_short(there)}, here {_short(here)}"


def _are_files(value: Any) -> bool:
    if not value or not isinstance(value, list):
        return False
    return all(isinstance(file, dict) and isinstance(file.get("path"), str) for file in value)


def _files(files: Sequence[Any]) -> str:
    return f"{len(files)} file{'s' * (len(files) != 1)}"


def _is_large(value: Any) -> bool:
    """Returns whether a value tells a reader nothing, such as the hash of a file."""
    if isinstance(value, list):
        return any(isinstance(one, list) or _is_large(one) for one in value)
    is_hash = isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value)
    return isinstance(value, dict) or bool(is_hash)


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
