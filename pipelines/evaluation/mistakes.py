"""Finds the errors of a model for the report."""

from collections.abc import Sequence
from typing import Any

from beambert.pipelines.evaluation.outcomes import Record
from beambert.pipelines.evaluation.records import RECORDS, Mistake


def worst_mistakes(kind: str, records: Sequence[Record], examples: Sequence[Any]) -> list[Mistake]:
    """Returns all mistakes, worst first; equally bad ones keep the order of the file."""
    found = [RECORDS[kind].mistake(*pair) for pair in zip(records, examples, strict=True)]
    wrong = [mistake for mistake in found if mistake.weight > 0]
    return sorted(wrong, key=lambda mistake: -mistake.weight)
