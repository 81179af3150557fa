"""Worker processes of Beam's local runner: nobody else reaches them, none is waited for in vain.

Beam starts them through a shell, which breaks a path of Python that has a space, and waits for ever
for one that ends before it has connected. Its servers listen on all interfaces and know no
passwords. The handler below takes the place of Beam's in Beam's own list of handlers.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from typing import Any

import grpc
from apache_beam.portability import python_urns
from apache_beam.portability.api import endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from google.protobuf import json_format, text_format

from beambert.interrupts import undone_at_end
from beambert.pipelines.jobs.engine_errors import WORKER_GONE

# Time for a worker to load its libraries and connect. It takes 10 s on two busy cores.
SECONDS_TO_CONNECT = 300.0
# Time for a worker to end after its last piece of work.
SECONDS_TO_END = 30.0
_SECONDS_BETWEEN_LOOKS = 0.2
# Beam's message about a worker that has gone.
_GONE = f"{WORKER_GONE}."


class WorkerProcess(worker_handlers.GrpcWorkerHandler):
    """A worker process, which ends with this process and whose end is noticed."""

    def __init__(self, _: bytes, *others: Any):
        """Takes what Beam gives: a command line, which isn't used, and its servers."""
        super().__init__(*others)
        self._closing = threading.Event()
        self._undo = contextlib.ExitStack()

    def start_worker(self) -> None:
        """Starts the process."""
        descriptors = {
            "CONTROL_API_SERVICE_DESCRIPTOR": self.control_api_service_descriptor(),
            "LOGGING_API_SERVICE_DESCRIPTOR": self.logging_api_service_descriptor(),
        }
        options = json_format.MessageToJson(self.provision_info.provision_info.pipeline_options)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "beambert.pipelines.jobs.worker_process"],
            stdin=subprocess.PIPE,
            env=os.environ
            | {name: _text(descriptor) for name, descriptor in descriptors.items()}
            | {"PIPELINE_OPTIONS": options, "WORKER_ID": self.worker_id},
        )
        self._undo.enter_context(undone_at_end(self._process.kill))
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Ends the job if the process ends before it is told to, or never connects."""
        deadline = time.monotonic() + SECONDS_TO_CONNECT
        while not self._closing.wait(_SECONDS_BETWEEN_LOOKS):
            # Beam has no public sign that a worker has connected.
            is_connected = self.control_conn._input is not None
            if not is_connected and time.monotonic() > deadline:
                self._process.kill()
            if self._process.poll() is not None:
                # Whoever waits for an answer of the worker gets this error, or a like one of Beam's
                # for the closed channel. A RuntimeError here says that Beam has just asked for
                # more, which the next look ends.
                with contextlib.suppress(RuntimeError):
                    self.control_conn.abort(RuntimeError(_GONE))
                    self.data_conn.close()

    def close(self) -> None:
        """Lets the process end, and kills it if it takes too long."""
        self._closing.set()
        killing = threading.Timer(SECONDS_TO_END, self._process.kill)
        killing.daemon = True
        killing.start()
        try:
            super().close()
        finally:
            killing.cancel()
            self._undo.close()

    def stop_worker(self) -> None:
        """Waits for the end of the process, which `close` limits."""
        if self.control_conn._input is None:
            self._process.kill()
        self._process.wait()
        self._process.stdin.close()


def _text(descriptor: endpoints_pb2.ApiServiceDescriptor) -> str:
    return text_format.MessageToString(descriptor)


class _Loopback:
    """Stands in for the module `grpc` where Beam makes its servers, which has no setting for it."""

    @staticmethod
    def server(*arguments: Any, **settings: Any) -> grpc.Server:
        """Returns a server whose ports only this machine can reach."""
        server = grpc.server(*arguments, **settings)
        add_port = server.add_insecure_port
        server.add_insecure_port = lambda address: add_port(address.replace("[::]", "127.0.0.1"))
        return server


def install() -> None:
    """Lets Beam's local runner use these workers and servers."""
    worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)(
        WorkerProcess
    )
    worker_handlers.grpc = _Loopback
