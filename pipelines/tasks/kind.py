"""Outcomes, mistakes and records of predictions."""

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from beambert.errors import InputError
from beambert.pipelines.tasks.saved_models import Model

# Folder of the records of predictions in the output of an evaluation.
PREDICTIONS_FOLDER = "predictions"
# Slicings by the number of words, by label and by prediction.
LENGTH, LABEL, PREDICTION = "length", "label", "prediction"
# A prediction record as `predictions` writes it is a mapping: name -> values.
Record = Mapping[str, Sequence[Any]]


class Outcomes(abc.ABC):
    """The outcomes of some examples, in a fixed order."""

    # Names of the features of a record that the outcomes are made from.
    FEATURES: tuple[str, ...]
    # Metrics that are shares of the examples.
    SHARES: frozenset[str] = frozenset()
    # Metrics that are reported besides the task's own.
    METRICS: tuple[str, ...]

    @classmethod
    @abc.abstractmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of examples."""

    @abc.abstractmethod
    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes at some indices, which may repeat."""

    @abc.abstractmethod
    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name; `positive` is the id of the class whose F1 is computed."""

    @abc.abstractmethod
    def constants(self) -> list[tuple[Any, Self]]:
        """Returns the constant answers that are tried as a baseline, each with its outcomes."""

    def written(self, answer: Any, labels: Sequence[str]) -> Any:
        """Returns a constant answer in the form of the report."""
        return answer

    def undefined(self) -> frozenset[str]:
        """Returns the metrics that say nothing about these examples, such as F1 of one class."""
        return frozenset()

    def confidence(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
        """Returns the probability of each answer and whether it is right, if there are any."""
        return None

    def details(self, labels: Sequence[str]) -> dict[str, Any]:
        """Returns further results besides metrics and calibration.

        Args:
          labels: labels in index order.
        """
        return {}


class ArrayOutcomes(Outcomes):
    """Outcomes whose attributes are arrays with one row for each example; a dataclass."""

    def __len__(self) -> int:
        """The number of examples."""
        return len(self._arrays()[0])

    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes at some indices, which may repeat."""
        return type(self)(*(array[examples] for array in self._arrays()))

    def _arrays(self) -> list[NDArray]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]


def column(records: Sequence[Record], name: str) -> NDArray:
    """Returns the first value of a feature of each record, numbers as float64."""
    values = np.array([record[name][0] for record in records])
    # TFMA passes float32, whose means would differ from those of the same numbers in float64.
    return values.astype(float) if values.dtype.kind == "f" else values


# A slicing: the value of each example, and all values in the order of reports.
Slices = tuple[tuple[str, ...], tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrong answer.

    Attributes:
      text: text of the example.
      expected: right answer.
      predicted: answer of the model.
      weight: measure of how bad the mistake is, see `Task.WEIGHT`.
      row: position of the example in its file, from 0.
      slices: slicing -> the example's slice.
    """

    text: str
    expected: str
    predicted: str
    weight: float
    row: int = 0
    slices: Mapping[str, str] = dataclasses.field(default_factory=dict)


def check_finite(record: Record, name: str, model: Model) -> None:
    """Refuses numbers of a model that are not finite.

    Raises:
      InputError: one is not.
    """
    if not all(math.isfinite(value) for value in record[name]):
        raise InputError(
            f"--model={model.path}: gives {name} that are not numbers; fine-tune it again, with a "
            "lower learning rate"
        )


def text_of(example: Any) -> str:
    """Returns the text of an example, or both of a pair, below each other."""
    return example.text if example.text_b is None else f"{example.text}\n{example.text_b}"


def excerpt(text: str, most: int, start: int = 0) -> str:
    """Returns at most some characters of a text, with `…` where words are left out.

    Args:
      text: the text.
      most: greatest number of characters without the marks.
      start: position at or behind which the excerpt begins, if the text is longer than that.
    """
    text = text.strip()
    if len(text) <= most:
        return text
    start = min(start, len(text) - most)
    if start > 0:  # the excerpt begins and ends with a whole word where it can
        space = text.find(" ", start, start + most // 2)
        start = start if space < 0 else space + 1
    end = min(start + most, len(text))
    if end < len(text):
        space = text.rfind(" ", start + most // 2, end + 1)
        end = end if space < 0 else space
    return ("… " if start > 0 else "") + text[start:end] + (" …" if end < len(text) else "")


@dataclasses.dataclass(frozen=True)
class Row:
    """An example, and the part of its record that is known before the prediction."""

    example: Any
    record: Record

    @property
    def characters(self) -> int:
        """The number of characters in the example."""
        return sum(len(part) for value in self.example.texts().values() for part in value)


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
