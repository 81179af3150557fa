"""Reads what a training leaves in its model folder; it may still be training."""

import contextlib
import dataclasses
import os
import re
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

# The settings that tell the steps of a training, as `flat_settings` names them.
_GUESSED = re.compile(r"optimizer\.num_(train|warmup)_steps|phases\.\d+\.last_step")
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
        """Number of updates so far, as the curves tell it."""
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
    if settings.get("optimizer.budget_seconds") is not None:
        # The steps are a first guess, which the rate corrected.
        settings = {n: each for n, each in settings.items() if not _GUESSED.fullmatch(n)}
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
