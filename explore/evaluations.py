"""Evaluations as the page reads them: their scores by slice, and their errors."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.errors import InputError
from beambert.json_objects import parse_object
from beambert.pipelines.evaluation.slices import slice_title
from beambert.pipelines.storage.claims import METRICS_FILE, MISTAKES_FILE


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The output folder of `beambert evaluate`.

    Attributes:
      path: path of the folder.
      metrics: content of metrics.json.
    """

    path: str
    metrics: Mapping[str, Any]

    @property
    def slices(self) -> dict[str, tuple[str, str]]:
        """Title of each slice -> name of the slicing and value."""
        return {
            slice_title(name, value): (name, value)
            for name, values in self.metrics["slices"].items()
            for value in values
        }

    def mistakes(self) -> list[dict[str, Any]]:
        """Reads all errors, the worst first.

        Raises:
          InputError: there is no list of them, or it cannot be read.
        """
        path = f"{self.path}/{MISTAKES_FILE}"
        try:
            with open(path, "rb") as file:
                found = [json.loads(line) for line in file]
            return [{**each, "slices": dict(each["slices"])} for each in found]
        except FileNotFoundError as error:
            raise InputError(
                f"{path}: is not there; run `beambert evaluate` with this --output once more"
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: cannot be read ({error}); evaluate again") from error


def open_evaluation(path: str) -> Evaluation:
    """Reads the scores of an evaluation.

    Raises:
      InputError: the folder holds none.
    """
    file = f"{path}/{METRICS_FILE}"
    if not os.path.isfile(file):
        raise InputError(
            f"--evaluation={path}: has no {METRICS_FILE}; name an --output of `beambert evaluate`"
        )
    try:
        with open(file, "rb") as opened:
            metrics = parse_object(opened.read())
        wanted = ("task", "task_kind", "split", "metrics", "overall", "slices", "examples")
        lacking = [name for name in wanted if name not in metrics]
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read ({error}); evaluate again") from error
    if lacking:
        raise InputError(f"{file}: has no {lacking[0]!r}; name an --output of `beambert evaluate`")
    return Evaluation(path, metrics)


def choose(
    mistakes: Sequence[Mapping[str, Any]], chosen: tuple[str, str] | None, text: str
) -> list[Mapping[str, Any]]:
    """Returns the errors of a slice that have a text.

    Args:
      mistakes: errors, see `Evaluation.mistakes`.
      chosen: name of a slicing and value; None for all examples.
      text: words that must stand in the text or in an answer, in any case; "" for any.
    """
    wanted = text.casefold()
    found = []
    for each in mistakes:
        is_inside = chosen is None or each["slices"].get(chosen[0]) == chosen[1]
        said = "\n".join((each["text"], each["expected"], each["predicted"]))
        if is_inside and wanted in said.casefold():
            found.append(each)
    return found
