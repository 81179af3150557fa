"""Reads and writes the files of a workspace, local or on gs://."""

import dataclasses
import json
import re
from typing import Any, TypeVar

from beambert import io
from beambert.deploy.retraining.runs import (
    PUBLISHED,
    RECORDS,
    SERVING,
    Retraining,
    RetrainingRun,
    RunResult,
)
from beambert.deploy.settings import check_keys
from beambert.errors import InputError
from beambert.folders import MARKER_FILE, UNFINISHED_FILE
from beambert.model_files import GRAPH_FILE

RUN_FILE = "run.json"
RESULT_FILE = "result.json"
VERSION_FILE = "version.json"
Content = TypeVar("Content", RetrainingRun, RunResult)


@dataclasses.dataclass(frozen=True)
class History:
    """The runs of a workspace, oldest first.

    Attributes:
      published: folders of the runs whose version is served or was.
      refused: folders of the runs whose model was refused or taken back.
      open: the run without a result, if there is one.
      last: number of the newest run; 0 if there is none.
      greatest: greatest version that any run has published; 0 if none has.
      newest: greatest version of `published`; 0 if there is none.
    """

    published: tuple[str, ...]
    refused: tuple[str, ...]
    open: RetrainingRun | None
    last: int
    greatest: int = 0
    newest: int = 0


def read_config(path: str) -> Retraining:
    """Reads a configuration.

    Raises:
      InputError: the file cannot be read or is no valid configuration.
    """
    return Retraining.from_toml(io.read_text(path, "--config"), path)


def read_history(workspace: str) -> History:
    """Reads the results of the runs in a workspace.

    A run whose version was deleted from the served ones counts as refused if no later version is
    served: TensorFlow Serving went back to the one before it, and so does the next run.

    Raises:
      InputError: a file or folder cannot be read, or all served versions are gone.
    """
    runs, serving = f"{workspace}/runs", f"{workspace}/{SERVING}"
    numbers = _numbers_in(runs)
    served = _newest(serving)
    published, refused = [], []
    unfinished, greatest, newest, is_gone = None, 0, 0, False
    for number in numbers:
        path = f"{runs}/{number:06d}"
        result, run = f"{path}/{RESULT_FILE}", f"{path}/{RUN_FILE}"
        if io.exists(result):
            found = read_as(RunResult, result)
            is_published, version = found.outcome == PUBLISHED, found.version or 0
            greatest = max(greatest, version)
            is_served = is_published and version <= served
            is_gone |= is_published
            newest = max(newest, version) if is_served else newest
            (published if is_served else refused).append(path)
        elif io.exists(run):
            unfinished = read_as(RetrainingRun, run)
            # Of a copy of a workspace, what it names would be that of the other.
            if io.absolute(unfinished.path) != io.absolute(path):
                raise InputError(
                    f"{run}: is of {unfinished.path}; delete {path}, and the run begins anew"
                )
    if is_gone and not served:
        raise InputError(
            f"{serving}: has no version, but runs have published some; put the version to serve "
            "back, or choose another workspace to begin anew"
        )
    last = max(numbers, default=0)
    return History(tuple(published), tuple(refused), unfinished, last, greatest, newest)


def _newest(serving: str) -> int:
    """Returns the version that is served; 0 if none is.

    A folder without a graph is half a version, or was emptied by hand.
    """
    versions = reversed(_numbers_in(serving))
    return next((n for n in versions if io.exists(f"{serving}/{n}/{GRAPH_FILE}")), 0)


def _numbers_in(folder: str) -> list[int]:
    """Returns the names in a folder that are numbers, sorted; none if the folder is missing."""
    return sorted(int(n) for n in io.list_folder(folder) if n.isdecimal())


def is_done(step: str, run: RetrainingRun) -> bool:
    """Whether a step of a run is finished."""
    if step == SERVING:
        return io.exists(f"{run.path}/{RESULT_FILE}")
    folders = run.records if step == RECORDS else (run.folder(step),)
    # One that was killed at its very end is run again, which tidies up.
    return all(
        MARKER_FILE in names and not any(n == UNFINISHED_FILE or io.is_temporary(n) for n in names)
        for names in map(io.list_folder, folders)
    )


def begin(run: RetrainingRun) -> None:
    """Writes run.json, after deleting the files of a run that was killed in its first step."""
    if is_done(RECORDS, run):
        return
    file, records = f"{run.path}/{RUN_FILE}", run.folder(RECORDS)
    io.delete(file)  # first, as a folder without it is no run
    io.delete(records)
    if run.left_out:
        text = "".join(f"{path}\n" for path in run.left_out)
        io.write_bytes(run.left_out_file, text.encode())
    write_json(file, dataclasses.asdict(run))


def choose_version(serving: str, run: RetrainingRun, greatest: int = 0) -> int:
    """Returns the number of the version that a run makes.

    The first call takes the next free number and records it, later calls return the same. So a run
    that was killed between the export and result.json does not make a second version.

    Args:
      serving: folder of the served versions.
      run: the run.
      greatest: greatest version that any run has published. Its number is not used again, also if
        it was deleted: whoever has loaded it must not take another model for it.
    """
    file = f"{run.path}/{VERSION_FILE}"
    if not io.exists(file):
        write_json(file, max([greatest, *_numbers_in(serving)]) + 1)
    version = io.read_text(file).strip()
    if not re.fullmatch("[1-9][0-9]{0,17}", version):
        raise InputError(f"{file}: is damaged (it has no number); delete it")
    # On gs:// a version appears file by file. One that was interrupted in that is made again.
    made = f"{serving}/{version}"
    if io.exists(made) and not io.exists(f"{made}/{GRAPH_FILE}"):
        io.delete(made)
    return int(version)


def read_as(kind: type[Content], path: str) -> Content:
    """Returns the content of a JSON file of a run as a dataclass.

    Raises:
      InputError: the file cannot be read, or is damaged.
    """
    remedy = "correct it, or delete the run's folder"
    found = io.read_object(path, remedy=remedy)
    try:
        check_keys(kind, found)
    except InputError as error:
        raise InputError(f"{path}: is damaged ({error}); {remedy}") from error
    return kind(**{n: tuple(v) if isinstance(v, list) else v for n, v in found.items()})


def write_json(path: str, value: Any) -> None:
    """Writes a JSON file as a whole, and makes the folders above it.

    Raises:
      InputError: the file cannot be written.
    """
    io.write_bytes(path, f"{json.dumps(value, indent=1)}\n".encode())
