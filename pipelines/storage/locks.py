"""Locks: of two commands that would fill the same folder at the same time, one is refused.

On a file system the kernel holds the lock on a small file, and releases it when its process ends,
however it ends. On gs:// it is a lease, see `leases`. Beam's other storages have no locks.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import functools
import os
import re
import shutil
import socket
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence

from beambert.errors import InputError
from beambert.interrupts import undone_at_end
from beambert.pipelines.storage import claims, leases
from beambert.pipelines.storage.leases import BusyError


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

    What killed commands left in folders on this machine is deleted, and what this one leaves when a
    signal ends it. A folder that did not exist before is deleted if it is empty at the end.

    Args:
      folders: paths of the folders; one that lies in another comes after it.
      flag: flag that names the folders, for messages.

    Raises:
      BusyError: another command holds a lock.
      InputError: a folder cannot be written.
    """
    locks = []
    with contextlib.ExitStack() as stack:
        for folder in folders:
            path = folder.rstrip("/") or "/"
            if "://" not in path and os.path.isfile(path):
                raise InputError(f"{flag}={path}: is a file; name a folder to make")
            lock = stack.enter_context(held(_folder_lock(path), f"{flag}={path}"))
            if lock.descriptors:
                # Only a command of BeamBERT that was cut off, or this one, has left this mark.
                mark = os.path.join(path, claims.UNFINISHED_FILE)
                is_ours = functools.partial(os.path.exists, mark)
                stack.enter_context(_tidied(path, claims.is_left, is_ours))
            locks.append(lock)

        def check() -> None:
            for lock in locks:
                lock.check()

        yield Lock(all(lock.is_exclusive for lock in locks), check=check)


@contextlib.contextmanager
def file_held(path: str, flag: str) -> Iterator[None]:
    """Holds the lock of an output file, see `folders_held`."""
    folder, name = os.path.split(path)

    def is_left(found: str) -> bool:
        return claims.is_aside(found, name)

    with held(_lock_of(path), f"{flag}={path}") as lock, contextlib.ExitStack() as stack:
        if lock.descriptors:
            stack.enter_context(_tidied(folder, is_left))
        yield


@contextlib.contextmanager
def aside_held(temporary: str) -> Iterator[None]:
    """Holds the lock of a temporary path, in a folder that several commands may fill at once.

    The path is deleted if a signal ends the process. What killed commands left in the folder is
    deleted first. This does nothing in folders on other machines.

    Args:
      temporary: path that `claims.aside` has made.
    """
    if "://" in temporary:
        yield
        return
    folder = os.path.dirname(temporary)
    for name in os.listdir(folder):
        if claims.is_left(name):
            left = os.path.join(folder, name)
            # Whoever is at work on it holds its lock.
            with contextlib.suppress(BusyError), held(_lock_of(left), left) as lock:
                if lock.descriptors:
                    _delete(left)
    with held(_lock_of(temporary), temporary), undone_at_end(lambda: _delete(temporary)):
        yield


def _folder_lock(path: str) -> str:
    return os.path.join(path, claims.LOCK_PREFIX)


def _lock_of(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{claims.LOCK_PREFIX}-{name}")


def _delete(path: str) -> None:
    """Deletes a local file or folder, if that is possible."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def _tidied(
    folder: str, is_left: Callable[[str], bool], is_ours: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Deletes what has been left in a locked folder: now, and if the body doesn't reach its end.

    Args:
      folder: path of the folder.
      is_left: whether a name is that of something temporary.
      is_ours: returns False where nothing is deleted, as the folder may be somebody else's.
    """

    def delete() -> None:
        with contextlib.suppress(OSError):
            for name in os.listdir(folder or "."):
                if is_left(name):
                    _delete(os.path.join(folder, name))

    if is_ours():
        delete()
    with undone_at_end(delete):
        try:
            yield
        except BaseException:
            if is_ours():
                delete()
            raise


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
        with contextlib.ExitStack() as stack:
            lock = Lock(is_exclusive=False)
            try:
                # The random part is needed because containers often share process ids and names.
                holder = f"{_holder()} ({uuid.uuid4().hex[:8]})"
                lock = Lock(check=stack.enter_context(leases.held(path, holder)).check)
            except ImportError:
                _warn(name, "google-cloud-storage is not installed, so there is no lock")
            yield lock
    elif "://" in path:
        _warn(name, "its storage has no locks")
        yield Lock(is_exclusive=False)
    else:
        with _file_held(path, name, is_kept) as lock:
            yield lock


def _holder() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return f"process {os.getpid()} on {socket.gethostname()} since {now:%d %b %H:%M:%S} UTC"


def _at_work(holder: str) -> str:
    """Returns who is at work: the holder, or a child of it that holds the lock after its end."""
    found = re.match(r"process (\d+) on (\S+) since ", holder)
    if found and found[2] == socket.gethostname():
        try:
            os.kill(int(found[1]), 0)
        except (ProcessLookupError, OverflowError):
            return f"a child of {holder}, which has ended,"
        except PermissionError:  # It is alive, and another user's.
            pass
    return holder or "another command"


def _warn(name: str, reason: str) -> None:
    """Says that a lock cannot be had; the command goes on as if it were alone."""
    print(f"{name}: {reason}; let no other command fill it meanwhile", file=sys.stderr)


@contextlib.contextmanager
def _file_held(path: str, name: str, is_kept: bool) -> Iterator[Lock]:
    folder = os.path.dirname(path)
    is_new = not os.path.exists(folder or ".")
    try:
        os.makedirs(folder or ".", exist_ok=True)
        descriptor = _lock(path, name)
    except OSError as error:
        if is_kept:
            raise claims.refusal(name, "written", error.strerror or str(error)) from error
        # Where nothing can be written nobody else is at work. The command says so when it writes;
        # it has nothing to write if it has finished before.
        yield Lock(is_exclusive=False)
        return
    if descriptor is None:
        yield Lock(is_exclusive=False)
        return
    with contextlib.suppress(OSError):  # the text only informs; the disk may be full
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _holder().encode(), 0)

    def release() -> None:
        with contextlib.suppress(OSError):
            if not is_kept and _is_at(descriptor, path):
                os.unlink(path)
            if is_new:
                os.rmdir(folder)  # refused if anything is in it

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
            holder = _at_work(os.pread(descriptor, 1000, 0).decode(errors="replace"))
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
        os.close(descriptor)  # the holder before has deleted the file in the meantime


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
