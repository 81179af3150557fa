"""Trainings side by side: settings and results."""

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert import storage
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.model_files import CONFIG_FILE, CURVES_FILE, PRETRAINING, RESULTS_FILE, TRAINING_FILE
from beambert.pipelines.records.contract import INFO_FILE
from beambert.storage import parse_object
from beambert.trainer import model_folders
from beambert.trainer.loop.trackers import flat_settings, rows_of
from beambert.trainer.models import objective_of

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
      rows: the lines of metrics.jsonl.
      is_finished: whether the model is complete.
    """

    folder: str
    settings: Mapping[str, Any]
    results: Mapping[str, float]
    rows: Sequence[Mapping[str, Any]]
    is_finished: bool

    @property
    def steps(self) -> int:
        """Number of updates so far."""
        return max((row["step"] for row in self.rows), default=0)

    def in_training(self, metric: str) -> list[float]:
        """Returns the values of a metric on training data, in the order of the steps."""
        rows = sorted(self.rows, key=lambda row: row["step"])
        return [row[metric] for row in rows if row["split"] == "train" and metric in row]


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
    return ComparedRun(folder, settings, results, rows, MARKER_FILE in names)


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


def short_names(folders: Sequence[str]) -> list[str]:
    """Returns names that tell folders apart: as many of their last parts as that takes."""
    paths = [storage.absolute(folder).split("/") for folder in folders]
    for parts in range(1, max(map(len, paths)) + 1):
        names = [os.path.join(*path[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


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
      held_out: names of the trainings whose results are those of the same held-out records, for
        each of such records.
    """

    names: Sequence[str]
    settings: Mapping[str, Sequence[Any]]
    results: Mapping[str, Sequence[Any]]
    held_out: Sequence[Sequence[str]] = ()


def compare(folders: Sequence[str]) -> Comparison:
    """Compares trainings, as `beambert compare` does.

    Args:
      folders: model folders of `beambert pretrain` or `finetune`, finished or not.

    Raises:
      InputError: a folder is no model folder.
    """
    paths = [storage.absolute(folder) for folder in folders]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise InputError(f"{folders[number]}: is named twice; name each folder once")
    if len(paths) < 2:
        raise InputError(f"{' '.join(paths)}: is alone; name two model folders or more")
    runs = [read_run(folder) for folder in folders]
    names = short_names(folders)
    held_out: dict[Any, list[str]] = {}
    for name, run in zip(names, runs, strict=True):
        if sums := _held_out(run):
            held_out.setdefault(sums[-1], []).append(name)
    settings, results = differing_settings(runs), all_results(runs)
    return Comparison(names, settings, results, list(held_out.values()))


def differing_settings(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """Returns the settings that aren't the same in all trainings; an empty list is none."""
    rows = {
        name: [None if (value := run.settings.get(name)) == [] else value for run in runs]
        for name in _names(runs, "settings")
    }
    return {name: row for name, row in rows.items() if any(value != row[0] for value in row)}


def all_results(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """Returns the results, how far each training is, and how fast it was."""
    names = _names(runs, "results")
    rows = {name.replace("_", " "): [run.results.get(name) for run in runs] for name in names}
    losses = [run.in_training("loss") for run in runs]
    rows["loss in training"] = [values[-1] if values else None for values in losses]
    rows["updates"] = [run.steps for run in runs]
    speeds = [run.in_training("tokens_per_second") for run in runs]
    rows["tokens a second"] = [float(np.median(each)) if each else None for each in speeds]
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
