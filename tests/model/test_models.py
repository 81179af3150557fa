"""Networks: configurations, weights, padding, bfloat16, and dropout by seed."""

import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from beambert.model.classifier import BertClassifier, Head
from beambert.model.config import BERT_SIZES, BertConfig
from beambert.model.families.debertav2 import DebertaV2Config
from beambert.model.families.table import FAMILIES, read_config
from beambert.model.layers import dropout, fold_seed, truncated_normal
from beambert.model.objectives import BERT, MLM
from beambert.model.pretrainer import BertPretrainer
from beambert.model.shapes import variable_shapes
from beambert.trainer.loop.strategy import has_xla

CONFIG = BertConfig(60, 32, 2, 4, 64, max_position_embeddings=20)


def make_features(batch: int = 3, length: int = 12, predictions: int = 4) -> dict:
    generator = np.random.default_rng(1)
    lengths = np.array([length, length - 5, 3])[:batch, None]
    return {
        "input_ids": generator.integers(0, CONFIG.vocab_size, (batch, length)),
        "input_mask": (np.arange(length) < lengths).astype("int64"),
        "segment_ids": (np.arange(length) >= lengths // 2).astype("int64"),
        "masked_lm_positions": generator.integers(0, lengths, (batch, predictions)),
    }


@pytest.fixture(scope="module")
def pretrainer() -> BertPretrainer:
    return BertPretrainer(CONFIG, seed=3)


@pytest.fixture
def bfloat16_policy():
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    yield
    keras.mixed_precision.set_dtype_policy(before)


def test_initial_weights_are_a_function_of_the_seed_and_the_name(pretrainer):
    keras.utils.set_random_seed(99)
    again = BertPretrainer(CONFIG, seed=3)
    other = BertPretrainer(CONFIG, seed=4)
    encoder = {v.path: v for v in BertClassifier(CONFIG, 2, seed=3).encoder.variables}
    seen = set()
    for ours, same, different in zip(
        pretrainer.variables, again.variables, other.variables, strict=True
    ):
        np.testing.assert_array_equal(ours, same)
        if ours.path in encoder:
            np.testing.assert_array_equal(ours, encoder[ours.path])
        if len(ours.shape) == 2:
            assert np.abs(ours - different).max() > 0
            seen.add(float(ours[0, 0]))
        else:
            expected = 1.0 if ours.path.endswith("gamma") else 0.0
            np.testing.assert_array_equal(ours, np.full(ours.shape, expected))
    assert len(seen) == 3 + 2 * 6 + 1 + 1 + 1


def test_truncated_normal():
    value = np.array(truncated_normal(0.02, fold_seed(0, "x"))((500, 500)))
    assert np.abs(value).max() <= 0.04
    # Truncation at 2 standard deviations leaves 0.8796 of one.
    assert abs(value.std() / 0.02 - 0.8796) < 0.005
    assert abs(value.mean()) < 0.0002


def test_padding_does_not_influence_tokens(pretrainer):
    features = make_features()
    expected, expected_pooled = pretrainer.encoder(
        features["input_ids"], features["input_mask"], features["segment_ids"]
    )
    padding = features["input_mask"] == 0
    input_ids = np.where(padding, 7, features["input_ids"])
    segment_ids = np.where(padding, 0, features["segment_ids"])
    sequence, pooled = pretrainer.encoder(input_ids, features["input_mask"], segment_ids)
    np.testing.assert_array_equal(sequence[~padding], expected[~padding])
    np.testing.assert_array_equal(pooled, expected_pooled)
    for row, length in enumerate(features["input_mask"].sum(axis=1)):
        cut = [features[name][row : row + 1, :length] for name in
               ("input_ids", "input_mask", "segment_ids")]  # fmt: skip
        sequence, _ = pretrainer.encoder(*cut)
        np.testing.assert_allclose(sequence[0], expected[row, :length], atol=2e-6)


def test_only_the_gathered_positions_are_scored(pretrainer):
    features = make_features()
    logits = pretrainer(features)["masked_lm_logits"]
    assert logits.shape == (3, 4, CONFIG.vocab_size)
    every = np.tile(np.arange(12), (3, 1))
    all_logits = pretrainer(features | {"masked_lm_positions": every})["masked_lm_logits"]
    expected = np.take_along_axis(
        all_logits.numpy(), features["masked_lm_positions"][..., None], axis=1
    )
    np.testing.assert_allclose(logits, expected, atol=1e-6)


def test_mixed_bfloat16(pretrainer, bfloat16_policy):
    model = BertPretrainer(CONFIG, seed=3)
    assert {variable.dtype for variable in model.variables} == {"float32"}
    sequence, _ = model.encoder(*[make_features()[n] for n in
                                  ("input_ids", "input_mask", "segment_ids")])  # fmt: skip
    assert sequence.dtype == "bfloat16"
    for name in ("masked_lm_logits", "next_sentence_logits"):
        logits = model(make_features())[name]
        assert logits.dtype == "float32"
        # bfloat16 has 8 bits of precision; logits of random weights are below 1.
        np.testing.assert_allclose(logits, pretrainer(make_features())[name], atol=0.03)


@pytest.mark.parametrize(
    ("config", "objective"), [(CONFIG, BERT), (DebertaV2Config(60, 16, 2, 2, 24), MLM)]
)
def test_mixed_bfloat16_trains(config, objective, bfloat16_policy):
    model = BertPretrainer(config, objective=objective)
    with tf.GradientTape() as tape:
        found = model(make_features(), dropout_seed=tf.constant([1, 2]))
        logits = [value for name, value in found.items() if name.endswith("_logits")]
        loss = sum(tf.reduce_mean(tf.square(value)) for value in logits)
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    for gradient in gradients:
        gradient = tf.convert_to_tensor(gradient)
        assert gradient.dtype == "float32"
        assert np.isfinite(gradient).all()


def test_sequences_longer_than_the_positions_are_refused(pretrainer):
    with pytest.raises(ValueError, match="length 21 is more than max_position_embeddings 20"):
        pretrainer(make_features(length=21))


@pytest.mark.slow
@pytest.mark.parametrize("length", [36, 31])
def test_the_logits_of_windows_are_averaged(length):
    """Three windows, the last not full; two; and a short text in one window."""
    model = BertClassifier(CONFIG, 2, seed=5, head=Head(window_length=12))
    one_by_one = BertClassifier(CONFIG, 2, seed=5)
    generator = np.random.default_rng(2)
    lengths = (31, 24, 7)
    ids = generator.integers(1, CONFIG.vocab_size, (3, length))
    mask = (np.arange(length) < np.array(lengths)[:, None]).astype("int64")
    found = model({"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids})
    for row, own in enumerate(lengths):
        logits = []
        for first in range(0, own, 12):
            window = ids[None, row, first : min(first + 12, own)]
            features = {"input_ids": window, "input_mask": window**0, "segment_ids": 0 * window}
            logits.append(one_by_one(features)[0])
        np.testing.assert_allclose(found[row], np.mean(logits, axis=0), atol=1e-5)


SIZE = 1 << 18
# Every statistic below is compared with 5 standard deviations, which an honest mask exceeds once in
# 1.7 million draws; the seeds are fixed, so the tests cannot flicker.
SIGMAS = 5.0


def mask(seed, site, rate=0.1, shape=(SIZE,)) -> np.ndarray:
    """Returns 1 for dropped elements and 0 for kept ones."""
    return (dropout(tf.ones(shape), rate, tf.constant(seed), site).numpy() == 0).astype("float64")


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.013])
@pytest.mark.parametrize("seed", [(0, 0), (1, 0), (0, 1), (-7, 2**31 - 1)])
def test_rate_is_within_its_binomial_bound(rate, seed):
    sigma = np.sqrt(rate * (1 - rate) / SIZE)
    assert abs(mask(seed, 3, rate).mean() - rate) < SIGMAS * sigma


def test_runs_and_rows_are_independent():
    dropped = mask((5, 6), 1) - 0.1
    sigma = 0.1 * 0.9 / np.sqrt(SIZE)
    for lag in (1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 512, 768, 4096, 1 << 14, 1 << 16):
        assert abs(np.mean(dropped[lag:] * dropped[:-lag])) < SIGMAS * sigma * 1.2, lag


@pytest.mark.parametrize(
    "other", [((5, 6), 2), ((5, 7), 1), ((6, 6), 1), ((6, 5), 1), ((5 + 2**31 - 8, 6), 1)]
)
def test_masks_of_other_sites_and_seeds_are_uncorrelated(other):
    first, second = mask((5, 6), 1) - 0.1, mask(*other) - 0.1
    assert abs(np.mean(first * second)) < SIGMAS * 0.1 * 0.9 / np.sqrt(SIZE)


def test_counts_in_blocks_spread_like_a_binomial():
    blocks = mask((8, 9), 4).reshape(-1, 64).sum(axis=1)
    expected = 64 * 0.1 * 0.9
    # The variance of a sample variance of n near-normal values is 2 / n of its square.
    assert abs(blocks.var() / expected - 1) < SIGMAS * np.sqrt(2 / len(blocks))


def test_expectation_is_preserved():
    x = tf.fill((SIZE,), 3.0)
    kept = dropout(x, 0.1, tf.constant([1, 2]), 0).numpy()
    assert set(np.unique(kept)) == {np.float32(0), np.float32(3.0) * np.float32(1 / 0.9)}
    assert abs(kept.mean() - 3.0) < SIGMAS * 3.0 * np.sqrt(0.1 / 0.9 / SIZE)


@pytest.mark.slow
@pytest.mark.parametrize("integers", ["int32", "int64"])
def test_same_mask_eagerly_in_a_graph_and_compiled(integers):
    seed = tf.constant([3, 4], integers)
    expected = mask((3, 4), 5, shape=(64, 33))

    def run(seed):
        return dropout(tf.ones((64, 33)), 0.1, seed, 5)

    for jit_compile in (False, True)[: 1 + has_xla()]:
        compiled = tf.function(run, jit_compile=jit_compile)(seed)
        np.testing.assert_array_equal(compiled.numpy() == 0, expected)


def test_gradient_uses_the_same_mask():
    x = tf.ones((1000,))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropout(x, 0.1, tf.constant([3, 4]), 5)
    np.testing.assert_array_equal(tape.gradient(y, x), y)


@pytest.fixture(scope="module")
def classifier() -> BertClassifier:
    return BertClassifier(BertConfig(50, 16, 2, 2, 32), num_labels=3)


@pytest.mark.slow
def test_model_is_a_function_of_the_seed(classifier):
    features = {
        "input_ids": np.arange(12).reshape(2, 6),
        "input_mask": np.ones((2, 6), "int64"),
        "segment_ids": np.zeros((2, 6), "int64"),
    }
    still = classifier(features)
    np.testing.assert_array_equal(still, classifier(features))
    seeded = classifier(features, dropout_seed=tf.constant([1, 2]))
    np.testing.assert_array_equal(seeded, classifier(features, dropout_seed=tf.constant([1, 2])))
    for other in ([1, 3], [2, 2], [2, 1]):
        logits = classifier(features, dropout_seed=tf.constant(other))
        assert np.abs(logits - seeded).max() > 1e-3
    assert np.abs(seeded - still).max() > 1e-3
    assert not classifier.non_trainable_variables


def test_every_site_of_a_model_has_a_number_of_its_own(classifier, monkeypatch):
    sites = []

    def record(x, rate, seed, site):
        sites.append((site, rate))
        return x

    monkeypatch.setattr("beambert.model.layers.dropout", record)
    monkeypatch.setattr("beambert.model.classifier.dropout", record)
    ids = np.zeros((1, 4), "int64")
    features = {"input_ids": ids, "input_mask": ids + 1, "segment_ids": ids}
    classifier(features, dropout_seed=tf.constant([1, 2]))
    assert [site for site, _ in sites] == list(range(8))
    assert {rate for _, rate in sites} == {0.1}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("tiny", 4_385_920), ("base", 109_482_240), ("large", 335_141_888)],
)
def test_published_parameter_counts(name, parameters):
    """Of the encoder and its pooler; those of the paper, rounded there."""
    shapes = variable_shapes(BertConfig(30522, **BERT_SIZES[name]))
    numbers = (math.prod(shape) for path, shape in shapes.items() if path.startswith("bert/"))
    assert sum(numbers) == parameters


def test_presets_are_the_24_published_sizes_and_six_names():
    assert len([name for name in BERT_SIZES if name.startswith("L-")]) == 24
    assert set(BERT_SIZES) - {name for name in BERT_SIZES if name.startswith("L-")} == {
        "tiny", "mini", "small", "medium", "base", "large",
    }  # fmt: skip
    assert BERT_SIZES["tiny"] == BERT_SIZES["L-2_H-128"]
    assert BERT_SIZES["base"] == BERT_SIZES["L-12_H-768"]
    assert BertConfig(30522, **BERT_SIZES["tiny"]) == BertConfig(30522, 128, 2, 2, 512)
    assert BertConfig(30522, **BERT_SIZES["base"]) == BertConfig(30522)
    assert BertConfig(30522, **BERT_SIZES["large"]) == BertConfig(30522, 1024, 24, 16, 4096)


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
    assert read_config(config.to_json()) == config
    assert list(json.loads(config.to_json())) == sorted(json.loads(config.to_json()))


def test_unknown_keys_are_ignored_and_missing_ones_get_defaults():
    multilingual = {"vocab_size": 119547, "directionality": "bidi", "pooler_fc_size": 768}
    assert read_config(json.dumps(multilingual)) == BertConfig(119547)
    hugging_face = {
        "vocab_size": 256, "model_type": "bert", "layer_norm_eps": 1e-12, "architectures": ["X"],
        "position_embedding_type": "absolute", "is_decoder": False, "pad_token_id": 0,
    }  # fmt: skip
    assert read_config(json.dumps(hugging_face)) == BertConfig(256)


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
        read_config(text)


def test_the_epsilon_of_layer_norms_is_read():
    """ERNIE has another one than the original, whose files have none."""
    config = read_config('{"vocab_size": 9, "layer_norm_eps": 1e-5}')
    assert config.layer_norm_eps == 1e-5 and read_config(config.to_json()) == config
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
    assert read_config(text) == BertConfig(30522, **BERT_SIZES["base"])
    assert json.loads(BertConfig(30522, **BERT_SIZES["base"]).to_json()) == json.loads(text)
