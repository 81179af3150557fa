"""Model folders: who may write to one, and what a full disk leaves of it."""

import json
import pathlib
import resource
import shutil
import signal

import numpy as np
import pytest
import safetensors.numpy

from beambert import folders, io
from beambert.errors import InputError
from beambert.folders import finish_output
from beambert.model.config import BERT_SIZES, BertConfig
from beambert.pipelines.tasks.find_model import find_model
from beambert.trainer import model_folders
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.loop.trackers import TrainingLog
from beambert.trainer.models import task_model
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
    io.write_bytes(f"{output.model_dir}/training.json", b"{}")
    full_disk(True)
    with pytest.raises(InputError, match="_UNFINISHED: cannot be written"):
        model_folders.claim(output, job, chief=True)
    with pytest.raises(InputError, match="_SUCCESS: cannot be written"):
        finish_output(output.model_dir, job)
    full_disk(False)
    assert not model_folders.claim(output, job, chief=True)
    finish_output(output.model_dir, job)
    assert model_folders.claim(output, job, chief=True)


def test_a_batch_whose_dropout_has_too_many_elements():
    """An index of more than 31 bits; base has 12 heads, so 12 x 128 x 128 weights a sequence."""
    config = BertConfig(30522, **BERT_SIZES["base"])
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
    for folder in ("", "best/"):
        for name in (f"_tmp-{'0' * 32}-ckpt-000007", "ckpt-000005"):
            (checkpoints / f"{folder}{name}").mkdir(parents=True)
    (tmp_path / "model" / "_UNFINISHED").write_bytes(folders.serialize_job({"seed": 1}))
    (tmp_path / "model" / f"_tmp-{'0' * 32}-vocab.txt").write_text("cut o")
    with folders.folders_held([output.model_dir], "--model_dir"):
        assert not model_folders.claim(output, {"seed": 1}, chief=True)
    assert sorted(path.name for path in checkpoints.rglob("*")) == [
        *("best", "ckpt-000005", "ckpt-000005")
    ]
    left = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert left == ["_UNFINISHED", "checkpoints", "tensorboard"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    output = model_folders.TrainingFolders(str(tmp_path / "file" / "folder"))
    with pytest.raises(InputError, match=r"--model_dir=.*: cannot be made"):
        model_folders.claim(output, {}, chief=True)


def test_metrics_on_a_full_disk_are_one_sentence(full_disk, tmp_path):
    output = model_folders.TrainingFolders(str(tmp_path / "model"))
    model_folders.claim(output, {}, chief=True)
    log = TrainingLog(output, None)
    log.start({}, 0)
    log.log(2, "train", {"loss": 1.0})
    full_disk(True)
    with pytest.raises(InputError, match="cannot be written") as caught:
        log.save()
    assert "\n" not in str(caught.value)


@pytest.fixture
def encoder(untrained, tmp_path) -> pathlib.Path:
    return shutil.copytree(untrained("encoder"), tmp_path / "encoder")


@pytest.fixture
def classifier(untrained, tmp_path) -> pathlib.Path:
    return shutil.copytree(untrained("classifier"), tmp_path / "model")


def change_json(file, **values):
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def cut_vocabulary(folder):
    tokens = (folder / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").write_text("\n".join(tokens[:-1]) + "\n")


def lengthen_vocabulary(folder):
    with (folder / "vocab.txt").open("a") as file:
        file.write("stranger\n")


def change_config(**values):
    return lambda folder: change_json(folder / "bert_config.json", **values)


def change_training(**values):
    return lambda folder: change_json(folder / "training.json", **values)


CHANGES = {
    "a shorter vocabulary": (cut_vocabulary, "vocabulary_sha256"),
    "a longer vocabulary": (lengthen_vocabulary, "vocabulary_sha256"),
    "a layer less": (change_config(num_hidden_layers=1), "model.num_hidden_layers there 2, here 1"),
    "another case": (change_training(do_lower_case=False), "do_lower_case there true, here false"),
    "a key twice": (
        lambda folder: (folder / "training.json").write_text('{"kind": "a", "kind": "b"}'),
        "the key 'kind' twice",
    ),
    "a deep description": (
        lambda folder: (folder / "training.json").write_text("[" * 100_000),
        "nested too deeply",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_that_was_changed_is_refused(encoder, change, tmp_path):
    make, reason = CHANGES[change]
    make(encoder)
    for use in (
        lambda: open_initial(str(encoder), "--model"),
        lambda: export_main([f"--model={encoder}", "--to=tf1", f"--output={tmp_path}/tf1"]),
    ):
        with pytest.raises(InputError, match=f"^--model={encoder}.*{reason}") as caught:
            use()
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "tf1").exists()


def test_the_configuration_must_be_that_of_the_weights(encoder):
    """Also where the marker was changed with it, as a stranger may do."""
    change_json(encoder / "bert_config.json", num_hidden_layers=1)
    (encoder / "_SUCCESS").write_text("{}")
    with pytest.raises(InputError, match=r"safetensors: cannot be .*the file has \S+/layer_1/"):
        open_initial(str(encoder), "--init").read()


def infinite(arrays):
    arrays["bert/pooler/dense/kernel"][0, 0] = np.inf


def lacking(arrays):
    del arrays["bert/pooler/dense/kernel"]


def superfluous(arrays):
    arrays["bert/extra"] = np.zeros(3, np.float32)


def transposed(arrays):
    name = "bert/encoder/layer_0/intermediate/dense/kernel"
    arrays[name] = np.ascontiguousarray(arrays[name].T)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (infinite, "not finite"),
        (lacking, "only the model has bert/pooler/dense/kernel"),
        (superfluous, "only the file has bert/extra"),
        (transposed, r"has shape \(16, 8\), that of the model is \(8, 16\)"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(encoder, change, reason):
    file = encoder / "model.safetensors"
    arrays = {name: array.copy() for name, array in safetensors.numpy.load_file(file).items()}
    change(arrays)
    safetensors.numpy.save_file(arrays, file)
    with pytest.raises(InputError, match=f"model.safetensors: cannot be loaded .*{reason}"):
        open_initial(str(encoder), "--init").read()


def test_truncated_weights_are_refused(encoder):
    file = encoder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"model.safetensors: cannot be loaded \(.+\); copy the"):
        open_initial(str(encoder), "--init").read()


@pytest.mark.slow
def test_the_same_changes_of_a_fine_tuned_model(classifier):
    """For `predict` and `evaluate`."""
    find_model(str(classifier))
    (classifier / "labels.txt").write_text("positive\nnegative\n")
    with pytest.raises(InputError, match="labels.txt: not the labels that the model was trained"):
        find_model(str(classifier))
    lengthen_vocabulary(classifier)
    with pytest.raises(InputError, match="vocabulary_sha256"):
        find_model(str(classifier))


@pytest.mark.slow
def test_a_saved_model_of_other_weights_is_refused(classifier):
    """Else one model is evaluated and another one exported."""
    found = model_folders.open_model(str(classifier), "--model")
    model = task_model(found)
    model.classifier.bias.assign_add([0.0, 1.0])
    model_folders.save_weights(model, str(classifier))
    with pytest.raises(InputError, match="saved_model: has other weights than model.safetensors"):
        task_model(found)


def test_a_damaged_fingerprint(classifier, tmp_path):
    """TensorFlow would log a traceback, and go on."""
    (classifier / "saved_model" / "fingerprint.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(InputError, match="saved_model/fingerprint.pb: is damaged; export the mod"):
        export_main([f"--model={classifier}", f"--output={tmp_path}/out"])
    assert not (tmp_path / "out" / "1").exists()
