"""Versions in a serving folder: blessing, card, publishing."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from beambert import locks, saved_models, storage
from beambert.errors import InputError
from beambert.folders import BLESSED, METRICS_FILE, REPORT_FILE
from beambert.locks import LEASE, BusyError
from beambert.model_files import (
    CARD_FILE,
    GRAPH_FILE,
    PRETRAINING,
    RESULTS_FILE,
    SAVED_MODEL_FOLDER,
    model_sha256,
    weights_sha256,
)
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tokenizers.vocabulary import (
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    TokenizerVocabulary,
)
from beambert.process import logging_restored
from beambert.storage import parse_object
from beambert.trainer import model_folders
from beambert.trainer.models import pretrained_model, task_model
from beambert.trainer.serving.saved_model import EncoderModule, save_module
from beambert.trainer.weights import model_card


def check_blessing(evaluation: str, model_dir: str) -> None:
    """Refuses a model that `beambert evaluate` did not bless.

    Raises:
      InputError: there is no evaluation, it is of other files, or it did not bless the model.
    """
    evaluation = evaluation.rstrip("/")
    metrics_file = f"{evaluation}/{METRICS_FILE}"
    if not storage.exists(metrics_file):
        raise InputError(f"--evaluation={evaluation}: holds no evaluation; run `beambert evaluate`")
    try:
        metrics = parse_object(storage.read_bytes(metrics_file))
        model, evaluated = metrics["model"], metrics["model_sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--evaluation={evaluation}: its {METRICS_FILE} cannot be read; "
            "evaluate the model again"
        ) from error
    if evaluated != model_sha256(model_dir):
        raise InputError(
            f"--evaluation={evaluation}: is of {model} and evaluated other files than those that "
            f"are in --model={model_dir} now; evaluate again"
        )
    if not storage.exists(f"{evaluation}/{BLESSED}"):
        raise InputError(
            f"--evaluation={evaluation}: did not bless {model_dir} (see its {REPORT_FILE}); "
            "leave --evaluation out to export it anyway"
        )


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
}
_IDS = "the ids of its tokenizer, `assets.extra/{file}`"
_TOKENIZING = """\
import tokenizers  # pip install tokenizers

ids = {tokenizer}.encode("So good").ids
"""
# File of a tokenizer -> the expression that reads it.
_TOKENIZERS = {
    TOKENIZER_FILE: 'tokenizers.Tokenizer.from_file("assets.extra/tokenizer.json")',
    VOCABULARY_FILE: 'tokenizers.BertWordPieceTokenizer("assets.extra/vocab.txt")',
}
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
    inputs = _inputs_of(function)
    outputs = list(function.structured_outputs)
    takes_ids = "input_ids" in inputs
    is_library = isinstance(found.vocabulary, TokenizerVocabulary)
    file = TOKENIZER_FILE if is_library else VOCABULARY_FILE
    return _CARD.format(
        title=_title(training),
        takes=_IDS.format(file=file) if takes_ids else "raw text",
        before=_TOKENIZING.format(tokenizer=_TOKENIZERS[file]) if takes_ids else "",
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
        results=_card_results(results or {}),
        training="\n\n".join(
            [
                *model_card.training_sections(found),
                model_card.checksums_section(found, "weights", weights_sha256),
            ]
        ),
    )


def _inputs_of(function: Any) -> list[str]:
    positional, named = function.structured_input_signature
    return [spec.name for spec in (*positional, *named.values())]


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


def _card_results(results: Mapping[str, float]) -> str:
    if not results:
        return ""
    return f"\n## Results on held-out examples\n\n```json\n{_json(results)}\n```\n"


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


# The folder of a SavedModel for files outside the graph, and our file in it.
EXTRA_ASSETS, SOURCE_FILE = "assets.extra", "model.json"
# The folders of a SavedModel with its weights and, if it has any, its tables of words.
_FILE_FOLDERS = ("variables", "assets")
SECONDS_BETWEEN_TRIES = 2.0


def graph_sha256(version: str) -> str:
    """Returns the SHA-256 of a SavedModel's graph.

    Raises:
      InputError: it cannot be read.
    """
    return storage.sha256_of(f"{version}/{GRAPH_FILE}")


def files_sha256(version: str) -> dict[str, str]:
    """Returns path in a SavedModel -> SHA-256, for its weights and its tables of words.

    Raises:
      InputError: a file cannot be read.
    """
    paths = [
        f"{folder}/{name}"
        for folder in _FILE_FOLDERS
        for name in sorted(storage.list_folder(f"{version}/{folder}"))
    ]
    return {path: storage.sha256_of(f"{version}/{path}") for path in paths}


def is_as_exported(version: str) -> bool:
    """Returns whether a version has the files that it was exported with, so far as it tells.

    Raises:
      InputError: a file cannot be read.
    """
    source = f"{version}/{EXTRA_ASSETS}/{SOURCE_FILE}"
    if not storage.exists(source):
        return True
    try:
        found = parse_object(storage.read_bytes(source))
    except ValueError:
        return False
    if found.get("graph_sha256") not in (None, graph_sha256(version)):
        return False
    # An older export tells nothing of its weights.
    return "files_sha256" not in found or found["files_sha256"] == files_sha256(version)


def publish(temporary: str, output: str, number: Callable[[], int]) -> str:
    """Renames a folder to the next version, and returns its path.

    A file system renames the folder at once, or refuses if the version exists. On gs:// a folder is
    renamed file by file, and one that exists would be mixed with the other. So the number is taken
    under a lock there, and the graph, without which servers do not load a version, comes last.

    Args:
      temporary: folder of the SavedModel, in the serving folder.
      output: serving folder.
      number: function that returns the number to take.

    Raises:
      InputError: the folder cannot be renamed.
    """
    if "://" in output:
        with _numbers_held(output):
            path = f"{output}/{number()}"
            _check_free(path)
            try:
                storage.copy(temporary, path, left_out=(GRAPH_FILE,))
                storage.copy(f"{temporary}/{GRAPH_FILE}", f"{path}/{GRAPH_FILE}")
            except InputError:
                with contextlib.suppress(InputError):  # It may not allow that either.
                    storage.delete(path)
                raise
        storage.delete(temporary)
        return path
    taken = None
    while True:
        path = f"{output}/{number()}"
        try:
            tf.io.gfile.rename(temporary, path)
            return path
        except tf.errors.OpError as error:
            # If the path exists, another export has taken the number in the meantime.
            if not storage.exists(path):
                reason = storage.reason(error)
                raise InputError(f"{path}: cannot be made of {temporary} ({reason})") from error
            if path == taken:
                _check_free(path)
            taken = path


def _check_free(path: str) -> None:
    if storage.exists(path):
        raise InputError(f"{path}: exists already; leave --version out to take the next number")


@contextlib.contextmanager
def _numbers_held(output: str) -> Iterator[None]:
    """Holds the lock of a serving folder's numbers; waits for another export, for a while."""
    lock = f"{output}/{storage.LOCK_PREFIX}-number"
    deadline = time.monotonic() + 2 * LEASE.total_seconds()
    while True:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locks.held(lock, output))
            except BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(SECONDS_BETWEEN_TRIES)
                continue
            yield
            return


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
    version = number or next_version(output)
    if found.training["kind"] == PRETRAINING:
        module = _encoder_module(found)
        functions = module.functions
    else:
        module = _evaluated_module(found, trusts)
        functions = module.signatures
    with (
        storage.temporary_path(f"{output}/{version}", output) as temporary,
        locks.temporary_held(temporary),
    ):
        save_module(module, functions, temporary)
        weights = weights_sha256(model_dir)
        _write_source(model_dir, weights, temporary)
        if "input_ids" in _inputs_of(functions["serving_default"]):
            # Its callers need the tokenizer.
            for name, data in found.vocabulary.files().items():
                storage.write_bytes(f"{temporary}/{EXTRA_ASSETS}/{name}", data)
        card = served_card(functions["serving_default"], found, weights, _results(found.path))
        storage.write_bytes(f"{temporary}/{CARD_FILE}", card.encode())
        # Still under the lock: without it, another export takes the folder for a dead one.
        return publish(temporary, output, lambda: number or next_version(output))


def _encoder_module(found: model_folders.ModelFolder) -> EncoderModule:
    length = found.training["max_seq_length"]
    text_features = TextFeatures(found.vocabulary, found.do_lower_case, length)
    return EncoderModule(pretrained_model(found).encoder, text_features)


def _evaluated_module(found: model_folders.ModelFolder, trusts: bool) -> Any:
    """Returns the loaded SavedModel of a fine-tuned model, which `beambert evaluate` judges.

    It is served as it was evaluated. Writing it again replaces the functions that save and restore.
    """
    task_model(found)  # It refuses weights that are not those of the SavedModel.
    path = f"{found.path}/{SAVED_MODEL_FOLDER}"
    return saved_models.load(path, f"--model={found.path}", trusts)


def _results(model_dir: str) -> dict[str, float] | None:
    """Returns the metrics of a fine-tuned model on dev; None for an encoder."""
    path = f"{model_dir}/{RESULTS_FILE}"
    return json.loads(storage.read_bytes(path)) if storage.exists(path) else None


def _write_source(model_dir: str, weights: str, path: str) -> None:
    source = {
        "model": storage.absolute(model_dir),
        "weights_sha256": weights,
        "graph_sha256": graph_sha256(path),
        "files_sha256": files_sha256(path),
    }
    storage.write_bytes(
        f"{path}/{EXTRA_ASSETS}/{SOURCE_FILE}", json.dumps(source, indent=1).encode()
    )


def next_version(output: str) -> int:
    """Returns the greatest version number in a serving folder plus one.

    Raises:
      InputError: the folder holds something else.
    """
    if storage.exists(output) and not storage.is_folder(output):
        raise InputError(f"--output={output}: is a file; give a folder of versions")
    names = [name for name in storage.list_folder(output) if not storage.is_temporary(name)]
    others = [name for name in names if not name.isdecimal()]
    if others:
        raise InputError(
            f"--output={output}: holds something else ({others[0]}); give a folder of versions"
        )
    return max((int(name) for name in names), default=0) + 1


def describe(path: str) -> str:
    """Returns the line that says what an exported version takes."""
    for name in _TOKENIZERS:
        if storage.exists(f"{path}/{EXTRA_ASSETS}/{name}"):
            return (
                f"{path}: a SavedModel that takes the ids of its tokenizer, which is "
                f"{EXTRA_ASSETS}/{name} in it"
            )
    return f"{path}: a SavedModel that takes raw text"
