"""Finds, checks and loads fine-tuned SavedModels."""

import contextlib
import dataclasses
import pathlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert import io, saved_models
from beambert.errors import InputError
from beambert.pipelines.running import check_reachable, has_local_workers
from beambert.pipelines.tokenizers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

# The inputs of every signature that takes ids.
ID_INPUTS = ("input_ids", "input_mask", "segment_ids")


@dataclasses.dataclass(frozen=True)
class Model:
    """A SavedModel.

    Attributes:
      path: folder of the SavedModel.
      labels: names of its outputs in order; empty for a number or a span.
      training: content of its training.json; empty if there is none.
      sent_to: path of a copy for workers on other machines; None without one.
      is_trusted: whether its graph may do anything, see `saved_models.check_graph`.
      vocabulary: tokenizer of a model that takes ids, as all models of questions do; None if its
        graph takes texts.
      allows_no_answer: whether "" is an allowed answer to a question (SQuAD v2.0).
    """

    path: pathlib.Path
    labels: tuple[str, ...]
    training: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sent_to: str | None = None
    is_trusted: bool = False
    vocabulary: Vocabulary | None = None
    allows_no_answer: bool = False


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


def check_signature(model: Model, outputs: Sequence[str], inputs: Iterable[str]) -> None:
    """Refuses a SavedModel whose inputs or outputs are not those that a task needs.

    Args:
      model: the model.
      outputs: names of the outputs that the task needs.
      inputs: names of the inputs that the task provides.

    Raises:
      InputError: the inputs or outputs differ, or the SavedModel is damaged.
    """
    graph = saved_models.read_graph(str(model.path)).meta_graphs[0]
    signature = graph.signature_def["serving_default"]
    if model.vocabulary and set(inputs) != set(ID_INPUTS):
        is_pair = {"text_b"} if model.training["is_pair"] else set()
        if "choices" not in inputs and is_pair != set(inputs) & {"text_b"}:
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
    missing = set(outputs) - set(signature.outputs)
    if missing:
        raise InputError(
            f"--model={model.path}: gives no {' and no '.join(sorted(missing))}; export it with "
            "`beambert finetune` or `beambert export`"
        )
    if "probabilities" in outputs:
        dimensions = signature.outputs["probabilities"].tensor_shape.dim
        shape = [dimension.size for dimension in dimensions]
        if len(shape) != 2 or shape[1] not in (-1, len(model.labels)):
            raise InputError(
                f"--model={model.path}: gives probabilities of shape {shape} but labels.txt has "
                f"{len(model.labels)} labels; put the model's own labels.txt next to it"
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
    from beambert.pipelines.tasks.text_models import TextModel

    return TextModel(loaded, model.training, model.vocabulary, model.allows_no_answer)


@contextlib.contextmanager
def worker_folder(options: "PipelineOptions") -> Iterator[str | None]:
    """Yields a folder for this job, deleted afterwards; None if the workers are on this machine.

    Raises:
      InputError: there is no --temp_location.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    if has_local_workers(options):
        yield None
        return
    root = options.view_as(GoogleCloudOptions).temp_location
    if not root:
        raise InputError(
            "--temp_location: must be given for workers on other machines; name a gs:// folder, or "
            "one that all workers share"
        )
    if io.has_wildcard(root):  # Beam's own transforms would read it as a pattern.
        raise InputError(f"--temp_location={root}: must not contain *, ? or [; choose another name")
    check_reachable(options, temp_location=root)
    folder = f"{io.absolute(root)}/beambert-{uuid.uuid4().hex[:8]}"
    try:
        yield folder
    finally:
        with contextlib.suppress(InputError):  # it must not hide what went wrong before
            io.delete(folder)


def send_model(model: Model, folder: str | None) -> Model:
    """Returns the model with a copy in the folder that workers can load."""
    if folder is None:
        return model
    io.copy(str(model.path), f"{folder}/model")
    return dataclasses.replace(model, sent_to=f"{folder}/model")
