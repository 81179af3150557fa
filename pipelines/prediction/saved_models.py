"""A fine-tuned SavedModel, checked before use."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from beambert.pipelines.prediction.answers import ANSWERS
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import tensorflow_models
from beambert.pipelines.storage.claims import MARKER_FILE
from beambert.pipelines.storage.weights import LABELS_FILE, SAVED_MODEL_FOLDER, TRAINING_FILE
from beambert.pipelines.tasks.kinds import KINDS


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
    if not KINDS[kind].HAS_LABELS:
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
    missing = set(ANSWERS[kind].OUTPUTS) - set(signature.outputs)
    if missing:
        raise InputError(
            f"--model={model.path} gives no {' and no '.join(sorted(missing))}: export it with "
            "`beambert finetune` or `beambert export`."
        )
    if "probabilities" in ANSWERS[kind].OUTPUTS:
        dimensions = signature.outputs["probabilities"].tensor_shape.dim
        shape = [dimension.size for dimension in dimensions]
        if len(shape) != 2 or shape[1] not in (-1, len(model.labels)):
            raise InputError(
                f"--model={model.path} gives probabilities of shape {shape} but labels.txt has "
                f"{len(model.labels)} labels: put the model's own labels.txt beside it."
            )


def load(model: Model) -> Any:
    """Loads a SavedModel.

    Raises:
      InputError: it can't be loaded.
    """
    return tensorflow_models.load(model.sent_to or str(model.path), f"--model={model.path}")
