"""The output folder of an evaluation: made beside the old results, then put in their place."""

import json
import os
import pathlib
import shutil
from typing import Any

from beambert.pipelines.prediction.saved_models import local_path
from beambert.pipelines.shared.errors import InputError

KIND = "beambert evaluation"
BLESSED = "BLESSED"
NOT_BLESSED = "NOT_BLESSED"
MARKERS = (BLESSED, NOT_BLESSED)
# Where the results are made; another name than the marker file of the other commands.
_WORK_FOLDER = "_unfinished_evaluation"
# What official scorers read, of the tasks that have them.
OFFICIAL = "official"
_RESULTS = ("predictions", OFFICIAL, "tfma", "metrics.json", "report.html")


def read_metrics(folder: pathlib.Path) -> dict[str, Any] | None:
    """Returns the metrics.json of a finished evaluation; None where a folder holds none."""
    try:
        metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        return metrics if metrics["kind"] == KIND else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_output(output: str) -> pathlib.Path:
    """Returns the folder, if it may be written to.

    Raises:
      InputError: it holds something else than an evaluation.
    """
    folder = pathlib.Path(local_path(output, "--output"))
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output={output} is a file: name a folder.")
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    foreign = names - {*_RESULTS, *MARKERS, _WORK_FOLDER}
    if foreign or (names and _WORK_FOLDER not in names and read_metrics(folder) is None):
        raise InputError(
            f"--output={output} already holds something else ({min(foreign or names)}): choose "
            "another folder or delete it."
        )
    return folder


def make_work_folder(output: pathlib.Path) -> pathlib.Path:
    """Makes the folder in which the results are made; an abandoned one is deleted.

    Raises:
      InputError: it cannot be written.
    """
    folder = output / _WORK_FOLDER
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"--output={output} cannot be written ({error.strerror}): choose another folder."
        ) from error
    return folder


def publish(output: pathlib.Path, metrics: dict[str, Any]) -> None:
    """Puts the new results in place of the old ones; the marker is last."""
    for marker in MARKERS:
        (output / marker).unlink(missing_ok=True)
    for name in _RESULTS:
        if (output / name).is_dir():
            shutil.rmtree(output / name)
        if (output / _WORK_FOLDER / name).exists():
            os.replace(output / _WORK_FOLDER / name, output / name)
    shutil.rmtree(output / _WORK_FOLDER)
    reasons = "".join(verdict["reason"] + "\n" for verdict in metrics["thresholds"])
    marker = BLESSED if metrics["blessed"] else NOT_BLESSED
    (output / marker).write_text(reasons, encoding="utf-8")
