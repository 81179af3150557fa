"""Model folders: who may write to one, and what a full disk leaves of it."""

import resource
import signal
import subprocess
import sys
import textwrap

import pytest
import tensorflow as tf

from beambert import folders, storage
from beambert.errors import InputError
from beambert.model.config import preset
from beambert.trainer import model_folders
from beambert.trainer.loop.trackers import open_trackers
from beambert.trainer.weights.initial import open_initial


@pytest.fixture
def full_disk():
    """Switches a limit of 0 bytes a file on and off."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def switch(is_full: bool) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]) if is_full else limits)

    yield switch
    switch(False)
    signal.signal(signal.SIGXFSZ, before)


def test_a_folder_stays_ours_on_a_full_disk(full_disk, tmp_path):
    output, job = model_folders.TrainingFolders(str(tmp_path / "model")), {"steps": 3}
    assert not model_folders.claim(output, job, chief=True)
    storage.write_bytes(f"{output.model_dir}/training.json", b"{}")
    full_disk(True)
    with pytest.raises(InputError, match="_UNFINISHED: cannot be written"):
        model_folders.claim(output, job, chief=True)
    with pytest.raises(InputError, match="_SUCCESS: cannot be written"):
        model_folders.finish(output.model_dir, job)
    full_disk(False)
    assert not model_folders.claim(output, job, chief=True)
    model_folders.finish(output.model_dir, job)
    assert model_folders.claim(output, job, chief=True)


def test_a_full_disk_of_temporary_files_is_no_damage_of_weights(tmp_path, monkeypatch):
    def copy(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "copy; No space left on device")

    (tmp_path / "model.weights.h5").write_bytes(b"weights")
    monkeypatch.setattr(tf.io.gfile, "copy", copy)
    with pytest.raises(InputError, match=r"No space left on device\); free some space in /"):
        model_folders.load_weights(None, str(tmp_path))


def test_a_batch_whose_dropout_has_too_many_elements():
    """An index of more than 31 bits; base has 12 heads, so 12 x 128 x 128 weights a sequence."""
    config = preset("base", 30522)
    model_folders.check_rows(config, 128, 10922, 1)
    for batch_size, parts in ((10923, 1), (100_000, 8)):
        with pytest.raises(InputError, match=f"--train_batch_size={batch_size}: at most 10,922"):
            model_folders.check_rows(config, 128, batch_size, parts)
    model_folders.check_rows(config, 128, 100_000, 10)
    model_folders.check_rows(config, 128, 2730, 1, 4)
    with pytest.raises(InputError, match="=2731: at most 2,730 examples, each 4 sequences of 128"):
        model_folders.check_rows(config, 128, 2731, 1, 4)


def test_what_a_killed_run_was_writing_is_deleted(tmp_path):
    output = model_folders.TrainingFolders(str(tmp_path / "model"))
    checkpoints = tmp_path / "model" / "checkpoints"
    (checkpoints / "ckpt-7_temp").mkdir(parents=True)
    (checkpoints / "ckpt-7_temp" / "part-00000-of-00001.index").write_text("cut o")
    for name in ("ckpt-7.index.tempstate12", "checkpoint.tmp0a", "ckpt-5.index", "checkpoint"):
        (checkpoints / name).write_text(name)
    (tmp_path / "model" / "_UNFINISHED").write_bytes(folders.serialize_job({"seed": 1}))
    (tmp_path / "model" / f"_tmp-{'0' * 32}-vocab.txt").write_text("cut o")
    with model_folders.held(output.model_dir):
        assert not model_folders.claim(output, {"seed": 1}, chief=True)
    assert sorted(path.name for path in checkpoints.iterdir()) == ["checkpoint", "ckpt-5.index"]
    left = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert left == ["_UNFINISHED", "checkpoints", "tensorboard"]


@pytest.mark.slow
def test_one_process_at_a_time_fills_a_folder(tmp_path):
    """And a killed one lets go of it."""
    script = f"""
        import time
        from beambert.trainer import model_folders as folders
        with folders.held({str(tmp_path)!r}):
            print("held", flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        busy = pytest.raises(InputError, match="--model_dir=.* process .* is at work there")
        with busy, model_folders.held(str(tmp_path)):
            pass
        # Workers that aren't the chief go by it.
        with model_folders.held(str(tmp_path), chief=False):
            pass
        other.kill()
    with model_folders.held(str(tmp_path)):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flag", ["model_dir", "checkpoint_dir", "tensorboard_dir"])
def test_a_folder_that_cannot_be_made_is_refused(flag, tmp_path):
    (tmp_path / "file").write_text("in the way")
    paths = {"model_dir": tmp_path / "m", flag: tmp_path / "file" / "folder"}
    model, *others = (paths.get(n) for n in ("model_dir", "checkpoint_dir", "tensorboard_dir"))
    output = model_folders.TrainingFolders(str(model), *(other and str(other) for other in others))
    with pytest.raises(InputError, match=f"--{flag}=.*: cannot be made"):
        model_folders.claim(output, {}, chief=True)


@pytest.mark.parametrize("is_open", [False, True])
def test_events_on_a_full_disk_are_one_sentence(full_disk, is_open, tmp_path, monkeypatch):
    output = model_folders.TrainingFolders(str(tmp_path / "model"))
    model_folders.claim(output, {}, chief=True)
    log = open_trackers(output, None)
    log.start({}, 0)
    if is_open:
        log.log(1, "train", {"loss": 1.0})
        log.save()
    log.log(2, "train", {"loss": 1.0})
    monkeypatch.setattr(storage, "write_bytes", lambda *_: None)
    full_disk(True)
    with pytest.raises(InputError, match="tensorboard: cannot be written") as caught:
        log.save()
    assert "\n" not in str(caught.value)


def test_a_file_is_no_model_folder(tmp_path):
    path = tmp_path / "model"
    path.touch()
    message = r"^--model_dir=.*model: is a file; name a folder$"
    with pytest.raises(InputError, match=message), model_folders.held(str(path)):
        pass


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("config.json", "is a folder of Hugging Face, .*; train from it with --init="),
        ("model.onnx", "has a graph for onnxruntime and no weights; give the model folder that it"),
    ],
)
def test_folders_of_other_formats_are_named(file, message, tmp_path):
    (tmp_path / file).touch()
    with pytest.raises(InputError, match=f"^--model=.*: {message}"):
        model_folders.open_model(str(tmp_path), "--model")


def test_a_graph_for_onnxruntime_is_no_encoder(tmp_path):
    (tmp_path / "model.onnx").touch()
    with pytest.raises(InputError, match="^--init=.*: has a graph for onnxruntime and no weights"):
        open_initial(str(tmp_path), "--init")
