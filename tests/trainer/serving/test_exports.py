"""`beambert export`, the SavedModels of fine-tuned models, and how versions get their numbers."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from support import emulated_storage
from support.small_finetuning import results

from beambert import io
from beambert.errors import InputError
from beambert.model_files import model_sha256, weights_sha256
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.serving import versions
from beambert.trainer.serving.versions import check_blessing, export


@pytest.mark.slow
def test_the_card_of_a_version_loads_it(classifier_folder, tmp_path):
    """Its lines run in the version's folder, without this project."""
    version = export(str(classifier_folder), str(tmp_path / "serving"))
    card = pathlib.Path(version, "README.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=version,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "-1"},
    )
    outputs = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    labels = (classifier_folder / "labels.txt").read_text().split()
    probabilities = json.loads(outputs["probabilities"])[0]
    assert outputs["label"] == f"[b'{labels[int(np.argmax(probabilities))]}']"
    assert "| takes `text` |" in card and "| gives `label` |" in card
    assert all(f'"{label}"' in card for label in labels)
    assert f'"accuracy": {results(classifier_folder)["accuracy"]}' in card
    # How it was made, and what distinguishes it from others.
    assert f'"weights": "{weights_sha256(str(classifier_folder))}"' in card
    training = json.loads((classifier_folder / "training.json").read_text())
    assert f"## Training of the encoder {training['init_sha256'][:12]}" in card


@pytest.mark.slow
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_export_that_fails_leaves_nothing(classifier, tmp_path, monkeypatch, error):
    def fail(module, path, signatures):
        pathlib.Path(path).mkdir()
        pathlib.Path(path, "saved_model.pb").write_text("half")
        raise error

    monkeypatch.setattr("tensorflow.saved_model.save", fail)
    (tmp_path / "1").mkdir()
    with pytest.raises(InputError if isinstance(error, OSError) else type(error)):
        export(str(classifier), str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


@pytest.mark.slow
def test_export_of_an_encoder(encoder_folder, tmp_path, small_config):
    export_main([f"--model={encoder_folder}", f"--output={tmp_path}"])
    encode = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    answer = encode(text=tf.constant(["The river.", "", "people " * 50]))
    width = small_config.hidden_size
    assert answer["sequence_output"].shape == (3, 32, width)
    assert answer["pooled_output"].shape == (3, width)
    assert answer["input_mask"].numpy().sum(axis=1).tolist() == [5, 2, 32]


def export_refusal(model, output, *more: str) -> str:
    names = sorted(path.name for path in output.iterdir()) if output.exists() else None
    with pytest.raises(InputError) as caught:
        export_main([f"--model={model}", f"--output={output}", *more])
    assert names == (sorted(path.name for path in output.iterdir()) if output.exists() else None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def classifier(untrained):
    return untrained("classifier")


@pytest.fixture(scope="module")
def other(untrained):
    return untrained("encoder")


def test_export_to_a_foreign_folder_is_refused(classifier, tmp_path):
    (tmp_path / "thesis.doc").write_text("years of work")
    message = export_refusal(classifier, tmp_path)
    assert "--output=" in message and "thesis.doc" in message


@pytest.fixture
def write_evaluation(tmp_path):
    def write(model, blessed: bool) -> pathlib.Path:
        folder = tmp_path / "evaluation"
        folder.mkdir()
        metrics = {"model": str(model), "model_sha256": model_sha256(str(model))}
        (folder / "metrics.json").write_text(json.dumps(metrics))
        if blessed:
            (folder / "BLESSED").write_text("")
        return folder

    return write


def test_export_needs_the_blessing_asked_for(classifier, tmp_path, write_evaluation):
    """A model that was moved keeps it."""
    evaluation = write_evaluation(classifier, blessed=False)
    serving = tmp_path / "serving"
    message = export_refusal(classifier, serving, f"--evaluation={evaluation}")
    assert "did not bless" in message
    (evaluation / "BLESSED").write_text("")
    moved = shutil.copytree(classifier, tmp_path / "moved")
    check_blessing(str(evaluation), str(moved))


@pytest.mark.parametrize(
    "changed",
    ["model.weights.h5", "saved_model/*.pb", "saved_model/variables/*.data-*", "vocab.txt"],
)
def test_a_blessing_of_earlier_files_does_not_count(
    classifier, tmp_path, write_evaluation, changed
):
    model = shutil.copytree(classifier, tmp_path / "model")
    evaluation = write_evaluation(model, blessed=True)
    path = max(model.glob(changed))  # saved_model.pb is behind fingerprint.pb
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    message = export_refusal(model, tmp_path / "serving", f"--evaluation={evaluation}")
    assert "evaluated other files" in message and "evaluate again" in message


def test_a_blessing_of_another_model_does_not_count(classifier, other, tmp_path, write_evaluation):
    evaluation = write_evaluation(other, blessed=True)
    message = export_refusal(classifier, tmp_path / "serving", f"--evaluation={evaluation}")
    assert str(other) in message and str(classifier) in message


@pytest.mark.parametrize("content", [None, "{}"])
def test_a_damaged_evaluation_does_not_count(classifier, tmp_path, content):
    if content is not None:
        (tmp_path / "evaluation").mkdir()
        (tmp_path / "evaluation" / "metrics.json").write_text(content)
    message = export_refusal(
        classifier, tmp_path / "serving", f"--evaluation={tmp_path}/evaluation"
    )
    assert "--evaluation=" in message


def test_weights_of_another_model_are_refused(classifier, other, tmp_path):
    copy = shutil.copytree(classifier, tmp_path / "copy")
    shutil.copy(other / "model.weights.h5", copy)
    message = export_refusal(copy, tmp_path / "serving")
    assert "model.weights.h5: cannot be loaded" in message


NAMES = ("assets.extra/model.json", "saved_model.pb", "variables/variables.index")


@pytest.fixture(params=["local", "gs"])
def output(request, tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "SECONDS_BETWEEN_TRIES", 0.05)
    if request.param == "local":
        return str(tmp_path / "serving")
    return f"{request.getfixturevalue('gs')}/{tmp_path.name}/serving"


def write_model(output, mark):
    """Writes what `export` has before it knows the version's number."""
    temporary = f"{output}/_tmp-{mark * 32}-1"
    for name in NAMES:
        io.write_bytes(f"{temporary}/{name}", f"{mark} {name}".encode())
    return temporary


def publish(output, mark, number=None):
    with versions.version_held(output, number) as path:
        versions.publish(write_model(output, mark), path)
        return path


@pytest.mark.slow
def test_two_at_once_make_two_versions(output):
    """Each has all files of one model, whoever was first; a number that is taken is refused."""
    write_model(output, "0")  # of a killed export
    barrier, paths = threading.Barrier(2), {}

    def run(mark):
        barrier.wait()
        paths[mark] = publish(output, mark)

    threads = [threading.Thread(target=run, args=mark) for mark in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(paths.values()) == [f"{output}/1", f"{output}/2"]
    for mark, path in paths.items():
        for name in NAMES:
            assert io.read_text(f"{path}/{name}") == f"{mark} {name}"
    assert not io.leftovers(output)
    with pytest.raises(InputError, match="serving/2: exists already; leave --version out"):
        publish(output, "c", 2)


def test_the_graph_comes_last_where_files_come_one_by_one(gs, tmp_path, monkeypatch):
    """Servers load a version as soon as its graph is there."""
    output = f"{gs}/{tmp_path.name}/serving"
    copy, there = io.copy, []

    def watch(source, target, *more):
        if source.endswith("saved_model.pb"):
            there.extend(sorted(io.list_folder(f"{output}/1")))
        copy(source, target, *more)

    with monkeypatch.context() as patch:
        patch.setattr(io, "copy", lambda s, t, left_out=(): watch(s, t, left_out))
        publish(output, "a")
    assert there == ["assets.extra", "variables"]
    assert "saved_model.pb" in io.list_folder(f"{output}/1")


def test_a_refused_graph_leaves_no_half_of_a_version(gs, tmp_path):
    """The same command then makes the version whole, with the same number."""
    output = f"{gs}/{tmp_path.name}/serving"
    emulated_storage.refuse(r"POST .*/serving/1/saved_model\.pb.*")
    with pytest.raises(InputError, match="403"):
        publish(output, "a")
    emulated_storage.refuse("")
    assert versions.next_version(output) == 1
    assert publish(output, "a") == f"{output}/1"
    assert "saved_model.pb" in io.list_folder(f"{output}/1")
