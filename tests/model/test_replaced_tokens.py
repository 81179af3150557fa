"""ELECTRA beside transformers, and what the generator draws."""

import json
import pathlib

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support import generators
from support.golden_arrays import features_of

from beambert.model.config import BERT_SIZES, BertConfig
from beambert.model.families.descendants import ElectraConfig
from beambert.model.families.table import FAMILIES, read_config
from beambert.model.flops import electra_flops
from beambert.model.layers import random_bits
from beambert.model.replaced_tokens import (
    ElectraPretrainer,
    generator_config,
    put,
    sample,
    seed_of_generator,
)
from beambert.model.unpadding import Capacity
from beambert.trainer.pretraining.objective import ReplacedTokenObjective, with_masks

GOLDEN = pathlib.Path(__file__).parents[1] / "trainer" / "golden_electra"
MASK = 4
NAMES = {
    "discriminator": FAMILIES["bert"].discriminator_name,
    "generator": generators.electra_name,
}


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / "arrays.npz"))


@pytest.fixture(scope="module")
def features(golden) -> dict[str, tf.Tensor]:
    return features_of(golden)


def in_our_form(arrays, rename, path):
    """The array of another system that belongs to one of our variables; None if none does."""
    renamed = rename(path)
    if renamed is None:
        return None
    name, is_transposed = renamed
    return arrays[name].T if is_transposed else arrays[name]


@pytest.fixture(scope="module")
def model(golden) -> ElectraPretrainer:
    """The weights of transformers; the tokens that the generator draws are those of the file."""
    fields = json.loads((GOLDEN / "config.json").read_text()) | {"model_type": "bert"}
    model = ElectraPretrainer(read_config(json.dumps(fields)), generator_size=0.5)
    theirs = {
        name: safetensors.numpy.load_file(GOLDEN / folder / "model.safetensors")
        for name, folder in (("discriminator", ""), ("generator", "generator"))
    }
    seen = set()
    for variable in model.variables:
        values = [in_our_form(theirs[name], NAMES[name], variable.path) for name in NAMES]
        values = [value for value in values if value is not None]
        assert values
        for value in values:
            variable.assign(value)
        seen |= {(n, NAMES[n](variable.path)[0]) for n in NAMES if NAMES[n](variable.path)}
    assert seen == {(name, variable) for name in theirs for variable in theirs[name]}
    return model


def objective(capacity: Capacity | None = None) -> ReplacedTokenObjective:
    return ReplacedTokenObjective(MASK, {(3, 10): capacity} if capacity else {})


def means_of(found, features):
    tokens = float(np.sum(features["input_mask"]))
    predictions = float(np.sum(features["masked_lm_weights"]))
    return found["masked_lm_loss"] / predictions, found["replaced_token_loss"] / tokens


# 21 tokens and 6 predictions: with the padding, with rows that just suffice, with rows to spare.
@pytest.mark.parametrize("capacity", [None, Capacity(21, 6), Capacity(26, 8)])
def test_losses_and_gradients_are_those_of_transformers(
    model, golden, features, capacity, monkeypatch
):
    sampled = tf.reshape(features["sampled"], [-1])
    slots = []

    def draw(logits, seed):
        slots.append(len(logits))
        used = tf.reshape(features["masked_lm_weights"], [-1]) > 0
        order = tf.argsort(tf.cast(~used, tf.int32), stable=True)[: len(logits)]
        return tf.gather(sampled, order) if capacity else sampled

    monkeypatch.setattr(model, "sample", draw)
    sums = objective(capacity).ways()[int(capacity is not None)]
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    with tf.GradientTape() as tape:
        found = sums(model, features, None)
        masked_lm, detection = means_of(found, features)
        loss = masked_lm + objective().factors["replaced_token_loss"] * detection
    assert slots == [capacity.predictions if capacity else 9]
    np.testing.assert_allclose(masked_lm, golden["masked_lm_loss"], rtol=1e-5)
    np.testing.assert_allclose(detection, golden["replaced_token_loss"], rtol=1e-5)
    gradients = tape.gradient(loss, variables)
    for name, rename in NAMES.items():
        prefix = f"gradients/{name}/"
        theirs = {n.removeprefix(prefix): v for n, v in golden.items() if n.startswith(prefix)}
        assert theirs.keys() == {rename(path)[0] for path in gradients if rename(path)}
        for path, gradient in gradients.items():
            expected = in_our_form(theirs, rename, path)
            if expected is not None:
                scale = max(1, np.abs(expected).max())
                np.testing.assert_allclose(gradient, expected, atol=1e-5 * scale, err_msg=path)


def test_metrics_count_what_the_discriminator_says(model, golden, features, monkeypatch):
    monkeypatch.setattr(model, "sample", lambda *_: tf.reshape(features["sampled"], [-1]))
    found = objective().sums(model, features, None)
    is_token = golden["features/input_mask"] > 0
    called = golden["replaced_token_logits"][is_token] > 0
    replaced = golden["is_replaced"][is_token]
    assert 0 < replaced.sum() < is_token.sum() and called.sum() > 0
    assert found["replaced_token_accuracy"] == (called == replaced).sum()
    assert found["replaced_token_precision"] == (called & replaced).sum()
    assert found["replaced_token_recall"] == (called & replaced).sum()
    assert found["called_replaced"] == called.sum() and found["replaced"] == replaced.sum()


def test_the_generator_reads_masks_at_every_chosen_position(features, golden):
    expected = golden["features/original"].copy()
    rows, _ = np.nonzero(golden["features/masked_lm_weights"])
    used = golden["features/masked_lm_weights"] > 0
    expected[rows, golden["features/masked_lm_positions"][used]] = MASK
    np.testing.assert_array_equal(with_masks(features, MASK), expected)


def test_unused_places_put_nothing():
    values = tf.constant([5, 6, 7, 8])
    is_used = tf.constant([True, False, True, False])
    found = put(values, tf.constant([1, 1, 3, 1]), tf.constant([9, 4, 2, 4]), is_used)
    np.testing.assert_array_equal(found, [5, 9, 7, 2])


def test_draws_have_the_probabilities_of_the_softmax():
    """Frequencies of 200,000 draws: a sum of squares like that of chi-squared with 5 degrees."""
    logits = np.log([0.5, 0.25, 0.15, 0.07, 0.0299, 0.0001]).astype(np.float32)
    rows = 200_000
    drawn = sample(tf.tile(tf.constant(logits)[None], [rows, 1]), tf.constant([7, -3]))
    expected = rows * np.exp(logits)
    counts = np.bincount(drawn, minlength=6)
    assert ((counts - expected) ** 2 / expected).sum() < 25.7  # one run in 10,000 has more
    again = sample(tf.tile(tf.constant(logits)[None], [rows, 1]), tf.constant([7, -3]))
    np.testing.assert_array_equal(drawn, again)


@pytest.mark.parametrize("size", [2, 7, 10, 1025])
def test_draws_from_vocabularies_of_all_sizes(size):
    """Of blocks that the size doesn't fill, too; the commonest token is the last one."""
    shares = 1 / np.arange(size, 0, -1, dtype=np.float64)
    shares /= shares.sum()
    rows = 30_000
    logits = tf.tile(tf.constant(np.log(shares), tf.float32)[None] + 50, [rows, 1])
    counts = np.bincount(sample(logits, tf.constant([3, 5])), minlength=size)
    assert len(counts) == size
    expected = rows * shares
    deviation = ((counts - expected) ** 2 / expected).sum()
    # The mean and the variance of chi-squared, and five standard deviations.
    assert abs(deviation - (size - 1)) < 5 * np.sqrt(2 * (size - 1)) + 5


@pytest.mark.parametrize("seed", [[8, -3], [7, -4], [7, 3], [-7, 3]])
def test_other_seeds_draw_others(seed):
    logits = tf.zeros([500, 20])
    drawn = sample(logits, tf.constant([7, -3]))
    share = np.mean(sample(logits, tf.constant(seed)).numpy() == drawn.numpy())
    assert abs(share - 1 / 20) < 5 * np.sqrt(0.05 * 0.95 / 500)


@pytest.mark.slow
def test_steps_and_replicas_draw_their_own_tokens_and_dropout(features):
    config = BertConfig(58, 16, 1, 2, 24, max_position_embeddings=12)
    model = ElectraPretrainer(config, seed=3)
    seen, seeds = [], ([1, 0], [1, 0], [1, 1], [2, 0])
    for seed in seeds:
        found = model(features, dropout_seed=tf.constant(seed))
        seen.append(found["masked_lm_logits"].numpy())
    np.testing.assert_array_equal(seen[0], seen[1])
    assert np.abs(seen[0] - seen[2]).max() > 1e-3 and np.abs(seen[0] - seen[3]).max() > 1e-3
    # Without dropout all evaluations of a batch are the same.
    first, second = (model(features) for _ in range(2))
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


@pytest.mark.parametrize("random_seed", [0, 12345])
@pytest.mark.slow
def test_the_generator_drops_other_elements_at_every_site(random_seed):
    seed = tf.constant([random_seed, 7])
    masks = [
        tuple(random_bits((8,), each, site).numpy())
        for each in (seed, seed_of_generator(seed))
        for site in range(40)
    ]
    assert len(set(masks)) == 80


def test_the_generator_is_as_deep_and_narrower():
    """The published base: 12 layers of 256, 4 heads, 1,024 between (table 6 of the paper)."""
    found = generator_config(BertConfig(30522, **BERT_SIZES["base"]), 1 / 3)
    sizes = found.hidden_size, found.num_attention_heads, found.intermediate_size
    assert (found.num_hidden_layers, *sizes) == (12, 256, 4, 1024)
    assert generator_config(BertConfig(30522, **BERT_SIZES["tiny"]), 0.25).num_attention_heads == 1
    with pytest.raises(ValueError, match="hidden_size must be a positive integer"):
        generator_config(BertConfig(30522, **BERT_SIZES["tiny"]), 0.001)


def test_each_projection_of_embeddings_is_counted_once():
    """The small ELECTRA's two networks project embeddings of 128 to 256 and to 64."""
    config = ElectraConfig(58, 256, 1, 4, 1024, max_position_embeddings=12, embedding_size=128)
    generator = generator_config(config, 0.25)

    def layer(width):
        return 40 * (4 * width**2 + 2 * width * 4 * width) + 4 * 10 * 2 * 10 * width

    projections, head = 40 * 128 * (256 + 64), 40 * 256 * 256 + 8 * (64 * 128 + 128 * 58)
    expected = 6 * (layer(256) + layer(64) + projections + head)
    assert electra_flops(config, generator, 4, 10, 2) == expected
