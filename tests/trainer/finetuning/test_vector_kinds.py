"""Embeddings and similarities: learnt, judged, and the same vectors wherever the model runs."""

import json

import numpy as np
import pytest
import tensorflow as tf
from support.small_finetuning import results

from beambert.cli import run
from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import read_file
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.embedding.embedder import embed

# A word of a question and the words of its answer.
TOPICS = {
    "river": ("city", "people"),
    "war": ("died", "year"),
    "music": ("song", "house"),
    "north": ("village", "there"),
}
FILLER = ("the", "a", "in", "of", "and", "was", "is")


def phrase(random, *words) -> str:
    together = [*random.choice(FILLER, random.integers(1, 4)), *words]
    random.shuffle(together)
    return " ".join(together)


def pair(random) -> tuple[str, str, str]:
    """A question, its answer, and the answer of another question."""
    topic, other = random.choice(list(TOPICS), 2, replace=False)
    answers = (phrase(random, *random.choice(TOPICS[t], 2)) for t in (topic, other))
    return phrase(random, topic), *answers


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root, random = tmp_path_factory.mktemp("vectors"), np.random.default_rng(4)
    for kind in ("embedding", "triplets", "single", "similarity"):
        (root / kind).mkdir()
    for split, count in (("train", 320), ("dev", 48)):
        found = [pair(random) for _ in range(count)]
        pairs = [{"text": text, "text_b": answer} for text, answer, _ in found]
        triplets = [
            row | {"negative": other} for row, (_, _, other) in zip(pairs, found, strict=True)
        ]
        scored = [
            {"text": text, "text_b": (answer, other)[i % 2], "label": 5 - 4 * (i % 2)}
            for i, (text, answer, other) in enumerate(found)
        ]
        single = pairs if split == "dev" else [{"text": text} for text, _, _ in found]
        for kind, rows in (
            ("embedding", pairs),
            ("triplets", triplets),
            ("single", single),
            ("similarity", scored),
        ):
            lines = "".join(f"{json.dumps(row)}\n" for row in rows)
            (root / kind / f"{split}.jsonl").write_text(lines)
    return root


def finetune(task, folder, init, model_dir, *flags):
    common = ("--train_batch_size=16", "--learning_rate=2e-3", "--num_train_epochs=3")
    finetune_main(
        [
            f"--task={task}",
            f"--data_dir={folder}",
            f"--init={init}",
            f"--model_dir={model_dir}",
            *(flag for flag in common if flag.partition("=")[0] not in " ".join(flags)),
            *flags,
        ]
    )
    return json.loads((model_dir / "results.json").read_text())


@pytest.fixture(scope="module")
def embedding(data, encoder_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedding") / "model"
    flags = (
        "--matryoshka_dims=8,4",
        "--num_train_epochs=6",
        "--learning_rate=5e-3",
    )
    finetune("embedding", data / "triplets", encoder_folder, folder, *flags)
    return folder


@pytest.mark.release
def test_answers_are_found(embedding):
    """Of 96 texts 24 have the words of a question's topic, and one counts: 0.42 is perfect."""
    found = results(embedding)
    assert found["recall_at_10"] > 0.3
    assert np.isfinite(list(found.values())).all()
    assert found["baseline_recall_at_10"] < found["recall_at_10"]
    for metric in ("ndcg_at_10", "mrr_at_10", "recall_at_10"):
        assert 0 <= found[f"{metric}_of_4_dims"] <= 1


@pytest.mark.release
def test_scores_are_followed(data, encoder_folder, tmp_path):
    found = finetune("similarity", data / "similarity", encoder_folder, tmp_path / "model")
    assert found["spearman"] > 0.45
    assert found["baseline_spearman"] == 0


@pytest.mark.slow
def test_the_same_vectors_everywhere(embedding, tmp_path):
    texts = ["the river", "a village of the north", "people in the city"]
    vectors = embed(str(embedding), texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    model = tf.saved_model.load(embedding / "saved_model").signatures["serving_default"]
    served = model(text=tf.constant(texts))["embedding"]
    np.testing.assert_allclose(served, vectors, atol=1e-5)
    out = tmp_path / "out"
    assert (
        run(["export", f"--model={embedding}", f"--output={out}", "--to=sentence-transformers"])
        == 0
    )
    np.testing.assert_allclose(embed(str(out), texts), vectors, atol=1e-5)


@pytest.mark.release
def test_judged_and_blessed(embedding, data, tmp_path, capsys):
    out = tmp_path / "evaluation"
    flags = [f"--data_dir={data / 'triplets'}", f"--model={embedding}", f"--output={out}"]
    assert run(["evaluate", "--task=embedding", *flags]) == 0
    metrics = json.loads((out / "metrics.json").read_text())
    trained = results(embedding)
    for name in ("ndcg_at_10", "mrr_at_10", "recall_at_10"):
        assert metrics["overall"][name] == pytest.approx(trained[name], abs=1e-4)
        constant = metrics["constant_answers"][name]
        assert constant["score"] == pytest.approx(trained[f"baseline_{name}"], abs=1e-6)
    assert metrics["blessed"]
    assert (out / "BLESSED").exists()
    again = tmp_path / "again"
    flags[-1] = f"--output={again}"
    assert run(["evaluate", "--task=embedding", *flags, f"--baseline={out}"]) == 0
    assert json.loads((again / "metrics.json").read_text())["baseline"]["changes"]["mrr_at_10"] == 0


def written(folder, split, *rows):
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder)


PAIR = {"text": "the river", "text_b": "a city"}


@pytest.mark.parametrize(
    ("task", "rows", "said"),
    [
        ("similarity", [PAIR | {"label": "NaN"}], "'NaN' for a score"),
        ("similarity", [{"text": "a", "label": "1"}], "no column 'text_b'"),
        ("embedding", [PAIR, {"text": "a"}], "has 'text_b' in some rows only"),
        ("embedding", [PAIR | {"label": "0"}], "--task=similarity"),
        ("embedding", [PAIR | {"negative": "a"}, PAIR], "different numbers of negatives"),
        ("embedding", [{"text": "a", "negative": "b"}], "has negatives but no column 'text_b'"),
    ],
)
def test_rows_that_cannot_be_learnt(tmp_path, task, rows, said):
    with pytest.raises(InputError, match=said.replace("'", ".")):
        read_file(find_task(task), written(tmp_path / "data", "train", *rows), "train")


@pytest.mark.parametrize(
    ("task", "flags", "said"),
    [
        ("embedding", ["--matryoshka_dims=64,999"], "--matryoshka_dims=64,999: "),
        ("embedding", ["--train_batch_size=1"], "--train_batch_size=1: leaves one example"),
        ("embedding", ["--single_texts=cloze"], "has a column .text_b."),
        ("embedding", ["--freeze_encoder"], "--freeze_encoder=True: "),
        ("similarity", ["--loss=cosine"], "has the score 5, which no cosine can be"),
    ],
)
def test_settings_that_cannot_be_used(
    data, small_config_file, vocabulary, tmp_path, task, flags, said
):
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    encoder = [f"--model={small_config_file}", f"--vocab_file={tmp_path / 'vocab.txt'}"]
    with pytest.raises(InputError, match=said):
        finetune(task, data / task, "random", tmp_path / "model", *encoder, *flags)


def test_single_texts_need_dropout(data, vocabulary, tmp_path):
    """As ModernBERT's encoders have none by default."""
    config = BertConfig(
        vocab_size=len(vocabulary.tokens),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    ).with_dropout(0.0)
    (tmp_path / "config.json").write_text(json.dumps(config.to_values()))
    flags = [f"--model={tmp_path / 'config.json'}", f"--vocab_file={tmp_path / 'vocab.txt'}"]
    (tmp_path / "vocab.txt").write_bytes(vocabulary.serialize())
    said = (
        "has no dropout, under which .*; add a column .text_b. to train.* by --single_texts=cloze"
    )
    with pytest.raises(InputError, match=said):
        finetune("embedding", data / "single", "random", tmp_path / "model", *flags)
