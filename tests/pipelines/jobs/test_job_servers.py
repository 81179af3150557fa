"""Servers that Beam starts for a job."""

import socket
from concurrent import futures

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PrismRunnerOptions, StandardOptions
from apache_beam.runners.portability import job_server

from beambert import interrupts
from beambert.errors import InputError
from beambert.pipelines.jobs import job_servers, running


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


def test_what_listens_and_does_not_answer_is_told(monkeypatch):
    monkeypatch.setattr(job_servers, "SECONDS_TO_ANSWER", 0.3)
    with socket.create_server(("localhost", 0)) as server:
        endpoint = f"localhost:{server.getsockname()[1]}"
        with pytest.raises(InputError, match=f"^--job_endpoint={endpoint}: what listens there"):
            run_at(endpoint)


def test_a_flink_that_isnt_there_is_told_at_once():
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    for master in (f"localhost:{port}", f"http://localhost:{port}", "localhost:none"):
        options = running.beam_options(["--runner=FlinkRunner", f"--flink_master={master}"])
        with pytest.raises(InputError, match=f"^--flink_master={master}: no Flink answers there"):
            job_servers.check_answers(options)
    with socket.create_server(("localhost", 0)) as server:
        flag = f"--flink_master=localhost:{server.getsockname()[1]}"
        job_servers.check_answers(running.beam_options(["--runner=FlinkRunner", flag]))


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


@pytest.mark.parametrize("flag", ["flink_job_server_jar", "spark_job_server_jar", "prism_location"])
def test_a_server_that_is_not_there_is_a_sentence(flag, tmp_path):
    """Nor is a folder one."""
    for given in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match=f"^--{flag}={given}: .*; name one that is there$"):
            running.beam_options([f"--{flag}={given}"])


def test_a_server_that_does_not_start_is_a_sentence(tmp_path):
    (tmp_path / "prism").write_text("no program")
    options = running.beam_options(["--runner=PrismRunner", f"--prism_location={tmp_path}/prism"])
    with pytest.raises(InputError, match=r"^--prism_location: .*; name one that works here") as e:
        running.run_job(lambda pipeline, _: pipeline | beam.Create([1]), options, str, 1, "x")
    assert f"{tmp_path}/prism" in str(e.value)


def test_a_runner_that_is_none():
    with pytest.raises(InputError, match="^--runner=FlinkRuner: .* did you mean FlinkRunner"):
        running.beam_options(["--runner=FlinkRuner"])
    with pytest.raises(InputError, match="choose one of DataflowRunner, "):
        running.beam_options(["--runner=x"])
    for given, known in (
        ("flinkrunner", "FlinkRunner"),
        ("spark", "SparkRunner"),
        ("a.module.Runner", "a.module.Runner"),
    ):
        options = running.beam_options([f"--runner={given}"])
        assert options.view_as(StandardOptions).runner == known


def test_an_environment_that_is_none():
    for given in ("LOPBACK", "loopback"):
        with pytest.raises(InputError, match=f"^--environment_type={given}: .* PROCESS, EXTERNAL"):
            running.beam_options([f"--environment_type={given}"])
    running.beam_options(["--environment_type=beam:env:process:v1"])


def test_a_portable_runner_without_a_job_server():
    with pytest.raises(InputError, match=r"^--runner=PortableRunner: .* --job_endpoint"):
        running.beam_options(["--runner=PortableRunner"])


def test_a_path_of_prism_without_a_folder(tmp_path, monkeypatch):
    """Python would look for it among the system's programs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prism").touch()
    for given in ("prism", "./prism", f"{tmp_path}/prism"):
        options = running.beam_options([f"--prism_location={given}"])
        assert options.view_as(PrismRunnerOptions).prism_location == f"{tmp_path}/prism"
    options = running.beam_options(["--prism_location=https://a/prism.zip"])
    assert options.view_as(PrismRunnerOptions).prism_location == "https://a/prism.zip"
