"""Worker processes: whoever waits for one that is gone is told, and nobody else can reach them."""

import os
import pathlib
import shlex
import subprocess
import sys
import time

import apache_beam as beam
import pytest

from beambert.errors import InputError
from beambert.pipelines.jobs import local_workers, running

FLAGS = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
LISTENING = "0A"
# 127.0.0.1, and the same as an address of IPv6; the kernel turns the bytes of each word around.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def run(step):
    """Runs a step on two elements in worker processes."""

    def build(pipeline, _):
        return pipeline | beam.Create([1, 2]) | beam.Reshuffle() | beam.Map(step)

    options = running.beam_options(FLAGS)
    return running.run_job(build, options, running.describe_examples(2), 2, "examples")


def listening_addresses() -> set[str]:
    """The addresses at which this process listens, in the kernel's hexadecimal form."""
    sockets = set()
    for descriptor in pathlib.Path(f"/proc/{os.getpid()}/fd").iterdir():
        try:
            sockets.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_ = fields = line.split()
            if state == LISTENING and fields[9] in sockets:
                addresses.add(local)
    return addresses


@pytest.fixture
def spawned(monkeypatch):
    """Every worker process that is started, with the addresses that were opened before it."""
    found, others = [], listening_addresses()
    popen = subprocess.Popen

    def start(*arguments, **settings):
        found.append((popen(*arguments, **settings), listening_addresses() - others))
        return found[-1][0]

    monkeypatch.setattr(local_workers.subprocess, "Popen", start)
    return found


@pytest.mark.slow
def test_only_this_machine_reaches_the_ports(tmp_path, monkeypatch, spawned):
    """Also that a path of Python may have a space, and that no worker stays."""
    python = tmp_path / "a path" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    run(lambda number: number)
    assert len(spawned) == 2
    for process, addresses in spawned:
        assert len(addresses) >= 4
        assert {address.partition(":")[0] for address in addresses} <= LOOPBACK
        assert process.returncode is not None


def replaced_by(code, monkeypatch):
    """Has worker processes run other code."""
    popen = subprocess.Popen

    def start(command, **settings):
        return popen([command[0], "-c", code], **settings)

    monkeypatch.setattr(local_workers.subprocess, "Popen", start)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    ["import os; os.kill(os.getpid(), 9)", "import time; time.sleep(600)"],
    ids=["killed", "hanging"],
)
def test_a_worker_that_never_connects(code, monkeypatch, capfd):
    replaced_by(code, monkeypatch)
    monkeypatch.setattr(local_workers, "SECONDS_TO_CONNECT", 1.0)
    started = time.monotonic()
    with pytest.raises(InputError, match="^--direct_num_workers: a worker .* did not start"):
        run(lambda number: number)
    assert time.monotonic() - started < 20
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_worker_that_is_killed_at_work():
    with pytest.raises(InputError, match="^--direct_num_workers: a worker was killed"):
        run(lambda number: os.kill(os.getpid(), 9))


def test_a_worker_ends_with_the_process_that_started_it():
    """The kernel closes the pipe, however that ends."""
    command = [sys.executable, "-m", "beambert.pipelines.jobs.worker_process"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    worker.stdin.close()
    assert worker.wait(timeout=20) == 1
