"""The data command on a cluster of Flink that loses a machine or a worker, and in a small heap.

`make test-flink` fetches Flink and runs this; it is no part of `make test`.
"""

import bz2
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support.flink_cluster import Cluster, started
from support.sample_text import make_document

pytestmark = pytest.mark.flink

FLAGS = ["--format=lines", "--num_shards=8", "--max_seq_length=64", "--dupe_factor=1"]
# Size of the text. BEAMBERT_CLUSTER_MEGABYTES asks for more.
MEGABYTES = int(os.environ.get("BEAMBERT_CLUSTER_MEGABYTES", "6"))
SECONDS_FROZEN = 60
# A job may take so long on a machine that does other work as well.
SECONDS_AT_MOST = 900 + 15 * MEGABYTES
# The cluster tries a failed job five times, each of which fails at once.
SECONDS_TO_GIVE_UP = 300
STARTED: list[subprocess.Popen] = []


@pytest.fixture(scope="module")
def jar():
    jar = pathlib.Path(os.environ.get("BEAMBERT_FLINK_JAR", ""))
    if not jar.is_file() or not shutil.which("java"):
        pytest.skip("needs Java 17 and BEAMBERT_FLINK_JAR, a job server of Beam's")
    return jar


@pytest.fixture(scope="module")
def cluster(jar, tmp_path_factory):
    with started(tmp_path_factory.mktemp("flink"), jar.parent / "lib") as cluster:
        yield cluster


def write_text(folder, megabytes: float) -> list[str]:
    """Writes text to files, and returns these."""
    generator, inputs, size = random.Random(0), [], 0
    # Documents are drawn from a stock of sentences, so that making the text is quick.
    sentences = make_document(generator, 20_000)
    while size < megabytes * 1e6:
        inputs.append(folder / f"text_{len(inputs):03}")
        documents = (generator.choices(sentences, k=generator.randint(1, 60)) for _ in range(500))
        size += inputs[-1].write_text("\n\n".join("\n".join(document) for document in documents))
    return [*map(str, inputs)]


@pytest.fixture(scope="module")
def make(tmp_path_factory, vocabulary):
    """The function that starts the command on the same text, for an output."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "vocab.txt").write_bytes(vocabulary.serialize())
    inputs = write_text(folder, MEGABYTES)

    def start(output, *flags) -> subprocess.Popen:
        command = [sys.executable, "-m", "beambert", "data", f"--vocab_file={folder}/vocab.txt"]
        # The workers have another current folder, so that the relative path is the command's.
        command += [f"--output={output.name}", "--input", *inputs, *FLAGS, *flags]
        process = subprocess.Popen(
            command,
            cwd=output.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        STARTED.append(process)
        return process

    return start


@pytest.fixture(autouse=True)
def ended():
    """Ends the command of a test that failed, which would disturb the next one."""
    yield
    for process in STARTED:
        process.kill()
        process.wait()
    STARTED.clear()


def result_of(process, output, cluster=None):
    """Returns the files and counts of a run, which must succeed and leave nothing else."""
    said, _ = process.communicate(timeout=SECONDS_AT_MOST)
    assert process.returncode == 0, said[-3000:] + (cluster.log() if cluster else "")
    info = json.loads((output / "info.json").read_text())
    names = {"_SUCCESS", "info.json", "schema.pbtxt", "statistics.json", "vocab.txt"}
    names.update(file["name"] for file in info["files"])
    assert {path.name for path in output.iterdir()} == names
    return info["files"], info["counts"]


@pytest.fixture(scope="module")
def local(make, tmp_path_factory):
    """The result of a run in one process here."""
    output = tmp_path_factory.mktemp("local") / "records"
    return result_of(make(output, "--runner=FnApiRunner"), output)


def kill_machine(cluster: Cluster) -> None:
    cluster.lose_machine()
    cluster.start_task_manager()


def kill_worker(cluster: Cluster) -> None:
    os.kill(cluster.busiest_worker(), signal.SIGKILL)


def freeze_worker(cluster: Cluster) -> None:
    worker = cluster.busiest_worker()
    os.kill(worker, signal.SIGSTOP)
    time.sleep(SECONDS_FROZEN)
    os.kill(worker, signal.SIGCONT)


@pytest.mark.parametrize("way", ["runner", "files"])
def test_an_undisturbed_cluster_gives_the_same_bytes(cluster, make, local, way, tmp_path):
    output = tmp_path / "records"
    process = make(output, f"--shuffle={way}", *cluster.flags)
    assert result_of(process, output, cluster) == local


@pytest.mark.parametrize("stage", ["reading", "writing"])
@pytest.mark.parametrize("disturb", [kill_machine, kill_worker, freeze_worker])
def test_a_disturbed_cluster_gives_the_same_bytes(cluster, make, local, disturb, stage, tmp_path):
    output, restarts = tmp_path / "records", cluster.restarts()
    cluster.end_workers()  # those of the job before
    process = make(output, *cluster.flags)
    is_there = cluster.workers if stage == "reading" else lambda: list(output.glob("*tfrecord*"))
    wait_until(lambda: process.poll() is not None or is_there())
    disturb(cluster)
    assert process.poll() is None
    assert result_of(process, output, cluster) == local
    assert disturb is freeze_worker or cluster.restarts() > restarts


def wait_until(is_so, seconds=SECONDS_AT_MOST) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_error_that_stays_is_told_once_and_ends_the_job(cluster, make, tmp_path):
    damaged = tmp_path / "damaged.bz2"
    damaged.write_bytes(bz2.compress(b"A river in the north.\n" * 500_000)[:-20])
    process = make(tmp_path / "records", f"--input={damaged}", *cluster.flags)
    said, _ = process.communicate(timeout=SECONDS_AT_MOST)
    assert process.returncode == 2, said[-3000:]
    (sentence,) = [line for line in said.splitlines() if "InputError" in line or "damaged" in line]
    assert sentence.startswith(f"beambert data: {damaged}: unreadable after line"), said
    assert "Traceback" not in said
    # Beam's job server doesn't tell Flink to cancel the job, which begins again and writes nothing.
    wait_until(lambda: not cluster.running_jobs(), SECONDS_TO_GIVE_UP)
    assert not (tmp_path / "records").exists()


# Moves a file or folder, the first argument, when the job is sent, and is the command otherwise.
VANISHING = """
import os, sys
from apache_beam import Pipeline
from beambert.__main__ import main
path, run = sys.argv.pop(1), Pipeline.run
def run_without(*given, **settings):
    if os.path.exists(path):
        os.rename(path, path + "-moved")
    return run(*given, **settings)
Pipeline.run = run_without
sys.exit(main())
"""


@pytest.mark.parametrize("command", ["data", "verify"])
def test_a_file_that_vanishes_is_told_once(cluster, vocabulary, tmp_path, command):
    """By the step that divides input files, and by the one that reads records."""
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    lost = tmp_path / "lost.bz2"
    lost.write_bytes(bz2.compress(b"A river in the north.\n" * 1000))
    output = tmp_path / "records"
    given = ["data", f"--vocab_file={tmp_path}/vocab.txt", f"--input={lost}", f"--output={output}"]
    if command == "verify":
        here = [sys.executable, "-m", "beambert", *given, "--runner=FnApiRunner", *FLAGS]
        subprocess.run(here, check=True, capture_output=True)
        lost, given = next(output.glob("*.tfrecord*")), ["verify", str(output)]
    done = run_without(lost, *given, *cluster.flags)
    assert done.returncode == 2, done.stderr[-3000:]
    assert done.stderr.count(f"{lost}: ") == 1 and "Traceback" not in done.stderr
    wait_until(lambda: not cluster.running_jobs(), SECONDS_TO_GIVE_UP)
    assert not list(tmp_path.glob("records/_tmp*"))


def run_without(path, *arguments):
    command = [sys.executable, "-c", VANISHING, str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_AT_MOST)


def test_a_folder_that_workers_do_not_see_is_told_once(cluster, vocabulary, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    (tmp_path / "text").write_text("A river in the north.\n" * 1000)
    output = tmp_path / "records"
    given = [f"--vocab_file={tmp_path}/vocab.txt", f"--input={tmp_path}/text"]
    done = run_without(output, "data", *given, f"--output={output}", *cluster.flags)
    assert done.returncode == 2, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    sentence = f"beambert data: --output={output}: the workers don't see this folder; name one"
    assert done.stderr.count(sentence) == done.stderr.count("the workers don't see") == 1
    wait_until(lambda: not cluster.running_jobs(), SECONDS_TO_GIVE_UP)


HEAP_MEGABYTES = 96
# Flink's network buffers and the reading of its spilled shuffle take direct memory, whose limit is
# the heap's unless given. Out of heap, a thread that receives from the workers dies and the job
# waits for it for ever; so the whole JVM shall end. The messages are large, and in a heap this
# small the default collector (G1) finds no place for them long before it is full.
JVM = (
    f"-Xmx{HEAP_MEGABYTES}m -XX:MaxDirectMemorySize=512m -XX:+UseSerialGC "
    "-XX:+ExitOnOutOfMemoryError"
)


def test_the_same_bytes_from_more_than_the_heap(jar, tmp_path, vocabulary, monkeypatch):
    """In one JVM with the workers in the command's own process."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", JVM)
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    command = [sys.executable, "-m", "beambert", "data", f"--vocab_file={tmp_path}/vocab.txt"]
    command += ["--input", *write_text(tmp_path, 1.1 * HEAP_MEGABYTES), *FLAGS]
    # A shard's documents and the messages in flight must fit in the heap: many shards, one slot,
    # and messages sent every 0.1 s rather than at 10 MB.
    flink = [f"--flink_job_server_jar={jar}", "--flink_master=[local]", "--parallelism=1"]
    flink += ["--environment_type=LOOPBACK", "--experiments=data_buffer_time_limit_ms=100"]
    results = []
    for name, flags in (("FnApiRunner", []), ("FlinkRunner", flink)):
        runner = [f"--runner={name}", "--num_shards=64", f"--output={tmp_path / name}"]
        started = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen([*command, *runner, *flags], **started)
        results.append(result_of(process, tmp_path / name))
    assert results[0] == results[1]
