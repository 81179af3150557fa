"""Reads and writes the files of a workspace, on any file system that TensorFlow knows.

This module does not import Beam, because the trainers' image for TPUs lacks it.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from beambert.deploy.retraining.runs import PUBLISHED, RECORDS, REFUSED, Retraining, Run, markers
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.json_objects import parse_object
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.tensorflow_files import exists, read_text

RUN_FILE = "run.json"
RESULT_FILE = "result.json"
VERSION_FILE = "version.json"


@dataclasses.dataclass(frozen=True)
class History:
    """The runs of a workspace, oldest first.

    Attributes:
      published: folders of the runs whose model was served.
      refused: folders of the runs whose model was refused.
      open: the run without a result, if there is one.
      last: number of the newest run; 0 if there is none.
    """

    published: tuple[str, ...]
    refused: tuple[str, ...]
    open: Run | None
    last: int


def read_config(path: str) -> Retraining:
    """Reads a configuration.

    Raises:
      InputError: the file cannot be read or is no valid configuration.
    """
    return Retraining.from_toml(read_text(path, "--config"), path)


def read_history(workspace: str) -> History:
    """Reads the results of the runs in a workspace.

    Raises:
      InputError: a file or folder cannot be read.
    """
    runs = f"{workspace}/runs"
    numbers = _numbers_in(runs)
    ended: dict[str, list[str]] = {PUBLISHED: [], REFUSED: []}
    unfinished = None
    for number in numbers:
        path = f"{runs}/{number:06d}"
        result, run = f"{path}/{RESULT_FILE}", f"{path}/{RUN_FILE}"
        if exists(result):
            with _undamaged(result):
                ended[read_json(result)["outcome"]].append(path)
        elif exists(run):
            with _undamaged(run):
                unfinished = Run.from_fields(read_json(run))
    return History(
        tuple(ended[PUBLISHED]), tuple(ended[REFUSED]), unfinished, max(numbers, default=0)
    )


def _numbers_in(folder: str) -> list[int]:
    """Returns the names in a folder that are numbers, sorted; none if the folder is missing."""
    return sorted(int(n) for n in tensorflow_files.list_folder(folder) if n.isdecimal())


def is_done(step: str, run: Run) -> bool:
    """Whether a step of a run is finished."""
    return all(any(map(exists, group)) for group in markers(step, run))


def begin(run: Run) -> None:
    """Writes run.json, after deleting the files of a run that was killed in its first step."""
    file, records = f"{run.path}/{RUN_FILE}", run.folder(RECORDS)
    tensorflow_files.delete(file)  # first, as a folder without it is no run
    tensorflow_files.delete(records)
    write_json(file, dataclasses.asdict(run))


def choose_version(serving: str, run: Run) -> int:
    """Returns the number of the version that a run makes.

    The first call takes the next free number and records it, later calls return the same. So a run
    that was killed between the export and result.json does not make a second version.
    """
    file = f"{run.path}/{VERSION_FILE}"
    if not exists(file):
        write_json(file, max(_numbers_in(serving), default=0) + 1)
    version = read_json(file)
    # gs:// renames a folder file by file. A version that was interrupted in that is made again.
    if tensorflow_files.leftovers(serving, str(version)):
        tensorflow_files.delete(f"{serving}/{version}")
    return version


@dataclasses.dataclass(frozen=True)
class Manifests:
    """Manifests of complete deliveries.

    Attributes:
      count: number of manifests.
      newest: time at which the newest one was written, in seconds since 1970.
      newest_path: path of the newest one.
    """

    count: int = 0
    newest: float = 0.0
    newest_path: str = ""


def check_manifests(patterns: Sequence[str]) -> Manifests:
    """Checks that all deliveries are complete, and returns their number and age.

    A manifest is `{"files": [{"path": …, "bytes": …}, …]}`. Its paths are full, or relative to its
    folder. It is written after all of its files.

    Raises:
      InputError: a manifest is incomplete, or a file that it names is missing or of another size.
    """
    found = Manifests()
    for pattern in patterns:
        for path in tensorflow_files.match(pattern):
            _check_manifest(path)
            newest = max((found.newest, found.newest_path), (tensorflow_files.modified(path), path))
            found = Manifests(found.count + 1, *newest)
    return found


def _check_manifest(path: str) -> None:
    try:
        found = parse_object(read_text(path))["files"]
        files = [(os.fspath(of["path"]), int(of["bytes"])) for of in found]
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(
            f"{path}: manifest is half-written or none ({error}); write it again, or delete it to "
            "take all files"
        ) from error
    for name, size in files:
        file = name if "://" in name else os.path.join(os.path.dirname(path), name)
        there = tensorflow_files.size(file)
        if there != size:
            what = "is missing" if there is None else f"has {there} bytes"
            raise InputError(
                f"{path}: manifest names {file}, which {what}; it should have {size} bytes; "
                "complete the delivery or correct the manifest"
            )


def read_json(path: str) -> Any:
    """Returns the content of a JSON file.

    Raises:
      InputError: the file cannot be read.
    """
    with _undamaged(path):
        return json.loads(read_text(path))


def write_json(path: str, value: Any) -> None:
    """Writes a JSON file as a whole, and makes the folders above it.

    Raises:
      InputError: the file cannot be written.
    """
    tensorflow_files.write_bytes(path, f"{json.dumps(value, indent=1)}\n".encode())


@contextlib.contextmanager
def _undamaged(path: str) -> Iterator[None]:
    """Raises an `InputError` if a file of the workspace has the wrong content."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path}: is damaged ({type(error).__name__}: {error}); correct it, or delete the "
            "run's folder"
        ) from error
