"""The folder for all temporary files of a process; a later process deletes what a killed one left.

The process holds a lock of the kernel on a file in the folder. So the folder of a process that was
killed is known by its free lock.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from beambert.interrupts import undone_at_end

_PREFIX = "beambert-run-"
_LOCK = "lock"


@contextlib.contextmanager
def own_folder() -> Iterator[None]:
    """Lets `tempfile` use a folder of this process alone, which is deleted at the end.

    A system without a place for temporary files, or without locks on it, is left as it is.
    """
    before = tempfile.tempdir
    try:
        parent = pathlib.Path(tempfile.gettempdir())
        folder = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError:
        yield
        return
    descriptor = _lock(folder)
    _delete_dead(parent)
    tempfile.tempdir = str(folder)
    try:
        with undone_at_end(lambda: shutil.rmtree(folder, ignore_errors=True)):
            yield
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def more_room() -> str:
    """Returns the advice to a user whose folder for temporary files is full."""
    folder = pathlib.Path(tempfile.gettempdir())
    place = folder.parent if folder.name.startswith(_PREFIX) else folder
    return f"free some space in {place}, or name another folder in the environment variable TMPDIR"


def _lock(folder: pathlib.Path) -> int:
    """Makes the lock of a folder, and returns the descriptor that holds it."""
    # It gets its name only when it is locked, so that nobody takes the folder for a dead one.
    new = folder / f"{_LOCK}.new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT, 0o600)
    with contextlib.suppress(OSError):  # without a lock the folder is never taken for a dead one
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.rename(folder / _LOCK)
    return descriptor


def _delete_dead(parent: pathlib.Path) -> None:
    """Deletes the folders of this user's processes that have ended."""
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # it is another user's, or has just been deleted
            continue
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # its process is at work
            pass
        finally:
            os.close(descriptor)
