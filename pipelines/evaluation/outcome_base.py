"""The base class of the outcomes of an evaluation."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

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
