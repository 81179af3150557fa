"""Errors of workers that only the user can mend end a job at once, whatever the runner retries.

Dataflow tries a failed piece of work four times, and a cluster as often as it is told. The error is
the same each time. So a worker leaves its sentence in a file in the output folder. The command that
waits for the job finds it there, asks the runner to cancel the job and prints it. Beam's job server
for Flink doesn't pass that on; the command ends all the same.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.common import DoFnSignature
from apache_beam.transforms.core import CombineValuesDoFn
from apache_beam.typehints.typecheck import AbstractDoFnWrapper

from beambert.errors import InputError, LostClaimError
from beambert.pipelines.files.beam_files import (
    STORAGE_ERRORS,
    may_pass,
    read_bytes,
    write_bytes,
)
from beambert.pipelines.jobs.outputs import check_visible
from beambert.pipelines.storage.claims import aside

SECONDS_BETWEEN_LOOKS = 5.0


def error_path(folder: str) -> str:
    """Returns a new path in an output folder for the error of a run."""
    return aside(FileSystems.join(folder, "error"))


def note_errors(pipeline: beam.Pipeline, path: str) -> None:
    """Makes every step of a pipeline write its `InputError` to a file before it passes it on.

    Args:
      pipeline: pipeline that has all its steps and doesn't run yet.
      path: path of the file, see `error_path`.
    """
    pipeline.visit(_Wrapping(path))


class _Wrapping(PipelineVisitor):
    """Puts a `NotingDoFn` around the DoFns, as Beam's `TypeCheckVisitor` does with its own."""

    def __init__(self, path: str):
        self._path = path

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        step = transform_node.transform
        if not isinstance(step, beam.ParDo) or isinstance(step.fn, CombineValuesDoFn):
            return
        # Such steps are Beam's own, and a wrapper would hide what they are.
        signature = DoFnSignature(step.fn)
        if not (signature.is_splittable_dofn() or signature.is_stateful_dofn()):
            step.fn = step.dofn = NotingDoFn(step.fn, self._path)


class NotingDoFn(AbstractDoFnWrapper):
    """Does what another DoFn does. If that raises an `InputError`, its sentence is in a file then.

    One that the next try may not meet, such as a storage that doesn't answer, is only passed on. So
    is that of a worker whose job is over.
    """

    def __init__(self, dofn: beam.DoFn, path: str):
        """Takes the DoFn and the path of the file, see `error_path`."""
        super().__init__(dofn)
        self.path = path
        self.error_of_setup: InputError | None = None

    def _process_argspec_fn(self) -> Callable:
        return self.dofn._process_argspec_fn()  # Beam's check of types at run time asks for it.

    def setup(self) -> None:
        """Sets the DoFn up, in a worker that sees the output folder, where it can write errors.

        An `InputError` is raised with the first element. Flink would wait for three minutes for a
        worker whose setup failed, and then tell that alone.
        """
        try:
            check_visible(FileSystems.split(self.path)[0])
            with self.noted():
                self.dofn.setup()
        except InputError as error:
            self.error_of_setup = error

    def start_bundle(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the method of the DoFn, if that is set up."""
        return None if self.error_of_setup else super().start_bundle(*args, **kwargs)

    def teardown(self) -> None:
        """Calls the method of the DoFn, if that is set up."""
        if not self.error_of_setup:
            super().teardown()

    def wrapper(self, method: Callable, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """Calls a method of the DoFn, which may return a generator."""
        if self.error_of_setup:
            raise self.error_of_setup
        with self.noted():
            outputs = method(*args, **kwargs)
        return self._each(outputs) if isinstance(outputs, Iterator) else outputs

    def _each(self, outputs: Iterator[Any]) -> Iterator[Any]:
        with self.noted():
            yield from outputs

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Writes an `InputError` of the body to the file, and passes it on."""
        try:
            yield
        except InputError as error:
            is_lasting = not (may_pass(error.__cause__) or isinstance(error, LostClaimError))
            if is_lasting and _is_there(FileSystems.split(self.path)[0]):
                with contextlib.suppress(Exception):  # A runner tells the error, if only later.
                    write_bytes(self.path, str(error).encode())
            raise


def _is_there(folder: str) -> bool:
    """Returns whether a folder exists, which object storage has none of.

    The command may have ended and have deleted it, and nothing shall stand there then.
    """
    return "://" in folder or os.path.isdir(folder)


@contextlib.contextmanager
def cancelled_on_error(path: str, cancel: Callable[[], object]) -> Iterator[None]:
    """Cancels a job as soon as one of its workers has written an error. The body waits for the job.

    What the runner logs about the error is hidden meanwhile. The file stays.

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
            raise InputError(found[0])


@contextlib.contextmanager
def _without_traces() -> Iterator[None]:
    """Hides log records that have an `InputError` of a worker, with its stack trace."""

    def is_other(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not any(f"{kind.__name__}: " in message for kind in (InputError, LostClaimError))

    handlers = [*logging.getLogger().handlers, logging.lastResort]
    for handler in handlers:
        handler.addFilter(is_other)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_other)
