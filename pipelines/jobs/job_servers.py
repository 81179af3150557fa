"""The servers that Beam starts for a job on Flink, Spark or Prism end with the job.

Beam ends them when Python ends. By then the command's folder for temporary files is gone, where
Beam fails to find its own, so that it prints a traceback and the server goes on for ever. It also
replaces the handler of Ctrl-C by one of its own, after which the command would never end.
"""

import contextlib
import copy
import socket
from collections.abc import Iterator
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.runners.portability import job_server

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.interrupts import undone_at_end

# Beam waits for five minutes, and ends with a traceback then.
SECONDS_TO_ANSWER = 20.0
# Beginnings of the names of Beam's classes for servers that it starts -> flag that names a server.
_FLAG_OF = {
    "Flink": "--flink_job_server_jar",
    "Spark": "--spark_job_server_jar",
    "Prism": "--prism_location",
}
_REMEDY = "name one that is there; those of Flink and Spark need Java"


class JobServer(job_server.JobServer):
    """A server that Beam may start for several jobs, one after the other: a new one for each."""

    def __init__(self, server: job_server.SubprocessJobServer):
        """Takes the server, which isn't started yet."""
        self._server = server
        self._running: job_server.SubprocessJobServer | None = None

    def start(self) -> Any:
        """Starts the server unless it is running; returns Beam's stub for it."""
        if self._running is None:
            self._running = copy.copy(self._server)
            _STARTED.append(self)  # A signal may come before it has started.
            try:
                self._stub = self._running.start()
            except (OSError, RuntimeError, ValueError) as error:
                _STARTED.remove(self)
                failed, self._running = self._running, None
                raise _not_started(failed, error) from error
        return self._stub

    def stop(self) -> None:
        """Ends the server if it is running."""
        running, self._running = self._running, None
        if running:
            running.stop()


_STARTED: list[JobServer] = []


def _not_started(server: job_server.SubprocessJobServer, error: Exception) -> InputError:
    """Returns the sentence about a job server that cannot be fetched or started."""
    name = type(server).__name__
    flag = next((flag for prefix, flag in _FLAG_OF.items() if name.startswith(prefix)), "--runner")
    why = " ".join(str(error).split())
    return InputError(f"{flag}: the runner's job server cannot be started ({why}); {_REMEDY}")


def check_answers(options: PipelineOptions) -> None:
    """Checks that somebody answers where a job server is said to be.

    Raises:
      InputError: nobody does.
    """
    endpoint = options.view_as(PortableOptions).job_endpoint
    if not endpoint or endpoint == "embed":
        return
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"--job_endpoint={endpoint}: no job server answers there ({error}); start it, or name "
            "the host and the port that it has"
        ) from error


@contextlib.contextmanager
def ended_after() -> Iterator[None]:
    """Ends the servers that Beam starts in the body when it is over, also when a signal ends it."""
    # Beam has no setting for it; each of its runners takes the class from this module.
    job_server.StopOnExitJobServer = JobServer
    with contextlib.ExitStack() as stack:
        stack.callback(_stop_all)
        stack.enter_context(undone_at_end(_stop_all))
        yield


def _stop_all() -> None:
    while _STARTED:
        _STARTED.pop().stop()
