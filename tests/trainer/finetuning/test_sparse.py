"""Sparse vectors: equal wherever the model runs, and what they find."""

import json

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support import untrained_models

from beambert.cli import run
from beambert.model.pretrainer import BertPretrainer
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.find_model import find_model
from beambert.pipelines.tasks.saved_models import load
from beambert.pipelines.tasks.sparse import best_by_tokens
from beambert.pipelines.tasks.task import Row
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.vectors import VectorExample
from beambert.trainer import model_folders
from beambert.trainer.models import task_model

TEXTS = ["the river, a city.", "a village of the north", "people in the city", "song"]


@pytest.fixture(scope="module")
def sparse(untrained):
    return untrained("sparse")


@pytest.fixture(scope="module")
def vectors(sparse, vocabulary):
    """log(1 + relu(logit)) of the head of masked LM, the greatest over each text's tokens."""
    found = model_folders.open_model(str(sparse), "--model")
    features = TextFeatures(vocabulary, True, untrained_models.LENGTH)(TEXTS)
    pretrainer = BertPretrainer(found.config, objective="mlm")
    trained = {variable.path: variable for variable in task_model(found).weights}
    for variable in pretrainer.weights:
        variable.assign(trained[variable.path])
    count, length = features["input_ids"].shape
    positions = tf.tile(tf.range(length)[None], [count, 1])
    logits = pretrainer({**features, "masked_lm_positions": positions})["masked_lm_logits"]
    weights = np.log1p(np.maximum(logits, 0)) * features["input_mask"][..., None]
    return weights.max(axis=1)


def test_a_served_model_gives_the_greatest_weights(sparse, vectors):
    served = tf.saved_model.load(sparse / "saved_model").signatures["serving_default"]
    found = {name: each.numpy() for name, each in served(text=tf.constant(TEXTS)).items()}
    own = np.take_along_axis(vectors, found["tokens"], axis=1)
    np.testing.assert_allclose(found["weights"], own, atol=1e-5)
    rest = vectors.copy()
    np.put_along_axis(rest, found["tokens"], 0, axis=1)
    assert (rest.max(axis=1) <= found["weights"].min(axis=1) + 1e-5).all() and vectors.max() > 0.1


def test_a_version_says_what_it_gives(sparse, tmp_path):
    assert run(["export", f"--model={sparse}", f"--output={tmp_path}"]) == 0
    assert "| gives `weights` | float32" in (tmp_path / "1" / "README.md").read_text()


def test_an_evaluation_ranks_by_the_products(sparse, vectors):
    task, random = find_task("sparse"), np.random.default_rng(0)
    rows = [(0, 1, 2), (1, 3, 0), (2, 0, 1)]
    examples = [VectorExample(TEXTS[a], TEXTS[b], None, {}, (TEXTS[c],)) for a, b, c in rows]
    model = find_model(str(sparse), task.kind)
    records = task.predict(model, load(model), [Row(each, {}) for each in examples])
    ids = np.array(rows)
    ranked = task._best(model, ids, records)
    for (query, right, _), found in zip(rows, ranked.tolist(), strict=True):
        others = [text for text in range(4) if text != query or text == right]
        scores = vectors[others] @ vectors[query]
        expected = [others[place] for place in np.argsort(-scores, kind="stable")]
        assert [text for text in found if text in others] == expected
    # Any tokens, some of which no document has.
    tokens = np.stack([random.permutation(30)[:5] for _ in range(12)]).reshape(4, 3, 5)
    weights = random.random((4, 3, 5)).astype(np.float32)
    dense = np.zeros((4, 3, 30))
    np.put_along_axis(dense, tokens, weights, axis=-1)
    ids = np.arange(12).reshape(4, 3)
    found = best_by_tokens(ids, tokens, weights)
    documents = dense[:, 1:].reshape(8, 30)
    for row, best in enumerate(found[:, 0].tolist()):
        assert best == ids[:, 1:].ravel()[np.argmax(documents @ dense[row, 0])]


def test_sentence_transformers_loads_the_export_as_a_masked_language_model(sparse, tmp_path):
    """What it computes of it was compared with `SparseEncoder`, to within 1e-6."""
    flags = [f"--model={sparse}", "--to=sentence-transformers", f"--output={tmp_path / 'st'}"]
    assert run(["export", *flags]) == 0
    config = json.loads((tmp_path / "st" / "config.json").read_text())
    assert config["architectures"] == ["BertForMaskedLM"]
    names = safetensors.numpy.load_file(tmp_path / "st" / "model.safetensors")
    assert "cls.predictions.transform.dense.weight" in names
    types = [m["type"] for m in json.loads((tmp_path / "st" / "modules.json").read_text())]
    assert [name.rpartition(".")[2] for name in types] == ["MLMTransformer", "SpladePooling"]
    assert run(["export", *flags, "--pooling=cls"]) == 2
