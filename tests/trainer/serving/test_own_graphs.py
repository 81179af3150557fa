"""The graphs of all kinds of models and of all families have known operations only."""

import dataclasses

import keras
import pytest
import tensorflow as tf

from beambert import saved_models
from beambert.model.classifier import Head
from beambert.model.config import ACTIVATIONS, BertConfig
from beambert.model.families.table import FAMILIES
from beambert.pipelines.tasks.task import (
    CHOICE,
    EMBEDDING,
    LATE_INTERACTION,
    SPAN,
    TAGGING,
)
from beambert.pipelines.tasks.texts import InteractionFeatures, TextFeatures
from beambert.trainer.models import build_model
from beambert.trainer.serving.saved_model import save_task_model

LENGTH = 16
INPUTS = ("input_ids", "input_mask", "segment_ids")
CASES = [
    *[("classification", {"act": act}) for act in ACTIVATIONS],
    ("classification", {"is_pair": True, "freeze": True, "lower": False}),
    ("multi_label", {"windows": 3, "dtype": "mixed_bfloat16"}),
    (CHOICE, {"is_pair": True}),
    (EMBEDDING, {"dtype": "mixed_bfloat16"}),
    (LATE_INTERACTION, {"is_pair": True}),
    (TAGGING, {"dtype": "mixed_bfloat16"}),
    (SPAN, {"task": "squad2.0", "lower": False}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), CASES)
def test_the_graph_is_known(kind, options, vocabulary, tmp_path):
    freeze, windows = options.get("freeze", False), options.get("windows", 1)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=8,
        num_hidden_layers=4 if freeze else 1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=LENGTH,
        hidden_act=options.get("act", "gelu"),
    )
    features = TextFeatures(vocabulary, options.get("lower", True), LENGTH, windows)
    if kind == LATE_INTERACTION:
        features = InteractionFeatures(vocabulary, True, LENGTH, 8)
    training = {"kind": kind, "labels": ["a", "b", "O"], "is_pair": options.get("is_pair", False)}
    training["task"] = options.get("task", kind)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(options.get("dtype", "float32"))
    try:
        model = build_model(kind, config, 3, 0, Head(freeze, features.window_length))
        model({name: tf.zeros([1, LENGTH], tf.int32) for name in INPUTS})
        save_task_model(model, features, training, f"{tmp_path}/saved_model")
    finally:
        keras.config.set_dtype_policy(before)
    saved_models.check_graph(saved_models.read_graph(f"{tmp_path}/saved_model"), "--model=x")


# Local attention has blocks of its own above 192 tokens; whole attention has parts above 2,048.
CASES_OF_FAMILIES = [(name, 16) for name in FAMILIES] + [
    ("modernbert", 256),
    ("deberta-v2", 256),
    ("modernbert", 2304),
]


def small(name: str, vocab_size: int, length: int):
    """A configuration of the family with one layer, or a global and a local one."""
    config = FAMILIES[name].sized(next(iter(FAMILIES[name].sizes)), vocab_size, 0)
    changes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    changes |= {"max_position_embeddings": length + 2, "embedding_size": 16}
    changes["num_hidden_layers"] = 2 if name == "modernbert" else 1
    fields = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **{n: v for n, v in changes.items() if n in fields})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "length"), CASES_OF_FAMILIES)
def test_the_graph_of_a_family_is_known(name, length, vocabulary, tmp_path):
    config = small(name, len(vocabulary), length)
    features = TextFeatures(vocabulary, True, length, 1)
    training = {"kind": "classification", "labels": ["a", "b"], "is_pair": False, "task": "x"}
    model = build_model("classification", config, 2, 0, Head(False, features.window_length))
    model({name: tf.zeros([1, length], tf.int32) for name in INPUTS})
    save_task_model(model, features, training, f"{tmp_path}/saved_model")
    saved_models.check_graph(saved_models.read_graph(f"{tmp_path}/saved_model"), "--model=x")
