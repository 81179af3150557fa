"""Configurations: published sizes, JSON in and out, and refusals."""

import json
import math

import pytest

from beambert.model.config import PRESETS, BertConfig, preset
from beambert.model.families.table import FAMILIES, read_config
from beambert.model.shapes import variable_shapes


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("tiny", 4_385_920), ("base", 109_482_240), ("large", 335_141_888)],
)
def test_published_parameter_counts(name, parameters):
    """Of the encoder and its pooler; those of the paper, rounded there."""
    shapes = variable_shapes(preset(name))
    numbers = (math.prod(shape) for path, shape in shapes.items() if path.startswith("bert/"))
    assert sum(numbers) == parameters


def test_presets_are_the_24_published_sizes_and_six_names():
    assert len([name for name in PRESETS if name.startswith("L-")]) == 24
    assert set(PRESETS) - {name for name in PRESETS if name.startswith("L-")} == {
        "tiny", "mini", "small", "medium", "base", "large",
    }  # fmt: skip
    assert preset("tiny") == preset("L-2_H-128") == BertConfig(30522, 128, 2, 2, 512)
    assert preset("base") == preset("L-12_H-768") == BertConfig(30522)
    assert preset("large") == BertConfig(30522, 1024, 24, 16, 4096)
    assert preset("mini", vocab_size=99).vocab_size == 99


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"num_attention_heads": 5}, "hidden_size 768 is not divisible by num_attention_heads 5"),
        ({"vocab_size": None}, "vocab_size must be a positive integer"),
        ({"type_vocab_size": True}, "type_vocab_size must be a positive integer"),
        ({"hidden_act": "swish"}, "hidden_act must be one of gelu"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob must be in"),
        ({"initializer_range": float("nan")}, "initializer_range must be positive and finite"),
    ],
)
def test_impossible_fields_are_refused(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        BertConfig(**({"vocab_size": 100} | fields))


def test_json_round_trip():
    config = BertConfig(100, 24, 3, 4, 50, "relu", 0.0, 0.2, 64, 3, 0.01)
    assert BertConfig.from_json(config.to_json()) == config
    assert list(json.loads(config.to_json())) == sorted(json.loads(config.to_json()))


def test_unknown_keys_are_ignored_and_missing_ones_get_defaults():
    multilingual = {"vocab_size": 119547, "directionality": "bidi", "pooler_fc_size": 768}
    assert BertConfig.from_json(json.dumps(multilingual)) == BertConfig(119547)
    hugging_face = {
        "vocab_size": 256, "model_type": "bert", "layer_norm_eps": 1e-12, "architectures": ["X"],
        "position_embedding_type": "absolute", "is_decoder": False, "pad_token_id": 0,
    }  # fmt: skip
    assert BertConfig.from_json(json.dumps(hugging_face)) == BertConfig(256)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1]", "the configuration must be a JSON object, but is a list"),
        ("{}", "the configuration lacks vocab_size"),
        ('{"vocab_size": 9, "position_embedding_type": "relative_key"}', "position_embedding_type"),
        ('{"vocab_size": 9, "position_embedding_type": null}', "position_embedding_type None"),
        ('{"vocab_size": 9, "layer_norm_eps": "1e-5"}', "layer_norm_eps"),
    ],
)
def test_other_json_is_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        BertConfig.from_json(text)


def test_the_epsilon_of_layer_norms_is_read():
    """ERNIE has another one than the original, whose files have none."""
    config = BertConfig.from_json('{"vocab_size": 9, "layer_norm_eps": 1e-5}')
    assert config.layer_norm_eps == 1e-5 and BertConfig.from_json(config.to_json()) == config
    assert "layer_norm_eps" not in json.loads(BertConfig(9).to_json())


@pytest.mark.parametrize(
    ("family", "unread"),
    [
        ("modernbert", {"position_embedding_type": "sans_pos", "layer_norm_eps": 1e-12}),
        ("modernbert", {"position_embedding_type": None, "is_decoder": True}),
        ("deberta-v2", {"position_embedding_type": "relative_key", "add_cross_attention": True}),
        ("distilbert", {"position_embedding_type": "relative_key", "layer_norm_eps": 1e-5}),
        ("albert", {"is_decoder": True}),
    ],
)
def test_keys_that_a_family_does_not_read_are_ignored(family, unread):
    config = FAMILIES[family].config(vocab_size=100)
    assert read_config(json.dumps(config.to_values() | unread)) == config


def test_published_file(shared_data):
    path = shared_data / "vocab" / "bert_config.uncased_base.json"
    text = path.read_text(encoding="utf-8")
    assert BertConfig.from_json(text) == preset("base")
    assert json.loads(preset("base").to_json()) == json.loads(text)
