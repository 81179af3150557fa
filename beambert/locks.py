"""Locks: of two commands that would fill the same folder at the same time, one is refused.

On a file system the kernel holds the lock on a small file, and releases it when its process ends,
however it ends. On other storage the lock is an object that is created only if there is none, and
that its holder writes again every half minute; the next command takes over an object that was not
written for three minutes.
"""

import contextlib
import dataclasses
import datetime
import errno
import os
import shutil
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

from beambert import storage
from beambert.errors import InputError
from beambert.process import set_message, undone_at_end

# Time after which the object of a holder that does not write it again may be taken over.
LEASE = datetime.timedelta(minutes=3)
SECONDS_BETWEEN_RENEWALS = 30.0
SECONDS_BETWEEN_TRIES = 5.0


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
            if storage.is_local(path) and os.path.isfile(path):
                raise InputError(f"{flag}={path}: is a file; name a folder to make")
            lock = stack.enter_context(held(f"{path}/{storage.LOCK_PREFIX}", f"{flag}={path}"))
            if storage.is_local(path) and lock.is_exclusive:
                stack.enter_context(_tidied(path))
            held_locks.append(lock)

        def check() -> None:
            for lock in held_locks:
                lock.check()

        yield Lock(all(lock.is_exclusive for lock in held_locks), check=check)


@contextlib.contextmanager
def file_held(path: str, flag: str) -> Iterator[None]:
    """Holds the lock of an output file, and deletes what killed commands left of it."""
    with held(_lock_of(path), f"{flag}={path}") as lock:
        if storage.is_local(path) and lock.is_exclusive:
            folder, name = os.path.split(path)
            for left in storage.leftovers(folder or ".", name):
                _delete(left)
        yield


@contextlib.contextmanager
def temporary_held(temporary: str) -> Iterator[None]:
    """Holds the lock of a temporary path, in a folder that several commands may fill at once.

    What killed commands left in the folder is deleted first. This does nothing in folders on other
    machines.

    Args:
      temporary: path from `storage.temporary_name`.
    """
    if not storage.is_local(temporary):
        yield
        return
    for left in storage.leftovers(os.path.dirname(temporary)):
        # Whoever is at work on it holds its lock.
        with contextlib.suppress(BusyError), held(_lock_of(left), left) as lock:
            if lock.is_exclusive:
                _delete(left)
    with held(_lock_of(temporary), temporary), undone_at_end(lambda: _delete(temporary)):
        yield


@contextlib.contextmanager
def held(path: str, name: str) -> Iterator[Lock]:
    """Holds a lock.

    Args:
      path: path of the lock's file or object.
      name: what the lock protects, as messages name it.

    Raises:
      BusyError: another command holds the lock.
      InputError: the storage of an object cannot be used.
    """
    with (_file_held if storage.is_local(path) else _object_held)(path, name) as lock:
        yield lock


def _lock_of(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{storage.LOCK_PREFIX}-{name}")


def _holder() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return f"process {os.getpid()} on {socket.gethostname()} since {now:%d %b %H:%M:%S} UTC"


# Locks of the kernel, on this machine


def _delete(path: str) -> None:
    """Deletes a local file or folder, if that is possible."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def _tidied(folder: str) -> Iterator[None]:
    """Deletes temporary files of a locked folder, now and if the body fails."""

    def delete() -> None:
        # Only a command of BeamBERT leaves this mark; in other folders nothing is deleted.
        if not os.path.exists(f"{folder}/{storage.UNFINISHED_FILE}"):
            return
        for name in os.listdir(folder):
            if name.startswith(storage.TEMPORARY_PREFIX) and name != storage.LOCK_PREFIX:
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
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR):
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
        if storage.content_of(path) != mine:
            raise BusyError(
                f"{name}: another command has taken the lock, which this one has not renewed in "
                "time; nothing more is written here; wait for its end"
            )

    def release() -> None:
        with contextlib.suppress(InputError):  # otherwise it is taken over
            storage.replace_content(path, mine, None)

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
    while not storage.replace_content(path, expected, mine):
        there, written = storage.content_of(path), storage.info(path)
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
            if storage.replace_content(path, mine, mine):
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
