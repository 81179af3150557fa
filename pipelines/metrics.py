"""Totals of what the workers of a job count."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import apache_beam as beam

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
