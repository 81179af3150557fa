"""Names of the files in a model folder, their checksums, and whether they are as they were."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from beambert import io
from beambert.errors import InputError
from beambert.folders import MARKER_FILE, describe_difference

CONFIG_FILE = "bert_config.json"
WEIGHTS_FILE = "model.safetensors"
# The parameters and inputs of the training; it is written when the training starts.
TRAINING_FILE = "training.json"
# The kind of a pre-trained encoder there. A fine-tuned model has the kind of its task.
PRETRAINING = "pretraining"
# The metrics of the trained model.
RESULTS_FILE = "results.json"
# The model card of an exported model.
CARD_FILE = "README.md"
# The learning curves: one line for each logged step.
CURVES_FILE = "metrics.jsonl"
# The labels of a classifier, one a line, in the order of its logits.
LABELS_FILE = "labels.txt"
# The graph that `export --to=onnx` writes.
ONNX_FILE = "model.onnx"
# A SavedModel, and the graph in such a folder.
SAVED_MODEL_FOLDER, GRAPH_FILE = "saved_model", "saved_model.pb"
CHECKPOINTS_FOLDER, TENSORBOARD_FOLDER = "checkpoints", "tensorboard"
# These folders are large, and nobody needs them to use the model.
NOT_TO_USE = (CHECKPOINTS_FOLDER, TENSORBOARD_FOLDER)

# All that runs or is served: the files of a model folder, and those of a bare SavedModel.
_USED = (
    *(CONFIG_FILE, WEIGHTS_FILE, TRAINING_FILE, LABELS_FILE, "vocab.txt"),
    *(SAVED_MODEL_FOLDER, GRAPH_FILE, "variables", "assets"),
    *("tokenizer.json", "tokenizer_config.json"),
)

# The model's weights and those of the SavedModel.
_PATTERNS = (WEIGHTS_FILE, f"{SAVED_MODEL_FOLDER}/variables/*.data-*", "variables/*.data-*")


def weights_sha256(folder: str) -> str:
    """Returns the SHA-256 of the weights in a model folder, on any file system of TensorFlow.

    It names a training's result: what a version was made from, what an evaluation compares with,
    what the registry shows. That stays the same model when its labels, vocabulary or description
    are written anew. Whether the model that runs is the one that was judged tells `model_sha256`.

    Raises:
      InputError: the weights cannot be read.
    """
    digest = hashlib.sha256()
    for pattern in _PATTERNS:
        for path in io.match_in(folder, pattern):
            for chunk in io.read_chunks(path):
                digest.update(chunk)
    return digest.hexdigest()


def model_sha256(folder: str) -> str:
    """Returns the SHA-256 of all files in a model folder that are run or served.

    A blessing and the answers of `beambert predict` hold for these files, and for no others: other
    labels, another vocabulary or another graph make other answers of the same weights. Files that
    only describe the model are not among them.

    Raises:
      InputError: a file cannot be read.
    """
    folder = folder.rstrip("/")
    digest = hashlib.sha256()
    for name in _USED:
        for path in _files(f"{folder}/{name}"):
            digest.update(f"{io.sha256_of(path)} {path.removeprefix(folder)}\n".encode())
    return digest.hexdigest()


def _files(path: str) -> Iterator[str]:
    """Yields a file, or the files of a folder, in an order that is always the same."""
    if io.is_folder(path):
        for name in io.list_folder(path):
            yield from _files(f"{path}/{name}")
    elif io.exists(path):
        yield path


# The folder of a SavedModel for files outside the graph, and our file in it.
EXTRA_ASSETS, SOURCE_FILE = "assets.extra", "model.json"


def check_unchanged(name: str, marker: bytes, described: Mapping[str, Any]) -> None:
    """Refuses a model folder whose description is not that of the training that finished it.

    Args:
      name: flag and path of the folder, for messages.
      marker: content of `MARKER_FILE`, which the training has written; empty if it says nothing.
      described: the description: training.json, and the configuration as `model`.

    Raises:
      InputError: they differ.
    """
    try:
        finished = io.parse_object(marker or b"{}")
    except ValueError as error:
        raise InputError(
            f"{name}: its {MARKER_FILE} is damaged ({error}); copy it again"
        ) from error
    # The marker has only some settings of the loop, and none of them changes the model.
    shared = [key for key in described if key in finished and key != "loop"]
    difference = describe_difference(
        {key: finished[key] for key in shared}, {key: described[key] for key in shared}
    )
    if difference:
        raise InputError(
            f"{name}: was changed after its training ({MARKER_FILE} {difference}); copy the folder "
            "again from where it was made"
        )
