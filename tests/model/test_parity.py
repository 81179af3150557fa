"""The model equals an independent implementation, whose arrays `make_golden.py` wrote."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from beambert.model.config import BertConfig
from beambert.model.encoder import BertEncoder
from beambert.model.pretrainer import BertPretrainer
from beambert.trainer.loop.strategy import has_xla

GOLDEN = pathlib.Path(__file__).parent / "golden"
TOLERANCE = 1e-5

OUR_NAMES = {
    "nsp___": "",
    "mlm___": "",
    "layer_._": "layer_",
    "LayerNorm": "layer_norm",
    "predictions/bias": "predictions/output_bias",
    "_embeddings/weight": "_embeddings",
    "_embeddings/embeddings": "_embeddings",
}


def group(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Returns the arrays named `prefix/...` under our variables' names."""
    named = {}
    for name, array in arrays.items():
        if name.startswith(prefix + "/"):
            name = name.removeprefix(prefix + "/")
            for theirs, ours in OUR_NAMES.items():
                name = name.replace(theirs, ours)
            named[name] = array
    return named


def assign(model, weights: dict[str, np.ndarray]) -> None:
    for variable in model.variables:
        variable.assign(weights[variable.path])


@pytest.fixture(scope="module", params=["padded", "full"])
def golden(request) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{request.param}.npz"))


@pytest.fixture(scope="module")
def config(golden) -> BertConfig:
    return BertConfig.from_json(str(golden["config"]))


@pytest.fixture(scope="module")
def pretrainer(golden, config) -> BertPretrainer:
    model = BertPretrainer(config)
    weights = group(golden, "weights")
    assert {variable.path for variable in model.variables} == set(weights)
    assign(model, weights)
    return model


def loss_of(logits, features):
    """The original's loss: weighted mean over the predictions, plus next sentence."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        features["masked_lm_ids"], logits["masked_lm_logits"]
    )
    weights = features["masked_lm_weights"]
    masked_lm_loss = tf.reduce_sum(losses * weights) / (tf.reduce_sum(weights) + 1e-5)
    return masked_lm_loss + tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["next_sentence_labels"][:, 0], logits["next_sentence_logits"]
        )
    )


def test_embeddings_match(golden, pretrainer):
    features = group(golden, "features")
    x_TH = pretrainer.encoder.embeddings(features["input_ids"], features["segment_ids"])
    expected = golden["outputs/hidden_0"]
    np.testing.assert_allclose(tf.reshape(x_TH, expected.shape), expected, atol=TOLERANCE)


@pytest.mark.parametrize("layers", [1, 2])
def test_hidden_states_match(golden, config, layers):
    fields = json.loads(config.to_json()) | {"num_hidden_layers": layers}
    encoder = BertEncoder(BertConfig(**fields))
    assign(encoder, group(golden, "weights"))
    features = group(golden, "features")
    sequence_output, pooled_output = encoder(
        features["input_ids"], features["input_mask"], features["segment_ids"]
    )
    expected = golden[f"outputs/hidden_{layers}"]
    np.testing.assert_allclose(sequence_output, expected, atol=TOLERANCE)
    if layers == config.num_hidden_layers:
        np.testing.assert_allclose(pooled_output, golden["outputs/pooled_output"], atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize(("integers", "jit_compile"), [("int32", False), ("int64", True)])
def test_logits_match(golden, pretrainer, jit_compile, integers):
    features = {
        name: tf.cast(value, integers)
        for name, value in group(golden, "features").items()
        if value.dtype == np.int64
    }
    if jit_compile and not has_xla():
        pytest.skip("needs XLA for the processor")
    logits = tf.function(pretrainer, jit_compile=jit_compile)(features)
    for name in ("masked_lm_logits", "next_sentence_logits"):
        np.testing.assert_allclose(logits[name], golden[f"outputs/{name}"], atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_loss_and_gradients_match(golden, pretrainer, jit_compile):
    features = group(golden, "features")
    values = [variable.value for variable in pretrainer.trainable_variables]

    if jit_compile and not has_xla():
        pytest.skip("needs XLA for the processor")

    @tf.function(jit_compile=jit_compile)
    def loss_and_gradients():
        with tf.GradientTape() as tape:
            loss = loss_of(pretrainer(features), features)
        return loss, [tf.convert_to_tensor(g) for g in tape.gradient(loss, values)]

    loss, gradients = loss_and_gradients()
    np.testing.assert_allclose(loss, golden["outputs/loss"], atol=TOLERANCE)
    expected = group(golden, "gradients")
    assert len(gradients) == len(expected)
    for variable, gradient in zip(pretrainer.trainable_variables, gradients, strict=True):
        np.testing.assert_allclose(
            gradient, expected[variable.path], atol=TOLERANCE, err_msg=variable.path
        )
