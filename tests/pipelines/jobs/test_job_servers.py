"""Servers that Beam starts for a job."""

import pytest
from apache_beam.runners.portability import job_server

from beambert.pipelines.jobs import job_servers
from beambert.pipelines.shared import interrupts


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
