"""A fine-tuned SavedModel, checked before use, and its predictions as records.

A record is a tf.Example: row, label, probabilities and the value of every slice.
"""

import dataclasses
import math
import pathlib
from collections.abc import Sequence
from typing import Any

from pipelines import tasks
from pipelines.errors import InputError
from pipelines.records import MARKER_FILE

_MISTAKES_TO_SHOW = 20
# A model folder has it from the start of the training.
_TRAINING_FILE = "training.json"


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrongly classified example, with the probability that the model gave its answer."""

    example: tasks.Example
    prediction: str
    probability: float


@dataclasses.dataclass(frozen=True)
class Model:
    """A SavedModel and the names of its outputs in order."""

    path: pathlib.Path
    labels: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """What the pipeline needs of an example.

    Attributes:
      number: its position in the file, from 0.
      text: the text, or the first of a pair.
      text_b: the second text of a pair, or None.
      label_index: its label's position in labels.txt.
      slices: its value of every feature to slice by, but for the prediction.
    """

    number: int
    text: str
    text_b: str | None
    label_index: int
    slices: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A record of `predictions/`."""

    row: int
    label: str
    prediction: str
    probabilities: tuple[float, ...]


def local_path(path: str, flag: str) -> str:
    """Returns a path, unless it is on another file system."""
    if "://" in path:
        raise InputError(f"{flag}={path} is not a local path: copy the folder to this machine.")
    return path


def find_model(model_dir: str) -> Model:
    """Finds the SavedModel and its labels in a folder.

    Raises:
      InputError: something is missing, or the model is still being trained.
    """
    folder = pathlib.Path(local_path(model_dir, "--model"))
    if (folder / _TRAINING_FILE).is_file() and not (folder / MARKER_FILE).is_file():
        raise InputError(
            f"--model={model_dir} is not finished (no {MARKER_FILE}): give the command that makes "
            "it again, which continues it."
        )
    candidates = (folder / "saved_model", folder)
    path = next((path for path in candidates if (path / "saved_model.pb").is_file()), None)
    if path is None:
        raise InputError(
            f"--model={model_dir} has no saved_model/saved_model.pb: name a folder that "
            "`beambert finetune` finished."
        )
    labels_file = (path.parent if path != folder else folder) / "labels.txt"
    if not labels_file.is_file():
        raise InputError(
            f"--model={model_dir} has no {labels_file.name}: write the labels there, one a line, "
            "in the order of the model's outputs."
        )
    labels = tuple(labels_file.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    if len(labels) < 2 or len(set(labels)) != len(labels) or "" in labels:
        raise InputError(
            f"{labels_file} does not list two or more different labels: write one a line, in the "
            "order of the model's outputs."
        )
    return Model(path, labels)


def check_signature(model: Model, pairs: bool) -> None:
    """Compares what the SavedModel takes and gives with what this task needs.

    Raises:
      InputError: they differ.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    file = model.path / "saved_model.pb"
    try:
        contents = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    except DecodeError as error:
        raise InputError(f"{file} is damaged: export the model again.") from error
    signature = contents.meta_graphs[0].signature_def["serving_default"]
    wanted_inputs = {"text", "text_b"} if pairs else {"text"}
    if set(signature.inputs) != wanted_inputs:
        raise InputError(
            f"--model={model.path} takes {', '.join(sorted(signature.inputs)) or 'nothing'} but "
            f"the task gives {' and '.join(sorted(wanted_inputs))}: name a model that was "
            "fine-tuned on this task."
        )
    missing = {"label", "probabilities"} - set(signature.outputs)
    if missing:
        raise InputError(
            f"--model={model.path} gives no {' and no '.join(sorted(missing))}: export it with "
            "`beambert finetune` or `beambert export`."
        )
    shape = [dimension.size for dimension in signature.outputs["probabilities"].tensor_shape.dim]
    if len(shape) != 2 or shape[1] not in (-1, len(model.labels)):
        raise InputError(
            f"--model={model.path} gives probabilities of shape {shape} but labels.txt has "
            f"{len(model.labels)} labels: put the model's own labels.txt beside it."
        )


class Predictor:
    """Turns a batch of rows into serialized tf.Examples with the model's predictions.

    The model is loaded once in a worker process, whatever the number of its threads.
    """

    def __init__(self, model_path: str) -> None:
        """Remembers which SavedModel to load."""
        from apache_beam.utils import shared

        self._model_path = model_path
        self._shared = shared.Shared()

    def __call__(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns one serialized tf.Example for each row."""
        import tensorflow as tf

        model = self._shared.acquire(self._load)
        inputs = {"text": tf.constant([row.text for row in rows])}
        if rows[0].text_b is not None:
            inputs["text_b"] = tf.constant([row.text_b for row in rows])
        outputs = model.signatures["serving_default"](**inputs)
        predicted = outputs["label"].numpy()
        probabilities = outputs["probabilities"].numpy()
        return [
            _encode(row, name, row_probabilities)
            for row, name, row_probabilities in zip(rows, predicted, probabilities, strict=True)
        ]

    def _load(self) -> Any:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

        return tf.saved_model.load(self._model_path)


def _encode(row: Row, prediction: bytes, probabilities: Sequence[float]) -> bytes:
    import tensorflow as tf

    def bytes_feature(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def integer_feature(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    features = {
        "row": integer_feature(row.number),
        "label_index": integer_feature(row.label_index),
        "probabilities": tf.train.Feature(float_list=tf.train.FloatList(value=probabilities)),
        "prediction": bytes_feature(prediction),
        **{name: bytes_feature(value.encode()) for name, value in row.slices.items()},
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def read_predictions(folder: pathlib.Path) -> list[Prediction]:
    """Reads the records of a folder in the order of their rows."""
    import tensorflow as tf

    files = [str(path) for path in sorted(folder.iterdir())]
    predictions = []
    for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        predictions.append(
            Prediction(
                row=feature["row"].int64_list.value[0],
                label=feature["label"].bytes_list.value[0].decode(),
                prediction=feature["prediction"].bytes_list.value[0].decode(),
                probabilities=tuple(feature["probabilities"].float_list.value),
            )
        )
    return sorted(predictions, key=lambda prediction: prediction.row)


def check_predictions(predictions: Sequence[Prediction], count: int, model: Model) -> None:
    """Checks that there is one prediction an example and that it agrees with the labels.

    Raises:
      InputError: the model's probabilities are not numbers, or its own answer is not the label
        that labels.txt has in the place of the greatest probability.
    """
    if [prediction.row for prediction in predictions] != list(range(count)):
        raise RuntimeError(f"{count} examples gave {len(predictions)} predictions")
    for prediction in predictions:
        if not all(math.isfinite(probability) for probability in prediction.probabilities):
            raise InputError(
                f"--model={model.path} gives probabilities that are not numbers: fine-tune it "
                "again, with a lower learning rate."
            )
        likeliest = max(prediction.probabilities)
        if prediction.prediction not in model.labels or (
            prediction.probabilities[model.labels.index(prediction.prediction)] < likeliest
        ):
            raise InputError(
                f"--model={model.path} answers {prediction.prediction!r}, which is not the "
                "likeliest line of labels.txt: put the model's own labels.txt beside it."
            )


def worst_mistakes(
    predictions: Sequence[Prediction], examples: Sequence[tasks.Example]
) -> list[Mistake]:
    """Returns the mistakes that the model was surest of."""
    mistakes = [
        Mistake(examples[p.row], p.prediction, max(p.probabilities))
        for p in predictions
        if p.prediction != p.label
    ]
    return sorted(mistakes, key=lambda mistake: -mistake.probability)[:_MISTAKES_TO_SHOW]
