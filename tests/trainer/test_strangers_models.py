"""Model folders that were changed after their training."""

import json
import pathlib
import shutil

import h5py
import numpy as np
import pytest
from support import untrained_models

from beambert.errors import InputError
from beambert.pipelines.tasks.find_model import find_model
from beambert.trainer import model_folders
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.models import task_model
from beambert.trainer.weights.initial import open_initial


@pytest.fixture(scope="module")
def encoders(tmp_path_factory, vocabulary) -> pathlib.Path:
    return untrained_models.save_encoder(tmp_path_factory.mktemp("made") / "encoder", vocabulary)


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory, vocabulary) -> pathlib.Path:
    return untrained_models.save_classifier(tmp_path_factory.mktemp("made") / "model", vocabulary)


@pytest.fixture
def encoder(encoders, tmp_path) -> pathlib.Path:
    return shutil.copytree(encoders, tmp_path / "encoder")


@pytest.fixture
def classifier(classifiers, tmp_path) -> pathlib.Path:
    return shutil.copytree(classifiers, tmp_path / "model")


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
    "more heads": (change_config(num_attention_heads=4), "model.num_attention_heads"),
    "another case": (change_training(do_lower_case=False), "do_lower_case there true, here false"),
    "a key twice": (
        lambda folder: (folder / "training.json").write_text('{"kind": "a", "kind": "b"}'),
        "the key 'kind' twice",
    ),
    "a deep description": (
        lambda folder: (folder / "training.json").write_text("[" * 100_000),
        "nested too deeply",
    ),
    "a list": (lambda folder: (folder / "training.json").write_text("[]"), "not an object"),
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
    with pytest.raises(InputError, match=r"weights.h5: cannot be loaded .it has 46 .* ask for 30"):
        open_initial(str(encoder), "--init").read()


def array(file, change):
    with h5py.File(file, "r+") as arrays:
        change(arrays)


def infinite(arrays):
    arrays["encoder/embeddings/vars/0"][0, 0] = np.inf


def another_file(arrays):
    del arrays["encoder/embeddings/vars/0"]
    arrays["encoder/embeddings/vars/0"] = h5py.ExternalLink("/etc/passwd", "/x")


def raw_file(arrays):
    """The bytes of another file, which an exported model would give away."""
    shape = arrays["encoder/embeddings/vars/0"].shape
    del arrays["encoder/embeddings/vars/0"]
    arrays.create_dataset(
        "encoder/embeddings/vars/0", shape, "f4", external=[("/etc/passwd", 0, 1 << 20)]
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (infinite, "not finite"),
        (another_file, "is a link to an array elsewhere"),
        (raw_file, "is a link to an array elsewhere"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(encoder, change, reason):
    array(encoder / "model.weights.h5", change)
    with pytest.raises(InputError, match=f"model.weights.h5: cannot be loaded .*{reason}"):
        open_initial(str(encoder), "--init").read()


def test_weights_that_are_a_folder_are_refused(encoder):
    (encoder / "model.weights.h5").unlink()
    (encoder / "model.weights.h5").mkdir()
    with pytest.raises(InputError, match="model.weights.h5: .*not a regular file"):
        open_initial(str(encoder), "--init")


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
    with pytest.raises(InputError, match="saved_model: has other weights than model.weights.h5"):
        task_model(found)


def test_a_damaged_fingerprint(classifier, tmp_path):
    """TensorFlow would log a traceback, and go on."""
    (classifier / "saved_model" / "fingerprint.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(InputError, match="saved_model/fingerprint.pb: is damaged; export the mod"):
        export_main([f"--model={classifier}", f"--output={tmp_path}/out"])
    assert not (tmp_path / "out" / "1").exists()
