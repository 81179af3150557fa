"""The README.md of an exported SavedModel: what it is, how to load it, how it was made."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from beambert.trainer import model_folders
from beambert.trainer.weights import model_card

# Input or output of a signature -> its meaning.
_MEANINGS = {
    "input_ids": "int32 [n, L], the ids of [CLS], the text and [SEP], then padding",
    "segment_ids": "int32 [n, L], the segment of each token",
    "first_pieces": "int32 [n, most words], the position of each word's first token, then -1",
    "start_logits": "float32 [n, L], the logit of each token being the first of the answer",
    "end_logits": "float32 [n, L], the logit of each token being the last of the answer",
    "text": "string [n], the texts",
    "text_b": "string [n], the second text of each pair",
    "choices": "string [n, N], the endings of each text",
    "question": "string [n], the questions",
    "context": "string [n], the texts with the answers, of any length",
    "label": "string [n], the likeliest label, or the index of the likeliest ending",
    "labels": 'string [n, most labels of a text], the labels that apply, then ""',
    "probabilities": "float32 [n, labels], the probability of each label or ending",
    "score": "float32 [n], the number, or the score of the answer",
    "embedding": "float32 [n, H], the embedding of each text, of length 1",
    "tags": 'string [n, most words], the tag of each word, then ""',
    "answer": "string [n], the answers",
    "start": "int32 [n], the first character of the answer in its context",
    "end": "int32 [n], the character behind the answer",
    "null_odds": "float32 [n], the score of no answer minus that of the answer",
    "sequence_output": "float32 [n, L, H], the hidden state of each token",
    "pooled_output": "float32 [n, H], the pooled hidden state of each text",
    "input_mask": "int32 [n, L], 1 for tokens and 0 for padding",
}
# Input -> a value for the example.
_EXAMPLES = {
    "input_ids": "[ids]",
    "input_mask": "[[1] * len(ids)]",
    "segment_ids": "[[0] * len(ids)]",
    "first_pieces": "[[1]]",
    "text": '["So good from start to end"]',
    "text_b": '["I liked it"]',
    "choices": '[["and again", "but not again"]]',
    "question": '["Where does the river end?"]',
    "context": '["The river ends in the sea."]',
}
_IDS = "the ids of its tokenizer, `assets.extra/tokenizer.json`"
_TOKENIZING = """\
import tokenizers  # pip install tokenizers

ids = tokenizers.Tokenizer.from_file("assets.extra/tokenizer.json").encode("So good").ids
"""
_CARD = """\
# {title}

A TensorFlow SavedModel that takes {takes}. {made}

## How to load it

```
pip install tensorflow=={tensorflow} tensorflow-text=={tensorflow_text}
```

`tensorflow_text` must be imported first. It registers the operations of the tokenizer, without
which loading ends with `Op type not registered`. On a machine without a GPU, TensorFlow prints that
it could not find cuda drivers. That is harmless.

```python
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # fewer notices of TensorFlow
import tensorflow_text  # this line comes first
import tensorflow as tf

model = tf.saved_model.load(".")  # the folder of this file
answer = model.signatures["serving_default"]
{before}outputs = answer(
{arguments}
)
for name, value in outputs.items():
    print(name, value.numpy().tolist())
```

## Inputs and outputs

| | |
|---|---|
{meanings}
{labels}{results}
{training}
"""


def served_card(
    function: Any,
    found: model_folders.ModelFolder,
    weights_sha256: str,
    results: Mapping[str, float] | None,
) -> str:
    """Returns the text of the card.

    Args:
      function: concrete function of the signature `serving_default`.
      found: the model.
      weights_sha256: checksum of the model's weights.
      results: metrics on held-out examples by name; None if there are none.
    """
    training = found.training
    positional, named = function.structured_input_signature
    inputs = [spec.name for spec in (*positional, *named.values())]
    outputs = list(function.structured_outputs)
    takes_ids = "input_ids" in inputs
    return _CARD.format(
        title=_title(training),
        takes=_IDS if takes_ids else "raw text",
        before=_TOKENIZING if takes_ids else "",
        made=_inputs(training["max_seq_length"], training.get("windows", 1)),
        tensorflow=tf.__version__,
        tensorflow_text=tf_text.__version__,
        arguments="\n".join(f"    {name}=tf.constant({_EXAMPLES[name]})," for name in inputs),
        meanings="\n".join(
            f"| {side} `{name}` | {_MEANINGS[name]} |"
            for side, names in (("takes", inputs), ("gives", outputs))
            for name in names
        ),
        labels=_labels(training.get("labels", ())),
        results=_results(results or {}),
        training="\n\n".join(
            [
                *model_card.training_sections(found),
                model_card.checksums_section(found, "weights", weights_sha256),
            ]
        ),
    )


def _title(training: Mapping[str, Any]) -> str:
    if "task" not in training:
        return "Encoder"
    return ": ".join(dict.fromkeys((training["task"], training["kind"])))


def _inputs(length: int, windows: int) -> str:
    said = f"An input of the model has at most {length} tokens."
    if windows > 1:
        said += f" A longer text is read in up to {windows} windows, whose logits are averaged."
    return said


def _labels(labels: Sequence[str]) -> str:
    if not labels:
        return ""
    return f"\n## Labels\n\nIn the order of the outputs:\n\n```json\n{_json(labels)}\n```\n"


def _results(results: Mapping[str, float]) -> str:
    if not results:
        return ""
    return f"\n## Results on held-out examples\n\n```json\n{_json(results)}\n```\n"


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
