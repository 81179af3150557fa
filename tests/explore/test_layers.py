"""Answers on the page are those of the model."""

import numpy as np
import pytest

from beambert.explore.layers import (
    masked_answers,
    next_probability,
    single,
)

IDS = np.array([2, 10, 4, 12, 3, 13, 14, 20, 3], np.int32)
SEGMENTS = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1], np.int32)


@pytest.fixture(scope="module")
def model(material):
    return material.model("encoder")


def test_answers_are_those_of_the_model(model):
    features = single(IDS, SEGMENTS)
    (answer,) = masked_answers(model, features, np.array([2]), np.array([11]))
    given = {**features, "masked_lm_positions": np.array([[2]])}
    logits = model(given)
    expected = np.array(logits["masked_lm_logits"])[0, 0]
    assert [index for index, _ in answer.best] == np.argsort(-expected)[:5].tolist()
    log_total = np.log(np.exp(expected.astype(float)).sum())
    assert answer.loss == pytest.approx(log_total - expected[11], abs=1e-4)
    assert answer.rank == 1 + (expected > expected[11]).sum()
    a, b = np.array(logits["next_sentence_logits"])[0]
    assert next_probability(model, features) == pytest.approx(1 / (1 + np.exp(b - a)), abs=1e-5)
    assert masked_answers(model, features, np.array([], int), []) == []
