"""The Beam commands on Prism, Spark and Flink write what a local run writes.

`make test-runners` fetches the runners and runs this; it is no part of `make test`.
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
from support import flink_cluster, small_evaluation, stand_in_models
from support.sample_text import make_document

pytestmark = pytest.mark.runners

LOCAL = "local"
# A JobManager, two TaskManagers and their workers, each a process.
CLUSTER = "cluster"
JAVA = ["--environment_type=LOOPBACK", "--parallelism=2"]
# Runner -> variable with the path of its server, flag for it, other flags.
RUNNERS = {
    "prism": ("BEAMBERT_PRISM", "--prism_location", ["--runner=PrismRunner"]),
    "spark": (
        "BEAMBERT_SPARK_JAR",
        "--spark_job_server_jar",
        ["--runner=SparkRunner", "--spark_master_url=local[2]", *JAVA[:1]],
    ),
    "flink": (
        "BEAMBERT_FLINK_JAR",
        "--flink_job_server_jar",
        ["--runner=FlinkRunner", "--flink_master=[local]", *JAVA],
    ),
}
DATA = ["--input", "../text_*", "--vocab_file=../vocab.txt", "--output=records"]
DATA += ["--max_seq_length=32,64", "--dupe_factor=2", "--num_shards=5", "--eval_fraction=0.1"]
COMMANDS = {
    "data": [*DATA, "--duplicates=exact"],
    "vocab": ["--input", "../text_*", "--output=learned.txt", "--vocab_size=300"],
    "verify": [f"../{LOCAL}/records", "--output=verification"],
    "predict": ["--model=../model", "--input", "../rows.txt", "--output=answers"],
    "evaluate": ["--task=classification", "--data_dir=../reviews", "--model=../model"]
    + ["--output=evaluation"],
}
# Files of an evaluation that follow from the answers alone.
OF_EVALUATION = ("metrics.json", "mistakes.jsonl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, vocabulary):
    """A folder with what the commands read. Each runner gets a folder of its own in it."""
    folder = tmp_path_factory.mktemp("runners")
    (folder / "vocab.txt").write_bytes(vocabulary.serialize())
    generator = random.Random(0)
    texts = ["\n".join(make_document(generator, generator.randint(1, 60))) for _ in range(600)]
    texts += texts[:50]
    for number in range(4):
        (folder / f"text_{number}").write_text("\n\n".join(texts[number::4]))
    (folder / "rows.txt").write_text("so good\n\nquite bad\n" * 500)
    (folder / "reviews").mkdir()
    rows = ["\t".join(row) for row in small_evaluation.ROWS * 30]
    (folder / "reviews" / "dev.tsv").write_text("\n".join(["text\tlabel\tsource", *rows]) + "\n")
    model = folder / "model"
    model.mkdir()
    stand_in_models.save_model(stand_in_models.Classifier(), model, stand_in_models.LABELS)
    columns = {"text_columns": ["text", "text_b"], "choice_columns": []}
    training = {"kind": "classification", "labels": list(stand_in_models.LABELS)}
    training |= {"is_pair": False, "columns": columns}
    (model / "training.json").write_text(json.dumps(training))
    (model / "_SUCCESS").touch()
    (model / "model.safetensors").write_bytes(b"weights")
    for name in (LOCAL, CLUSTER, *RUNNERS):
        (folder / name).mkdir()
    return folder


def server_of(runner: str) -> str:
    """Returns the path of a runner's server."""
    path = os.environ.get(RUNNERS[runner][0], "")
    if not pathlib.Path(path).is_file():
        pytest.skip(f"needs {RUNNERS[runner][0]}: make test-runners")
    if path.endswith(".jar") and not shutil.which("java"):
        pytest.skip("needs Java 17 on PATH")
    return path


def flags_of(runner: str) -> list[str]:
    """Returns Beam's flags for a runner."""
    if runner == LOCAL:
        return ["--runner=FnApiRunner"]
    _, flag, others = RUNNERS[runner]
    return [*others, f"{flag}={server_of(runner)}"]


def start(folder, command, *flags) -> subprocess.Popen:
    # A shell lets what it starts in the background ignore Ctrl-C.
    return subprocess.Popen(
        [sys.executable, "-m", "beambert", command, *flags],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def servers(runner: str) -> list[str]:
    """Returns the command lines of the processes that run a runner's server."""
    found, path = [], server_of(runner)
    for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_text().split("\0")
        except OSError:
            continue
        if path in words and "beambert" not in words:
            found.append(" ".join(words))
    return found


def made_by(folder, runner, command, flags):
    """Runs a command on a runner; returns the content of the files that it wrote, by name."""
    process = start(folder / runner, command, *COMMANDS[command], *flags)
    said, errors = process.communicate(timeout=900)
    assert process.returncode == 0, said[-2000:] + errors[-3000:]
    assert "Traceback" not in errors and "WARNING" not in errors
    assert runner not in RUNNERS or not servers(runner)
    output = next(flag for flag in COMMANDS[command] if flag.startswith("--output"))
    written = folder / runner / output.partition("=")[2]
    paths = [path for path in written.rglob("*") if path.is_file()] or [
        written,
        written.with_name(f"{written.name}.json"),
    ]
    return {str(path.relative_to(folder / runner)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def local(folder):
    """Command -> the files that a run in one process writes."""
    return {command: made_by(folder, LOCAL, command, flags_of(LOCAL)) for command in COMMANDS}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    jar = pathlib.Path(server_of("flink"))
    with flink_cluster.started(tmp_path_factory.mktemp("cluster"), jar.parent / "lib") as cluster:
        yield cluster


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_runner_gives_the_same_bytes(folder, local, runner, command):
    made = made_by(folder, runner, command, flags_of(runner))
    check_the_same(command, made, local[command])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_cluster_gives_the_same_bytes(folder, local, cluster, command):
    flags = [*cluster.flags, f"--temp_location={folder}/temporary"]
    if command == "evaluate":  # Flink's buffers grow with the square, and TFMA has many shuffles.
        flags.append("--parallelism=2")
    made = made_by(folder, CLUSTER, command, flags)
    if command == "verify":  # Workers on other machines are told absolute paths.
        made = {name: data.replace(f"{folder}/".encode(), b"../") for name, data in made.items()}
    check_the_same(command, made, local[command])


def check_the_same(command, made, expected):
    if command == "predict":  # Beam decides in which files the answers stand.
        assert answers_in(made) == answers_in(expected)
    elif command == "evaluate":
        for name in OF_EVALUATION:
            assert made[f"evaluation/{name}"] == expected[f"evaluation/{name}"]
        assert json.loads(made["evaluation/metrics.json"])["examples"] == 300
    else:
        assert made.keys() == expected.keys()
        assert [name for name in made if made[name] != expected[name]] == []
    assert not [name for name in made if "_tmp-" in name]


def answers_in(files):
    """Returns all answers and rejects in order, and their numbers."""
    rows = [line for name, data in files.items() if "-of-" in name for line in data.splitlines()]
    info = json.loads(files["answers/info.json"])
    assert (info["answers"], info["rejects"]) == (1000, 500)
    return sorted(rows), info


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_workers_error_is_one_sentence(folder, tmp_path, runner):
    damaged = tmp_path / "damaged.bz2"
    damaged.write_bytes(bz2.compress(b"A river in the north.\n" * 100_000)[:-20])
    flags = [f"--input={damaged}", "--vocab_file", folder / "vocab.txt", "--output=records"]
    process = start(tmp_path, "data", *map(str, flags), *flags_of(runner))
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 2
    assert errors.startswith(f"beambert data: {damaged}: unreadable after line"), errors[-3000:]
    assert errors.count("\n") == 1, errors[-3000:]
    assert not (tmp_path / "records").exists()
    assert not servers(runner)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("runner", RUNNERS)
def test_an_interrupt_ends_the_server_too(folder, tmp_path, runner, number):
    flags = ["--input", *map(str, folder.glob("text_*")), "--dupe_factor=200", "--output=records"]
    process = start(tmp_path, "data", f"--vocab_file={folder}/vocab.txt", *flags, *flags_of(runner))
    deadline = time.monotonic() + 300
    while not servers(runner):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    time.sleep(3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert errors == "beambert data: interrupted; the same command begins it anew\n"
    assert not servers(runner)
    assert {path.name for path in tmp_path.glob("records/*")} <= {"_UNFINISHED"}
