"""The graphs of all families have known operations only, at all lengths that are computed apart."""

import dataclasses

import pytest
import tensorflow as tf

from beambert import saved_models
from beambert.model.classifier import Head
from beambert.model.families.table import FAMILIES
from beambert.pipelines.tasks.task import CLASSIFICATION
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.trainer.models import build_model
from beambert.trainer.serving.saved_model import save_task_model

INPUTS = ("input_ids", "input_mask", "segment_ids")
# Local attention has blocks of its own above 192 tokens; whole attention has parts above 2,048.
CASES = [(name, 16) for name in FAMILIES] + [
    ("modernbert", 256),
    ("deberta-v2", 256),
    ("modernbert", 2304),
]


def small(name: str, vocab_size: int, length: int):
    """A configuration of the family with one layer, or a global and a local one."""
    config = FAMILIES[name].sized(FAMILIES[name].size_names[0], vocab_size, 0)
    changes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    changes |= {"max_position_embeddings": length + 2, "embedding_size": 16}
    changes["num_hidden_layers"] = 2 if name == "modernbert" else 1
    fields = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **{n: v for n, v in changes.items() if n in fields})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "length"), CASES)
def test_the_graph_of_a_family_is_known(name, length, vocabulary, tmp_path):
    config = small(name, len(vocabulary), length)
    features = TextFeatures(vocabulary, True, length, 1)
    training = {"kind": CLASSIFICATION, "labels": ["a", "b"], "is_pair": False, "task": "x"}
    model = build_model(CLASSIFICATION, config, 2, 0, Head(False, 0, features.window_length))
    model({name: tf.zeros([1, length], tf.int32) for name in INPUTS})
    save_task_model(model, features, training, f"{tmp_path}/saved_model")
    saved_models.check_graph(saved_models.read_graph(f"{tmp_path}/saved_model"), "--model=x")
