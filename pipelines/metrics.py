"""What the workers of a job count: totals, and counts for the command."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import apache_beam as beam

from beambert import io

T = TypeVar("T")


def total_of(
    elements: beam.PCollection, label: str, add_up: Callable[[Sequence[T]], T]
) -> beam.pvalue.AsSingleton:
    """Adds a step that adds up elements; returns the total as a side input.

    Args:
      elements: the elements.
      label: name of the step.
      add_up: function that returns the total of some elements, even of none. It changes none of
        them, and totals of totals are totals.
    """
    # Beam would take the hints of the function's arguments for those of an element.
    combined = beam.CombineGlobally(lambda parts: add_up(list(parts)))
    totals = elements | label >> combined.without_defaults()
    # A default of the side input takes five steps less than one of the combination.
    return beam.pvalue.AsSingleton(totals, default_value=add_up([]))


def add_counts(counts: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Returns the sum of counts, name by name; unlike that of Python's `+`, it may be negative."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


# Counts that workers write for the command. Beam promises committed metrics on some runners only,
# and others count elements that were tried twice.
_COUNTS_FILE = f"{io.TEMPORARY_PREFIX}counts"


class WriteCounts(beam.PTransform):
    """Writes a dict of counts, the only element, to the output folder of the job."""

    def __init__(self, output: str):
        """Takes the path of the folder."""
        super().__init__()
        self._path = f"{output}/{_COUNTS_FILE}"

    def expand(self, counts: beam.PCollection[dict[str, int]]) -> beam.PCollection[None]:
        """Adds the step."""
        return counts | beam.Map(
            lambda counts, path: io.write_bytes(path, json.dumps(counts).encode()),
            self._path,
        ).with_output_types(None)


def take_counts(output: str) -> dict[str, int]:
    """Returns the counts that `WriteCounts` wrote to a folder, and deletes their file.

    Raises:
      InputError: the file cannot be read.
    """
    path = f"{output}/{_COUNTS_FILE}"
    counts = io.read_object(path, flag="--output", remedy="give the same command again")
    io.delete_quietly([path])
    return counts
