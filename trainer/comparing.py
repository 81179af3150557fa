"""Trainings side by side: settings, results, curves."""

import contextlib
import dataclasses
import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beambert import storage
from beambert.console import counted
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.model_files import CONFIG_FILE, CURVES_FILE, PRETRAINING, RESULTS_FILE, TRAINING_FILE
from beambert.pipelines.records.contract import INFO_FILE
from beambert.report import AMBER, BLUE, GREY, Html, figures, new_figure, note, page, section, table
from beambert.storage import parse_object
from beambert.trainer import model_folders
from beambert.trainer.loop.trackers import flat_settings, rows_of
from beambert.trainer.models import objective_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# A line of metrics.jsonl has these besides metrics.
_PLACE = ("split", "step")


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A training.

    Attributes:
      folder: path of the model folder.
      settings: settings of the training, the model and the data, in one level.
      results: the metrics of the trained model; those of the newest evaluation if the training goes
        on.
      curves: (split, metric) -> the steps and the values there.
      is_finished: whether the model is complete.
    """

    folder: str
    settings: Mapping[str, Any]
    results: Mapping[str, float]
    curves: Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]]
    is_finished: bool

    @property
    def steps(self) -> int:
        """Number of updates so far: the last step of any curve."""
        return max((int(steps[-1]) for steps, _ in self.curves.values()), default=0)

    @property
    def training_loss(self) -> float | None:
        """The newest loss on training data; None if there is none yet."""
        _, values = self.curves.get(("train", "loss"), ((), ()))
        return float(values[-1]) if len(values) else None

    @property
    def tokens_a_second(self) -> float | None:
        """Median of the speed while training; None if it was not measured."""
        _, values = self.curves.get(("train", "tokens_per_second"), ((), ()))
        return float(np.median(values)) if len(values) else None


def read_run(folder: str) -> ComparedRun:
    """Reads a model folder of `beambert pretrain` or `finetune`, finished or not.

    Raises:
      InputError: the folder is none, or a file in it is damaged.
    """
    folder = folder.rstrip("/")
    names = storage.list_folder(folder)
    if not names:
        raise InputError(f"{folder}: no such folder, or an empty one; check the path")
    if fault := model_folders.fault_of(names):
        raise InputError(f"{folder}: {fault}")
    training = _read_json(folder, TRAINING_FILE)
    curves_file = f"{folder}/{CURVES_FILE}"
    has_curves = CURVES_FILE in names
    rows = rows_of(storage.read_bytes(curves_file)) if has_curves else []
    if RESULTS_FILE in names:
        results = _read_json(folder, RESULTS_FILE)
    else:
        held_out = [row for row in rows if row["split"] == "eval"]
        newest = held_out[-1] if held_out else {}
        results = {name: value for name, value in newest.items() if name not in _PLACE}
    settings = flat_settings(training)
    if settings.get("kind") == PRETRAINING:
        settings["objective"] = objective_of(training)
    if CONFIG_FILE in names:
        settings |= flat_settings(_read_json(folder, CONFIG_FILE), "encoder.")
    settings |= _of_records(training.get("data", []))
    return ComparedRun(folder, settings, results, _curves(rows), MARKER_FILE in names)


def _read_json(folder: str, name: str) -> dict[str, Any]:
    path = f"{folder}/{name}"
    try:
        return parse_object(storage.read_bytes(path))
    except ValueError as error:
        raise storage.refusal(path, "read", str(error), "copy the folder again") from error


def _of_records(folders: Sequence[str]) -> dict[str, Any]:
    """Returns the parameters of the records, if they are still there."""
    found: dict[str, Any] = {}
    for number, folder in enumerate(folders):
        with contextlib.suppress(InputError, KeyError):
            if storage.exists(f"{folder}/{INFO_FILE}"):
                parameters = _read_json(folder, INFO_FILE)["parameters"]
                found |= flat_settings(parameters, f"records.{number}.")
    return found


def _curves(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], tuple]:
    """Returns the curves of the lines of metrics.jsonl, each in the order of its steps."""
    points: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if name not in _PLACE:
                points.setdefault((row["split"], name), []).append((row["step"], value))
    return {
        each: tuple(np.array(column) for column in zip(*sorted(found), strict=True))
        for each, found in points.items()
    }


def short_names(folders: Sequence[str]) -> list[str]:
    """Returns names that tell folders apart: as many of their last parts as that takes."""
    paths = [storage.absolute(folder).split("/") for folder in folders]
    for parts in range(1, max(map(len, paths)) + 1):
        names = [os.path.join(*path[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


Curves = Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]]
# Colours of the curves. With more trainings than colours, the next ones have dashed lines.
COLOURS = (BLUE, AMBER, "#3fa66b", "#b565c9", "#d1495b", "#2aa5a0", GREY)
_LINES = ("-", "--", ":", "-.")
# Largest number of points in a curve. Of more steps, each point is the mean of several.
MOST_POINTS = 300
_TITLES = {"eval": "Curves on held-out data", "train": "Curves on training data"}
# Metrics that say the same as tokens_per_second.
_NOT_DRAWN = ("seconds_per_step", "sequences_per_second")


def render(
    names: Sequence[str],
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]],
    curves: Sequence[Curves],
    remark: str = "",
) -> str:
    """Returns the page.

    Args:
      names: names of the trainings.
      tables: title and rows of each table; a row has a name and a text for each training.
      curves: curves of each training.
      remark: sentence about the tables.
    """
    return page(
        f"Comparison of {len(names)} trainings",
        ", ".join(names),
        [
            *(_table(title, names, rows) for title, rows in tables),
            *([note(remark)] if remark else []),
            *_plots(names, curves),
        ],
    )


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    if not rows:
        return section(title, note("none"))
    kinds = ("name", *("short" for _ in names))
    return section(title, table(("", *names), rows, kinds))


def _plots(names: Sequence[str], curves: Sequence[Curves]) -> list[Html]:
    """Returns a section for each split, with a plot of each of its metrics."""
    every = list(dict.fromkeys(metric for each in curves for metric in each))
    found = []
    for split, title in _TITLES.items():
        metrics = [
            name for its_split, name in every if its_split == split and name not in _NOT_DRAWN
        ]
        drawn = [
            _plot(names, [curve.get((split, metric)) for curve in curves], metric)
            for metric in metrics
        ]
        if drawn:
            found.append(section(title, figures(*drawn)))
    return found


def _plot(
    names: Sequence[str], curves: Sequence[tuple[np.ndarray, np.ndarray] | None], metric: str
) -> "Figure":
    """Plots a metric; a training has the same colour in all plots."""
    figure = new_figure()
    axes = figure.subplots()
    for number, (name, curve) in enumerate(zip(names, curves, strict=True)):
        if curve is None:
            continue
        steps, values = thinned(*curve)
        line = _LINES[number // len(COLOURS) % len(_LINES)]
        colour = COLOURS[number % len(COLOURS)]
        mark = "o" if len(steps) == 1 else ""  # a line needs two points
        axes.plot(steps, values, line, color=colour, marker=mark, linewidth=1.5, label=name)
    axes.legend(frameon=False, fontsize=8)
    axes.set(xlabel="update", title=metric.replace("_", " "))
    return figure


def thinned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns a curve of at most `MOST_POINTS` points, the means of neighbours."""
    if len(steps) <= MOST_POINTS:
        return steps, values
    first = np.linspace(0, len(steps), MOST_POINTS, endpoint=False).astype(int)
    counts = np.diff(np.append(first, len(steps)))
    return np.add.reduceat(steps, first) / counts, np.add.reduceat(values, first) / counts


PAGE_FILE = "compare.html"
# End of the names of the settings that tell the held-out records, in the order of training.
_HELD_OUT = ".eval_records_sha256"
# Text of a setting or a result that a training doesn't have.
NONE = "–"
# Longest text of a setting in the printed table; of a longer one, the end is shown.
_WIDEST = 32


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Trainings side by side; every list has an entry for each of them, None where it has none.

    Attributes:
      names: names that tell the trainings apart.
      settings: name -> values, for the settings that differ.
      results: name -> values.
      left_out: number of settings that are left out, as trainings of only some kinds have them.
      held_out: names of the trainings whose results are those of the same held-out records, for
        each of such records.
    """

    names: Sequence[str]
    settings: Mapping[str, Sequence[Any]]
    results: Mapping[str, Sequence[Any]]
    left_out: int = 0
    held_out: Sequence[Sequence[str]] = ()


def compare(folders: Sequence[str], output: str | None = None) -> Comparison:
    """Compares trainings, as `beambert compare` does.

    Args:
      folders: model folders of `beambert pretrain` or `finetune`, finished or not.
      output: folder that gets a page with the curves, compare.html; None for no page.

    Raises:
      InputError: a folder is no model folder, or the page cannot be written.
    """
    paths = [storage.absolute(folder) for folder in folders]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise InputError(f"{folders[number]}: is named twice; name each folder once")
    if len(paths) < 2:
        raise InputError(f"{' '.join(paths)}: is alone; name two model folders or more")
    if output and importlib.util.find_spec("matplotlib") is None:
        raise InputError(
            f"--output={output}: its page needs matplotlib; run pip install 'beambert[evaluate]', "
            "or leave --output out"
        )
    runs = [read_run(folder) for folder in folders]
    settings = differing_settings(runs)
    common = shared_settings(runs, settings)
    names = short_names(folders)
    held_out: dict[Any, list[str]] = {}
    for name, run in zip(names, runs, strict=True):
        if sums := _held_out(run):
            held_out.setdefault(sums[-1], []).append(name)
    found = Comparison(
        names,
        common,
        all_results(runs),
        left_out=len(settings) - len(common),
        held_out=list(held_out.values()),
    )
    if output:
        sections = [(title, text_rows(each)) for title, each in sections_of(found)]
        page = render(found.names, sections, [run.curves for run in runs], " ".join(notes(found)))
        storage.write_bytes(f"{output.rstrip('/')}/{PAGE_FILE}", page.encode())
    return found


def differing_settings(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """Returns the settings that aren't the same in all trainings; an empty list is none."""
    rows = {
        name: [None if (value := run.settings.get(name)) == [] else value for run in runs]
        for name in _names(runs, "settings")
    }
    return {name: row for name, row in rows.items() if any(value != row[0] for value in row)}


def shared_settings(
    runs: Sequence[ComparedRun], settings: Mapping[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    """Returns the settings without those that differ only in that trainings lack them.

    Where all trainings are of one kind, such a setting tells them apart, and all are returned.
    """
    if len({run.settings.get("kind") for run in runs}) == 1:
        return dict(settings)
    common = {}
    for name, values in settings.items():
        there = [value for run, value in zip(runs, values, strict=True) if name in run.settings]
        if len(there) == len(runs) or any(value != there[0] for value in there):
            common[name] = values
    return common


def all_results(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """Returns the results, how far each training is, and how fast it was."""
    names = _names(runs, "results")
    rows = {name.replace("_", " "): [run.results.get(name) for run in runs] for name in names}
    rows["loss in training"] = [run.training_loss for run in runs]
    rows["updates"] = [run.steps for run in runs]
    rows["tokens a second"] = [run.tokens_a_second for run in runs]
    rows["state"] = ["finished" if run.is_finished else "unfinished" for run in runs]
    return rows


def _names(runs: Sequence[ComparedRun], attribute: str) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in getattr(run, attribute)))


def sections_of(found: Comparison) -> list[tuple[str, Mapping[str, Sequence[Any]]]]:
    """Returns the tables of a comparison, with their titles."""
    settings = {readable(name): values for name, values in found.settings.items()}
    return [("Settings that differ", settings), ("Results", found.results)]


def readable(name: str) -> str:
    """Returns the name of a setting for a person: `records 1 dupe_factor`, counted from 1."""
    return " ".join(str(int(part) + 1) if part.isdecimal() else part for part in name.split("."))


def _held_out(run: ComparedRun) -> list[Any]:
    """Returns the checksums of the held-out records of each phase of a pre-training."""
    return [value for name, value in run.settings.items() if name.endswith(_HELD_OUT)]


def notes(found: Comparison) -> list[str]:
    """Returns the sentences on what the tables do not show, and on what does not compare."""
    lines = []
    if len(found.held_out) > 1:
        alike = [", ".join(names) for names in found.held_out if len(names) > 1]
        how = f"compare only among {', or among '.join(alike)}" if alike else "do not compare"
        lines.append(f"The held-out records differ, so the results on them {how}.")
    if found.left_out:
        left_out = counted(found.left_out, "setting")
        lines.append(f"{left_out} left out that only some kinds of training have.")
    return lines


def text_rows(rows: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Returns a table's rows as text: a name and the values."""
    return [[name, *map(_text, values)] for name, values in rows.items()]


def _text(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def describe(found: Comparison) -> str:
    """Returns the tables as lines to print."""
    lines: list[str] = []
    for title, rows in sections_of(found):
        body = [[name, *map(_shortened, cells)] for name, *cells in text_rows(rows)]
        if not body:
            lines += [f"{title}: none", ""]
            continue
        columns = [[title, *found.names], *body]
        widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
        for first, *others in columns:
            cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([f"{first:<{widths[0]}}", *cells]))
        lines.append("")
    return "\n".join([*lines, *notes(found)]).rstrip()


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else f"…{text[1 - _WIDEST :]}"
