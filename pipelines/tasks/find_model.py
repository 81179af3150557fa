"""Finds the SavedModel of a fine-tuned model in a folder, and checks its files."""

import dataclasses
import hashlib
import os
import pathlib
from typing import Any

from beambert import io, saved_models
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.io import FINETUNE, check_folder
from beambert.model_files import (
    GRAPH_FILE,
    LABELS_FILE,
    NOT_TO_USE,
    PRETRAINING,
    SAVED_MODEL_FOLDER,
    TRAINING_FILE,
    WEIGHTS_FILE,
    check_unchanged,
)
from beambert.pipelines.tasks.declarations import find_task, kind_of
from beambert.pipelines.tasks.saved_models import Model
from beambert.pipelines.tasks.task import SPAN
from beambert.pipelines.tokenizers.folders import read_beside
from beambert.pipelines.tokenizers.vocabulary import (
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    Vocabulary,
    tokenizer_sha256,
)


def find_model(model_dir: str, kind: str | None = None, trusts: bool = False) -> Model:
    """Finds the SavedModel and its labels in a folder.

    Args:
      model_dir: folder on this machine that `beambert finetune` finished, or that holds a
        SavedModel and, if the kind has labels, labels.txt.
      kind: kind of the task; None for the kind in training.json.
      trusts: whether the graph may do anything, see `saved_models.check_graph`.

    Raises:
      InputError: a file is missing or was changed, the model has another kind, its training is not
        finished, its graph is not trusted, or a weight is no finite number.
    """
    check_folder(model_dir, f"--model={model_dir}", FINETUNE)
    folder = pathlib.Path(model_dir)
    training = _read_training(folder, model_dir)
    trained = training.get("kind", kind)
    if kind is None and trained in (None, PRETRAINING):
        raise InputError(
            f"--model={model_dir}: answers no texts ({trained or 'no training.json'}); name a "
            "folder that `beambert finetune` finished, or a version in a folder of `serving`"
        )
    kind = kind or trained
    if trained != kind:
        raise InputError(
            f"--model={model_dir}: was trained for {trained} but the task asks for {kind}; name a "
            "model that was fine-tuned on this task"
        )
    candidates = (folder / SAVED_MODEL_FOLDER, folder)
    path = next((path for path in candidates if os.path.isfile(path / GRAPH_FILE)), None)
    if path is None:
        raise InputError(
            f"--model={model_dir}: has no saved_model/saved_model.pb; name a folder that "
            "`beambert finetune` finished"
        )
    if not trusts:
        saved_models.check_graph(saved_models.read_graph(str(path)), f"--model={model_dir}")
    saved_models.check_weights(str(path), f"--model={model_dir}")
    labels = _read_labels(folder, model_dir) if kind_of(kind).HAS_LABELS else ()
    if labels and list(labels) != training.get("labels", list(labels)):
        raise InputError(
            f"{folder / LABELS_FILE}: not the labels that the model was trained with; "
            "put those there"
        )
    vocabulary = _read_vocabulary(folder, model_dir, training, kind)
    allows_no_answer = (
        kind == SPAN and bool(training) and find_task(training["task"]).allows_no_answer
    )
    return Model(path, labels, training, None, trusts, vocabulary, allows_no_answer)


def find_model_anywhere(model_dir: str, trusts: bool = False) -> Model:
    """Finds a SavedModel like `find_model`, also in a folder on gs://, where workers load it.

    Raises:
      InputError: see `find_model`, or the folder cannot be read.
    """
    with io.local_copy(model_dir, (*NOT_TO_USE, WEIGHTS_FILE)) as here:
        model = find_model(here, trusts=trusts)
        if here == model_dir:
            return model
        inside = model.path.relative_to(here)
        return dataclasses.replace(model, sent_to=f"{model_dir.rstrip('/')}/{inside}")


def _read_training(folder: pathlib.Path, model_dir: str) -> dict[str, Any]:
    file = folder / TRAINING_FILE
    if not os.path.isfile(file):  # unlike pathlib it takes a name that is too long
        return {}
    if not (folder / MARKER_FILE).is_file():
        raise InputError(
            f"--model={model_dir}: is not finished (no {MARKER_FILE}); repeat the command that "
            "makes it, which continues it"
        )
    training = io.read_object(str(file), "kind")
    described = dict(training)
    for vocabulary, hash_of in (
        (folder / VOCABULARY_FILE, lambda data: hashlib.sha256(data).hexdigest()),
        (folder / TOKENIZER_FILE, tokenizer_sha256),
    ):
        if "vocabulary_sha256" in training and vocabulary.exists():
            data = io.read_bytes(str(vocabulary))
            described["vocabulary_sha256"] = hash_of(data)
    marker = io.read_bytes(str(folder / MARKER_FILE))
    check_unchanged(f"--model={model_dir}", marker, described)
    return training


def _read_labels(folder: pathlib.Path, model_dir: str) -> tuple[str, ...]:
    file = folder / LABELS_FILE
    if not file.is_file():
        raise InputError(
            f"--model={model_dir}: has no {file.name}; write the labels there, one a line, in the "
            "order of the model's outputs"
        )
    labels = tuple(io.read_text(str(file)).removesuffix("\n").split("\n"))
    if len(labels) < 2 or len(set(labels)) != len(labels) or "" in labels:
        raise InputError(
            f"{file}: does not list two or more different labels; write one a line, in the order "
            "of the model's outputs"
        )
    return labels


def _read_vocabulary(
    folder: pathlib.Path, model_dir: str, training: dict[str, Any], kind: str
) -> Vocabulary | None:
    """Returns the tokenizer of a model that takes ids; None for one that takes texts."""
    names = (VOCABULARY_FILE, TOKENIZER_FILE) if kind == SPAN else (TOKENIZER_FILE,)
    if not training or not any(os.path.isfile(folder / name) for name in names):
        if kind == SPAN:
            raise InputError(
                f"--model={model_dir}: has no {TRAINING_FILE} and {VOCABULARY_FILE} next to it; "
                "name a folder that `beambert finetune` finished"
            )
        return None
    vocabulary = read_beside(model_dir, "--model")
    if vocabulary.sha256 != training.get("vocabulary_sha256", vocabulary.sha256):
        raise InputError(
            f"{vocabulary.name}: not the {vocabulary.WHAT} that the model was trained with; "
            "put that one there"
        )
    return vocabulary
