"""Models of all kinds, with random weights: texts are answered as the arrays of a training are."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from support import untrained_models
from support.tokenizer_kinds import ROBERTA, train

from beambert import saved_models
from beambert.cli import run
from beambert.errors import InputError
from beambert.model.classifier import Head
from beambert.pipelines.tasks import saved_models as task_models
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.find_model import find_model
from beambert.pipelines.tasks.reading import read_splits
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary
from beambert.trainer.embedding.embedder import embed
from beambert.trainer.finetuning.batches import PaddedBatches
from beambert.trainer.models import build_model
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
    text_features = TextFeatures(vocabulary, not is_bytes, LENGTH, task.windows)
    config = untrained_models.small_config(vocabulary)
    head = Head(window_length=text_features.window_length)
    model, random = build_model(kind, config, len(labels), 0, head), np.random.default_rng(2)
    for variable in model.weights:
        variable.assign(variable + random.normal(0, 1, variable.shape))
    training = {"kind": kind, "task": kind, "labels": labels, "is_pair": is_pair}
    training |= {"windows": task.windows} if task.windows > 1 else {}
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
