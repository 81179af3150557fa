"""Servers that Beam starts for a job."""

import socket
from concurrent import futures

import apache_beam as beam
import grpc
import pytest
from apache_beam.runners.portability import job_server

from beambert.pipelines.jobs import job_servers, running
from beambert.pipelines.shared import interrupts
from beambert.pipelines.shared.errors import InputError


class Server:
    """Stands in for Beam's server in a process."""

    def __init__(self):
        self.running, self.name = [], "no process yet"

    def start(self):
        assert self.name == "no process yet", "Beam's servers can't be started again"
        self.name = f"process {len(self.running)}"
        self.running.append(self.name)
        return self.name

    def stop(self):
        self.running[self.running.index(self.name)] = "ended"


def test_each_job_has_a_server_which_ends_with_it():
    server = Server()
    with job_servers.ended_after():
        # Flink and Spark keep the object for the next job of the process.
        kept = job_server.StopOnExitJobServer(server)
        assert kept.start() == kept.start() == "process 0"
        assert server.running == ["process 0"]
    assert server.running == ["ended"]
    with pytest.raises(ZeroDivisionError), job_servers.ended_after():
        assert kept.start() == "process 1"
        raise ZeroDivisionError
    assert server.running == ["ended", "ended"]


def test_a_signal_ends_it():
    server = Server()
    with job_servers.ended_after():
        job_server.StopOnExitJobServer(server).start()
        interrupts._undo()
        assert server.running == ["ended"]
    assert server.running == ["ended"]


def test_a_signal_ends_one_that_is_starting():
    class Starting(Server):
        def start(self):
            super().start()
            interrupts._undo()
            assert self.running == ["ended"]

    with job_servers.ended_after():
        job_server.StopOnExitJobServer(Starting()).start()


def run_at(endpoint):
    """Sends a job that does nothing to a server."""
    flags = ["--runner=PortableRunner", f"--job_endpoint={endpoint}"]
    options = running.beam_options([*flags, "--environment_type=LOOPBACK"])
    running.run_job(lambda pipeline, _: None, options, lambda *_: "", 1, "MB")


def test_a_server_that_isnt_there_is_told_at_once():
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    for endpoint in (f"localhost:{port}", "localhost", "localhost:none"):
        with pytest.raises(InputError, match=f"^--job_endpoint={endpoint}: no job server answers"):
            run_at(endpoint)


def test_a_server_that_knows_no_such_job_is_a_sentence():
    """As one of another version may be."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        with pytest.raises(InputError, match=r"^--runner: .* broke off \(UNIMPLEMENTED: "):
            run_at(f"localhost:{port}")
    finally:
        server.stop(None)


@pytest.mark.parametrize(
    ("runner", "flag"),
    [
        ("FlinkRunner", "--flink_job_server_jar"),
        ("SparkRunner", "--spark_job_server_jar"),
        ("PrismRunner", "--prism_location"),
    ],
)
def test_a_server_that_is_not_there_is_a_sentence(runner, flag, tmp_path):
    options = running.beam_options([f"--runner={runner}", f"{flag}={tmp_path}/none"])
    with pytest.raises(InputError, match=f"^{flag}: .*; name one that is there") as caught:
        running.run_job(lambda pipeline, _: pipeline | beam.Create([1]), options, str, 1, "x")
    assert f"{tmp_path}/none" in str(caught.value)


def test_a_runner_that_is_none():
    with pytest.raises(InputError, match="^--runner=FlinkRuner: .* did you mean FlinkRunner"):
        running.beam_options(["--runner=FlinkRuner"])
    with pytest.raises(InputError, match="choose one of DataflowRunner, "):
        running.beam_options(["--runner=x"])
    for known in ("flinkrunner", "a.module.Runner"):
        running.beam_options([f"--runner={known}"])
