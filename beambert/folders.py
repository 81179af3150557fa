"""Output folders: a folder is free, claimed by a job, finished by it, or holds something else.

A command marks its output folder with the file `_UNFINISHED` when it starts and with `_SUCCESS`
when it is done. Both files contain the job, that is, everything that decides the output. So the
same command continues a folder that it has begun, does nothing in one that it has finished, and no
other command writes there. A file that is being written has a temporary name, see
`io.temporary_name`; it is renamed when it is complete. On gs:// and s3:// it appears then anyway.

Of two commands that would fill the same folder at the same time, one is refused. On a file system
the kernel holds the lock on a small file, and releases it when its process ends, however it ends.
On other storage the lock is an object that is created only if there is none, and that its holder
writes again every half minute; the next command takes over an object that was not written for three
minutes.
"""

import contextlib
import dataclasses
import datetime
import errno
import json
import os
import re
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from beambert import io
from beambert.errors import InputError
from beambert.process import set_message, undone_at_end

# Marks a complete folder, by the convention of Hadoop and Spark.
MARKER_FILE = "_SUCCESS"
# It is written first and removed last. It marks a folder that a job has begun to fill.
UNFINISHED_FILE = io.UNFINISHED_FILE
# An evaluation writes one of these two files last, with the reasons for its decision.
BLESSED, NOT_BLESSED = "BLESSED", "NOT_BLESSED"
# The results of an evaluation.
METRICS_FILE, REPORT_FILE = "metrics.json", "report.html"
MISTAKES_FILE = "mistakes.jsonl"
# Kind of a job -> path of the encoder in its folder, which --init continues.
_ENCODERS = {"pretraining": "{}", "beambert train": "{}/encoder"}
# Greatest number of values that a refusal names.
MOST_NAMED = 3

# Time after which the object of a holder that does not write it again may be taken over.
LEASE = datetime.timedelta(minutes=3)
SECONDS_BETWEEN_RENEWALS = 30.0
SECONDS_BETWEEN_TRIES = 5.0


# The lock


class BusyError(InputError):
    """Another command holds the lock."""


@dataclasses.dataclass(frozen=True)
class Lock:
    """A lock that is held.

    Attributes:
      is_exclusive: whether nobody else can hold it; False where the file system has no locks.
      check: raises `BusyError` if the lock has been lost, as that of a process that stood still may
        be on other storage; to be called before anything important is written.
    """

    is_exclusive: bool = True
    check: Callable[[], None] = lambda: None


@contextlib.contextmanager
def folders_held(folders: Sequence[str], flag: str) -> Iterator[Lock]:
    """Holds the locks of output folders, which are made if they don't exist.

    Temporary files in folders on this machine are deleted: what a killed command has left, and what
    this one leaves when it fails. A folder that did not exist before is deleted if it is empty at
    the end.

    Args:
      folders: paths of the folders; one that lies in another comes after it.
      flag: flag that names the folders, for messages.

    Raises:
      BusyError: another command holds a lock.
      InputError: a folder cannot be written.
    """
    held_locks = []
    with contextlib.ExitStack() as stack:
        for folder in folders:
            path = folder.rstrip("/") or "/"
            if io.is_local(path) and os.path.isfile(path):
                raise InputError(f"{flag}={path}: is a file; name a folder to make")
            lock = stack.enter_context(lock_held(f"{path}/{io.LOCK_PREFIX}", f"{flag}={path}"))
            if io.is_local(path) and lock.is_exclusive:
                stack.enter_context(_tidied(path))
            held_locks.append(lock)

        def check() -> None:
            for lock in held_locks:
                lock.check()

        yield Lock(all(lock.is_exclusive for lock in held_locks), check=check)


@contextlib.contextmanager
def file_held(path: str, beside: Sequence[str] = ()) -> Iterator[None]:
    """Holds the lock of an output file, and deletes what killed commands left of it.

    Args:
      path: path of the file, that of --output.
      beside: paths of other files that the command writes into the same folder.
    """
    with lock_held(_lock_of(path), f"--output={path}") as lock:
        if io.is_local(path) and lock.is_exclusive:
            for folder, name in map(os.path.split, (path, *beside)):
                for left in io.leftovers(folder or ".", name):
                    _delete(left)
        yield


@contextlib.contextmanager
def lock_held(path: str, name: str) -> Iterator[Lock]:
    """Holds a lock.

    Args:
      path: path of the lock's file or object.
      name: what the lock protects, as messages name it.

    Raises:
      BusyError: another command holds the lock.
      InputError: the storage of an object cannot be used.
    """
    with (_file_held if io.is_local(path) else _object_held)(path, name) as lock:
        yield lock


def _lock_of(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{io.LOCK_PREFIX}-{name}")


def _holder() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return f"process {os.getpid()} on {socket.gethostname()} since {now:%d %b %H:%M:%S} UTC"


# Locks of the kernel, on this machine


def _delete(path: str) -> None:
    """Deletes a file or folder, if that is possible."""
    with contextlib.suppress(InputError):
        io.delete(path)


@contextlib.contextmanager
def _tidied(folder: str) -> Iterator[None]:
    """Deletes temporary files of a locked folder, now and if the body fails."""

    def delete() -> None:
        # Only a command of BeamBERT leaves this mark; in other folders nothing is deleted.
        if not os.path.exists(f"{folder}/{io.UNFINISHED_FILE}"):
            return
        for name in os.listdir(folder):
            if name.startswith(io.TEMPORARY_PREFIX) and name != io.LOCK_PREFIX:
                _delete(f"{folder}/{name}")

    delete()
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            delete()
        raise


@contextlib.contextmanager
def _file_held(path: str, name: str) -> Iterator[Lock]:
    import filelock

    folder = os.path.dirname(path)
    is_new = not os.path.exists(folder or ".")
    lock = filelock.FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        os.makedirs(folder or ".", exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        with contextlib.suppress(OSError), open(path, errors="replace") as file:
            raise BusyError(
                f"{name}: {file.read(1000) or 'another command'} is at work there; wait for its "
                "end, or choose another"
            ) from None
        raise BusyError(f"{name}: another command was at work there; try again") from None
    except OSError as error:
        # Where nothing can be written nobody else is at work. The command fails when it writes; it
        # has nothing to write if it has finished before.
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            print(
                f"{name}: its file system has no locks ({error.strerror}); let no other command "
                "fill it meanwhile",
                file=sys.stderr,
            )
        yield Lock(is_exclusive=False)
        return
    with contextlib.suppress(OSError), open(path, "w") as file:  # It only informs.
        file.write(_holder())

    def release() -> None:
        with contextlib.suppress(OSError):
            # Whoever has opened the file meanwhile sees that it is gone, and makes another.
            os.unlink(path)
            if is_new:
                os.rmdir(folder)  # fails if anything is in it

    try:
        with undone_at_end(release):
            yield Lock()
    finally:
        release()
        lock.release()


# Objects, on other storage


@contextlib.contextmanager
def _object_held(path: str, name: str) -> Iterator[Lock]:
    """Creates the object, and writes it again while the body runs.

    A killed command leaves its object. So this waits until it is taken over, or written again.
    """
    # The random part is needed because containers often share process ids and names.
    mine = f"{_holder()} ({uuid.uuid4().hex[:8]})".encode()
    _acquire(path, name, mine)

    def check() -> None:
        if io.content_of(path) != mine:
            raise BusyError(
                f"{name}: another command has taken the lock, which this one has not renewed in "
                "time; nothing more is written here; wait for its end"
            )

    def release() -> None:
        with contextlib.suppress(InputError):  # otherwise it is taken over
            io.replace_content(path, mine, None)

    stop = threading.Event()
    renewing = threading.Thread(target=_renew, args=(path, name, mine, stop), daemon=True)
    renewing.start()
    try:
        with undone_at_end(release):
            yield Lock(check=check)
    finally:
        stop.set()
        renewing.join()
        release()


def _acquire(path: str, name: str, mine: bytes) -> None:
    """Creates the object, or takes over one that nobody has written for the time of a lease.

    The time is that of this process: clocks of machines differ.

    Raises:
      BusyError: the holder of the object is at work.
    """
    expected, seen, deadline = None, None, time.monotonic() + LEASE.total_seconds()
    while not io.replace_content(path, expected, mine):
        there, written = io.content_of(path), io.info(path)
        state = there, written and written.modified
        if there is None or (state == seen and time.monotonic() > deadline):
            expected = there
        elif seen is None:
            seen = state
            print(f"{_busy(path, name, there)}; waiting for a sign of life …", file=sys.stderr)
        elif state != seen:
            raise _busy(path, name, there)
        else:
            time.sleep(SECONDS_BETWEEN_TRIES)


def _busy(path: str, name: str, holder: bytes) -> BusyError:
    return BusyError(
        f"{name}: {holder.decode(errors='replace')} is at work there; wait for its end, or delete "
        f"{path} if you know that it has ended"
    )


def _renew(path: str, name: str, mine: bytes, stop: threading.Event) -> None:
    """Writes an object again until `stop`; ends the process if another command has taken it."""
    while not stop.wait(SECONDS_BETWEEN_RENEWALS):
        try:
            if io.replace_content(path, mine, mine):
                continue
        except InputError as error:  # mostly of the network, which may recover
            print(f"the lock cannot be renewed: {error}", file=sys.stderr, flush=True)
            continue
        message = f"beambert: another command has taken the lock of {name}"
        print(message, file=sys.stderr, flush=True)
        set_message(message)
        # What is at work gets the signal, too, and ends without writing.
        os.kill(os.getpid(), signal.SIGTERM)
        return


# The protocol


def serialize_job(job: Mapping[str, Any]) -> bytes:
    """Returns the content of the marker files."""
    return (json.dumps(job, indent=1, ensure_ascii=False) + "\n").encode()


def describe_difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Returns what differs between two jobs: paths of values, with both values; "" if equal."""
    if there.keys().isdisjoint(here):
        return "made by another command" if there or here else ""
    found = list(_differences(there, here, ""))
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return "; ".join(found[:MOST_NAMED]) + more


def _differences(there: Any, here: Any, path: str) -> Iterator[str]:
    if _has_objects(there) and _has_objects(here) and len(there) == len(here):
        there, here = dict(enumerate(there)), dict(enumerate(here))
    if isinstance(there, dict) and isinstance(here, dict):
        for name in {**here, **there}:
            inner = f"{path}.{name}" if path else f"{name}"
            yield from _differences(there.get(name), here.get(name), inner)
    elif there != here and (_is_large(there) or _is_large(here)):
        yield f"{path} is another one"
    elif there != here:
        yield f"{path} there {_short(there)}, here {_short(here)}"


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) for one in value)


def _is_large(value: Any) -> bool:
    """Returns whether a value means nothing to a reader, such as the hash of a file."""
    if isinstance(value, list):
        return any(isinstance(one, list) or _is_large(one) for one in value)
    is_hash = isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value)
    return isinstance(value, dict) or bool(is_hash)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def claim_output(
    folder: str,
    job: Mapping[str, Any],
    inner: Collection[str] = (),
    flag: str = "--output",
    writes: bool = True,
) -> bool:
    """Marks an output folder as the job's before any work is done.

    Args:
      folder: path of the folder.
      job: everything that decides the output.
      inner: names of folders in it that have claims of their own.
      flag: flag that names the folder, for messages.
      writes: False for a worker that only looks, because another one writes the mark.

    Returns:
      True if the same job has finished there already, and there is nothing to do.

    Raises:
      InputError: the folder holds files of another job or other files, or cannot be made.
    """
    names = [n for n in io.list_folder(folder) if n not in inner and not io.is_temporary(n)]
    state = next((name for name in (MARKER_FILE, UNFINISHED_FILE) if name in names), None)
    if names and state is None:
        raise InputError(
            f"{flag}={folder}: already holds something else ({names[0]} …); choose another"
        )
    if state is not None:
        _check_same(folder, job, flag, state, is_alone=len(names) == 1)
    if state != MARKER_FILE and writes:
        io.make_folder(folder, flag)
        io.write_bytes(f"{folder}/{UNFINISHED_FILE}", serialize_job(job))
    elif UNFINISHED_FILE in names and writes:  # It was killed when all was done.
        io.delete_quietly([f"{folder}/{UNFINISHED_FILE}"])
    return state == MARKER_FILE


def _check_same(folder: str, job: Mapping[str, Any], flag: str, state: str, is_alone: bool) -> None:
    """Refuses a folder whose marker, a file with the name `state`, is of another job."""
    try:
        found = io.parse_object(io.read_bytes(f"{folder}/{state}", flag))
    except ValueError:
        found = {}  # The write was cut off. Nothing else can be in the folder yet.
    difference = describe_difference(found, json.loads(serialize_job(job)))
    if difference and (state == MARKER_FILE or not is_alone):
        what = "finished result" if state == MARKER_FILE else "unfinished work"
        encoder = _ENCODERS.get(found.get("kind")) if state == MARKER_FILE else None
        further = f"; --init={encoder.format(folder)} continues it in another" if encoder else ""
        raise InputError(
            f"{flag}={folder}: already holds the {what} of another job ({difference}); "
            f"choose another or delete it{further}"
        )


def check_claimed(folder: str, job: Mapping[str, Any]) -> None:
    """Checks on a worker that an output folder is still the job's.

    A cluster may go on with a job whose command has failed and has given the folder back.

    Raises:
      InputError: the folder is gone, or another job's.
    """
    for name in (UNFINISHED_FILE, MARKER_FILE):
        with contextlib.suppress(InputError):
            if io.read_bytes(f"{folder}/{name}") == serialize_job(job):
                return
    raise InputError(f"--output={folder}: isn't this job's any more; its command has ended")


def reopen_output(folder: str, job: Mapping[str, Any]) -> None:
    """Marks a finished output folder as unfinished, before it is filled again."""
    io.write_bytes(f"{folder}/{UNFINISHED_FILE}", serialize_job(job))
    io.delete(f"{folder}/{MARKER_FILE}")


def finish_output(folder: str, job: Mapping[str, Any]) -> None:
    """Marks an output folder as complete. Nothing may be written into it afterwards."""
    for left in io.leftovers(folder):
        io.delete(left)
    io.write_bytes(f"{folder}/{MARKER_FILE}", serialize_job(job))
    io.delete_quietly([f"{folder}/{UNFINISHED_FILE}"])


def refuse_others(folder: str, expected: Collection[str]) -> None:
    """Raises an error for a folder that holds other names than the expected ones.

    Raises:
      InputError: the folder holds another name.
    """
    for name in io.list_folder(folder):
        if name not in expected and not io.is_temporary(name):
            raise InputError(
                f"--output={folder}: already holds something else ({name} …); choose another"
            )


def check_own(path: str, *names: str) -> None:
    """Refuses a file that this command would write anew, unless it has written it before.

    Args:
      path: path of a JSON object, or of JSON Lines.
      *names: keys that the object, or the first one, has if the command has written it.

    Raises:
      InputError: the file has other content.
    """
    if not io.exists(path):
        return
    content = io.read_bytes(path, "--output")
    with contextlib.suppress(ValueError):
        first = content.partition(b"\n")[0] if path.endswith(".jsonl") else content
        if io.parse_object(first).keys() >= {*names}:
            return
    raise InputError(f"--output={path}: already exists, not made by this command; move it away")


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
        return io.read_object(f"{self.path}/{name}", flag="--output", remedy="make it again")

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
        io.write_bytes(f"{self.path}/{name}", content)


@contextlib.contextmanager
def claimed(path: str, identity: Mapping[str, Any]) -> Iterator[OutputFolder]:
    """Holds a folder while the body fills it, and puts the marker into it at the end.

    The body writes nothing if the folder `is_finished`. A folder whose body is killed or fails
    stays claimed for the same command, unless an `InputError` comes before its first file.

    Args:
      path: path of the folder, that of --output.
      identity: what decides the content of the folder.

    Raises:
      InputError: the folder holds something else, another command is at work there, or the folder
        cannot be written.
    """
    with folders_held([path], "--output"):
        if claim_output(path, identity):
            yield OutputFolder(path, is_finished=True)
            return
        try:
            yield OutputFolder(path, is_finished=False)
        except InputError:
            names = io.list_folder(path)
            if all(io.is_temporary(name) or name == UNFINISHED_FILE for name in names):
                io.delete(f"{path}/{UNFINISHED_FILE}")
            raise
        finish_output(path, identity)
