"""Finds, checks and loads fine-tuned SavedModels."""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from beambert import saved_models
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.model_files import (
    GRAPH_FILE,
    LABELS_FILE,
    NOT_TO_USE,
    SAVED_MODEL_FOLDER,
    TRAINING_FILE,
    WEIGHTS_FILE,
    check_unchanged,
)
from beambert.pipelines.running import check_reachable, has_local_workers
from beambert.pipelines.tasks.answers import ANSWERS
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.kinds import KINDS
from beambert.pipelines.tasks.task import CHOICE, SPAN
from beambert.pipelines.tokenizers.folders import read_beside
from beambert.pipelines.tokenizers.vocabulary import (
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    TokenizerVocabulary,
    tokenizer_sha256,
)
from beambert.storage import FINETUNE, check_folder, parse_object

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


@dataclasses.dataclass(frozen=True)
class Model:
    """A SavedModel.

    Attributes:
      path: folder of the SavedModel.
      labels: names of its outputs in order; empty for a number or a span.
      training: content of its training.json; empty if there is none.
      sent_to: path of a copy for workers on other machines; None without one.
      is_trusted: whether its graph may do anything, see `saved_models.check_graph`.
      vocabulary: tokenizer of a model that takes ids; None if its graph takes texts.
    """

    path: pathlib.Path
    labels: tuple[str, ...]
    training: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sent_to: str | None = None
    is_trusted: bool = False
    vocabulary: TokenizerVocabulary | None = None


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
    if kind is None and trained not in KINDS:
        raise InputError(
            f"--model={model_dir}: answers no texts ({trained or 'no training.json'}); name a "
            "folder that `beambert finetune` finished"
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
    labels = _read_labels(folder, model_dir) if KINDS[kind].HAS_LABELS else ()
    if labels and list(labels) != training.get("labels", list(labels)):
        raise InputError(
            f"{folder / LABELS_FILE}: not the labels that the model was trained with; "
            "put those there"
        )
    vocabulary = None
    if training and os.path.isfile(folder / TOKENIZER_FILE):
        vocabulary = read_beside(model_dir, "--model", _read, os.path.exists)
    return Model(path, labels, training, is_trusted=trusts, vocabulary=vocabulary)


def find_model_anywhere(model_dir: str, trusts: bool = False) -> Model:
    """Finds a SavedModel like `find_model`, also in a folder on gs://, where workers load it.

    Raises:
      InputError: see `find_model`, or the folder cannot be read.
    """
    # Commands import this module for their --help, which must not load TensorFlow.
    from beambert.storage import local_copy

    with local_copy(model_dir, (*NOT_TO_USE, WEIGHTS_FILE)) as here:
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
    from beambert import storage

    try:
        training = parse_object(storage.read_text(str(file)))
        if "kind" not in training:
            raise ValueError("it names no kind")
    except ValueError as error:
        raise InputError(f"{file}: is damaged ({error}); fine-tune the model again") from error
    described = dict(training)
    for vocabulary, hash_of in (
        (folder / VOCABULARY_FILE, lambda data: hashlib.sha256(data).hexdigest()),
        (folder / TOKENIZER_FILE, tokenizer_sha256),
    ):
        if "vocabulary_sha256" in training and vocabulary.exists():
            data = storage.read_bytes(str(vocabulary))
            described["vocabulary_sha256"] = hash_of(data)
    marker = storage.read_bytes(str(folder / MARKER_FILE))
    check_unchanged(f"--model={model_dir}", marker, described)
    return training


def _read_labels(folder: pathlib.Path, model_dir: str) -> tuple[str, ...]:
    file = folder / LABELS_FILE
    if not file.is_file():
        raise InputError(
            f"--model={model_dir}: has no {file.name}; write the labels there, one a line, in the "
            "order of the model's outputs"
        )
    from beambert import storage

    labels = tuple(storage.read_text(str(file)).removesuffix("\n").split("\n"))
    if len(labels) < 2 or len(set(labels)) != len(labels) or "" in labels:
        raise InputError(
            f"{file}: does not list two or more different labels; write one a line, in the order "
            "of the model's outputs"
        )
    return labels


def check_task(model: Model, name: str) -> None:
    """Refuses a task other than the one that a SQuAD model was trained for.

    The answers of such a model depend on whether its task allows no answer.

    Raises:
      InputError: the tasks differ.
    """
    trained = model.training.get("task", name)
    if trained != name:
        raise InputError(
            f"--model={model.path}: was fine-tuned on {trained}, and serves answers of that kind; "
            f"give --task={trained}"
        )


def check_signature(
    model: Model, kind: str, inputs: Iterable[str], name: str = "serving_default"
) -> None:
    """Refuses a SavedModel whose inputs or outputs are not those that a task needs.

    Args:
      model: the model.
      kind: kind of the task.
      inputs: names of the inputs that the task provides.
      name: name of the signature.

    Raises:
      InputError: the inputs or outputs differ, or the SavedModel is damaged.
    """
    signature = saved_models.read_graph(str(model.path)).meta_graphs[0].signature_def[name]
    if model.vocabulary and name == "serving_default":
        is_pair = {"text_b"} if model.training["is_pair"] and kind != CHOICE else set()
        if is_pair != set(inputs) & {"text_b"} and kind != CHOICE:
            raise InputError(
                f"--model={model.path}: takes {'two texts' if is_pair else 'one text'} but the "
                f"task gives {' and '.join(sorted(inputs))}; name a model that was fine-tuned on "
                "this task"
            )
        inputs = signature.inputs
    if set(signature.inputs) != set(inputs):
        raise InputError(
            f"--model={model.path}: takes {', '.join(sorted(signature.inputs)) or 'nothing'} but "
            f"the task gives {' and '.join(sorted(inputs))}; name a model that was fine-tuned on "
            "this task"
        )
    missing = set(ANSWERS[kind].OUTPUTS) - set(signature.outputs)
    if missing:
        raise InputError(
            f"--model={model.path}: gives no {' and no '.join(sorted(missing))}; export it with "
            "`beambert finetune` or `beambert export`"
        )
    if "probabilities" in ANSWERS[kind].OUTPUTS:
        dimensions = signature.outputs["probabilities"].tensor_shape.dim
        shape = [dimension.size for dimension in dimensions]
        if len(shape) != 2 or shape[1] not in (-1, len(model.labels)):
            raise InputError(
                f"--model={model.path}: gives probabilities of shape {shape} but labels.txt has "
                f"{len(model.labels)} labels; put the model's own labels.txt beside it"
            )


def load(model: Model) -> Any:
    """Loads a SavedModel.

    Raises:
      InputError: it cannot be loaded.
    """
    path = model.sent_to or str(model.path)
    loaded = saved_models.load(path, f"--model={model.path}", model.is_trusted)
    if model.vocabulary is None:
        return loaded
    from beambert.pipelines.model_inputs.text_models import TextModel

    training = model.training
    allows_no_answer = training["kind"] == SPAN and find_task(training["task"]).allows_no_answer
    return TextModel(loaded, training, model.vocabulary, allows_no_answer)


def _read(path: str, flag: str) -> bytes:
    return pathlib.Path(path).read_bytes()


@contextlib.contextmanager
def worker_folder(options: "PipelineOptions") -> Iterator[str | None]:
    """Yields a folder for this job, deleted afterwards; None if the workers are on this machine.

    Raises:
      InputError: there is no --temp_location.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    from beambert import storage

    if has_local_workers(options):
        yield None
        return
    root = options.view_as(GoogleCloudOptions).temp_location
    if not root:
        raise InputError(
            "--temp_location: must be given for workers on other machines; name a gs:// folder, or "
            "one that all workers share"
        )
    check_reachable(options, temp_location=root)
    folder = f"{storage.absolute(root)}/beambert-{uuid.uuid4().hex[:8]}"
    try:
        yield folder
    finally:
        with contextlib.suppress(InputError):  # it must not hide what went wrong before
            storage.delete(folder)


def send_model(model: Model, folder: str | None) -> Model:
    """Returns the model with a copy in the folder that workers can load."""
    if folder is None:
        return model
    from beambert import storage

    storage.copy(str(model.path), f"{folder}/model")
    return dataclasses.replace(model, sent_to=f"{folder}/model")


def fetch(folder: str | None, name: str, target: pathlib.Path) -> None:
    """Copies the folder `name` that workers on other machines made to the folder `target`."""
    from beambert import storage

    if folder is not None:
        storage.copy(f"{folder}/{name}", str(target / name))
