"""The base class of the prediction records of a kind of task."""

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.evaluation.outcome_base import Record
from beambert.pipelines.tasks.saved_models import Model
from beambert.pipelines.tasks.task import Task

# A slicing: the value of each example, and all values in the order of reports.
Slices = tuple[tuple[str, ...], tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrong answer.

    Attributes:
      text: text of the example.
      expected: right answer.
      predicted: answer of the model.
      weight: measure of how bad the mistake is, see `PredictionRecords.WEIGHT`.
      row: position of the example in its file, from 0.
      slices: slicing -> the example's slice.
    """

    text: str
    expected: str
    predicted: str
    weight: float
    row: int = 0
    slices: Mapping[str, str] = dataclasses.field(default_factory=dict)


class PredictionRecords(abc.ABC):
    """Writes and reads the records of a kind of task."""

    # Name of the weight of a mistake, and a description of the mistakes that are shown.
    WEIGHT: tuple[str, str]

    @staticmethod
    @abc.abstractmethod
    def truth(example: Any, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the features that hold the truth of an example."""

    @staticmethod
    def label_slices(examples: Sequence[Any], labels: Sequence[str]) -> Slices | None:
        """Returns the slicing by label; None for kinds without one."""
        return None

    @staticmethod
    def query(example: Any) -> str | None:
        """Returns the query, whose candidates a slice has together; None for kinds without one."""
        return None

    @staticmethod
    def predictions(task: Task, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the values of the slicing by prediction; None for kinds without one."""
        return None

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns the features that hold row i of a SavedModel's outputs.

        Args:
          model: the SavedModel.
          record: features of the example.
          outputs: outputs of the model for a batch.
          i: index of the row in the batch.
        """
        raise NotImplementedError

    @staticmethod  # noqa: B027  (the predictor of spans checks its answers itself)
    def check(record: Record, model: Model) -> None:
        """Refuses an invalid answer.

        Raises:
          InputError: the answer is invalid; the message names the model.
        """

    @staticmethod
    @abc.abstractmethod
    def mistake(record: Record, example: Any) -> Mistake:
        """Returns the mistake of an answer; its weight is 0 if the answer is right."""

    @classmethod
    def mistakes(cls, records: Sequence[Record], examples: Sequence[Any]) -> list[Mistake]:
        """Returns the mistake of each answer, see `mistake`."""
        return [cls.mistake(*both) for both in zip(records, examples, strict=True)]


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
