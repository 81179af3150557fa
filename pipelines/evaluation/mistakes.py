"""Finds the errors of a model, for the report and for whoever looks into them."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

from beambert.pipelines.evaluation.outcomes import Record
from beambert.pipelines.evaluation.records import RECORDS, Mistake


def worst_mistakes(
    kind: str, records: Sequence[Record], examples: Sequence[Any], slicings: Iterable[str] = ()
) -> list[Mistake]:
    """Returns all mistakes, worst first; equally bad ones keep the order of the file.

    Args:
      kind: kind of the task.
      records: records of the predictions.
      examples: example of each record.
      slicings: names of the slicings of the records.
    """
    names = list(slicings)
    found = []
    of_all = RECORDS[kind].mistakes(records, examples)
    for record, mistake in zip(records, of_all, strict=True):
        if mistake.weight > 0:
            slices = {name: record[name][0].decode() for name in names if name in record}
            found.append(dataclasses.replace(mistake, row=record["row"][0], slices=slices))
    return sorted(found, key=lambda mistake: -mistake.weight)


def to_json_lines(mistakes: Iterable[Mistake]) -> str:
    """Returns mistakes as JSON Lines, an object with the attributes of a `Mistake` a line."""
    return "".join(
        json.dumps(dataclasses.asdict(mistake), ensure_ascii=False) + "\n" for mistake in mistakes
    )
