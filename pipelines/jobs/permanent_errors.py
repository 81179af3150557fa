"""Errors of workers that only the user can mend end a job at once, whatever the runner retries.

Dataflow tries a failed piece of work four times, and a cluster as often as it is told. The error is
the same each time. So a worker of `data` or `vocab` that reads, counts, writes or finishes leaves
its sentence in a file in the output folder. The command that waits for the job finds it there, asks
the runner to cancel the job and prints it. Beam's job server for Flink doesn't pass that on; the
command ends all the same.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator

from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.files.beam_files import (
    STORAGE_ERRORS,
    delete_quietly,
    may_pass,
    read_bytes,
    write_bytes,
)
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import TEMPORARY_PREFIX

SECONDS_BETWEEN_LOOKS = 5.0


def error_path(folder: str, run: str) -> str:
    """Returns the path of the file for the error of a run."""
    return FileSystems.join(folder, f"{TEMPORARY_PREFIX}error-{run}")


def is_there(folder: str) -> bool:
    """Returns whether a folder exists, which object storage has none of.

    The command may have ended and have deleted it, and nothing shall stand there then.
    """
    return "://" in folder or os.path.isdir(folder)


@contextlib.contextmanager
def noted(path: str) -> Iterator[None]:
    """Writes an `InputError` of the body to a file, and passes it on.

    One that the next try may not meet, such as a storage that doesn't answer, is only passed on.

    Args:
      path: path of the file, see `error_path`; "" writes nothing.
    """
    try:
        yield
    except InputError as error:
        if path and not may_pass(error.__cause__) and is_there(FileSystems.split(path)[0]):
            with contextlib.suppress(Exception):  # A runner tells the error, too, if only later.
                write_bytes(path, str(error).encode())
        raise


@contextlib.contextmanager
def cancelled_on_error(path: str, cancel: Callable[[], object]) -> Iterator[None]:
    """Cancels a job as soon as one of its workers has written an error. The body waits for the job.

    What the runner logs about the error is hidden meanwhile.

    Args:
      path: path of the file, see `error_path`.
      cancel: function that cancels the job.

    Raises:
      InputError: the error of the worker.
    """
    done, found = threading.Event(), []

    def look() -> None:
        with contextlib.suppress(InputError, *STORAGE_ERRORS):
            if not found and FileSystems.exists(path):
                found.append(read_bytes(path).decode())

    def watch() -> None:
        while not found and not done.wait(SECONDS_BETWEEN_LOOKS):
            look()
        if found and not done.is_set():
            with contextlib.suppress(Exception):  # It may have ended by itself.
                cancel()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        with _without_traces():
            yield
    finally:
        done.set()
        thread.join()
        look()
        if found:
            delete_quietly([path])
            raise InputError(found[0])


@contextlib.contextmanager
def _without_traces() -> Iterator[None]:
    """Hides log records that have an `InputError` of a worker, with its stack trace."""

    def is_other(record: logging.LogRecord) -> bool:
        return f"{InputError.__name__}: " not in record.getMessage()

    handlers = [*logging.getLogger().handlers, logging.lastResort]
    for handler in handlers:
        handler.addFilter(is_other)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_other)
