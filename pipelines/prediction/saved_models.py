"""A fine-tuned SavedModel, checked before use."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import MARKER_FILE
from beambert.pipelines.storage.weights import LABELS_FILE, SAVED_MODEL_FOLDER, TRAINING_FILE
from beambert.pipelines.tasks.declarations import (
    CHOICE,
    CLASSIFICATION,
    KINDS,
    REGRESSION,
    SPAN,
    TAGGING,
)
from beambert.pipelines.tasks.examples import ChoiceExample, Example, TaggedExample
from beambert.pipelines.tasks.squad import Question

_OUTPUTS = {
    CLASSIFICATION: ("label", "probabilities"),
    CHOICE: ("label", "probabilities"),
    REGRESSION: ("score",),
    TAGGING: ("tags",),
    SPAN: ("start_logits", "end_logits"),
}


@dataclasses.dataclass(frozen=True)
class Model:
    """A SavedModel.

    Attributes:
      path: its folder.
      labels: the names of its outputs in order; none for a number or a span.
      training: what training.json says of it; nothing where there is none.
      sent_to: where workers on other machines find its folder.
    """

    path: pathlib.Path
    labels: tuple[str, ...]
    training: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sent_to: str | None = None


def find_model(model_dir: str, kind: str | None = None) -> Model:
    """Finds the SavedModel and its labels in a folder.

    Args:
      model_dir: what `beambert finetune` finished, or a folder with a SavedModel and, where the
        kind has labels, labels.txt; on this machine.
      kind: of the task; None for that of its training.json.

    Raises:
      InputError: something is missing, the model is of another kind or still being trained.
    """
    folder = pathlib.Path(model_dir)
    training = _read_training(folder, model_dir)
    trained = training.get("kind", kind)
    if kind is None and trained not in KINDS:
        raise InputError(
            f"--model={model_dir} answers no texts ({trained or 'no training.json'}): name a "
            "folder that `beambert finetune` finished."
        )
    kind = kind or trained
    if trained != kind:
        raise InputError(
            f"--model={model_dir} was trained for {trained} but the task asks for {kind}: name a "
            "model that was fine-tuned on this task."
        )
    candidates = (folder / SAVED_MODEL_FOLDER, folder)
    path = next((path for path in candidates if (path / "saved_model.pb").is_file()), None)
    if path is None:
        raise InputError(
            f"--model={model_dir} has no saved_model/saved_model.pb: name a folder that "
            "`beambert finetune` finished."
        )
    if kind in (REGRESSION, SPAN):
        return Model(path, (), training)
    return Model(path, _read_labels(folder, model_dir), training)


def _read_training(folder: pathlib.Path, model_dir: str) -> dict[str, Any]:
    file = folder / TRAINING_FILE
    if not file.is_file():
        return {}
    if not (folder / MARKER_FILE).is_file():
        raise InputError(
            f"--model={model_dir} is not finished (no {MARKER_FILE}): give the command that makes "
            "it again, which continues it."
        )
    with contextlib.suppress(ValueError):
        training = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(training, dict) and "kind" in training:
            return training
    raise InputError(f"{file} is damaged: fine-tune the model again.")


def _read_labels(folder: pathlib.Path, model_dir: str) -> tuple[str, ...]:
    file = folder / LABELS_FILE
    if not file.is_file():
        raise InputError(
            f"--model={model_dir} has no {file.name}: write the labels there, one a line, in the "
            "order of the model's outputs."
        )
    labels = tuple(file.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    if len(labels) < 2 or len(set(labels)) != len(labels) or "" in labels:
        raise InputError(
            f"{file} does not list two or more different labels: write one a line, in the order "
            "of the model's outputs."
        )
    return labels


def check_task(model: Model, name: str) -> None:
    """Compares the task with the one that a SQuAD model, whose answers depend on it, is for.

    Raises:
      InputError: it is another.
    """
    trained = model.training.get("task", name)
    if trained != name:
        raise InputError(
            f"--model={model.path} was fine-tuned on {trained}, and serves answers of that kind: "
            f"give --task={trained}."
        )


def check_signature(
    model: Model, kind: str, inputs: Iterable[str], name: str = "serving_default"
) -> None:
    """Compares what the SavedModel takes and gives with what this task needs.

    Args:
      model: as found.
      kind: of the task.
      inputs: names of what the task gives.
      name: of the signature.

    Raises:
      InputError: they differ.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    file = model.path / "saved_model.pb"
    try:
        contents = saved_model_pb2.SavedModel.FromString(file.read_bytes())
        graph = contents.meta_graphs[0]
    except (DecodeError, IndexError) as error:
        raise InputError(f"{file} is damaged: export the model again.") from error
    signature = graph.signature_def[name]
    if set(signature.inputs) != set(inputs):
        raise InputError(
            f"--model={model.path} takes {', '.join(sorted(signature.inputs)) or 'nothing'} but "
            f"the task gives {' and '.join(sorted(inputs))}: name a model that was fine-tuned on "
            "this task."
        )
    missing = set(_OUTPUTS[kind]) - set(signature.outputs)
    if missing:
        raise InputError(
            f"--model={model.path} gives no {' and no '.join(sorted(missing))}: export it with "
            "`beambert finetune` or `beambert export`."
        )
    if "probabilities" in _OUTPUTS[kind]:
        dimensions = signature.outputs["probabilities"].tensor_shape.dim
        shape = [dimension.size for dimension in dimensions]
        if len(shape) != 2 or shape[1] not in (-1, len(model.labels)):
            raise InputError(
                f"--model={model.path} gives probabilities of shape {shape} but labels.txt has "
                f"{len(model.labels)} labels: put the model's own labels.txt beside it."
            )


def model_inputs(example: Example | Question) -> dict[str, str | tuple[str, ...]]:
    """Returns what the SavedModel takes, by the names of its signature."""
    if isinstance(example, Question):
        return {"question": example.question, "context": example.context}
    if isinstance(example, TaggedExample):
        return {"text": " ".join(example.words)}
    inputs: dict[str, str | tuple[str, ...]] = {"text": example.text}
    if example.text_b is not None:
        inputs["text_b"] = example.text_b
    if isinstance(example, ChoiceExample):
        inputs["choices"] = example.choices
    return inputs


def load(model: Model) -> Any:
    """Loads a SavedModel.

    Raises:
      InputError: it can't be loaded.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

    try:
        return tf.saved_model.load(model.sent_to or str(model.path))
    except Exception as error:  # there is no end to what a damaged file may raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"--model={model.path} cannot be loaded ({reason}): copy it again, or export it again."
        ) from error


def call(model: Any, examples: Sequence[Example | Question]) -> dict[str, np.ndarray]:
    """Returns what a loaded SavedModel gives for some examples, by the names of its outputs."""
    import tensorflow as tf

    given = [model_inputs(example) for example in examples]
    inputs = {name: tf.constant([one[name] for one in given]) for name in given[0]}
    outputs = model.signatures["serving_default"](**inputs)
    return {name: tensor.numpy() for name, tensor in outputs.items()}
