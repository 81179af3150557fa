"""Served models answer texts as the arrays are answered; sparse encoders."""

import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support import untrained_models
from support.tokenizer_kinds import ROBERTA, train

from beambert import saved_models
from beambert.cli import run
from beambert.errors import InputError
from beambert.model.classifier import Head
from beambert.model.pretrainer import BertPretrainer
from beambert.pipelines.tasks import saved_models as task_models
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.find_model import find_model
from beambert.pipelines.tasks.reading import read_splits
from beambert.pipelines.tasks.saved_models import load
from beambert.pipelines.tasks.sparse import best_by_tokens
from beambert.pipelines.tasks.task import Row
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.vectors import VectorExample
from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary
from beambert.trainer import model_folders
from beambert.trainer.embedding.embedder import embed
from beambert.trainer.finetuning.batches import PaddedBatches
from beambert.trainer.models import build_model, task_model
from beambert.trainer.tasks.base import objective_of_kind

WORDS = ("the", "river", "war", "city", "people", "died", "year", "house")
LENGTH = untrained_models.LENGTH


def text(random, most: int) -> str:
    return " ".join(random.choice(WORDS, random.integers(1, most)))


def rows_of(kind: str, is_pair: bool) -> str:
    """A table whose rows have one to more tokens than a model reads."""
    random, lines = np.random.default_rng(1), []
    names = ["text", *(["text_b"] if is_pair else [])]
    names += ["choice_0", "choice_1", "choice_2"] if kind == "choice" else []
    labels = {"multi_label": ("a", "b", "a|b", ""), "regression": ("0.5", "2", "3")}
    labels |= {"choice": ("0", "1", "2"), "rerank": ("0", "1")}
    for number in range(24):
        given = labels.get(kind, ("a", "b", "c"))
        lines.append(
            [*(text(random, (3, 8, 20)[number % 3]) for _ in names), given[number % len(given)]]
        )
    return "".join("\t".join(line) + "\n" for line in [[*names, "label"], *lines])


def sentences() -> str:
    random, found = np.random.default_rng(1), []
    for _ in range(24):
        words = random.choice(WORDS, random.integers(1, 20))
        found.append("".join(f"{word} {'B-X' if word < 'm' else 'O'}\n" for word in words))
    return "\n".join(found)


@pytest.fixture(scope="module")
def bytes_of_words() -> TokenizerVocabulary:
    data = train(ROBERTA, [" ".join(WORDS)] * 9, 300).to_str().encode()
    return TokenizerVocabulary.read(data, "tokenizer.json")


# One of each kind of an answer, and of each tokenizer, is fast enough for every day.
CASES = [
    pytest.param("classification", {}, False, "bytes", marks=pytest.mark.slow),
    ("classification", {}, True, "pieces"),
    ("classification", {"max_windows": 2}, False, "pieces"),
    ("multi_label", {"label_separator": "|"}, False, "pieces"),
    pytest.param("regression", {}, True, "bytes", marks=pytest.mark.slow),
    ("rerank", {}, True, "pieces"),
    ("choice", {}, True, "bytes"),
    ("tagging", {}, False, "pieces"),
    pytest.param("tagging", {}, False, "bytes", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "options", "is_pair", "tokenizer"), CASES)
def test_texts_are_answered_as_arrays_are(
    kind, options, is_pair, tokenizer, vocabulary, bytes_of_words, tmp_path
):
    is_bytes = tokenizer == "bytes"
    vocabulary, task = bytes_of_words if is_bytes else vocabulary, find_task(kind)
    task = dataclasses.replace(task, **options)
    name = "train.conll" if kind == "tagging" else "train.tsv"
    (tmp_path / name).write_text(sentences() if kind == "tagging" else rows_of(kind, is_pair))
    read = read_splits(task, str(tmp_path), ("train",), False)
    examples, labels = read.examples["train"], list(read.labels)
    text_features = TextFeatures(vocabulary, not is_bytes, LENGTH, task.max_windows)
    config = untrained_models.small_config(vocabulary)
    head = Head(window_length=text_features.window_length)
    model, random = build_model(kind, config, len(labels), 0, head), np.random.default_rng(2)
    for variable in model.weights:
        variable.assign(variable + random.normal(0, 1, variable.shape))
    training = {"kind": kind, "task": kind, "labels": labels, "is_pair": is_pair}
    training |= {"windows": task.max_windows} if task.max_windows > 1 else {}
    training |= {"do_lower_case": not is_bytes}
    folder = untrained_models.finish(
        model, tmp_path / "model", config, vocabulary, training, text_features
    )

    loaded = task_models.load(find_model(str(folder)))
    found = saved_models.call_on_texts(loaded, [example.texts() for example in examples])
    features = task.features(examples, labels, text_features)
    assert len(set(features.lengths)) > 3
    batch = PaddedBatches(features)(np.arange(len(examples)), text_features.longest)
    objective = objective_of_kind(kind)((text_features.longest,))
    expected = objective.outputs_of(objective.logits(model, batch, None))
    if kind == "tagging":
        is_word = batch["label_ids"] >= 0
        likeliest = [labels[index] for index in expected["label_ids"].numpy()[is_word]]
        tags = [[tag.decode() for tag in row if tag] for row in found["tags"]]
        assert [len(row) for row in tags] == [len(example.words) for example in examples]
        counts = is_word.sum(axis=1)
        cut = zip(tags, counts, strict=True)
        assert likeliest == [tag for row, count in cut for tag in row[:count]]
        # A word without a token in the sequence is outside.
        cut = zip(tags, counts, strict=True)
        assert {tag for row, count in cut for tag in row[count:]} == {"O"}
    elif kind in ("regression", "rerank"):
        np.testing.assert_allclose(found["score"], expected["scores"], atol=1e-5)
    else:
        shares = expected["probabilities"].numpy()
        np.testing.assert_allclose(found["probabilities"], shares, atol=1e-5)
        if kind == "multi_label":
            applying = [tuple(np.array(labels)[row > 0.5]) for row in shares]
            assert [tuple(x.decode() for x in row if x) for row in found["labels"]] == applying
        else:
            names = labels or ["0", "1", "2"]
            assert [label.decode() for label in found["label"]] == [
                names[index] for index in shares.argmax(axis=1)
            ]
        assert shares.std(axis=0).max() > 1e-4  # Other texts have other answers.


def test_the_same_vectors_everywhere(untrained, tmp_path):
    """The SavedModel, `embed` and a folder for sentence-transformers."""
    folder = untrained("embedding")
    texts = ["the river", "a village of the north", "people in the city"]
    vectors = embed(str(folder), texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    model = tf.saved_model.load(folder / "saved_model").signatures["serving_default"]
    np.testing.assert_allclose(model(text=tf.constant(texts))["embedding"], vectors, atol=1e-5)
    out = tmp_path / "out"
    flags = [f"--model={folder}", f"--output={out}", "--to=sentence-transformers"]
    assert run(["export", *flags]) == 0
    np.testing.assert_allclose(embed(str(out), texts), vectors, atol=1e-5)


def test_pairs_have_no_windows(tmp_path):
    (tmp_path / "train.tsv").write_text("text\ttext_b\tlabel\na\tb\tx\nc\td\ty\n")
    task = dataclasses.replace(find_task("classification"), max_windows=3)
    with pytest.raises(InputError, match="--max_windows=3: .*train.tsv has pairs of"):
        read_splits(task, str(tmp_path), ("train",), False)


def test_labels_of_words_that_are_no_entities(tmp_path):
    (tmp_path / "train.conll").write_text("the DT\nriver NN\n")
    with pytest.raises(InputError, match=r"tag 'DT'.*take --task=word_labels"):
        read_splits(find_task("tagging"), str(tmp_path), ("train",), False)
    read = read_splits(find_task("word_labels"), str(tmp_path), ("train",), False)
    assert read.labels == ("DT", "NN")


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
