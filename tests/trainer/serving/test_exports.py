"""Exports: versions to serve, what keeps one from being published, and ONNX."""

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
from support import emulated_storage, untrained_models
from support.small_finetuning import results

from beambert import io
from beambert.cli import run
from beambert.errors import InputError
from beambert.model_files import model_sha256, weights_sha256
from beambert.pipelines.tasks.task import LATE_INTERACTION, SPAN, TAGGING
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.model_folders import open_model
from beambert.trainer.models import build_model, task_model
from beambert.trainer.serving import onnx_export, versions
from beambert.trainer.serving.onnx_export import int8_of, onnx_of
from beambert.trainer.serving.versions import check_blessing, export
from beambert.trainer.weights.initial import open_initial


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
        metrics |= {"metrics": ["accuracy"], "words": None}
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
    ["model.safetensors", "saved_model/*.pb", "saved_model/variables/*.data-*", "vocab.txt"],
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
    shutil.copy(other / "model.safetensors", copy)
    message = export_refusal(copy, tmp_path / "serving")
    assert "model.safetensors: cannot be loaded" in message


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


pytest.importorskip("tf2onnx", reason="tf2onnx is not installed (the extra onnx)")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

ROOT = pathlib.Path(__file__).parents[3]
FAMILIES = pathlib.Path(__file__).parents[1] / "golden_families"
LENGTH = 12


def features(vocab_size: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    ids = random.integers(5, vocab_size, (3, LENGTH)).astype(np.int32)
    mask = (np.arange(LENGTH) < np.array([[LENGTH], [5], [2]])).astype(np.int32)
    segments = (np.arange(LENGTH) > 3).astype(np.int32) * mask
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": segments}


def outputs(data: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    # A model without segments doesn't read their ids, which tf2onnx then leaves out.
    inputs = {one_input.name: inputs[one_input.name] for one_input in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classification", TAGGING, SPAN, LATE_INTERACTION])
def test_every_kind_of_task(vocabulary, kind):
    config = untrained_models.small_config(vocabulary)
    model = build_model(kind, config, 3, seed=1)
    for variable in model.weights:  # the initial weights are so small that all answers are equal
        variable.assign(variable + np.random.default_rng(2).normal(0, 0.3, variable.shape))
    inputs = features(config.vocab_size)
    found = outputs(onnx_of(model, LENGTH, "logits"), inputs)
    assert found.keys() == {"logits"}
    np.testing.assert_allclose(found["logits"], np.array(model(inputs)), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["albert", "deberta-v2", "modernbert"])
def test_every_family(family):
    initial = open_initial(str(FAMILIES / family), "--model")
    from beambert.model.families.table import family_of

    encoder = family_of(initial.config).encoder(initial.config, has_pooler=False)
    initial.load_into(encoder, "--model")
    inputs = features(initial.config.vocab_size)
    data = onnx_of(encoder, LENGTH, "sequence_output")
    found = outputs(data, inputs)
    mask = inputs["input_mask"].astype(bool)
    expected = np.array(encoder(**inputs)[0])
    np.testing.assert_allclose(found["sequence_output"][mask], expected[mask], atol=1e-4)
    rounded = outputs(int8_of(data), inputs)["sequence_output"]
    assert 0 < np.abs(rounded[mask] - expected[mask]).max() < 0.1 * np.abs(expected).max()


def test_a_model_that_is_too_large_for_a_graph(vocabulary, monkeypatch):
    model = build_model("classification", untrained_models.small_config(vocabulary), 3, seed=1)
    monkeypatch.setattr(onnx_export, "MOST_BYTES", 4000)
    with pytest.raises(InputError, match=r"the weights take .* kB, and a graph has 4.0 kB at most"):
        onnx_of(model, LENGTH, "logits")


@pytest.mark.slow
def test_the_documented_program(tmp_path, untrained, monkeypatch):
    folder = untrained("classifier")
    out = tmp_path / "sentiment-onnx"
    assert run(["export", f"--model={folder}", "--to=onnx", f"--output={out}"]) == 0
    section = (ROOT / "docs" / "use.md").read_text().partition("`--to=onnx` (extra")[2]
    program = section.split("```python")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program, names)
    found = open_model(str(folder), "--model")
    texts = ["A joy from start to end.", "It never ends."]
    ids = padded_ids(texts, found)
    model, mask = task_model(found), (ids != 0).astype(np.int32)
    expected = model({"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)})
    np.testing.assert_array_equal(names["inputs"]["input_ids"], ids)
    np.testing.assert_allclose(names["logits"], np.array(expected), atol=1e-4)


def padded_ids(texts, found) -> np.ndarray:
    """Returns the ids of texts as this project's tokenizer finds them, int32 [texts, L]."""
    special, length = found.vocabulary.special, found.training["max_seq_length"]
    ids, counts = make_tokenizer(found.vocabulary, found.do_lower_case).tokenize_batch(texts)
    padded = np.zeros((len(texts), length), np.int32)
    for row, part in zip(padded, np.split(ids, np.cumsum(counts)[:-1]), strict=True):
        framed = [special.classify, *part[: length - 2], special.separate]
        row[: len(framed)] = framed
    return padded


@pytest.mark.slow
def test_int8_sends_nothing_to_the_makers_of_onnxruntime(tmp_path, untrained):
    flags = [
        f"--model={untrained('classifier')}",
        "--to=onnx",
        "--int8",
        f"--output={tmp_path / 'out'}",
    ]
    command = [sys.executable, "-m", "beambert", "export", *flags]
    environment = {name: value for name, value in os.environ.items() if "TELEMETRY" not in name}
    subprocess.run(command, env=environment | {"HOME": str(tmp_path / "home")}, check=True)
    # The number by which the makers know a user, and what waits to be sent.
    assert not list((tmp_path / "home").rglob("*onnxruntime*"))
