"""DeBERTa-v3 compared with transformers: relative positions, replaced tokens, shared embeddings."""

import dataclasses
import pathlib

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support import generators
from support.generators import DEBERTA_TABLE as TABLE
from support.golden_arrays import features_of

from beambert.model import deberta
from beambert.model.config import BERT_SIZES, BertConfig
from beambert.model.deberta import (
    DebertaEncoder,
    DebertaReplacedTokenPretrainer,
    Distances,
    bucket_of,
    relative_scores,
)
from beambert.model.families.debertav2 import DebertaV2Config, for_variables, merged
from beambert.model.families.table import FAMILIES
from beambert.model.flops import forward_flops
from beambert.model.unpadding import Capacity
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.pretraining.objective import ReplacedTokenObjective
from beambert.trainer.weights.initial import open_initial

# make_log_bucket_position of transformers 5.23, for 256 buckets and 512 positions.
BUCKETS = {1: 1, 128: 128, 129: 129, 130: 130, 200: 169, 201: 170, 300: 207, 510: 255, 511: 255}


def test_buckets_are_those_of_transformers():
    for distance, bucket in BUCKETS.items():
        assert bucket_of(np.array([distance, -distance]), 256, 512).tolist() == [bucket, -bucket]
    # Of 8 buckets and 14 positions.
    found = bucket_of(np.arange(14), 8, 14).tolist()
    assert found == [0, 1, 2, 3, 4, 5, 6, 6, 6, 7, 7, 7, 7, 7]


def arrays(length: int, rows: int):
    random = np.random.default_rng(1)
    contents = random.standard_normal((2, 2, 3, length, 4)).astype(np.float32)
    return (*contents, *random.standard_normal((2, rows, 12)).astype(np.float32))


@pytest.mark.parametrize("block", [128, 4])
@pytest.mark.parametrize(
    ("length", "buckets", "positions"), [(1, 4, 9), (2, 2, 9), (9, 4, 9), (6, 8, 7), (23, 6, 31)]
)
def test_each_score_is_the_sum_of_two_products(length, buckets, positions, block, monkeypatch):
    monkeypatch.setattr(deberta, "BLOCK", block)
    distances = Distances.of(length, buckets, positions)
    query, key, query_of, key_of = arrays(length, distances.end - distances.first)
    found = relative_scores(*(tf.constant(x) for x in (query, key, query_of, key_of)), distances)
    query_of, key_of = (x.reshape(-1, 3, 4) for x in (query_of, key_of))
    for i in range(length):
        for j in range(length):
            bucket = bucket_of(np.array([i - j]), buckets, positions)[0]
            row = np.clip(bucket + buckets, 0, 2 * buckets - 1) - distances.first
            expected = (query[:, :, i] * key_of[row] + key[:, :, j] * query_of[row]).sum(-1)
            np.testing.assert_allclose(found[:, :, i, j], expected, atol=1e-5)


def test_a_step_counts_the_products_with_distances():
    """A token of 128 is also multiplied with 256 distances, twice; of 300 there are blocks."""
    sizes = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2}
    deberta = DebertaV2Config(30522, **sizes, intermediate_size=512)
    more = forward_flops(deberta, 3, 128, 20) - forward_flops(
        BertConfig(30522, **BERT_SIZES["tiny"]), 3, 128, 20
    )
    assert more == 2 * 2 * 3 * 128 * (2 * 256) * 128
    more = forward_flops(deberta, 3, 300, 20) - forward_flops(
        BertConfig(30522, **BERT_SIZES["tiny"]), 3, 300, 20
    )
    blocks = 128 * (300 + 128) + 128 * (300 + 128) + 44 * (300 + 44)
    assert more == pytest.approx(2 * 2 * 3 * (2 * blocks) * 128)


GOLDEN = pathlib.Path(__file__).parents[1] / "trainer" / "golden_deberta_rtd"
MASK = 4
NAMES = {
    "discriminator": FAMILIES["deberta-v2"].discriminator_name,
    "generator": generators.deberta_name,
}
DELTA = f"{TABLE}_delta"
CONFIG = DebertaV2Config(
    58, 16, 3, 2, 24, max_position_embeddings=14, position_buckets=8, initializer_range=0.3
)


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / "arrays.npz"))


@pytest.fixture(scope="module")
def features(golden) -> dict[str, tf.Tensor]:
    return features_of(golden)


@pytest.fixture(scope="module")
def model() -> DebertaReplacedTokenPretrainer:
    """The weights of transformers: the discriminator's as `--init` reads them, and the generator's.

    The discriminator's word embeddings there are the sum of the table and the delta.
    """
    initial = open_initial(str(GOLDEN), "--init")
    model = DebertaReplacedTokenPretrainer(initial.config, generator_size=0.5)
    initial.load_into(model, "--init")
    theirs = safetensors.numpy.load_file(GOLDEN / "generator" / "model.safetensors")
    variables = {variable.path: variable for variable in model.variables}
    for path, variable in variables.items():
        if renamed := generators.deberta_name(path):
            name, is_transposed = renamed
            value = theirs.pop(name)
            variable.assign(value.T if is_transposed else value)
    assert not theirs
    variables[DELTA].assign(initial.read()[TABLE] - variables[TABLE].numpy())
    assert len(model.generator.encoder_layers) == 2
    return model


def objective(capacity: Capacity | None = None) -> ReplacedTokenObjective:
    return ReplacedTokenObjective(MASK, {(3, 10): capacity} if capacity else {})


def gradients_of(model, features, capacity=None):
    """Returns the two mean losses, and the gradients of each and of the sum of the objective."""
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    sums = objective(capacity).ways()[int(capacity is not None)]
    with tf.GradientTape(persistent=True) as tape:
        found = sums(model, features, None)
        masked_lm = found["masked_lm_loss"] / tf.reduce_sum(features["masked_lm_weights"])
        tokens = tf.cast(tf.reduce_sum(features["input_mask"]), tf.float32)
        detection = found["replaced_token_loss"] / tokens
        loss = masked_lm + objective().factors["replaced_token_loss"] * detection
    of = [tape.gradient(each, variables) for each in (masked_lm, detection, loss)]
    return masked_lm, detection, *of


def with_golden_draws(model, features, capacity, monkeypatch):
    sampled = tf.reshape(features["sampled"], [-1])
    used = tf.reshape(features["masked_lm_weights"], [-1]) > 0
    order = tf.argsort(tf.cast(~used, tf.int32), stable=True)

    def draw(logits, seed):
        return tf.gather(sampled, order[: len(logits)]) if capacity else sampled

    monkeypatch.setattr(model, "sample", draw)


def expected_gradients(golden, path):
    """Returns part -> gradient of transformers in our form, for the parts with the variable."""
    found = {}
    for part, rename in NAMES.items():
        # The delta's gradient is kept as that of the discriminator's embeddings.
        if path == TABLE and part == "discriminator":
            continue
        if renamed := rename(TABLE if path == DELTA and part == "discriminator" else path):
            name, is_transposed = renamed
            value = golden[f"gradients/{part}/{name}"]
            found[part, name] = value.T if is_transposed else value
    return found


# 21 tokens and 6 predictions: with the padding, with rows that just suffice, with rows to spare.
@pytest.mark.parametrize("capacity", [None, Capacity(21, 6), Capacity(26, 8)])
@pytest.mark.slow
def test_losses_and_gradients_are_those_of_transformers(
    model, golden, features, capacity, monkeypatch
):
    with_golden_draws(model, features, capacity, monkeypatch)
    masked_lm, detection, _, _, gradients = gradients_of(model, features, capacity)
    np.testing.assert_allclose(masked_lm, golden["masked_lm_loss"], rtol=1e-5)
    np.testing.assert_allclose(detection, golden["replaced_token_loss"], rtol=1e-5)
    seen = set()
    for path, gradient in gradients.items():
        theirs = expected_gradients(golden, path)
        assert len(theirs) == 1, path
        ((key, expected),) = theirs.items()
        seen.add("/".join(("gradients", *key)))
        scale = max(1, np.abs(expected).max())
        np.testing.assert_allclose(gradient, expected, atol=1e-5 * scale, err_msg=path)
    assert seen == {name for name in golden if name.startswith("gradients/")}


@pytest.mark.slow
def test_each_loss_trains_its_own_embeddings(model, features, monkeypatch):
    """Section 3.3: E gets no gradient of detection, and delta gets none of masked LM."""
    with_golden_draws(model, features, None, monkeypatch)
    _, _, of_masked_lm, of_detection, _ = gradients_of(model, features)
    by_generator = {TABLE, *(path for path in of_masked_lm if path.startswith("generator"))}
    for path in of_masked_lm:
        one, other = (of_masked_lm, of_detection)[:: 1 if path in by_generator else -1]
        assert other[path] is None, path
        assert np.abs(one[path]).max() > 0, path


def test_the_discriminator_reads_the_sum(model, features):
    """The encoder computes what one with the sum as its table does; the generator reads E."""
    values = {variable.path: variable.numpy() for variable in model.variables}
    assert np.abs(values[DELTA]).max() > 0.1
    plain = DebertaEncoder(model.config, has_pooler=False)
    summed = merged(values)
    assert DELTA not in summed
    np.testing.assert_array_equal(summed[TABLE], values[TABLE] + values[DELTA])
    for variable in plain.variables:
        variable.assign(summed[variable.path])
    inputs = [features[name] for name in ("input_ids", "input_mask", "segment_ids")]
    np.testing.assert_array_equal(plain(*inputs)[0], model.encoder(*inputs)[0])
    assert model.generator.word_embeddings is model.encoder.word_embeddings


def test_weights_take_the_form_of_the_model():
    table, delta = np.float32([[1, 2]]), np.float32([[0.5, -1]])
    for weights, paths, expected in (
        ({TABLE: table, DELTA: delta}, [TABLE], {TABLE: table + delta}),
        ({TABLE: table, DELTA: delta}, [TABLE, DELTA], {TABLE: table, DELTA: delta}),
        ({TABLE: table}, [TABLE, DELTA], {TABLE: table, DELTA: 0 * table}),
        ({TABLE: table}, [TABLE], {TABLE: table}),
    ):
        found = for_variables(weights, dict.fromkeys(paths))
        assert found.keys() == expected.keys()
        for path, value in expected.items():
            np.testing.assert_array_equal(found[path], value)


def test_delta_begins_at_zero():
    model, plain = DebertaReplacedTokenPretrainer(CONFIG, 0.5, 3), DebertaEncoder(CONFIG, 3, False)
    values = {variable.path: variable.numpy() for variable in model.variables}
    assert not values[DELTA].any()
    for variable in plain.variables:
        np.testing.assert_array_equal(values[variable.path], variable, err_msg=variable.path)


# rtd_xsmall.json, rtd_small.json, rtd_base.json and rtd_large.json of the original.
@pytest.mark.parametrize(
    ("size", "layers", "width"),
    [("xsmall", 6, 384), ("small", 3, 768), ("base", 6, 768), ("large", 12, 1024)],
)
def test_the_generator_is_as_wide_and_half_as_deep(size, layers, width):
    family = FAMILIES["deberta-v2"]
    config = family.sized(size, 128100, 0)
    found = family.generator_config(config, family.generator_size)
    assert (found.num_hidden_layers, found.hidden_size) == (layers, width)
    assert found.num_attention_heads == config.num_attention_heads


def test_new_tokens_get_rows_in_both_tables():
    """The row of a new token is the mean of its pieces' rows in the table, delta and biases."""
    opened = open_initial(str(GOLDEN), "--init")
    tokens = [*opened.vocabulary.tokens, "bad"]
    model = DebertaReplacedTokenPretrainer(opened.config, generator_size=0.5)
    before = {variable.path: variable.numpy() for variable in model.variables}
    initial = dataclasses.replace(opened, read=lambda: before)
    after = initial.with_vocabulary(Vocabulary(tokens)).read()
    pieces = [tokens.index(piece) for piece in ("b", "##a", "##d")]
    for path in (TABLE, DELTA, "generator_predictions/output_bias"):
        np.testing.assert_array_equal(after[path][:-1], before[path])
        np.testing.assert_allclose(after[path][-1], before[path][pieces].mean(axis=0), rtol=1e-6)
