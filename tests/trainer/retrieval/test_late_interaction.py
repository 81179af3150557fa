"""Late interaction from the files of a task to a search; the same scores wherever it runs."""

import json

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support import untrained_models
from support.tokenizer_kinds import ROBERTA, train

from beambert.cli import run
from beambert.pipelines.evaluation.predictions import make_rows, read_records, write_records
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.find_model import find_model
from beambert.pipelines.tasks.saved_models import load
from beambert.pipelines.tasks.vectors import VectorExample
from beambert.trainer import model_folders
from beambert.trainer.models import task_model
from beambert.trainer.retrieval import searching
from beambert.trainer.retrieval.searching import open_reranker
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
