"""Models that compare queries with passages: late interaction and reranking."""

import json
import os
import subprocess

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support import untrained_models
from support.tokenizer_kinds import ROBERTA, train

from beambert.cli import run
from beambert.errors import InputError
from beambert.pipelines.evaluation.predictions import make_rows, read_records, write_records
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.find_model import find_model
from beambert.pipelines.tasks.reading import read_file
from beambert.pipelines.tasks.saved_models import load
from beambert.pipelines.tasks.task import RERANK
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.vectors import VectorExample
from beambert.trainer import model_folders
from beambert.trainer.models import task_model
from beambert.trainer.retrieval import searching
from beambert.trainer.retrieval.searching import open_reranker
from beambert.trainer.tasks.labels import RelevanceObjective
from beambert.trainer.weights.initial import open_initial

TEXTS = ["the river, a city.", "a village of the north", "people in the city", "song"]
QUERY = "where is the river"


@pytest.fixture(scope="module")
def late_interaction(untrained):
    return untrained("late_interaction")


@pytest.fixture(scope="module")
def served(tmp_path_factory, vocabulary):
    folder = tmp_path_factory.mktemp("served") / "model"
    return untrained_models.save_late_interaction(folder, vocabulary, is_served=True)


def served_scores(folder, query, texts):
    served = tf.saved_model.load(folder / "saved_model").signatures["serving_default"]
    return served(text=tf.constant([query] * len(texts)), text_b=tf.constant(texts))["score"]


@pytest.mark.slow
def test_an_evaluation_ranks_by_the_scores(served, tmp_path):
    """All texts of all rows for each query, but for the query itself."""
    rows = [("river", TEXTS[0], TEXTS[1]), ("city", TEXTS[2], TEXTS[0]), (TEXTS[1], "song", "a")]
    examples = [VectorExample(text, text_b, None, {}, (other,)) for text, text_b, other in rows]
    task = find_task("late_interaction")
    model = find_model(str(served), task.kind)
    loaded = load(model)
    made, _ = make_rows(task, examples, [])
    found = [*task.predict(model, loaded, made[:2]), *task.predict(model, loaded, made[2:])]
    write_records([{**m.record, **r} for m, r in zip(made, found, strict=True)], str(tmp_path))
    records = task.completed(None, made, read_records(tmp_path))
    texts = list(dict.fromkeys(text for row in rows for text in row[1:]))
    for (query, right, _), record in zip(rows, records, strict=True):
        candidates = [text for text in texts if text != query or text == right]
        scores = np.array(served_scores(served, query, candidates))
        assert record["found"][0].decode() == candidates[scores.argmax()]
        rank = 1 + int((scores > scores[candidates.index(right)]).sum())
        assert record["mrr_at_10"][0] == pytest.approx(1 / rank)
        assert not {"query", "documents", "tokens"} & record.keys()


@pytest.mark.slow
def test_passages_are_read_once(late_interaction, monkeypatch):
    monkeypatch.setattr(searching, "_PASSAGES_KEPT", 3)
    reranker, read = open_reranker(str(late_interaction)), []
    documents = reranker._text_features.documents

    def recorded(texts):
        read.append(list(texts))
        return documents(texts)

    reranker._text_features.documents = recorded
    first = reranker.scores(QUERY, TEXTS[:3])
    again = reranker.scores(QUERY, TEXTS[2::-1])
    np.testing.assert_allclose(again, first[::-1], atol=1e-5)
    reranker.scores(QUERY, TEXTS[1:])  # The last one displaces the one that was needed longest ago.
    reranker.scores(QUERY, TEXTS[:1])
    assert read == [TEXTS[:3], TEXTS[3:], TEXTS[:1]]
    assert len(reranker._kept) == 3


def test_a_checkpoint_of_colbert(late_interaction, tmp_path):
    """Its layer on top, its settings, and the way back."""
    out = tmp_path / "colbert"
    assert (
        run(["export", f"--model={late_interaction}", f"--output={out}", "--to=huggingface"]) == 0
    )
    weights = safetensors.numpy.load_file(out / "model.safetensors")
    assert weights["linear.weight"].shape == (128, 8)
    assert "bert.encoder.layer.0.attention.self.query.weight" in weights
    settings = json.loads((out / "artifact.metadata").read_text())
    assert (settings["query_maxlen"], settings["doc_maxlen"], settings["dim"]) == (9, 16, 128)
    model = task_model(model_folders.open_model(str(late_interaction), "--model"))
    read = open_initial(str(out), "--init").read()
    for variable in model.weights:
        np.testing.assert_array_equal(variable.numpy(), read[variable.path])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("late")
    row = json.dumps({"text": TEXTS[0], "text_b": TEXTS[1], "negative": TEXTS[2]})
    for split in ("train", "dev"):
        (folder / f"{split}.jsonl").write_text(f"{row}\n" * 16)
    return folder


def finetune(data, init, model_dir, *flags):
    given = [f"--data_dir={data}", f"--init={init}", f"--model_dir={model_dir}"]
    given += ["--query_length=10", "--train_batch_size=16", *flags]
    return run(["finetune", "--task=late_interaction", *given])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--query_length=24", "--max_seq_length=16"], "--query_length=24: must be at most 16"),
        (["--pooling=cls"], "--pooling: a late_interaction task has none"),
        (["--freeze_encoder"], "--freeze_encoder=True: "),
    ],
)
def test_settings_that_cannot_be_used(data, untrained, tmp_path, capsys, flags, said):
    assert finetune(data, untrained("encoder"), tmp_path / "model", *flags) == 2
    assert said in capsys.readouterr().err


def test_an_encoder_of_other_pieces(data, tmp_path, capsys):
    """No graph of a SavedModel could frame its queries."""
    train(ROBERTA, TEXTS, 300).save(str(tmp_path / "tokenizer.json"))
    flags = ["--model=tiny", f"--tokenizer={tmp_path / 'tokenizer.json'}"]
    assert finetune(data, "random", tmp_path / "model", *flags) == 2
    assert "--task=late_interaction: needs an encoder of word pieces" in capsys.readouterr().err


# A Python interpreter that has sentence-transformers, for a release.
PEER = os.environ.get("BEAMBERT_SENTENCE_TRANSFORMERS_PYTHON")
PREDICT = """
import json, sys
from sentence_transformers import CrossEncoder
pairs = [(sys.argv[2], text) for text in sys.argv[3:]]
print(json.dumps(CrossEncoder(sys.argv[1], device="cpu").predict(pairs).tolist()))
"""
NEUTRAL = ("the", "a", "house", "year", "people")
OTHER = ("river", "city", "war", "died")


@pytest.fixture(scope="module")
def reranker(tmp_path_factory, vocabulary):
    """A model with random weights."""
    folder = tmp_path_factory.mktemp("reranker") / "model"
    features = TextFeatures(vocabulary, True, untrained_models.LENGTH)
    return untrained_models.save_task(folder, vocabulary, RERANK, 0.3, features, is_pair=True)


def test_the_loss_is_the_binary_cross_entropy():
    logits, labels = np.array([2.0, -1.0, 0.5], np.float32), np.array([1.0, 0.0, 0.25], np.float32)
    features = {"label_ids": tf.constant(labels), "input_ids": tf.zeros([3, 1], tf.int32)}
    found = RelevanceObjective([8]).sums_of(tf.constant(logits), features)["cross_entropy"]
    shares = 1 / (1 + np.exp(-logits))
    expected = -(labels * np.log(shares) + (1 - labels) * np.log(1 - shares)).sum()
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_a_search_is_ranked_again(reranker, tmp_path, untrained):
    encoder = untrained("encoder")
    texts = [f"{NEUTRAL[i % 5]} {OTHER[i % 4]} {NEUTRAL[i % 3]}" for i in range(24)]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    index, out = tmp_path / "index", tmp_path / "hits.jsonl"
    given = [f"--model={encoder}", f"--input={tmp_path / 'texts.txt'}"]
    assert run(["embed", *given, f"--output={tmp_path / 'embeddings'}"]) == 0
    assert run(["index", f"--embeddings={tmp_path / 'embeddings'}", f"--output={index}"]) == 0
    flags = [f"--index={index}", f"--model={encoder}", "--by=vectors", f"--output={out}"]
    flags += ["--top=5", f"--reranker={reranker}", "people of the house"]
    assert run(["search", *flags]) == 0
    hits = json.loads(out.read_text())["hits"]
    scores = [hit["score"] for hit in hits]
    assert len(hits) == 5 and scores == sorted(scores, reverse=True)
    best = max(open_reranker(str(reranker)).scores("people of the house", texts))
    assert hits[0]["score"] == pytest.approx(best, rel=1e-6)
    # Its SavedModel, which `evaluate` judges, has the same scores.
    served = tf.saved_model.load(reranker / "saved_model").signatures["serving_default"]
    found = [hit["text"] for hit in hits]
    of_pairs = served(text=tf.constant(["people of the house"] * 5), text_b=tf.constant(found))
    np.testing.assert_allclose(scores, of_pairs["score"], atol=1e-5)
    hf = tmp_path / "hf"
    assert run(["export", f"--model={reranker}", f"--output={hf}", "--to=huggingface"]) == 0
    if PEER:
        asked = [PEER, "-c", PREDICT, hf, "people of the house", *(hit["text"] for hit in hits)]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        np.testing.assert_allclose(json.loads(done.stdout.splitlines()[-1]), scores, atol=1e-5)


def test_what_is_no_reranker_is_refused(untrained):
    with pytest.raises(InputError, match="--reranker=.*: was not trained to rank pairs of texts"):
        open_reranker(str(untrained("encoder")))


@pytest.mark.parametrize("label", ["2", "-0.1", "nan", "yes"])
def test_relevance_is_from_0_to_1(tmp_path, label):
    row = {"text": "a query", "text_b": "a text", "label": label}
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match="for a relevance, which is a number from 0 to 1"):
        read_file(find_task("rerank"), str(tmp_path), "train")


def test_a_file_has_a_relevant_candidate(tmp_path):
    rows = [{"text": "a query", "text_b": text, "label": "0"} for text in ("a", "b")]
    (tmp_path / "dev.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(InputError, match="dev.jsonl: has no relevant candidate, as no .label. is"):
        read_file(find_task("rerank"), str(tmp_path), "dev")
