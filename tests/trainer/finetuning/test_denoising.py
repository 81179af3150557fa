"""TSDAE beside sentence-transformers' loss, and what its noise leaves of texts."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from beambert.model.checkpoint_names import hugging_face_name
from beambert.model.config import BertConfig
from beambert.model.denoising import DenoisingAutoencoder
from beambert.model.sentence_encoder import SentenceEncoder
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.loop.objectives import cross_entropy
from beambert.trainer.tasks.vectors import (
    DELETED,
    DenoisingObjective,
    with_deletions,
)

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden_denoising.json").read_text())


def features(ids):
    ids = tf.constant(ids, tf.int32)
    return {
        "input_ids": ids,
        "input_mask": tf.cast(ids > 0, tf.int32),
        "segment_ids": tf.zeros_like(ids),
    }


def theirs(variable):
    """The name of a variable in `transformers`, and whether it is transposed there."""
    name, is_transposed = hugging_face_name(variable.path)
    return name.replace("decoder.layer.", "bert.encoder.layer."), is_transposed


@pytest.fixture(scope="module")
def model():
    model = DenoisingAutoencoder(SentenceEncoder(BertConfig(**GOLDEN["sizes"])))
    for variable in model.weights:
        name, is_transposed = theirs(variable)
        value = np.array(GOLDEN["weights"][name], np.float32)
        variable.assign(value.T if is_transposed else value)
    return model


def test_loss_and_gradients_are_sentence_transformers(model):
    """The decoder's layers are the encoder's, so that both add to their gradients."""
    texts, variables = features(GOLDEN["texts"]), model.trainable_variables
    with tf.GradientTape() as tape:
        logits = model.logits(features(GOLDEN["noisy"]), texts)[:, :-1]
        counts = tf.cast(texts["input_mask"][:, 1:], tf.float32)
        losses = counts * cross_entropy(logits, texts["input_ids"][:, 1:])
        loss = tf.reduce_sum(losses) / tf.reduce_sum(counts)
    assert float(loss) == pytest.approx(GOLDEN["loss"], abs=1e-5)
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    names = {theirs(variable)[0] for variable in variables}
    assert names == GOLDEN["gradients"].keys()
    for variable, gradient in zip(variables, gradients, strict=True):
        name, is_transposed = theirs(variable)
        expected = np.array(GOLDEN["gradients"][name])
        found = tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(found.T if is_transposed else found, expected, atol=2e-5)


def test_a_token_is_told_by_those_before_it_and_the_vector(model):
    texts, noisy = np.array(GOLDEN["texts"]), features(GOLDEN["noisy"])
    before = model.logits(noisy, features(texts)).numpy()
    texts[0, 4] = 14
    after = model.logits(noisy, features(texts)).numpy()
    np.testing.assert_allclose(after[0, :4], before[0, :4], atol=1e-5)
    assert np.abs(after[0, 4:] - before[0, 4:]).max() > 1e-3
    other = np.array(GOLDEN["noisy"])
    other[0, 1] = 14
    by_vector = model.logits(features(other), features(GOLDEN["texts"])).numpy()
    assert np.abs(by_vector[0, 0] - before[0, 0]).max() > 1e-4
    np.testing.assert_allclose(by_vector[1], before[1], atol=1e-5)


def test_words_are_deleted_as_a_whole():
    """[CLS] a b ##b ##b c [SEP] of the ids 2, 5, 6, 7, 8, 9 and 3."""
    is_continuation = np.isin(np.arange(10), [7, 8])
    given = features([[2, 5, 6, 7, 8, 9, 3], [2, 5, 9, 3, 0, 0, 0]])
    drawn = np.zeros((2, 7), np.float32)
    # Number 0 is [CLS]; the words are a, b and c in the first text.
    drawn[0, 1:4] = 0.1, 0.9, DELETED
    drawn[1, 1:3] = 0.2, 0.3
    found = with_deletions(given, is_continuation, tf.constant(drawn))
    assert found["input_ids"].numpy().tolist() == [[2, 6, 7, 8, 9, 3, 0], [2, 9, 3, 0, 0, 0, 0]]
    assert found["input_mask"].numpy().tolist() == [[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0, 0]]


def test_as_many_words_are_deleted_as_the_paper_says():
    random = np.random.default_rng(1)
    given = features(np.pad(np.full((200, 50), 5), [[0, 0], [1, 1]], constant_values=2))
    drawn = tf.constant(random.random((200, 52)), tf.float32)
    found = with_deletions(given, np.zeros(10, bool), drawn)
    left = found["input_mask"].numpy().sum() - 400
    assert left / 10_000 == pytest.approx(1 - DELETED, abs=0.02)


def test_only_the_encoder_is_kept():
    """Each draw deletes other words, and padding is no prediction."""
    tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(15)))
    task = find_task("embedding")
    objective = DenoisingObjective([7], task, 7, Vocabulary(tokens))
    encoder = SentenceEncoder(BertConfig(**GOLDEN["sizes"]))
    trained = objective.trained(encoder)
    assert objective.kept(trained) is encoder
    given = features(GOLDEN["texts"])
    assert float(objective.weights(given)["predictions"]) == 6 + 4
    with tf.device("CPU"):
        sums = [objective.sums(trained, given, tf.constant([1, n])) for n in (1, 1, 2)]
    losses = [float(one_sum["cross_entropy"]) for one_sum in sums]
    assert losses[0] == losses[1] != losses[2]
