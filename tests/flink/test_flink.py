"""The data command on a real Flink, in a JVM whose heap is smaller than the input.

`make test-flink` fetches Flink and runs this; it is no part of `make test`.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import pytest
from support.sample_text import make_document

pytestmark = pytest.mark.flink

MEGABYTE = 1 << 20
HEAP_MEGABYTES = 96
# Flink's network buffers and the reading of its spilled shuffle take direct memory, whose limit is
# the heap's unless given. Out of heap, a thread that receives from the workers dies and the job
# waits for it for ever; so the whole JVM shall end. The messages are large, and in a heap this
# small the default collector (G1) finds no place for them long before it is full.
JVM = (
    f"-Xmx{HEAP_MEGABYTES}m -XX:MaxDirectMemorySize=512m -XX:+UseSerialGC "
    "-XX:+ExitOnOutOfMemoryError"
)
SMALL = ["--max_seq_length=64", "--max_predictions_per_seq=10", "--dupe_factor=1"]


@pytest.fixture(scope="module")
def flink() -> list[str]:
    """Beam's flags for a Flink whose workers are in the command's own process."""
    jar = os.environ.get("BEAMBERT_FLINK_JAR", "")
    if not pathlib.Path(jar).is_file():
        pytest.skip("needs BEAMBERT_FLINK_JAR, a job server of Beam's: make test-flink")
    if not shutil.which("java"):
        pytest.skip("needs Java 17 on PATH")
    return [
        "--runner=FlinkRunner",
        f"--flink_job_server_jar={jar}",
        "--flink_master=[local]",
        "--environment_type=LOOPBACK",
    ]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory, vocabulary):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_bytes(vocabulary.serialize())
    return path


def data(vocab_file, output, *arguments):
    """Runs the command in a process of its own, which starts the JVM."""
    return subprocess.run(
        [sys.executable, "-m", "beambert", "data", f"--vocab_file={vocab_file}"]
        + [f"--output={output}", *map(str, arguments)],
        env=os.environ | {"JAVA_TOOL_OPTIONS": JVM},
        capture_output=True,
        text=True,
    )


def same_records(vocab_file, folder, inputs, flink, *flags):
    """Runs the command here and on Flink; both must succeed and agree in files and counts."""
    infos = []
    for name, runner in (("local", ["--runner=FnApiRunner"]), ("flink", flink)):
        result = data(vocab_file, folder / name, "--input", *inputs, *flags, *runner)
        assert result.returncode == 0, result.stderr[-3000:]
        infos.append(json.loads((folder / name / "info.json").read_text()))
    local, on_flink = infos
    assert on_flink["files"] == local["files"]  # names, sizes and SHA-256
    assert on_flink["counts"] == local["counts"]
    assert len({file["sha256"] for file in local["files"]}) == len(local["files"])


def test_flink_gives_the_same_bytes_from_more_than_its_heap(
    tmp_path, vocab_file, vocabulary, flink
):
    generator = random.Random(0)
    # Documents are drawn from a stock of sentences, so that making the text is quick.
    sentences = make_document(generator, 20_000)
    inputs, size = [], 0
    while size <= 1.05 * HEAP_MEGABYTES * MEGABYTE:
        path = tmp_path / f"text_{len(inputs):02}"
        documents = (generator.choices(sentences, k=generator.randint(1, 60)) for _ in range(2500))
        path.write_text("\n\n".join("\n".join(document) for document in documents))
        size += path.stat().st_size
        inputs.append(path)
    # A shard's documents and the messages in flight must fit in the heap: many shards, one slot,
    # and messages sent every 0.1 s rather than at 10 MB.
    flink = [*flink, "--parallelism=1", "--experiments=data_buffer_time_limit_ms=100"]
    flags = ["--format=lines", "--num_shards=64", *SMALL]
    same_records(vocab_file, tmp_path, inputs, flink, *flags)
