"""What the page shows of each kind of fine-tuned model, with stand-ins whose answers are known."""

import html
import re
import types

import pytest
import tensorflow as tf
from support import stand_in_models, untrained_models

from beambert.explore import inside
from beambert.explore.material import NamedModel, Tokenization
from beambert.explore.playgrounds import QUESTION
from beambert.pipelines.tasks.saved_models import Model
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    MULTI_LABEL,
    SPAN,
    TAGGING,
)


class Reader(tf.Module):
    """Answers with 1901, wherever it stands in the context."""

    def __call__(self, question, context):
        start = context.numpy()[0].decode().index("1901")
        ends = {"start": tf.constant([start]), "end": tf.constant([start + 4])}
        return {"answer": tf.constant(["1901"]), **ends, "score": tf.constant([3.5])}


@pytest.fixture
def of_model(vocabulary):
    """A function from a kind and its stand-in to the material of a page."""
    config = untrained_models.small_config(vocabulary)

    def make(kind, stand_in, labels=(), is_pair=False):
        training = {"kind": kind, "labels": list(labels), "is_pair": is_pair}
        named = NamedModel("model", training, config, Tokenization(vocabulary, True))
        found = Model("model", tuple(labels), training)
        loaded = types.SimpleNamespace(signatures={"serving_default": stand_in})
        return types.SimpleNamespace(
            models={"model": named},
            task=lambda name: (found, loaded),
        )

    return make


def shown(material, first, second="", endings="") -> str:
    drawn = inside.show_answer(material, "model", first, second, endings)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", drawn)).split())


def test_a_pair(of_model):
    labels = stand_in_models.LABELS
    material = of_model(CLASSIFICATION, stand_in_models.Classifier(), labels, is_pair=True)
    said = shown(material, "the river", "a good city")
    assert "Answer: positive" in said and "positive 90.0% negative 10.0%" in said
    assert "Type a text in each field" in shown(material, "the river", " ")


class Chooser(tf.Module):
    """Likes an ending the better, the longer it is."""

    def __call__(self, text, choices, text_b=None):
        lengths = tf.strings.length(choices)
        probabilities = lengths / tf.reduce_sum(lengths)
        label = tf.strings.as_string(tf.argmax(probabilities, axis=-1))
        return {"label": label, "probabilities": tf.cast(probabilities, tf.float32)}


@pytest.mark.parametrize("is_pair", [False, True])
def test_an_ending(of_model, is_pair):
    material = of_model(CHOICE, Chooser(), ("0", "1"), is_pair)
    said = shown(material, "The river", "It", "rises\n\n flows through \n")
    assert "Answer: flows through flows through 72.2% rises 27.8%" in said
    for endings in ("", "rises", "a\nb\nc"):
        assert shown(material, "The river", "It", endings).endswith(
            "Type 2 endings, each on its own line."
        )


def test_several_labels(of_model):
    labels = ("negative", "positive", "z")
    material = of_model(MULTI_LABEL, stand_in_models.MultiLabeller(), labels)
    assert "Answer: negative, positive" in shown(material, "good and bad")
    said = shown(material, "river")
    assert "Answer: none" in said and "z 20.0%" in said


def test_tags_of_words(of_model):
    material = of_model(TAGGING, stand_in_models.Tagger(), ("B-person", "O"))
    said = shown(material, "Anna saw Bo")
    assert "Anna B-person saw O Bo B-person" in said


def test_an_answer_marked_in_its_context(of_model):
    material = of_model(SPAN, Reader())
    assert "Answer: 1901" in shown(material, *QUESTION)
    drawn = inside.show_answer(material, "model", *QUESTION)
    assert "a wall in <mark>1901</mark>. It was" in drawn and "Score 3.50" in drawn
