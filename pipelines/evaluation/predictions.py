"""The predictions of a fine-tuned SavedModel on a task's examples, as records.

A record is a tf.Example. Each has `row`, the example's position, and the value of every slice, and
besides, by the kind of the task:

    classification, choice   label, label_index, prediction, prediction_index, probabilities
    regression               number (the label), score
    tagging                  tags, predicted_tags: one for each word
    span                     impossible, answer, probability, n_best, null_odds, exact_match,
                             squad_f1
"""

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert.pipelines.evaluation import slices
from beambert.pipelines.evaluation.outcomes import Record
from beambert.pipelines.prediction.saved_models import Model, call, load, model_inputs
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.declarations import (
    CHOICE,
    CLASSIFICATION,
    REGRESSION,
    SPAN,
    TAGGING,
    Task,
)
from beambert.pipelines.tasks.examples import Example
from beambert.pipelines.tasks.squad import Question

# What a record has besides slices by columns.
_OWN_FEATURES = (
    *("row", "label_index", "prediction_index", "probabilities", "number", "score"),
    *("tags", "predicted_tags", "impossible", "answer", "probability", "n_best", "null_odds"),
    *("exact_match", "squad_f1"),
)


@dataclasses.dataclass(frozen=True)
class Row:
    """An example, and what its record holds before there is a prediction."""

    example: Example | Question
    record: Record

    @property
    def characters(self) -> int:
        """How long the example is."""
        return sum(len(part) for value in model_inputs(self.example).values() for part in value)


def make_rows(
    task: Task, examples: Sequence[Example | Question], labels: Sequence[str]
) -> tuple[list[Row], dict[str, tuple[str, ...]]]:
    """Returns the rows of the examples, and the values of every slicing in the order of reports."""
    slicings = slices.slicings(task.kind, examples, labels, _OWN_FEATURES)
    rows = []
    for number, example in enumerate(examples):
        record: dict[str, list[Any]] = {"row": [number], **_truth(task.kind, example, labels)}
        record |= {slicing.name: [slicing.values[number].encode()] for slicing in slicings}
        rows.append(Row(example, record))
    orders = {slicing.name: slicing.order for slicing in slicings}
    if task.kind in (CLASSIFICATION, CHOICE):
        orders[slices.PREDICTION] = tuple(labels)
    elif task.allows_no_answer:
        orders[slices.PREDICTION] = (slices.ANSWER, slices.NO_ANSWER)
    return rows, orders


def _truth(kind: str, example: Example | Question, labels: Sequence[str]) -> dict[str, list[Any]]:
    if kind == SPAN:
        return {"impossible": [int(example.is_impossible)]}
    if kind == TAGGING:
        return {"tags": [tag.encode() for tag in example.tags]}
    if kind == REGRESSION:
        return {"number": [float(example.label)]}
    return {"label_index": [labels.index(example.label)]}


class Predictor:
    """Turns a batch of rows into serialized tf.Examples with the model's predictions.

    The model is loaded once in a worker process, whatever the number of its threads.
    """

    def __init__(self, kind: str, model: Model) -> None:
        """Remembers which SavedModel to load."""
        from apache_beam.utils import shared

        self._kind = kind
        self._model = model
        self._shared = shared.Shared()

    def __call__(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns one serialized tf.Example for each row."""
        model = self._shared.acquire(lambda: load(self._model))
        outputs = call(model, [row.example for row in rows])
        return [
            encode_record({**row.record, **self._answer(row, outputs, i)})
            for i, row in enumerate(rows)
        ]

    def _answer(self, row: Row, outputs: Mapping[str, np.ndarray], i: int) -> Record:
        if self._kind == TAGGING:
            return {"predicted_tags": outputs["tags"][i][: len(row.record["tags"])].tolist()}
        if self._kind == REGRESSION:
            return {"score": [float(outputs["score"][i])]}
        name = outputs["label"][i]
        # A name that labels.txt lacks is found by `check_records`.
        known = name.decode(errors="replace") in self._model.labels
        return {
            "prediction": [name],
            "prediction_index": [self._model.labels.index(name.decode()) if known else -1],
            "probabilities": outputs["probabilities"][i].tolist(),
        }


def encode_record(record: Record) -> bytes:
    """Returns a record as a serialized tf.Example."""
    import tensorflow as tf

    def feature(values: Sequence[Any]) -> tf.train.Feature:
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    features = {name: feature(values) for name, values in record.items()}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def read_records(folder: pathlib.Path) -> list[Record]:
    """Reads the records of a folder in the order of their rows."""
    import tensorflow as tf

    files = [str(path) for path in sorted(folder.iterdir())]
    records = []
    for serialized in tf.data.TFRecordDataset(files).as_numpy_iterator():
        features = tf.train.Example.FromString(serialized).features.feature
        records.append(
            {
                name: list(getattr(feature, feature.WhichOneof("kind")).value)
                for name, feature in features.items()
            }
        )
    return sorted(records, key=lambda record: record["row"][0])


def check_records(kind: str, records: Sequence[Record], count: int, model: Model) -> None:
    """Checks that there is one prediction an example and that the model's answers make sense.

    Raises:
      InputError: the model's numbers are not finite, or its answer is not what labels.txt says.
    """
    if [record["row"][0] for record in records] != list(range(count)):
        raise RuntimeError(f"{count} examples gave {len(records)} predictions")
    for record in records if kind != SPAN else ():  # `decode` has checked those.
        if kind == TAGGING:
            _check_tags(record, model)
            continue
        numbers = "score" if kind == REGRESSION else "probabilities"
        if not all(math.isfinite(value) for value in record[numbers]):
            raise InputError(
                f"--model={model.path} gives {numbers} that are not numbers: fine-tune it again, "
                "with a lower learning rate."
            )
        if kind != REGRESSION:
            _check_label(record, model)


def _check_label(record: Record, model: Model) -> None:
    index, probabilities = record["prediction_index"][0], record["probabilities"]
    if index < 0 or probabilities[index] < max(probabilities):
        raise InputError(
            f"--model={model.path} answers {record['prediction'][0].decode(errors='replace')!r}, "
            "which is not the likeliest line of labels.txt: put the model's own labels.txt beside "
            "it."
        )


def _check_tags(record: Record, model: Model) -> None:
    tags = [tag.decode(errors="replace") for tag in record["predicted_tags"]]
    unknown = [tag for tag in tags if tag not in model.labels]
    if unknown or len(tags) != len(record["tags"]):
        raise InputError(
            f"--model={model.path} gives {unknown[0]!r}, which is not in labels.txt: put the "
            "model's own labels.txt beside it."
            if unknown
            else f"--model={model.path} gives {len(tags)} tags for {len(record['tags'])} words: "
            "export the model again."
        )
