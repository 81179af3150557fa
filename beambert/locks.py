"""Locks: of two commands that would fill the same folder at the same time, one is refused.

On a file system the kernel holds the lock on a small file, and releases it when its process ends,
however it ends. On gs:// the lock is an object that its holder writes again every half minute; the
next command takes over an object that was not written for three minutes. Beam's other storages
have no locks.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from beambert import storage
from beambert.errors import InputError
from beambert.process import set_message, undone_at_end

# A lease on gs:// ends after this time unless its holder renews it.
LEASE = datetime.timedelta(minutes=3)
SECONDS_BETWEEN_RENEWALS = 30.0
SECONDS_BETWEEN_TRIES = 5.0


class BusyError(InputError):
    """Another command holds the lock."""


@dataclasses.dataclass(frozen=True)
class Lock:
    """A lock that is held.

    Attributes:
      is_exclusive: whether nobody else can hold it; False where the storage has no locks.
      descriptors: file descriptors that child processes must inherit. A child that outlives its
        killed parent then still holds the lock. There are none if it isn't a lock of the kernel.
      check: raises `BusyError` if the lock has been lost, as that of a process that stood still may
        be on gs://; to be called before anything important is written.
    """

    is_exclusive: bool = True
    descriptors: tuple[int, ...] = ()
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
            if lock.descriptors:
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
        if lock.descriptors:
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
            if lock.descriptors:
                _delete(left)
    with held(_lock_of(temporary), temporary), undone_at_end(lambda: _delete(temporary)):
        yield


@contextlib.contextmanager
def held(path: str, name: str, is_kept: bool = False) -> Iterator[Lock]:
    """Holds a lock.

    Args:
      path: path of the lock's file or object.
      name: what the lock protects, as messages name it.
      is_kept: True to leave the file at the end, because a child process may hold it longer, and to
        refuse a folder that cannot be written.

    Raises:
      BusyError: another command holds the lock.
      InputError: the storage of a lock on gs:// cannot be used, or the folder cannot be written.
    """
    if path.startswith("gs://"):
        # The random part is needed because containers often share process ids and names.
        with _lease_held(path, f"{_holder()} ({uuid.uuid4().hex[:8]})") as lease:
            yield Lock(check=lease.check)
    elif storage.is_local(path):
        with _file_held(path, name, is_kept) as lock:
            yield lock
    else:
        _warn(name, "its storage has no locks")
        yield Lock(is_exclusive=False)


def _lock_of(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{storage.LOCK_PREFIX}-{name}")


def _holder() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return f"process {os.getpid()} on {socket.gethostname()} since {now:%d %b %H:%M:%S} UTC"


def _warn(name: str, reason: str) -> None:
    """Prints that there is no lock; the command goes on as if it were alone."""
    print(f"{name}: {reason}; let no other command fill it meanwhile", file=sys.stderr)


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
            # Beam's sink of text files gives its temporary folders the second prefix.
            is_left = name.startswith((storage.TEMPORARY_PREFIX, "beam-temp-"))
            if is_left and not name.startswith(storage.LOCK_PREFIX):
                _delete(f"{folder}/{name}")

    delete()
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            delete()
        raise


@contextlib.contextmanager
def _file_held(path: str, name: str, is_kept: bool) -> Iterator[Lock]:
    folder = os.path.dirname(path)
    is_new = not os.path.exists(folder or ".")
    try:
        os.makedirs(folder or ".", exist_ok=True)
        descriptor = _lock(path, name)
    except OSError as error:
        if is_kept:
            raise storage.refusal(name, "written", error.strerror or str(error)) from error
        # Where nothing can be written nobody else is at work. The command fails when it writes; it
        # has nothing to write if it has finished before.
        yield Lock(is_exclusive=False)
        return
    if descriptor is None:
        yield Lock(is_exclusive=False)
        return
    with contextlib.suppress(OSError):  # The content only informs; the disk may be full.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _holder().encode(), 0)

    def release() -> None:
        with contextlib.suppress(OSError):
            if not is_kept and _is_at(descriptor, path):
                os.unlink(path)
            if is_new:
                os.rmdir(folder)  # fails if anything is in it

    try:
        with undone_at_end(release):
            yield Lock(descriptors=(descriptor,))
    finally:
        release()
        os.close(descriptor)


def _lock(path: str, name: str) -> int | None:
    """Returns the descriptor of a locked file; None if its file system has no locks."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace") or "another command"
            os.close(descriptor)
            raise BusyError(
                f"{name}: {holder} is at work there; wait for its end, or choose another"
            ) from None
        except OSError as error:  # of some network file systems
            _warn(name, f"its file system has no locks ({error.strerror})")
            os.close(descriptor)
            os.unlink(path)
            return None
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # The holder before has deleted the file in the meantime.


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


# Leases, on gs://


class Lease:
    """A lock on gs://: an object that says who holds it, and for how long since it was written.

    Every change names the generation of the object that it replaces, so that two commands cannot
    both succeed.
    """

    def __init__(self, path: str):
        """Opens the storage.

        Args:
          path: path of the lock's object.

        Raises:
          InputError: there are no credentials for the storage.
        """
        from google.cloud import storage as google_storage

        self._path = path
        bucket, _, self._name = path.removeprefix("gs://").partition("/")
        with self._translated():
            self._bucket = google_storage.Client(project=None).bucket(bucket)
        self._generation, self._holder = 0, ""
        # Renewing and checking, each in a thread of its own, exclude each other.
        self._changing = threading.Lock()

    def acquire(self, holder: str, length: datetime.timedelta) -> None:
        """Takes the lease if it is free, has expired or is the holder's.

        Args:
          holder: name of the holder.
          length: time after which the lease expires.

        Raises:
          BusyError: another holder has the lease.
          InputError: the bucket cannot be read or written.
        """
        from google.api_core import exceptions

        self._holder = holder
        with self._changing, self._translated():
            found = self._bucket.get_blob(self._name)
            if self._generation and not found:
                # Who has taken it after it had expired may have filled the folder.
                raise self._busy("another command, which has ended since,")
            if found:
                there, seconds = self._read(found)
                expires = found.updated + datetime.timedelta(seconds=seconds)
                if there != holder and self._now() < expires:
                    raise self._busy(f"{there} (until {expires:%d %b %H:%M} UTC)")
            blob = self._bucket.blob(self._name)
            content = json.dumps({"holder": holder, "seconds": length.total_seconds()})
            try:
                blob.upload_from_string(
                    content, if_generation_match=found.generation if found else 0
                )
                self._generation = blob.generation
            except exceptions.PreconditionFailed:
                # The library repeats a request whose answer was lost: the first may have succeeded.
                if not self._is_mine():
                    raise self._busy("another command, which began at the same time,") from None

    def check(self) -> None:
        """Raises an error if another holder has taken the lease.

        Raises:
          BusyError: another holder has it.
          InputError: the storage cannot be reached.
        """
        with self._changing, self._translated():
            is_mine = self._is_mine()
        if not is_mine:
            raise BusyError(
                f"{self._path}: another command has taken the lock, which this one has not renewed "
                "in time; nothing more is written here; wait for its end"
            )

    def release(self) -> None:
        """Releases the lease, unless another holder has taken it.

        Raises:
          InputError: the storage cannot be reached.
        """
        from google.api_core import exceptions

        blob = self._bucket.blob(self._name)
        gone = (exceptions.NotFound, exceptions.PreconditionFailed)
        with self._translated(), contextlib.suppress(*gone):
            blob.delete(if_generation_match=self._generation)
        self._generation = 0

    def _is_mine(self) -> bool:
        """Returns whether the object is the holder's, and remembers its generation then."""
        found = self._bucket.get_blob(self._name)
        if not found or self._read(found)[0] != self._holder:
            return False
        self._generation = found.generation
        return True

    def _read(self, blob: Any) -> tuple[str, float]:
        """Returns the holder in the lock's object, and the seconds that it has."""
        try:
            found = json.loads(blob.download_as_text())
            return found["holder"], float(found["seconds"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self._path}: is damaged; delete it if no command is at work"
            ) from error

    def _now(self) -> datetime.datetime:
        """Returns the storage's time, that of a new object: clocks of machines may differ."""
        from google.api_core import exceptions

        probe = self._bucket.blob(f"{self._name}.clock")
        probe.upload_from_string("")
        with contextlib.suppress(exceptions.NotFound):  # another command has deleted it
            probe.delete()
        return probe.updated

    def _busy(self, whom: str) -> BusyError:
        return BusyError(
            f"{self._path}: {whom} is at work there; wait for its end, or delete the object if "
            "you know that it has ended"
        )

    def _translated(self) -> contextlib.AbstractContextManager[None]:
        return storage.translate_errors(self._path, "read and written")


@contextlib.contextmanager
def _lease_held(path: str, holder: str) -> Iterator[Lease]:
    """Takes a lease and renews it while the body runs; yields it.

    A killed command leaves its lease. So this waits until the lease ends, or has been renewed.
    """
    lease = Lease(path)
    _acquire_patiently(lease, path, holder)

    def release_quietly() -> None:
        with contextlib.suppress(InputError):  # otherwise it expires
            lease.release()

    stop = threading.Event()
    renewing = threading.Thread(target=_renew, args=(lease, holder, stop), daemon=True)
    renewing.start()
    try:
        with undone_at_end(release_quietly):
            yield lease
    finally:
        stop.set()
        renewing.join()
        release_quietly()


def _acquire_patiently(lease: Lease, path: str, holder: str) -> None:
    written, deadline = None, time.monotonic() + LEASE.total_seconds() + SECONDS_BETWEEN_TRIES
    while True:
        try:
            return lease.acquire(holder, LEASE)
        except BusyError as error:
            now = storage.modified(path) if storage.exists(path) else None
            if now != (written or now) or time.monotonic() > deadline:
                raise
            if written is None:
                print(f"{error}; waiting for a sign of life …", file=sys.stderr, flush=True)
            written = now
            time.sleep(SECONDS_BETWEEN_TRIES)


def _renew(lease: Lease, holder: str, stop: threading.Event) -> None:
    """Renews a lease until `stop`; ends the process if another command has taken it."""
    while not stop.wait(SECONDS_BETWEEN_RENEWALS):
        try:
            lease.acquire(holder, LEASE)
        except BusyError as error:
            message = f"beambert: another command has taken the lock: {error}"
            print(message, file=sys.stderr, flush=True)
            set_message(message)
            # What is at work gets the signal, too, and ends without writing.
            os.kill(os.getpid(), signal.SIGTERM)
            return
        except InputError as error:  # mostly of the network, which may recover
            print(f"the lock cannot be renewed: {error}", file=sys.stderr, flush=True)
