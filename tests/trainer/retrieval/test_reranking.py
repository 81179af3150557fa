"""A model that ranks pairs: judged, at work in a search, and in sentence-transformers."""

import json
import os
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from support import untrained_models

from beambert.cli import run
from beambert.errors import InputError
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import read_file
from beambert.pipelines.tasks.task import RERANK
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.trainer.retrieval.searching import open_reranker
from beambert.trainer.tasks.labels import RelevanceObjective

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
