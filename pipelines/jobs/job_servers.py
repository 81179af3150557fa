"""The servers that Beam starts for a job on Flink, Spark or Prism end with the job.

Beam ends them when Python ends. By then the command's folder for temporary files is gone, where
Beam fails to find its own, so that it prints a traceback and the server goes on for ever. It also
replaces the handler of Ctrl-C by one of its own, after which the command would never end.
"""

import contextlib
import copy
import socket
import urllib.parse
from collections.abc import Iterator
from typing import Any

import grpc
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.runners.portability import job_server

from beambert.errors import InputError
from beambert.interrupts import undone_at_end

# Beam waits for five minutes, and ends with a traceback then.
SECONDS_TO_ANSWER = 20.0
# Beginnings of the names of Beam's classes for servers that it starts -> flag that names a server.
_FLAG_OF = {
    "Flink": "--flink_job_server_jar",
    "Spark": "--spark_job_server_jar",
    "Prism": "--prism_location",
}
_REMEDY = "name one that works here; those of Flink and Spark are .jar files and need Java"


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
            except Exception as error:  # Beam has assertions for some.
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
    why = " ".join(str(error).split()) or type(error).__name__
    return InputError(f"{flag}: the runner's job server cannot be started ({why}); {_REMEDY}")


def check_answers(options: PipelineOptions) -> None:
    """Checks that a job server, or the Flink that one sends jobs to, answers where it should be.

    Raises:
      InputError: it doesn't.
    """
    endpoint = options.view_as(PortableOptions).job_endpoint
    if endpoint and endpoint != "embed":
        _check_job_server(endpoint)
    elif options.view_as(StandardOptions).runner == "FlinkRunner":
        master = options.view_as(FlinkRunnerOptions).flink_master
        if master.strip() not in ("[local]", "[auto]"):
            _check_flink(master)


def _check_flink(master: str) -> None:
    try:
        address = urllib.parse.urlsplit(master if "://" in master else f"//{master}")
        if address.port:  # The default depends on the way a job is sent, and on Flink's settings.
            to = (address.hostname or "", address.port)
            socket.create_connection(to, SECONDS_TO_ANSWER).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"--flink_master={master}: no Flink answers there ({error}); start it, or name the "
            "host and the port of its REST interface"
        ) from error


def _check_job_server(endpoint: str) -> None:
    remedy = "start it, or name the host and the port that it has"
    host, _, port = endpoint.rpartition(":")
    try:
        # This tells why at once, where gRPC would try for long.
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
        with grpc.insecure_channel(endpoint) as channel:
            grpc.channel_ready_future(channel).result(SECONDS_TO_ANSWER)
    except grpc.FutureTimeoutError as error:
        raise InputError(
            f"--job_endpoint={endpoint}: what listens there is no job server, or doesn't answer; "
            f"{remedy}"
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(
            f"--job_endpoint={endpoint}: no job server answers there ({error}); {remedy}"
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
