"""A pre-training step of another system, for training_step.py, which runs this file by itself.

Reads a line from stdin for every step and answers with one. Imports nothing of this repository but
the file that makes the batch.
"""

import importlib.util
import json
import os
import pathlib
import sys
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")


def hugging_face(asked: dict, features: dict) -> Callable[[], object]:
    """BertForPreTraining on torch, as its trainer runs it: AdamW, clipping, dropout."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    sizes = {name: asked[name] for name in (*names, "intermediate_size")}
    model = transformers.BertForPreTraining(transformers.BertConfig(**sizes)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    tensors = {name: torch.tensor(array).long() for name, array in features.items()}
    labels = torch.full_like(tensors["input_ids"], -100)
    is_used = tensors["masked_lm_weights"] > 0
    rows = torch.arange(len(labels))[:, None].expand_as(is_used)[is_used]
    labels[rows, tensors["masked_lm_positions"][is_used]] = tensors["masked_lm_ids"][is_used]

    def step() -> None:
        optimizer.zero_grad()
        loss = model(
            input_ids=tensors["input_ids"],
            attention_mask=tensors["input_mask"],
            token_type_ids=tensors["segment_ids"],
            labels=labels,
            next_sentence_label=tensors["next_sentence_labels"][:, 0],
        ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def keras_hub(asked: dict, features: dict) -> Callable[[], object]:
    """BertMaskedLM, which has no next-sentence head, through Keras's own compiled train step."""
    import keras
    import keras_hub as hub
    import tensorflow as tf

    backbone = hub.models.BertBackbone(
        vocabulary_size=asked["vocab_size"],
        num_layers=asked["num_hidden_layers"],
        num_heads=asked["num_attention_heads"],
        hidden_dim=asked["hidden_size"],
        intermediate_dim=asked["intermediate_size"],
    )
    model = hub.models.BertMaskedLM(backbone=backbone, preprocessor=None)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, jit_compile=True)
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


def main() -> None:
    """Answers every line with a step."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the peers print goes elsewhere
    asked = json.loads(sys.argv[1])
    path = pathlib.Path(__file__).with_name("training_step.py")
    spec = importlib.util.spec_from_file_location("training_step", path)
    shared = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shared)
    features = shared.random_features(
        asked["vocab_size"], asked["batch"], asked["length"], asked["fill"]
    )
    step = {"hugging_face": hugging_face, "keras_hub": keras_hub}[asked["peer"]](asked, features)
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        step()
        print("done", file=answers, flush=True)


if __name__ == "__main__":
    main()
