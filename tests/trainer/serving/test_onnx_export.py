"""ONNX graphs, run by onnxruntime beside the models they were made from."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from support import untrained_models

from beambert.cli import run
from beambert.errors import InputError
from beambert.pipelines.tasks.task import LATE_INTERACTION, SPAN, TAGGING
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.trainer.model_folders import open_model
from beambert.trainer.models import build_model, task_model
from beambert.trainer.serving import onnx_export
from beambert.trainer.serving.onnx_export import int8_of, onnx_of
from beambert.trainer.weights.initial import open_initial

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
