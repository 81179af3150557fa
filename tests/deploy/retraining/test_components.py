"""A retraining whose workspace is in a bucket, refused or killed in each of its steps."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf
from support import emulated_storage, forked
from support import growing_corpus as corpus

from beambert import io
from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import STEPS

pytestmark = pytest.mark.release
ROOT = pathlib.Path(__file__).parents[3]
CONFIG = "gs://bucket/all/retrain.toml"
WORKSPACE = "gs://bucket/all/workspace"
TASKS = ("plan", *STEPS)
# The request that each step is refused or killed in. A part of its work is done then.
MOMENTS = {
    "plan": r"POST .*/runs/\d+/run\.json.*",
    "records": r"POST .*/records/.*tfrecord.*",
    "encoder": r"POST .*/encoder/.*ckpt-000008.*",
    "classifier": r"POST .*/classifier/.*ckpt-.*",
    "baseline": r"POST .*/baseline/metrics\.json.*",
    "evaluation": r"POST .*/evaluation/metrics\.json.*",
    "serving": r"POST .*/serving/\d+/saved_model\.pb.*",
}
SECONDS = 900  # a step takes some, and minutes on a machine that others share


def start(environment):
    return forked.Popen(
        [sys.executable, "-m", "beambert", "retrain", f"--config={CONFIG}"],
        cwd=ROOT,
        env=os.environ | environment | {"CUDA_VISIBLE_DEVICES": "-1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(environment):
    """Runs the command to its end and returns what it has printed."""
    process = start(environment)
    printed, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, printed
    assert "LOCK" not in io.list_folder(WORKSPACE)
    return printed


def refuse(task, environment):
    """Begins a run whose permission is revoked in the moment of `MOMENTS`."""
    emulated_storage.refuse(MOMENTS[task])
    process = start(environment)
    printed, _ = process.communicate(timeout=SECONDS)
    emulated_storage.refuse("")
    assert process.returncode == 2 and "Traceback" not in printed, printed
    messages = re.findall(r"^beambert[\w. ]*: .*", printed, re.MULTILINE)
    assert "403" in messages[0] or "ermission" in messages[0], printed
    return printed


def kill(task, environment):
    """Begins a run, and kills it and its command in the moment of `MOMENTS`."""
    emulated_storage.hold(MOMENTS[task])
    process = start(environment)
    deadline = time.monotonic() + SECONDS
    while not emulated_storage.is_holding() and process.poll() is None:
        assert time.monotonic() < deadline, f"{task} has sent no {MOMENTS[task]}"
        time.sleep(0.02)
    forked.kill_all()
    printed, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGKILL, printed
    emulated_storage.hold("")
    return printed


def answer(version):
    """Returns what a served version says of a sentence about music."""
    import tensorflow_text  # noqa: F401  (its operations are in the graph)

    loaded = tf.saved_model.load(f"{WORKSPACE}/serving/{version}")
    found = loaded.signatures["serving_default"](text=tf.constant(["song album music"]))
    return found["label"].numpy().tolist()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("outputs")


@pytest.fixture
def outputs(gs, root):
    """A folder with the task of a retraining, whose other files are in the bucket."""
    if (root / "retrain.toml").exists():
        return root
    corpus.make(root)
    text = corpus.write_config(root).read_text()
    text = text.replace("[pretrain]", "[pretrain]\nsave_checkpoints_steps = 4")
    text = text.replace("max_seq_length = 32", 'max_seq_length = "16,32"')
    text += "min_change = -0.2\n"  # the second model may be worse than the first
    for name in ("text/1.jsonl", "vocab.txt", "bert_config.json"):
        io.write_bytes(f"{gs}/all/{name}", (root / name).read_bytes())
    for name in ("workspace", "text", "vocab.txt", "bert_config.json"):
        text = text.replace(f"{root}/{name}", f"{gs}/all/{name}")
    io.write_bytes(CONFIG, text.encode())
    return root


@pytest.fixture(scope="module")
def printed():
    """What the commands of the tests have printed, one after another."""
    return []


# The first run has no baseline.
@pytest.mark.parametrize("task", [task for task in TASKS if task != "baseline"])
def test_a_step_is_refused(outputs, storage_environment, printed, task):
    """A permission is revoked in the middle of each, and is back afterwards."""
    printed.append(refuse(task, storage_environment))


def test_the_first_version_is_made_after_all_refusals(outputs, storage_environment, printed):
    printed.append(run(storage_environment))
    assert "continuing from step 4" in "".join(printed)
    assert answer(1) == [b"music"]


@pytest.mark.parametrize("task", TASKS)
def test_a_step_is_killed(gs, outputs, storage_environment, printed, task):
    """The run goes on from the version of the test above."""
    if task == "plan":
        printed.clear()
        io.write_bytes(f"{gs}/all/text/2.jsonl", corpus.deliver(outputs, 2).read_bytes())
    printed.append(kill(task, storage_environment))


def test_the_next_version_is_made_after_all_kills(outputs, storage_environment, printed):
    """What was killed goes on, and no other step is done again."""
    printed.append(run(storage_environment))
    assert "continuing from step 4" in "".join(printed)
    assert ["".join(printed).count(f"[{step}] $") for step in STEPS] == [2] * len(STEPS)
    assert answer(2) == [b"music"]
    history = workspace.read_history(WORKSPACE)
    assert len(history.published) == history.greatest == 2 and history.open is None
    assert "nothing new" in run(storage_environment)
