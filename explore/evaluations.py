"""Evaluations: reads their scores by slice and their errors, and shows them as HTML."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert.console import counted
from beambert.errors import InputError
from beambert.explore.drawing import said, whole
from beambert.folders import METRICS_FILE, MISTAKES_FILE
from beambert.pipelines.evaluation.measures import slice_title
from beambert.report import Html, join, note, table, tag
from beambert.storage import parse_object


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
      text: words that must occur in the text or in an answer, in any case; "" for any.
    """
    wanted = text.casefold()
    found = []
    for each in mistakes:
        is_inside = chosen is None or each["slices"].get(chosen[0]) == chosen[1]
        said = "\n".join((each["text"], each["expected"], each["predicted"]))
        if is_inside and wanted in said.casefold():
            found.append(each)
    return found


if TYPE_CHECKING:
    from beambert.explore.material import Material

# Number of errors on a page, and of characters of a text or an answer there.
PAGE, MOST_CHARACTERS = 10, 600
ALL = "all examples"


def slice_names(evaluation: Evaluation) -> list[str]:
    """Returns the choices of a slice."""
    return [ALL, *evaluation.slices]


def show_errors(material: "Material", name: str, slice_name: str, text: str, page: int) -> Html:
    """Returns the scores of an evaluation by slice, and errors of one slice, the worst first.

    Args:
      material: what the page shows.
      name: name of an evaluation.
      slice_name: one of `slice_names`; any other stands for all examples.
      text: words that must occur in an error; "" for any.
      page: number of the page, from 1.
    """
    from beambert.pipelines.tasks.declarations import KINDS

    evaluation = material.evaluations[name]
    metrics = evaluation.metrics
    mistakes = material.mistakes(name)
    chosen = evaluation.slices.get(slice_name)
    found = choose(mistakes, chosen, text.strip())
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 1), pages)
    first = (page - 1) * PAGE
    weight, which = KINDS[metrics["task_kind"]].WEIGHT
    where = slice_name if chosen else ALL
    parts: list[object] = [
        _slices(evaluation, mistakes, where),
        tag("h3", f"{counted(len(found), 'error')} in {where}, page {page} of {pages}"),
        note(
            f"The worst come first: those {which}. Examples are counted in the order of the file."
        ),
    ]
    for mistake in found[first : first + PAGE]:
        parts.append(_error(mistake, weight))
    if not found:
        parts.append(said("No error here; choose another slice, or other words."))
    return whole(*parts)


def _slices(evaluation: Evaluation, mistakes, where: str) -> Html:
    from beambert.pipelines.tasks.metrics import METRICS

    metrics = evaluation.metrics
    first = metrics["metrics"][0]
    parts = [(ALL, metrics["overall"], len(mistakes))]
    for title, (name, value) in evaluation.slices.items():
        errors = sum(each["slices"].get(name) == value for each in mistakes)
        parts.append((title, metrics["slices"][name][value], errors))
    rows = []
    for title, part, errors in parts:
        low_high = part["intervals_95"][first]
        interval = f"{low_high[0]:.3f} to {low_high[1]:.3f}" if low_high else "-"
        score = "-" if part[first] is None else f"{part[first]:.4f}"
        shown = tag("b", f"▸ {title}") if title == where else title
        rows.append((shown, f"{part['example_count']:,}", f"{errors:,}", score, interval))
    header = ("slice", "examples", "errors", METRICS[first].title, "95 % interval")
    about = f"{metrics['task']}, {metrics['split']} split, {metrics['examples']:,} examples"
    return join(
        tag("h3", f"Scores by slice: {about}"),
        tag("div", table(header, rows, ("name", *["number"] * 4)), kind="wide"),
    )


def _error(mistake, weight: str) -> Html:
    slices = ", ".join(f"{name} = {value}" for name, value in mistake["slices"].items())
    about = f"Example {mistake['row'] + 1:,}; {weight} {mistake['weight']:.3g}; {slices}"
    return tag(
        "div",
        tag("p", _cut(mistake["text"])),
        tag("p", tag("b", "right: "), tag("mark", _cut(mistake["expected"]))),
        tag("p", tag("b", "predicted: "), _cut(mistake["predicted"])),
        note(about),
        kind="error",
    )


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " …"
