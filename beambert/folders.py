"""Output folders: a folder is free, claimed by a job, finished by it, or holds something else.

A command marks its output folder with the file `_UNFINISHED` when it starts and with `_SUCCESS`
when it is done. Both files contain the job, that is, everything that decides the output. So the
same command continues a folder that it has begun, does nothing in one that it has finished, and no
other command writes there. A file that is being written has a temporary name, see
`storage.temporary_name`; it is renamed when it is complete.
"""

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from beambert import locks, storage
from beambert.errors import InputError, LostClaimError

# Marks a complete folder, by the convention of Hadoop and Spark.
MARKER_FILE = "_SUCCESS"
# It is written first and removed last. It marks a folder that a job has begun to fill.
UNFINISHED_FILE = storage.UNFINISHED_FILE
# An evaluation writes one of these two files last, with the reasons for its decision.
BLESSED, NOT_BLESSED = "BLESSED", "NOT_BLESSED"
# The results of an evaluation.
METRICS_FILE, REPORT_FILE = "metrics.json", "report.html"
MISTAKES_FILE = "mistakes.jsonl"
# Greatest number of flags that a refusal names.
MOST_FLAGS = 3

# Tables: path of a value in a job -> flag that sets it. The values of a table follow from those of
# the tables before it, unless their flags are given.
FlagsOf = Sequence[Mapping[str, str]]


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
    """Returns whether a job has finished a folder, and checks that it may write there.

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
    names = [name for name in names if not storage.is_temporary(name)]
    state = next((n for n in (MARKER_FILE, UNFINISHED_FILE) if n in names), None)
    if state is None:
        if names:
            raise InputError(
                f"{flag}={folder}: already holds something else ({names[0]} …); choose another "
                "or delete it"
            )
        return False
    try:
        found = storage.parse_object(read(state))
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
        found = [
            f"{flag} is another one"
            if _is_large(one) or _is_large(other)
            else f"{flag} there {_short(one)}, here {_short(other)}"
            for flag, one, other in pairs
            if one != other
        ]
        if found:
            more = f" and {len(found) - MOST_FLAGS} more" if len(found) > MOST_FLAGS else ""
            return "; ".join(found[:MOST_FLAGS]) + more
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


def _is_large(value: Any) -> bool:
    """Returns whether a value means nothing to a reader, such as the hash of a file."""
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


def claim_output(
    folder: str,
    job: Mapping[str, Any],
    flags_of: FlagsOf = (),
    inner: Collection[str] = (),
    flag: str = "--output",
    writes: bool = True,
) -> bool:
    """Marks an output folder as the job's before any work is done.

    Args:
      folder: path of the folder.
      job: everything that decides the output.
      flags_of: the flags behind the values of the job, for messages.
      inner: names of folders in it that have claims of their own.
      flag: flag that names the folder, for messages.
      writes: False for a worker that only looks, because another one writes the mark.

    Returns:
      True if the same job has finished there already, and there is nothing to do.

    Raises:
      InputError: the folder holds something else, or cannot be made.
    """

    def read(name: str) -> bytes:
        return storage.read_bytes(f"{folder}/{name}", flag)

    if os.path.isfile(folder):
        raise InputError(f"{flag}={folder}: is a file; name a folder to make")
    names = [name for name in storage.list_folder(folder) if name not in inner]
    if is_finished(folder, names, read, job, flag, flags_of):
        return True
    if writes:
        storage.make_folder(folder, flag)
        storage.write_bytes(f"{folder}/{UNFINISHED_FILE}", serialize_job(job))
    return False


def check_claimed(folder: str, job: Mapping[str, Any]) -> None:
    """Checks on a worker that an output folder is still the job's.

    A cluster may go on with a job whose command has failed and has given the folder back.

    Raises:
      LostClaimError: the folder is gone, or another job's.
    """
    for name in (UNFINISHED_FILE, MARKER_FILE):
        with contextlib.suppress(InputError):
            if storage.read_bytes(f"{folder}/{name}") == serialize_job(job):
                return
    raise LostClaimError(f"--output={folder}: isn't this job's any more; its command has ended")


def reopen_output(folder: str, job: Mapping[str, Any]) -> None:
    """Marks a finished output folder as unfinished, before it is filled again."""
    storage.write_bytes(f"{folder}/{UNFINISHED_FILE}", serialize_job(job))
    storage.delete(f"{folder}/{MARKER_FILE}")


def finish_output(folder: str, job: Mapping[str, Any]) -> None:
    """Marks an output folder as complete. Nothing may be written into it afterwards."""
    storage.write_bytes(f"{folder}/{MARKER_FILE}", serialize_job(job))
    storage.delete_quietly([f"{folder}/{UNFINISHED_FILE}"])
    for left in storage.leftovers(folder):
        storage.delete(left)


def refuse_others(folder: str, expected: Collection[str]) -> None:
    """Raises an error for a folder that holds other names than the expected ones.

    Raises:
      InputError: the folder holds another name.
    """
    for name in storage.list_folder(folder):
        if name not in expected and not storage.is_temporary(name):
            raise InputError(
                f"--output={folder}: already holds something else ({name} …); choose another "
                "or delete it"
            )


@dataclasses.dataclass(frozen=True)
class OutputFolder:
    """A folder that the command holds.

    Attributes:
      path: path of the folder.
      is_finished: whether the same command has finished it before.
    """

    path: str
    is_finished: bool

    def read_json(self, name: str) -> dict[str, Any]:
        """Returns the content of a file.

        Raises:
          InputError: the file cannot be read, or is damaged.
        """
        content = storage.read_bytes(f"{self.path}/{name}", "--output")
        try:
            return json.loads(content)
        except ValueError as error:
            raise InputError(f"{self.path}/{name}: is damaged; make the folder again") from error

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Writes a file.

        Raises:
          InputError: the file cannot be written.
        """
        self.write(name, serialize_job(content))

    def write(self, name: str, content: bytes) -> None:
        """Writes a file.

        Raises:
          InputError: the file cannot be written.
        """
        storage.write_bytes(f"{self.path}/{name}", content)


@contextlib.contextmanager
def claimed(path: str, identity: Mapping[str, Any], flags_of: FlagsOf) -> Iterator[OutputFolder]:
    """Holds a folder while the body fills it, and puts the marker into it at the end.

    The body writes nothing if the folder `is_finished`. A folder whose body is killed or fails
    stays claimed for the same command, unless an `InputError` comes before its first file.

    Args:
      path: path of the folder, that of --output.
      identity: what decides the content of the folder.
      flags_of: the flags behind the values of `identity`, see `describe_difference`.

    Raises:
      InputError: the folder holds something else, another command is at work there, or the folder
        cannot be written.
    """
    with locks.folders_held([path], "--output"):
        if claim_output(path, identity, flags_of):
            yield OutputFolder(path, is_finished=True)
            return
        try:
            yield OutputFolder(path, is_finished=False)
        except InputError:
            names = storage.list_folder(path)
            if all(storage.is_temporary(name) or name == UNFINISHED_FILE for name in names):
                storage.delete(f"{path}/{UNFINISHED_FILE}")
            raise
        finish_output(path, identity)
