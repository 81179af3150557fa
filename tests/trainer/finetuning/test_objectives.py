"""Losses and accuracies against numpy."""

import numpy as np
import pytest
import tensorflow as tf

from beambert.trainer.loop.objectives import means
from beambert.trainer.pretraining.objective import PretrainingObjective
from beambert.trainer.tasks.labels import ClassificationObjective, MultiLabelObjective

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
