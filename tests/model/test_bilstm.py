"""The BiLSTM on top of an encoder, against its equations in numpy."""

import importlib

import numpy as np
import pytest
import tensorflow as tf

from beambert.model.classifier import BertClassifier, BertTokenClassifier, BiLstm, Head
from beambert.model.config import BertConfig

CONFIG = BertConfig(50, 16, 2, 2, 32)
WIDTH, LENGTHS = 5, (7, 3, 1)


def lstm(x_LH, kernel, recurrent, bias) -> np.ndarray:
    """The states of an LSTM with a forget gate (Gers et al. 2000); the gates are i, f, g, o."""
    state = cell = np.zeros(WIDTH)
    states = []
    for x in x_LH:
        i, f, g, o = np.split(x @ kernel + state @ recurrent + bias, 4)
        cell = cell / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        state = np.tanh(cell) / (1 + np.exp(-o))
        states.append(state)
    return np.array(states)


@pytest.fixture(scope="module")
def inputs():
    random = np.random.default_rng(0)
    mask = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]).astype(np.int32)
    return random.normal(size=(len(LENGTHS), max(LENGTHS), 4)).astype(np.float32), mask


def test_states_are_those_of_the_equations(inputs):
    x_BLH, mask_BL = inputs
    layers = BiLstm(WIDTH, 2, seed=1)
    layers.build((None, None, x_BLH.shape[-1]))
    states = layers(x_BLH, mask_BL)
    summary = layers.summary(states).numpy()
    weights = {v.path.removeprefix("bilstm/"): v.numpy() for v in layers.weights}
    for row, length in enumerate(LENGTHS):
        x = x_BLH[row, :length]
        for index in (0, 1):
            both = [
                [weights[f"{way}_{index}/lstm_cell/{name}"] for name in names]
                for way in ("forward", "backward")
                for names in (("kernel", "recurrent_kernel", "bias"),)
            ]
            x = np.concatenate([lstm(x, *both[0]), lstm(x[::-1], *both[1])[::-1]], axis=1)
        np.testing.assert_allclose(states[row, :length], x, atol=1e-6)
        last = np.concatenate([x[-1, :WIDTH], x[0, WIDTH:]])
        np.testing.assert_allclose(summary[row], last, atol=1e-6)


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("make", [BertClassifier, BertTokenClassifier])
def test_padding_changes_no_logits(make, is_frozen):
    model = make(CONFIG, 3, seed=2, head=Head(is_frozen, num_bilstm_layers=1))
    ids = np.random.default_rng(1).integers(1, 50, (2, 9)).astype(np.int32)
    features = {
        "input_ids": ids,
        "input_mask": (np.arange(9) < np.array([9, 4])[:, None]).astype(np.int32),
        "segment_ids": np.zeros_like(ids),
    }
    logits = model(features).numpy()
    alone = model({name: value[1:, :4] for name, value in features.items()}).numpy()
    mine = logits[1:, :4] if make is BertTokenClassifier else logits[1:]
    np.testing.assert_allclose(mine, alone, atol=1e-5)
    trained = {variable.path.split("/")[0] for variable in model.trainable_variables}
    assert trained == {"bilstm", "classifier"} | (set() if is_frozen else {"bert"})


def test_xla_knows_all_of_it_also_where_there_is_a_gpu(inputs, monkeypatch):
    module = importlib.import_module("keras.src.backend.tensorflow.rnn")
    monkeypatch.setattr(module, "_is_gpu_available", lambda: True)
    layers = BiLstm(WIDTH, 1, seed=1)
    layers.build((None, None, inputs[0].shape[-1]))
    graph = tf.function(layers).get_concrete_function(*map(tf.constant, inputs)).graph
    names = {node.op for node in graph.as_graph_def().node}
    names |= {n.op for f in graph.as_graph_def().library.function for n in f.node_def}
    assert names and not [name for name in names if "udnn" in name]
