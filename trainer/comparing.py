"""Trainings side by side: the settings that differ, and the results."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert import io
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.io import read_object
from beambert.model.families.table import read_config
from beambert.model_files import (
    CONFIG_FILE,
    CURVES_FILE,
    RESULTS_FILE,
    TRAINING_FILE,
    check_unchanged,
)
from beambert.pipelines.records.contract import INFO_FILE
from beambert.trainer import model_folders
from beambert.trainer.loop.trackers import flat_settings, rounded, rows_of

# End of the names of the settings that tell the held-out records, in the order of training.
_HELD_OUT = ".eval_records_sha256"
# Longest text of a setting in the printed table; of a longer one, the end is shown.
_WIDEST = 32


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Trainings side by side; every list has an entry for each of them, None where it has none.

    Attributes:
      names: names that tell the trainings apart.
      settings: name -> values, for the settings that differ.
      results: name -> values.
      note: the sentence on results that do not compare; "" if all do.
    """

    names: Sequence[str]
    settings: Mapping[str, Sequence[Any]]
    results: Mapping[str, Sequence[Any]]
    note: str


def compare(folders: Sequence[str]) -> Comparison:
    """Compares trainings, as `beambert compare` does.

    Args:
      folders: model folders of `beambert pretrain` or `finetune`, finished or not.

    Raises:
      InputError: a folder is no model folder.
    """
    names = io.short_names(folders)
    if len(names) < 2:
        raise InputError(f"{' '.join(folders)}: is alone; name two model folders or more")
    runs = [_read(folder.rstrip("/")) for folder in folders]
    settings = _rows([settings for settings, _ in runs])
    held_out: dict[str, list[str]] = {}
    for name, (of_run, _) in zip(names, runs, strict=True):
        sums = [value for key, value in of_run.items() if key.endswith(_HELD_OUT) and value]
        if sums:
            held_out.setdefault(sums[-1], []).append(name)
    alike = [", ".join(same) for same in held_out.values() if len(same) > 1]
    how = f"compare only among {', or among '.join(alike)}" if alike else "do not compare"
    return Comparison(
        names,
        {name: row for name, row in settings.items() if any(value != row[0] for value in row)},
        _rows([results for _, results in runs]),
        f"The held-out records differ, so the results on them {how}." if len(held_out) > 1 else "",
    )


def _rows(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns name -> its value in each run; an empty list is none."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {n: [None if (value := run.get(n)) == [] else value for run in runs] for n in names}


def _read(folder: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the settings of a training, its model and its data in one level, and its results."""
    names = io.list_folder(folder)
    if not names:
        raise InputError(f"{folder}: no such folder, or an empty one; check the path")
    if fault := model_folders.fault_of(names):
        raise InputError(f"{folder}: {fault}")
    settings = _settings(folder, names)
    # The results of kept best weights are those of an earlier step.
    return settings, _results(folder, names, keeps_best=bool(settings.get("loop.patience")))


def _settings(folder: str, names: Sequence[str]) -> dict[str, Any]:
    training = read_object(f"{folder}/{TRAINING_FILE}")
    if MARKER_FILE in names:
        try:
            config = read_config(io.read_text(f"{folder}/{CONFIG_FILE}"))
        except ValueError as error:
            raise InputError(f"{folder}: {error}; copy the folder again") from error
        described = training | {"model": config.identity()}
        check_unchanged(folder, io.read_bytes(f"{folder}/{MARKER_FILE}"), described)
    settings = flat_settings(training)
    if CONFIG_FILE in names:
        settings |= flat_settings(read_object(f"{folder}/{CONFIG_FILE}"), "encoder.")
    for number, data in enumerate(training.get("data", [])):
        with contextlib.suppress(InputError, KeyError):  # The records may be gone.
            parameters = read_object(f"{data}/{INFO_FILE}")["parameters"]
            settings |= flat_settings(parameters, f"records.{number}.")
    return settings


def _results(folder: str, names: Sequence[str], keeps_best: bool) -> dict[str, Any]:
    rows = rows_of(io.read_bytes(f"{folder}/{CURVES_FILE}")) if CURVES_FILE in names else []
    evaluations = [row for row in rows if row["split"] == "eval"]
    newest = {name: value for row in evaluations[-1:] for name, value in row.items()}
    results = newest = {n: value for n, value in newest.items() if n not in ("split", "step")}
    if RESULTS_FILE in names:
        results = read_object(f"{folder}/{RESULTS_FILE}")
        shared = () if keeps_best else newest.keys() & results.keys()
        if rounded({name: results[name] for name in shared}) != {n: newest[n] for n in shared}:
            raise InputError(
                f"{folder}: {RESULTS_FILE} and the last evaluation in {CURVES_FILE} differ, so one "
                "of them was changed; copy the folder again from where it was made"
            )
    trained = [row for row in rows if row["split"] == "train"]
    losses = [row["loss"] for row in trained if "loss" in row]
    speeds = [row["tokens_per_second"] for row in trained if "tokens_per_second" in row]
    return {name.replace("_", " "): value for name, value in results.items()} | {
        "loss in training": losses[-1] if losses else None,
        "updates": max((row["step"] for row in rows), default=0),
        "tokens a second": float(np.median(speeds)) if speeds else None,
        "state": "finished" if MARKER_FILE in names else "unfinished",
    }


def describe(found: Comparison) -> str:
    """Returns the tables as lines to print."""
    lines: list[str] = []
    for title, rows in (("Settings that differ", found.settings), ("Results", found.results)):
        if not rows:
            lines += [f"{title}: none", ""]
            continue
        columns = [[title, *found.names], *([n, *map(_text, row)] for n, row in rows.items())]
        widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
        for first, *others in columns:
            cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([f"{first:<{widths[0]}}", *cells]))
        lines.append("")
    return "\n".join([*lines, found.note]).rstrip()


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _WIDEST else f"…{text[1 - _WIDEST :]}"
