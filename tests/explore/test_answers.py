"""Answers of a fine-tuned model, and which tokens mattered."""

import numpy as np
import pytest
import tensorflow as tf

from beambert.explore import layers as answers
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.trainer import model_folders
from beambert.trainer.models import task_model


@pytest.fixture(scope="module")
def classifier(material):
    """The fine-tuned model, and the conversion of texts to its inputs."""
    found = model_folders.open_model(material.models["classifier"].path, "--model")
    length = found.training["max_seq_length"]
    return task_model(found), TextFeatures(found.vocabulary, found.do_lower_case, length)


def test_the_answer_is_that_of_the_saved_model(material):
    found, loaded = material.task("classifier")
    answer = answers.ask(loaded, found, ["the river city"])
    outputs = loaded.signatures["serving_default"](text=tf.constant(["the river city"]))
    assert answer["label"] == outputs["label"].numpy()[0].decode()
    assert list(answer["probabilities"]) == ["negative", "positive"]
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_gradient_times_input_is_the_slope_of_the_logit(classifier):
    """The input of one token is scaled a little, and the logit computed again."""
    network, features = classifier
    found = answers.Explainer(network, features).attribute(["the river city"], label=1)
    assert len(found.ids) == 5 and found.label == 1
    positions = network.encoder.embeddings.position_embeddings
    before, inputs = np.array(positions), features(tf.constant(["the river city"]))
    ids, segments = inputs["input_ids"].numpy()[0], inputs["segment_ids"].numpy()[0]
    tables = network.encoder.embeddings
    total = np.array(tables.word_embeddings_VH)[ids] + before[: len(ids)]
    total += np.array(tables.token_type_embeddings_SH)[segments]

    def logit(place, change):
        moved = before.copy()
        moved[place] += change * total[place]
        positions.assign(moved)
        try:
            return float(network(inputs)[0, 1])
        finally:
            positions.assign(before)

    for place, score in enumerate(found.scores):
        slope = (logit(place, 1e-2) - logit(place, -1e-2)) / 2e-2
        assert score == pytest.approx(slope, abs=2e-3)


@pytest.mark.slow
def test_the_likeliest_label_is_the_default(classifier):
    network, features = classifier
    logits = network(features(tf.constant(["made music"])))[0]
    found = answers.Explainer(network, features).attribute(["made music"])
    assert found.label == int(np.argmax(logits))
