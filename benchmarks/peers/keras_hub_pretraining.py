"""KerasHub's side of training_step.py: a step of BertMaskedLM, which has no next-sentence head."""

import os
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from answering import answer


def prepare(asked: dict) -> Callable[[], object]:
    """Returns a step as Keras's own compiled training runs it."""
    sizes = asked["sizes"]
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=sizes["vocab_size"],
        num_layers=sizes["num_hidden_layers"],
        num_heads=sizes["num_attention_heads"],
        hidden_dim=sizes["hidden_size"],
        intermediate_dim=sizes["intermediate_size"],
    )
    model = keras_hub.models.BertMaskedLM(backbone=backbone, preprocessor=None)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, jit_compile=True)
    with np.load(f"{asked['folder']}/batch.npz") as arrays:
        features = dict(arrays)
    inputs = {
        "token_ids": features["input_ids"],
        "padding_mask": features["input_mask"],
        "segment_ids": features["segment_ids"],
        "mask_positions": features["masked_lm_positions"],
    }
    batch = (inputs, features["masked_lm_ids"], features["masked_lm_weights"])
    model.make_train_function()
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())

    def step() -> None:
        for value in tf.nest.flatten(model.train_function(iterator)):
            float(value)

    return step


if __name__ == "__main__":
    answer(prepare)
