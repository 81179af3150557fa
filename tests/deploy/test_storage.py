"""gs:// through Beam, Google's client and TensorFlow, on an emulator."""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

from deploy import lock, retrain, workspace
from pipelines import create_pretraining_data, files
from pipelines.errors import InputError
from pipelines.incremental import new_inputs
from tests.deploy import corpus
from trainer import folders

ROOT = pathlib.Path(__file__).parents[2]


def beambert(environment, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "beambert", *arguments],
        cwd=ROOT,
        env=os.environ | environment | {"CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_data_command(gs, tmp_path):
    """The same bytes as in a folder, and what it took is known the next time."""
    corpus.make(tmp_path)
    text = (tmp_path / "text" / "1.jsonl").read_bytes()
    files.write_bytes(f"{gs}/text/1.jsonl", text)
    files.write_bytes(f"{gs}/vocab.txt", (tmp_path / "vocab.txt").read_bytes())
    flags = ["--max_seq_length=32", "--num_shards=2", "--dupe_factor=1"]
    for root in (gs, str(tmp_path)):
        files_of_root = [f"--input={root}/text/*", f"--vocab_file={root}/vocab.txt"]
        create_pretraining_data.main([*files_of_root, f"--output={root}/records", *flags])
    names = files.list_folder(f"{gs}/records")
    assert names == files.list_folder(f"{tmp_path}/records")
    for name in names:
        if name.endswith(".tfrecord"):
            stored = files.read_bytes(f"{gs}/records/{name}", "")
            assert stored == (tmp_path / "records" / name).read_bytes()
    inputs = files.match_inputs([f"{gs}/text/*"])
    assert new_inputs(inputs, [f"{gs}/records"], f"{gs}/more") == []
    files.write_bytes(f"{gs}/text/1.jsonl", text + text)  # another object of the same name
    inputs = files.match_inputs([f"{gs}/text/*"])
    assert new_inputs(inputs, [f"{gs}/records"], f"{gs}/more") == inputs


def test_files_directly_in_a_bucket(gs):
    files.write_bytes(f"{gs}/a.txt", b"by Beam")
    workspace.write_text(f"{gs}/b.txt", "by TensorFlow")
    assert workspace.read_text(f"{gs}/a.txt") == "by Beam"
    assert workspace.read_text(f"{gs}/b.txt") == "by TensorFlow"


def test_an_interrupted_upload_leaves_nothing(gs):
    with pytest.raises(KeyboardInterrupt), files.open_atomically(f"{gs}/cut/info.json") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert files.list_folder(f"{gs}/cut") == []


def test_checkpoints_of_tensorflow(gs):
    value = tf.random.normal([100, 100])
    checkpoint = tf.train.Checkpoint(variable=tf.Variable(value))
    manager = tf.train.CheckpointManager(checkpoint, f"{gs}/checkpoints", max_to_keep=2)
    for _ in range(3):
        manager.save()
    checkpoint.variable.assign(tf.zeros_like(value))
    checkpoint.restore(manager.latest_checkpoint).assert_consumed()
    assert tf.reduce_all(checkpoint.variable == value)
    assert sorted(tf.io.gfile.glob(f"{gs}/checkpoints/*.index")) == [
        f"{gs}/checkpoints/ckpt-{n}.index" for n in (2, 3)
    ]


def test_model_folders(gs):
    output = folders.TrainingFolders.of(f"{gs}/model")
    assert not folders.claim(output, {"job": 1}, chief=True)
    with pytest.raises(InputError, match="not a finished model folder"):
        folders.open_model(output.model, "--init")
    folders.finish(output.model, {"job": 1})
    assert folders.claim(output, {"job": 1}, chief=True)
    with pytest.raises(InputError, match="another job"):
        folders.claim(output, {"job": 2}, chief=True)


def test_the_lease_has_one_holder(gs):
    first, second = lock.Lease(f"{gs}/one"), lock.Lease(f"{gs}/one")
    first.acquire("first", lock.LEASE)
    with pytest.raises(lock.BusyError, match="first .until"):
        second.acquire("second", lock.LEASE)
    first.renew(lock.LEASE)
    first.release()
    second.acquire("second", lock.LEASE)
    first.release()  # no longer its own
    assert json.loads(files.read_bytes(f"{gs}/one/LOCK", ""))["holder"] == "second"
    lock.release(f"{gs}/one", "second")
    assert files.list_folder(f"{gs}/one") == []


def test_a_lease_of_a_killed_run_ends(gs):
    lock.Lease(f"{gs}/dead").acquire("killed", datetime.timedelta(seconds=-1))
    lock.Lease(f"{gs}/dead").acquire("next", lock.LEASE)


def test_many_in_the_same_moment(gs):
    outcomes, barrier = [], threading.Barrier(4)

    def take(name):
        lease = lock.Lease(f"{gs}/race")
        barrier.wait()
        try:
            lease.acquire(name, lock.LEASE)
            outcomes.append(name)
        except lock.BusyError:
            outcomes.append(None)

    threads = [threading.Thread(target=take, args=(f"run {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 4 and sum(outcome is not None for outcome in outcomes) == 1


def test_a_bucket_without_permission(gs, tmp_path):
    with pytest.raises(InputError, match="forbidden/LOCK: cannot be read and written .*403"):
        lock.Lease(f"{gs}/forbidden").acquire("me", lock.LEASE)
    with pytest.raises(InputError, match="forbidden/retrain.toml: cannot be read"):
        retrain.main([f"--config={gs}/forbidden/retrain.toml"])
    with pytest.raises(InputError, match="forbidden/run.json.*: cannot be written"):
        workspace.write_json(f"{gs}/forbidden/run.json", {})
    with pytest.raises(InputError, match="--input=gs://bucket/forbidden/.: "):
        files.match_inputs([f"{gs}/forbidden/*"])


def test_a_plan_on_a_bucket(gs, tmp_path):
    """As the first component of the pipeline runs it; twice at once."""
    corpus.make(tmp_path)
    files.write_bytes(f"{gs}/plan/text/1.jsonl", (tmp_path / "text" / "1.jsonl").read_bytes())
    text = corpus.write_config(tmp_path).read_text().replace(str(tmp_path), f"{gs}/plan")
    files.write_bytes(f"{gs}/plan/retrain.toml", text.encode())
    flags = [f"--config={gs}/plan/retrain.toml", f"--outcome_file={tmp_path}/outcome"]
    outcomes = []
    for step, holder in (("plan", "a"), ("plan", "b"), ("plan", "a"), ("release", "a")):
        retrain.main([*flags, f"--step={step}", f"--holder={holder}"])
        outcomes.append((tmp_path / "outcome").read_text())
    assert outcomes[:3] == ["new", "busy", "new"]
    assert files.list_folder(f"{gs}/plan/workspace") == []
    run = workspace.read_history(f"{gs}/plan/workspace").open
    assert run.path == f"{gs}/plan/workspace/runs/000001"


@pytest.mark.slow
def test_from_a_bucket_to_a_served_version(gs, storage_environment, tmp_path):
    """The real commands: checkpoints, model folder, SavedModel and evaluation on gs://."""
    corpus.make(tmp_path)
    text = corpus.write_config(tmp_path).read_text()
    for name in ("text/1.jsonl", "vocab.txt"):
        files.write_bytes(f"{gs}/all/{name}", (tmp_path / name).read_bytes())
    for name in ("text", "vocab.txt", "workspace"):
        text = text.replace(f"{tmp_path}/{name}", f"{gs}/all/{name}")
    (tmp_path / "bucket.toml").write_text(text)
    run = beambert(storage_environment, "retrain", f"--config={tmp_path}/bucket.toml")
    assert run.returncode == 0, run.stdout + run.stderr
    assert tf.io.gfile.exists(f"{gs}/all/workspace/serving/1/saved_model.pb")
    import tensorflow_text  # noqa: F401  (its operations are in the graph)

    loaded = tf.saved_model.load(f"{gs}/all/workspace/serving/1")
    answer = loaded.signatures["serving_default"](text=tf.constant(["song album music"]))
    assert answer["label"].numpy() == [b"music"]
    again = beambert(storage_environment, "retrain", f"--config={tmp_path}/bucket.toml")
    assert again.returncode == 0 and "nothing new" in again.stdout
