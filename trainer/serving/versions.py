"""Versions in a serving folder: blessing, card, publishing."""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from beambert import io, saved_models
from beambert.errors import InputError
from beambert.folders import (
    BLESSED,
    LEASE,
    METRICS_FILE,
    REPORT_FILE,
    BusyError,
    lock_held,
)
from beambert.model_files import (
    CARD_FILE,
    EXTRA_ASSETS,
    GRAPH_FILE,
    PRETRAINING,
    SAVED_MODEL_FOLDER,
    SOURCE_FILE,
    model_sha256,
    weights_sha256,
)
from beambert.pipelines.evaluation.measures import words_note
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tokenizers.vocabulary import (
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    TokenizerVocabulary,
)
from beambert.process import logging_restored
from beambert.trainer import model_folders
from beambert.trainer.models import pretrained_model, task_model
from beambert.trainer.serving.saved_model import encoder_graph, module_of
from beambert.trainer.weights.model_card import block, model_card


def check_blessing(evaluation: str, model_dir: str) -> None:
    """Refuses a model that `beambert evaluate` did not bless.

    Raises:
      InputError: there is no evaluation, it is of other files, or it did not bless the model.
    """
    evaluation = evaluation.rstrip("/")
    metrics_file = f"{evaluation}/{METRICS_FILE}"
    if not io.exists(metrics_file):
        raise InputError(f"--evaluation={evaluation}: holds no evaluation; run `beambert evaluate`")
    remedy = "evaluate the model again"
    needed = "model", "model_sha256", "metrics", "words"
    metrics = io.read_object(metrics_file, *needed, flag="--evaluation", remedy=remedy)
    if metrics["model_sha256"] != model_sha256(model_dir):
        raise InputError(
            f"--evaluation={evaluation}: is of {metrics['model']} and evaluated other files than "
            f"those that are in --model={model_dir} now; evaluate again"
        )
    if not io.exists(f"{evaluation}/{BLESSED}"):
        raise InputError(
            f"--evaluation={evaluation}: did not bless {model_dir} (see its {REPORT_FILE}); "
            "leave --evaluation out to export it anyway"
        )
    if note := words_note(metrics):
        print(f"note: {evaluation} blessed the model, but {note}", flush=True)


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
    "label": "string [n], the likeliest label, or the index of the likeliest ending",
    "labels": 'string [n, most labels of a text], the labels that apply, then ""',
    "probabilities": "float32 [n, labels], the probability of each label or ending",
    "score": "float32 [n], the number",
    "embedding": "float32 [n, H], the embedding of each text, of length 1",
    "tags": 'string [n, most words], the tag of each word, then ""',
    "tokens": "int32 [n, K], the ids of the tokens with the greatest weights",
    "weights": "float32 [n, K], their weights",
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
    "text": '["A text of your own"]',
    "text_b": '["Another text"]',
    "choices": '[["one ending", "another ending"]]',
}
# File of a tokenizer -> the expression that reads it.
_TOKENIZERS = {
    TOKENIZER_FILE: 'tokenizers.Tokenizer.from_file("assets.extra/tokenizer.json")',
    VOCABULARY_FILE: 'tokenizers.BertWordPieceTokenizer("assets.extra/vocab.txt")',
}
_TOKENIZING = """\
import tokenizers  # pip install tokenizers

ids = {tokenizer}.encode("A text").ids
"""
_USAGE = """\
It is a TensorFlow SavedModel that takes {takes}.{windows}

## How to load it

```
pip install tensorflow=={tensorflow} tensorflow-text=={tensorflow_text}
```

`tensorflow_text` must be imported first: it registers the operations of the tokenizer.

```python
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

"""


def _usage(function: Any, found: model_folders.ModelFolder) -> str:
    """Returns the sections of a version's card on how to load it; see `model_card`.

    Args:
      function: concrete function of the signature `serving_default`.
      found: the model.
    """
    inputs, training = _inputs_of(function), found.training
    takes, before, windows = "raw text", "", ""
    if "input_ids" in inputs:
        is_library = isinstance(found.vocabulary, TokenizerVocabulary)
        file = TOKENIZER_FILE if is_library else VOCABULARY_FILE
        takes = f"the ids of its tokenizer, `{EXTRA_ASSETS}/{file}`"
        before = _TOKENIZING.format(tokenizer=_TOKENIZERS[file])
    if (count := training.get("windows", 1)) > 1:
        windows = f" It reads a longer text in up to {count} windows, whose logits are averaged."
    text = _USAGE.format(
        takes=takes,
        windows=windows,
        before=before,
        tensorflow=tf.__version__,
        tensorflow_text=tf_text.__version__,
        arguments="\n".join(f"    {name}=tf.constant({_EXAMPLES[name]})," for name in inputs),
        meanings="\n".join(
            f"| {side} `{name}` | {_MEANINGS.get(name, 'see its kind of task')} |"
            for side, names in (("takes", inputs), ("gives", function.structured_outputs))
            for name in names
        ),
    )
    if labels := training.get("labels"):
        text += f"## Labels\n\nIn the order of the outputs:\n\n{block({'labels': labels})}\n\n"
    return text


def _inputs_of(function: Any) -> list[str]:
    positional, named = function.structured_input_signature
    return [spec.name for spec in (*positional, *named.values())]


SECONDS_BETWEEN_TRIES = 2.0


def publish(temporary: str, path: str) -> None:
    """Renames a folder to a version.

    On other storage a folder is renamed file by file; the graph, without which servers do not load
    a version, comes last.

    Args:
      temporary: folder of the SavedModel, in the serving folder.
      path: path of the version.

    Raises:
      InputError: the folder cannot be renamed.
    """
    if io.is_local(path):
        io.move(temporary, path)
        return
    try:
        io.copy(temporary, path, left_out=(GRAPH_FILE,))
        io.copy(f"{temporary}/{GRAPH_FILE}", f"{path}/{GRAPH_FILE}")
    except InputError:
        with contextlib.suppress(InputError):  # It may not allow that either.
            io.delete(path)
        raise
    io.delete(temporary)


@contextlib.contextmanager
def version_held(output: str, number: int | None) -> Iterator[str]:
    """Yields the path of a new version under the lock of a serving folder.

    It waits for another export, for a while. What a killed one has left is deleted.

    Args:
      output: serving folder.
      number: number of the version; None for the next free one.

    Raises:
      BusyError: the other export takes long.
      InputError: the version exists, or the folder holds something else.
    """
    deadline = time.monotonic() + 2 * LEASE.total_seconds()
    with contextlib.ExitStack() as stack:
        while True:
            try:
                lock = stack.enter_context(lock_held(f"{output}/{io.LOCK_PREFIX}", output))
                break
            except BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(SECONDS_BETWEEN_TRIES)
        path = f"{output}/{number or next_version(output)}"
        if io.exists(path):
            raise InputError(f"{path}: exists already; leave --version out to take the next number")
        for left in io.leftovers(output) if lock.is_exclusive else ():
            io.delete(left)
        yield path


@logging_restored()
def export(model_dir: str, output: str, trusts: bool = False, number: int | None = None) -> str:
    """Writes a model folder as the next version in a serving folder.

    Two exports at the same time make two versions. An existing version is never changed, and a new
    one gets its number only when it is complete. `SOURCE_FILE` in its `assets.extra`, which servers
    ignore, records the model that it was made from; `CARD_FILE` says how to load the version.

    Args:
      model_dir: folder of a fine-tuned model or an encoder.
      output: folder that holds a folder for each version, as TensorFlow Serving reads it.
      trusts: whether the graph of a fine-tuned model may do anything, see
        `saved_models.check_graph`.
      number: number of the version; None for the next free one.

    Returns:
      the path of the new version.

    Raises:
      InputError: the number or the model cannot be used, or the output holds something else.
    """
    if number is not None and number < 1:
        raise InputError(f"--version={number}: must be at least 1")
    found = model_folders.open_model(model_dir, "--model")
    next_version(output)
    if found.training["kind"] == PRETRAINING:
        length = found.training["max_seq_length"]
        text_features = TextFeatures(found.vocabulary, found.do_lower_case, length)
        module: Any = encoder_graph(pretrained_model(found).encoder, text_features)
        functions = module.functions
    else:
        path = f"{found.path}/{SAVED_MODEL_FOLDER}"
        if io.exists(path):
            task_model(found)  # It refuses weights that are not those of the SavedModel.
            # It is served as it was evaluated. Writing it again replaces the functions that save
            # and restore.
            module = saved_models.load(path, f"--model={found.path}", trusts)
            functions = module.signatures
        else:  # It was fine-tuned where TensorFlow is not installed.
            module = module_of(found)
            functions = module.functions
    with (
        version_held(output, number) as path,
        io.temporary_path(path, output) as temporary,
    ):
        tf.saved_model.save(module, temporary, signatures=dict(functions))
        weights = weights_sha256(model_dir)
        source = {"model": io.absolute(model_dir), "weights_sha256": weights}
        content = json.dumps(source, indent=1).encode()
        io.write_bytes(f"{temporary}/{EXTRA_ASSETS}/{SOURCE_FILE}", content)
        if "input_ids" in _inputs_of(functions["serving_default"]):
            # Its callers need the tokenizer.
            for name, data in found.vocabulary.files().items():
                io.write_bytes(f"{temporary}/{EXTRA_ASSETS}/{name}", data)
        usage = _usage(functions["serving_default"], found)
        card = model_card(found, "weights", weights, usage=usage)
        io.write_bytes(f"{temporary}/{CARD_FILE}", card.encode())
        publish(temporary, path)
        return path


def next_version(output: str) -> int:
    """Returns the greatest version number in a serving folder plus one.

    Raises:
      InputError: the folder holds something else.
    """
    if io.exists(output) and not io.is_folder(output):
        raise InputError(f"--output={output}: is a file; give a folder of versions")
    names = [name for name in io.list_folder(output) if not io.is_temporary(name)]
    others = [name for name in names if not name.isdecimal()]
    if others:
        raise InputError(
            f"--output={output}: holds something else ({others[0]}); give a folder of versions"
        )
    return max((int(name) for name in names), default=0) + 1


def describe(path: str) -> str:
    """Returns the line that says what an exported version takes."""
    for name in _TOKENIZERS:
        if io.exists(f"{path}/{EXTRA_ASSETS}/{name}"):
            return (
                f"{path}: a SavedModel that takes the ids of its tokenizer, which is "
                f"{EXTRA_ASSETS}/{name} in it"
            )
    return f"{path}: a SavedModel that takes raw text"
