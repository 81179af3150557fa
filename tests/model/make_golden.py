"""Makes the golden arrays that `test_parity.py` compares with, from an independent implementation.

The implementation is Hugging Face's `TFBertForPreTraining` with random weights. From the repository
root, with Python 3.11, in an environment of its own (its Keras 2 and ours cannot share one):

    python3.11 -m venv oracle
    oracle/bin/pip install tensorflow==2.21.0 tf-keras==2.21.0 transformers==4.46.3
    oracle/bin/python tests/model/make_golden.py tests/model/golden

It writes one `<case>.npz` for each case below, each with:
  config                   text, `bert_config.json`
  weights/<name>           the weights under Hugging Face's names
  features/<name>          a batch with padding, both segments and masked positions, and its labels
  outputs/<name>           embeddings, hidden states of each layer, pooled output, both logits, loss
  gradients/<name>         gradients of the loss with respect to each weight of that name
"""

import json
import os
import pathlib
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
import transformers

CASES = {
    # Padding from none to all but two tokens.
    "padded": {"seed": 1, "lengths": (12, 9, 5, 2), "length": 12, "hidden_act": "gelu"},
    # Another length, as long as there are positions, and the tanh form of GELU.
    "full": {"seed": 2, "lengths": (24, 17), "length": 24, "hidden_act": "gelu_new"},
}

SIZES = {
    "vocab_size": 53,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}

PREDICTIONS = 4


def make_model(case: dict, generator: np.random.Generator):
    """Returns the oracle with weights wide enough that every activation is nonlinear."""
    config = transformers.BertConfig(
        **SIZES, hidden_act=case["hidden_act"], output_hidden_states=True, layer_norm_eps=1e-12
    )
    model = transformers.TFBertForPreTraining(config)
    model(input_ids=tf.zeros((1, 2), tf.int32))
    for variable in model.trainable_variables:
        value = generator.normal(0.0, 0.3, variable.shape)
        if "gamma" in variable.name:
            value += 1.0
        variable.assign(value.astype(np.float32))
    return model


def make_features(case: dict, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Returns a batch in the record format; padding has ids and segments of its own on purpose."""
    rows, length = len(case["lengths"]), case["length"]
    lengths = np.array(case["lengths"])[:, None]
    shape = (rows, PREDICTIONS)
    real = np.arange(PREDICTIONS) < np.minimum(lengths // 3 + 1, PREDICTIONS)
    return {
        "input_ids": generator.integers(0, SIZES["vocab_size"], (rows, length)),
        "input_mask": (np.arange(length) < lengths).astype("int64"),
        "segment_ids": (np.arange(length) >= lengths // 2).astype("int64"),
        "masked_lm_positions": generator.integers(0, lengths, shape) * real,
        "masked_lm_ids": generator.integers(0, SIZES["vocab_size"], shape) * real,
        "masked_lm_weights": real.astype("float32"),
        "next_sentence_labels": generator.integers(0, 2, (rows, 1)),
    }


def run(model, features: dict[str, np.ndarray]):
    """Returns the outputs and the gradients of the original's loss (run_pretraining.py)."""
    with tf.GradientTape() as tape:
        output = model(
            input_ids=features["input_ids"],
            attention_mask=features["input_mask"],
            token_type_ids=features["segment_ids"],
            training=False,
        )
        logits = tf.gather(
            output.prediction_logits, features["masked_lm_positions"], axis=1, batch_dims=1
        )
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(features["masked_lm_ids"], logits)
        weights = features["masked_lm_weights"]
        masked_lm_loss = tf.reduce_sum(losses * weights) / (tf.reduce_sum(weights) + 1e-5)
        next_sentence_loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                features["next_sentence_labels"][:, 0], output.seq_relationship_logits
            )
        )
        loss = masked_lm_loss + next_sentence_loss
        pooled = model.bert(
            input_ids=features["input_ids"],
            attention_mask=features["input_mask"],
            token_type_ids=features["segment_ids"],
            training=False,
        ).pooler_output
    outputs = {f"hidden_{i}": hidden for i, hidden in enumerate(output.hidden_states)}
    outputs |= {"pooled_output": pooled, "masked_lm_logits": logits, "loss": loss}
    outputs["next_sentence_logits"] = output.seq_relationship_logits
    return outputs, tape.gradient(loss, model.trainable_variables)


def plain_name(variable) -> str:
    """Drops the model's name and `:0`: `bert/encoder/layer_._0/attention/self/query/kernel`."""
    return variable.name.split("/", 1)[1].removesuffix(":0")


def write_case(case: dict, path: pathlib.Path) -> None:
    """Makes one case and writes its arrays."""
    generator = np.random.default_rng(case["seed"])
    model = make_model(case, generator)
    features = make_features(case, generator)
    outputs, gradients = run(model, features)
    config = SIZES | {"hidden_act": case["hidden_act"]}
    arrays = {"config": np.array(json.dumps(config, sort_keys=True))}
    for name, value in features.items():
        arrays[f"features/{name}"] = value
    for name, value in outputs.items():
        arrays[f"outputs/{name}"] = value.numpy()
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        arrays[f"weights/{plain_name(variable)}"] = variable.numpy()
        arrays[f"gradients/{plain_name(variable)}"] = tf.convert_to_tensor(gradient).numpy()
    np.savez_compressed(path, **arrays)


def main() -> None:
    """Writes every case to the folder named on the command line."""
    folder = pathlib.Path(sys.argv[1])
    for name, case in CASES.items():
        write_case(case, folder / f"{name}.npz")


if __name__ == "__main__":
    main()
