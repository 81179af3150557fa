"""Losses beside their formulas and sentence-transformers, and what cannot be learnt."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import read_file
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.loop.objectives import means
from beambert.trainer.pretraining.objective import PretrainingObjective
from beambert.trainer.tasks import vectors as vector_objectives
from beambert.trainer.tasks.labels import ClassificationObjective, MultiLabelObjective
from beambert.trainer.tasks.sparse import SparseObjective

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden_losses.json").read_text())


def loss_of(case, vectors, ids, weights):
    """The mean loss of a batch, with the settings of a golden case."""
    if case["loss"] == "sparse":
        task = dataclasses.replace(find_task("sparse"), flops_weight=case["flops_weight"])
        features = {"text_ids": ids, "example_weights": weights}
        sums = SparseObjective([8], task, 8).sums_of(vectors, features)
        return (sums["cross_entropy"] + sums["flops"]) / tf.reduce_sum(weights)

    def loss(some):
        if case["loss"] == "in_batch":
            given = some, ids, weights, case["temperature"]
            return tf.reduce_mean(vector_objectives.in_batch(*given)[0])
        found, scores = vector_objectives.cosines(some), tf.constant(case["scores"])
        if case["loss"] == "cosent":
            return vector_objectives.cosent(found, scores, weights, case["temperature"])
        return tf.reduce_mean(tf.math.squared_difference(found, scores))

    return vector_objectives.at_dims(loss, vectors, case.get("matryoshka_dims", ()))


def different_ids(vectors):
    return tf.reshape(tf.range(np.prod(vectors.shape[:2]), dtype=tf.int64), vectors.shape[:2])


@pytest.mark.parametrize("name", GOLDEN)
def test_losses_and_gradients_are_sentence_transformers(name):
    case = GOLDEN[name]
    vectors = tf.Variable(case["vectors"])
    with tf.GradientTape() as tape:
        value = loss_of(case, vectors, different_ids(vectors), tf.ones(vectors.shape[0]))
    assert float(value) == pytest.approx(case["value"], abs=1e-5, rel=1e-5)
    np.testing.assert_allclose(tape.gradient(value, vectors), case["gradient"], atol=1e-5)


@pytest.mark.parametrize("name", ["two negatives", "cosent", "sparse"])
def test_rows_that_fill_up_a_batch_do_not_count(name):
    case = GOLDEN[name]
    real = tf.constant(case["vectors"])
    filled = tf.concat([real, real[:2] + 1.0], 0)
    weights = tf.concat([tf.ones(6), tf.zeros(2)], 0)
    if name == "cosent":
        scores = tf.constant([*case["scores"], 9.0, -9.0])
        found = vector_objectives.cosent(
            vector_objectives.cosines(filled), scores, weights, case["temperature"]
        )
        assert float(found) == pytest.approx(case["value"], abs=1e-5)
        return
    if name == "sparse":
        found = loss_of(case, filled, different_ids(filled), weights)
        assert float(found) == pytest.approx(case["value"], abs=1e-5)
        return
    losses, _ = vector_objectives.in_batch(
        filled, different_ids(filled), weights, case["temperature"]
    )
    assert float(tf.reduce_mean(losses[:6])) == pytest.approx(case["value"], abs=1e-5)


def in_batch_by_hand(vectors, ids, temperature):
    """The same with loops over rows, and a set of the texts that are no negatives."""
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    losses = []
    for row in range(len(units)):
        right = {ids[other][1] for other in range(len(ids)) if ids[other][0] == ids[row][0]}
        logits = [units[row, 0] @ units[row, 1] / temperature]
        for other in range(len(units)):
            for place in range(1, units.shape[1]):
                is_own = (other, place) == (row, 1)
                if not is_own and ids[other][place] not in {*right, ids[row][0]}:
                    logits.append(units[row, 0] @ units[other, place] / temperature)
        losses.append(np.log(np.sum(np.exp(logits))) - logits[0])
    return losses


def test_equal_texts_are_no_negatives():
    vectors = np.random.default_rng(3).normal(size=(5, 3, 4))
    # Rows 0 and 1 ask for the same text, rows 2 and 3 are the same question, and the text of row 4
    # is the question of row 0; the negative of row 1 is the right text of row 2, and so right for
    # the question of row 3 too.
    ids = [[1, 2, 11], [3, 2, 5], [4, 5, 13], [4, 6, 14], [7, 1, 15]]
    arguments = tf.constant(vectors, tf.float32), tf.constant(ids, tf.int64), tf.ones(5), 0.1
    losses, _ = vector_objectives.in_batch(*arguments)
    np.testing.assert_allclose(losses, in_batch_by_hand(vectors, ids, 0.1), rtol=1e-5)
    # It makes a difference: with other ids the same vectors have greater losses.
    others, _ = vector_objectives.in_batch(arguments[0], different_ids(vectors), *arguments[2:])
    assert (np.array(losses) < np.array(others) - 1e-3).sum() >= 4


def test_whole_vectors_are_learnt_beside_their_parts():
    """Each width once, whether the whole one is listed or not."""
    vectors = tf.constant(np.random.default_rng(4).normal(size=(3, 2, 6)), tf.float32)

    def loss(some):
        return tf.reduce_sum(some**2)

    expected = sum(np.sum(vectors.numpy()[..., :width] ** 2) for width in (6, 4, 2))
    for dims in ((4, 2), (6, 4, 2), (2, 6, 4)):
        found = vector_objectives.at_dims(loss, vectors, dims)
        assert float(found) == pytest.approx(expected, rel=1e-5)


PAIR = {"text": "the river", "text_b": "a city"}
ROWS = {"embedding": PAIR, "single": {"text": "the river"}, "similarity": PAIR | {"label": 5}}


def written(folder, split, *rows):
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder)


def refused(task, rows, config, vocabulary, folder, *flags) -> str:
    """What `finetune` says, from random weights."""
    for split, row in (("train", ROWS[rows]), ("dev", PAIR | ROWS[rows])):
        written(folder / "data", split, *[row] * 32)
    (folder / "vocab.txt").write_bytes(vocabulary.serialize())
    given = [f"--task={task}", f"--data_dir={folder}/data", "--init=random", f"--model={config}"]
    given += [f"--vocab_file={folder}/vocab.txt", f"--model_dir={folder}/model", *flags]
    with pytest.raises(InputError) as caught:
        finetune_main(given)
    return str(caught.value)


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
        ("embedding", ["--freeze_encoder"], "--freeze_encoder=True: "),
        ("similarity", ["--loss=cosine"], "has the score 5, which no cosine can be"),
    ],
)
def test_settings_that_cannot_be_used(small_config_file, vocabulary, tmp_path, task, flags, said):
    assert said in refused(task, task, small_config_file, vocabulary, tmp_path, *flags)


def test_single_texts_need_dropout(vocabulary, tmp_path):
    """As ModernBERT's encoders have none by default."""
    config = BertConfig(
        vocab_size=len(vocabulary.tokens),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    ).with_dropout(0.0)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_values()))
    said = refused("embedding", "single", path, vocabulary, tmp_path)
    assert "has no dropout, under which " in said and "; add a column 'text_b' to train" in said


BATCH, PREDICTIONS, TOKENS, LABELS = 6, 4, 11, 3


def cross_entropy(logits: np.ndarray, label: int) -> float:
    return float(np.log(np.exp(logits.astype(np.float64)).sum()) - logits[label])


def totals(objective, logits, features) -> dict[str, float]:
    features = {name: tf.constant(array) for name, array in features.items()}
    sums = objective.sums(lambda *_, **__: logits, features, None) | objective.weights(features)
    return {name: float(value) for name, value in sums.items()}


@pytest.fixture
def random():
    return np.random.default_rng(6)


@pytest.fixture
def pretraining(random):
    logits = {
        "masked_lm_logits": random.standard_normal((BATCH, PREDICTIONS, TOKENS)).astype("f"),
        "next_sentence_logits": random.standard_normal((BATCH, 2)).astype("f"),
    }
    features = {
        "input_ids": np.zeros((BATCH, 8), np.int32),
        "masked_lm_ids": random.integers(0, TOKENS, (BATCH, PREDICTIONS)).astype(np.int32),
        "masked_lm_weights": random.integers(0, 2, (BATCH, PREDICTIONS)).astype(np.float32),
        "next_sentence_labels": random.integers(0, 2, (BATCH, 1)).astype(np.int32),
    }
    # Some right answers, so that an accuracy of 0 isn't all there is.
    for row in range(3):
        logits["masked_lm_logits"][row, 1, features["masked_lm_ids"][row, 1]] = 9
    features["masked_lm_weights"][:2, 1] = 1
    features["masked_lm_weights"][2, 1] = 0
    return logits, features


@pytest.mark.parametrize("filled_rows", [0, 2])
def test_pretraining(pretraining, filled_rows):
    logits, features = pretraining
    real = BATCH - filled_rows
    if filled_rows:
        features["example_weights"] = np.array([1] * real + [0] * filled_rows, np.float32)
        features["masked_lm_weights"][real:] = 0
    objective = PretrainingObjective()
    values = means(totals(objective, logits, features), objective)
    token_losses, token_hits, label_losses, label_hits = [], [], [], []
    for row in range(real):
        for slot in range(PREDICTIONS):
            if features["masked_lm_weights"][row, slot]:
                scores, token = logits["masked_lm_logits"][row, slot], None
                token = features["masked_lm_ids"][row, slot]
                token_losses.append(cross_entropy(scores, token))
                token_hits.append(scores.argmax() == token)
        scores = logits["next_sentence_logits"][row]
        label = features["next_sentence_labels"][row, 0]
        label_losses.append(cross_entropy(scores, label))
        label_hits.append(scores.argmax() == label)
    expected = {
        "masked_lm_loss": np.mean(token_losses),
        "masked_lm_accuracy": np.mean(token_hits),
        "next_sentence_loss": np.mean(label_losses),
        "next_sentence_accuracy": np.mean(label_hits),
    }
    expected["loss"] = expected["masked_lm_loss"] + expected["next_sentence_loss"]
    assert 0 < expected["masked_lm_accuracy"] < 1
    assert values == pytest.approx(expected, rel=1e-5)


def test_pretraining_without_predictions(pretraining):
    logits, features = pretraining
    features["masked_lm_weights"][:] = 0
    objective = PretrainingObjective()
    values = means(totals(objective, logits, features), objective)
    assert values["masked_lm_loss"] == values["masked_lm_accuracy"] == 0
    assert values["loss"] == values["next_sentence_loss"] > 0


@pytest.mark.parametrize("weights", [None, [1, 1, 0, 1, 0, 0]])
def test_classification(random, weights):
    logits = random.standard_normal((BATCH, LABELS)).astype("f")
    labels = random.integers(0, LABELS, BATCH).astype(np.int32)
    labels[0] = logits[0].argmax()
    features = {"input_ids": np.zeros((BATCH, 8), np.int32), "label_ids": labels}
    if weights:
        features["example_weights"] = np.array(weights, np.float32)
    objective = ClassificationObjective((8,))
    values = means(totals(objective, logits, features), objective)
    rows = np.flatnonzero(weights or [1] * BATCH)
    loss = np.mean([cross_entropy(logits[row], labels[row]) for row in rows])
    accuracy = np.mean([logits[row].argmax() == labels[row] for row in rows])
    assert values == pytest.approx(
        {"loss": loss, "cross_entropy": loss, "accuracy": accuracy}, rel=1e-5
    )


def test_class_weights_multiply_the_losses(random):
    """The accuracy counts every example alike."""
    logits = random.standard_normal((BATCH, LABELS)).astype("f")
    weights = random.uniform(0.5, 3, BATCH).astype("f")
    labels = random.integers(0, LABELS, BATCH).astype(np.int32)
    features = {"input_ids": np.zeros((BATCH, 8), np.int32), "label_ids": labels}
    objective = ClassificationObjective((8,))
    found = totals(objective, logits, features | {"loss_weights": weights})
    losses = [cross_entropy(row, label) for row, label in zip(logits, labels, strict=True)]
    assert found["cross_entropy"] == pytest.approx(np.dot(weights, losses), rel=1e-5)
    assert found["accuracy"] == (logits.argmax(axis=1) == labels).sum()


@pytest.mark.parametrize("is_weighted", [False, True])
def test_several_labels(random, is_weighted):
    """The mean over the labels; rows that fill up the batch do not count."""
    logits = random.standard_normal((BATCH, LABELS)).astype("f")
    labels = random.integers(0, 2, (BATCH, LABELS)).astype("f")
    real = np.array([1] * (BATCH - 2) + [0] * 2, np.float32)
    features = {"input_ids": np.zeros((BATCH, 8), np.int32), "label_ids": labels}
    weights = np.where(labels > 0, np.float32(3), np.float32(1)) if is_weighted else 1
    features |= {"example_weights": real} | ({"loss_weights": weights} if is_weighted else {})
    objective = MultiLabelObjective((8,))
    values = means(totals(objective, logits, features), objective)
    truth = 1 / (1 + np.exp(-np.where(labels > 0, logits, -logits).astype(float)))
    losses = (weights * -np.log(truth))[: BATCH - 2]
    assert values["cross_entropy"] == pytest.approx(losses.mean(), rel=1e-5)
    assert values["label_accuracy"] == pytest.approx((truth > 0.5)[: BATCH - 2].mean())
