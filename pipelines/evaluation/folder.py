"""The output folder of an evaluation: new results replace old ones only when they are complete."""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

from beambert.errors import InputError
from beambert.json_objects import parse_object
from beambert.pipelines.storage import claims, tensorflow_files
from beambert.pipelines.storage.claims import (
    BLESSED,
    METRICS_FILE,
    MISTAKES_FILE,
    NOT_BLESSED,
    REPORT_FILE,
)

KIND = "beambert evaluation"
MARKERS = (BLESSED, NOT_BLESSED)
# Part of the name of the folder where the results are made.
_WORK = "evaluation"
PREDICTIONS_FOLDER, TFMA_FOLDER = "predictions", "tfma"
# Folder of the files that an official scorer reads, for the tasks that have one.
OFFICIAL = "official"
# The results in the order in which they are published. By metrics.json a folder is recognised, also
# if the publication was interrupted.
_RESULTS = (
    *(METRICS_FILE, PREDICTIONS_FOLDER, OFFICIAL, TFMA_FOLDER),
    *(REPORT_FILE, MISTAKES_FILE),
)


def read_metrics(folder: str) -> dict[str, Any] | None:
    """Returns the metrics.json of an evaluation; None if the folder holds none.

    Raises:
      InputError: the file cannot be read.
    """
    path = f"{folder}/{METRICS_FILE}"
    if not tensorflow_files.exists(path):
        return None
    try:
        metrics = parse_object(tensorflow_files.read_bytes(path))
    except ValueError:
        return None
    return metrics if metrics.get("kind") == KIND else None


def check_output(output: str) -> None:
    """Refuses an output folder that holds something else than an evaluation.

    Raises:
      InputError: it does, or it is a file.
    """
    if tensorflow_files.exists(output) and not tensorflow_files.is_folder(output):
        raise InputError(f"--output={output}: is a file; name a folder")
    names = tensorflow_files.list_folder(output)
    names = [name for name in names if not name.startswith(claims.LOCK_PREFIX)]
    unfinished = [name for name in names if claims.is_aside(name, _WORK)]
    foreign = set(names) - {*_RESULTS, *MARKERS, *unfinished}
    if foreign or (names and not unfinished and read_metrics(output) is None):
        raise InputError(
            f"--output={output}: already holds something else ({min(foreign or names)}); choose "
            "another folder or delete it"
        )


@contextlib.contextmanager
def work_folder(output: str) -> Iterator[pathlib.Path]:
    """Yields a folder on this machine in which the results are made.

    It lies in the output folder if that is on this machine, too.

    Raises:
      InputError: it cannot be made.
    """
    if "://" in output:
        with tempfile.TemporaryDirectory(prefix="beambert-") as folder:
            yield pathlib.Path(folder)
        return
    for left in tensorflow_files.leftovers(output, _WORK):  # left by a command that was killed
        tensorflow_files.delete(left)
    tensorflow_files.make_folder(output, "--output")
    folder = claims.aside(f"{output}/{_WORK}")
    try:
        tensorflow_files.make_folder(folder)
        yield pathlib.Path(folder)
    finally:
        with contextlib.suppress(InputError):  # it must not hide what went wrong before
            tensorflow_files.delete(folder)


def publish(made: pathlib.Path, output: str, metrics: dict[str, Any]) -> None:
    """Replaces the old results by the new ones; the marker is written last.

    Raises:
      InputError: the results cannot be written.
    """
    for marker in MARKERS:
        tensorflow_files.delete(f"{output}/{marker}")
    for name in _RESULTS:
        if (made / name).exists():
            tensorflow_files.move(str(made / name), f"{output}/{name}")
        else:
            tensorflow_files.delete(f"{output}/{name}")
    # A model that is refused may have reached other thresholds, which are no reason to refuse it.
    reasons = "".join(
        f"{verdict['reason']}\n"
        for verdict in metrics["thresholds"]
        if verdict["passed"] == metrics["blessed"]
    )
    marker = BLESSED if metrics["blessed"] else NOT_BLESSED
    tensorflow_files.write_bytes(f"{output}/{marker}", reasons.encode())
