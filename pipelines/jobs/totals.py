"""Adds up what workers have counted, on the workers: no step receives the counts of all others."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import apache_beam as beam

T = TypeVar("T")

# Number of elements to add up at a time. Adding arrays one by one would copy them as often.
AT_A_TIME = 32


class Total(beam.CombineFn):
    """Combines elements by a function of any number of them. An accumulator is a short list."""

    def __init__(self, add_up: Callable[[Sequence[T]], T]):
        """Takes the function.

        Args:
          add_up: function that returns the total of some elements, even of none. It changes none of
            them, and totals of totals are totals.
        """
        self._add_up = add_up

    def create_accumulator(self) -> list[T]:
        """Returns an accumulator of nothing."""
        return []

    def add_input(self, accumulator: list[T], element: T) -> list[T]:
        """Returns the accumulator with one more element."""
        return self._shortened([*accumulator, element])

    def merge_accumulators(self, accumulators: Iterable[list[T]]) -> list[T]:
        """Returns one accumulator for several."""
        merged: list[T] = []
        for accumulator in accumulators:
            merged = self._shortened(merged + accumulator)
        return merged

    def compact(self, accumulator: list[T]) -> list[T]:
        """Returns the accumulator as it is sent to another worker: a total."""
        return [self._add_up(accumulator)]

    def extract_output(self, accumulator: list[T]) -> T:
        """Returns the total."""
        return self._add_up(accumulator)

    def _shortened(self, elements: list[T]) -> list[T]:
        return [self._add_up(elements)] if len(elements) >= AT_A_TIME else elements


def total_of(
    elements: beam.PCollection, label: str, add_up: Callable[[Sequence[T]], T]
) -> beam.pvalue.AsSingleton:
    """Adds a step that adds up elements, see `Total`; returns the total as a side input."""
    totals = elements | label >> beam.CombineGlobally(Total(add_up)).without_defaults()
    # A default of the side input takes five steps less than one of the combination.
    return beam.pvalue.AsSingleton(totals, default_value=add_up([]))


def add_counts(counts: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Returns the sum of counts, name by name; unlike that of Python's `+`, it may be negative."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total
