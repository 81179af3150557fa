"""Gives a complete SavedModel its number in a serving folder, also while others do the same."""

import contextlib
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from beambert import locks, storage
from beambert.errors import InputError
from beambert.locks import LEASE, BusyError
from beambert.model_files import GRAPH_FILE
from beambert.storage import parse_object

# The folder of a SavedModel for files outside the graph, and our file in it.
EXTRA_ASSETS, SOURCE_FILE = "assets.extra", "model.json"
# The folders of a SavedModel with its weights and, if it has any, its tables of words.
_FILE_FOLDERS = ("variables", "assets")
SECONDS_BETWEEN_TRIES = 2.0


def graph_sha256(version: str) -> str:
    """Returns the SHA-256 of a SavedModel's graph.

    Raises:
      InputError: it cannot be read.
    """
    return storage.sha256_of(f"{version}/{GRAPH_FILE}")


def files_sha256(version: str) -> dict[str, str]:
    """Returns path in a SavedModel -> SHA-256, for its weights and its tables of words.

    Raises:
      InputError: a file cannot be read.
    """
    paths = [
        f"{folder}/{name}"
        for folder in _FILE_FOLDERS
        for name in sorted(storage.list_folder(f"{version}/{folder}"))
    ]
    return {path: storage.sha256_of(f"{version}/{path}") for path in paths}


def is_as_exported(version: str) -> bool:
    """Returns whether a version has the files that it was exported with, so far as it tells.

    Raises:
      InputError: a file cannot be read.
    """
    source = f"{version}/{EXTRA_ASSETS}/{SOURCE_FILE}"
    if not storage.exists(source):
        return True
    try:
        found = parse_object(storage.read_bytes(source))
    except ValueError:
        return False
    if found.get("graph_sha256") not in (None, graph_sha256(version)):
        return False
    # An older export tells nothing of its weights.
    return "files_sha256" not in found or found["files_sha256"] == files_sha256(version)


def publish(temporary: str, output: str, number: Callable[[], int]) -> str:
    """Renames a folder to the next version, and returns its path.

    A file system renames the folder at once, or refuses if the version exists. On gs:// a folder is
    renamed file by file, and one that exists would be mixed with the other. So the number is taken
    under a lock there, and the graph, without which servers do not load a version, comes last.

    Args:
      temporary: folder of the SavedModel, in the serving folder.
      output: serving folder.
      number: function that returns the number to take.

    Raises:
      InputError: the folder cannot be renamed.
    """
    if "://" in output:
        with _numbers_held(output):
            path = f"{output}/{number()}"
            _check_free(path)
            try:
                storage.copy(temporary, path, left_out=(GRAPH_FILE,))
                storage.copy(f"{temporary}/{GRAPH_FILE}", f"{path}/{GRAPH_FILE}")
            except InputError:
                with contextlib.suppress(InputError):  # It may not allow that either.
                    storage.delete(path)
                raise
        storage.delete(temporary)
        return path
    taken = None
    while True:
        path = f"{output}/{number()}"
        try:
            tf.io.gfile.rename(temporary, path)
            return path
        except tf.errors.OpError as error:
            # If the path exists, another export has taken the number in the meantime.
            if not storage.exists(path):
                reason = storage.reason(error)
                raise InputError(f"{path}: cannot be made of {temporary} ({reason})") from error
            if path == taken:
                _check_free(path)
            taken = path


def _check_free(path: str) -> None:
    if storage.exists(path):
        raise InputError(f"{path}: exists already; leave --version out to take the next number")


@contextlib.contextmanager
def _numbers_held(output: str) -> Iterator[None]:
    """Holds the lock of a serving folder's numbers; waits for another export, for a while."""
    lock = f"{output}/{storage.LOCK_PREFIX}-number"
    deadline = time.monotonic() + 2 * LEASE.total_seconds()
    while True:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locks.held(lock, output))
            except BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(SECONDS_BETWEEN_TRIES)
                continue
            yield
            return
