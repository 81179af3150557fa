"""The components of the compiled pipeline as processes, with all that they share in a bucket."""

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

from beambert import storage
from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import STEPS
from beambert.deploy.settings import Deployment, Release, Settings
from beambert.deploy.vertex import jobs

pytestmark = pytest.mark.release
ROOT = pathlib.Path(__file__).parents[3]
HOLDER = "projects/1/locations/r/pipelineJobs/beambert-1"
SETTINGS = Settings("my-project", "us-central1", "bucket", "a@b", "0 3 * * *", "v5e-8-spot")
DEPLOYMENT = Deployment(SETTINGS, Release("commit"))
WORKSPACE = "gs://bucket/all/workspace"
TASKS = ("plan", *STEPS)
# The request that each component is refused or killed in. A part of its work is done then.
MOMENTS = {
    "plan": r"POST .*/runs/\d+/run\.json.*",
    "records": r"POST .*/records/.*tfrecord.*",
    "encoder": r"POST .*/encoder/.*ckpt-8.*\.index.*",
    "classifier": r"POST .*/classifier/.*ckpt-.*\.index.*",
    "baseline": r"POST .*/baseline/metrics\.json.*",
    "evaluation": r"POST .*/evaluation/metrics\.json.*",
    "serving": r"POST .*/serving/\d+/saved_model\.pb.*",
}
SECONDS = 900  # a component takes some, and minutes on a machine that others share


def component(task, outputs):
    """Returns what a pipeline's component runs.

    Of those that wait for a custom job, what the job's container runs.
    """
    if task in jobs.ON_ACCELERATORS:
        return [sys.executable, "-m", "beambert", *jobs.step_arguments(DEPLOYMENT.config, task)]
    words = ["-m", "beambert.deploy.vertex", f"--deployment={DEPLOYMENT.file}", "step"]
    outcome = ["--outcome_file", str(outputs / "outcome")] if task == "plan" else []
    return [sys.executable, *words, f"--step={task}", f"--holder={HOLDER}", *outcome]


def start(task, outputs, environment):
    return forked.Popen(
        component(task, outputs),
        cwd=ROOT,
        env=os.environ | environment | {"CUDA_VISIBLE_DEVICES": "-1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(task, *places):
    """Runs a component to its end and returns what it has printed."""
    outputs, process = places[0], start(task, *places)
    printed, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, printed
    assert (outputs / "outcome").read_text() == "new"
    held = "LOCK" in storage.list_folder(WORKSPACE)
    assert held == (task != "serving")
    return printed


def refuse(task, *places):
    """Begins a component whose permission is revoked in the moment of `MOMENTS`."""
    emulated_storage.refuse(MOMENTS[task])
    process = start(task, *places)
    printed, _ = process.communicate(timeout=SECONDS)
    emulated_storage.refuse("")
    assert process.returncode == 2 and "Traceback" not in printed, printed
    told = re.findall(r"^(?:python -m )?beambert[\w. ]*: .*", printed, re.MULTILINE)
    assert "403" in told[0] or "ermission" in told[0], printed
    return told


def kill(task, *places):
    """Begins a component, and kills it and its command in the moment of `MOMENTS`."""
    emulated_storage.hold(MOMENTS[task])
    process = start(task, *places)
    deadline = time.monotonic() + SECONDS
    while not emulated_storage.is_holding() and process.poll() is None:
        assert time.monotonic() < deadline, f"{task} has sent no {MOMENTS[task]}"
        time.sleep(0.02)
    forked.kill_all()
    printed, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGKILL, printed
    emulated_storage.hold("")


def answer(version):
    """Returns what a served version says of a sentence about music."""
    import tensorflow_text  # noqa: F401  (its operations are in the graph)

    loaded = tf.saved_model.load(f"{WORKSPACE}/serving/{version}")
    found = loaded.signatures["serving_default"](text=tf.constant(["song album music"]))
    return found["label"].numpy().tolist()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    return tmp_path_factory.mktemp("outputs")


def test_each_component_is_refused_once(gs, storage_environment, outputs):
    """A permission is revoked in the middle of each; once it is back, the first version is made."""
    corpus.make(outputs)
    text = corpus.write_config(outputs).read_text()
    text = text.replace('recipe = "tiny"', 'recipe = "tiny"\nsave_checkpoints_steps = 4')
    text = text.replace("max_seq_length = 32", 'max_seq_length = "16,32"')
    text += "min_change = -0.2\n"  # the second model may be worse than the first
    for name in ("text/1.jsonl", "vocab.txt", "bert_config.json"):
        storage.write_bytes(f"{gs}/all/{name}", (outputs / name).read_bytes())
    for name in ("workspace", "text", "vocab.txt", "bert_config.json"):
        text = text.replace(f"{outputs}/{name}", f"{gs}/all/{name}")
    storage.write_bytes(DEPLOYMENT.config, text.encode())
    storage.write_bytes(DEPLOYMENT.file, DEPLOYMENT.to_json().encode())
    printed = {}
    for task in TASKS:
        if task != "baseline":  # the first run has none
            print(task, refuse(task, outputs, storage_environment))
        printed[task] = run(task, outputs, storage_environment)
    assert "continuing from step 4" in printed["encoder"]
    assert answer(1) == [b"music"]


def test_each_component_is_killed_once(gs, storage_environment, outputs):
    """The pipeline that goes on from the version of the test above serves the next one."""
    storage.write_bytes(f"{gs}/all/text/2.jsonl", corpus.deliver(outputs, 2).read_bytes())
    printed = {}
    for task in TASKS:
        kill(task, outputs, storage_environment)
        printed[task] = run(task, outputs, storage_environment)
    # What was killed goes on, and no other step is done again.
    assert "continuing from step 4" in printed["encoder"]
    assert not [step for step in STEPS if printed[step].count("] $") != 1]
    assert answer(2) == [b"music"]
    history = workspace.read_history(WORKSPACE)
    assert len(history.published) == history.greatest == 2 and history.open is None
    process = start("plan", outputs, storage_environment)
    assert "nothing new" in process.communicate(timeout=SECONDS)[0] and process.returncode == 0
