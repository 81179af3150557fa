"""What lies in a workspace: its runs and how they ended, on any file system TensorFlow knows.

No Beam here: the steps that train read it, too.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from beambert.deploy.retraining.runs import PUBLISHED, RECORDS, REFUSED, Retraining, Run, markers
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.storage.claims import UNFINISHED_ENDING
from beambert.pipelines.storage.tensorflow_files import _told, exists, read_text, write_text

with loading():
    import tensorflow as tf
RUN_FILE = "run.json"
RESULT_FILE = "result.json"
VERSION_FILE = "version.json"


@dataclasses.dataclass(frozen=True)
class History:
    """The runs of a workspace, oldest first.

    Attributes:
      published: folders of those whose model was served.
      refused: folders of those whose model was not.
      open: the run that has no result yet, if any.
      last: the number of the newest run, 0 before the first.
    """

    published: tuple[str, ...]
    refused: tuple[str, ...]
    open: Run | None
    last: int


def read_config(path: str) -> Retraining:
    """Reads a configuration.

    Raises:
      InputError: it can't be read or isn't one.
    """
    return Retraining.from_toml(read_text(path, f"--config={path}"), path)


def read_history(workspace: str) -> History:
    """Reads how the runs of a workspace ended.

    Raises:
      InputError: it can't be read.
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
    """Returns the numbers that are names in a folder, in order; none if it isn't there."""
    with _told(folder, "listed"):
        # Not `isdir`, which says no where the storage can't be reached: a run would begin anew.
        names = tf.io.gfile.listdir(folder) if tf.io.gfile.exists(folder) else []
    return sorted(int(name) for name in (n.rstrip("/") for n in names) if name.isdecimal())


def is_done(step: str, run: Run) -> bool:
    """Whether a step of a run is finished."""
    return any(exists(path) for path in markers(step, run))


def begin(run: Run) -> None:
    """Writes run.json, after deleting what a run that was cut in its first step left there."""
    file, records = f"{run.path}/{RUN_FILE}", run.folder(RECORDS)
    with _told(run.path, "emptied"):
        if tf.io.gfile.exists(file):  # first: without it it is no run
            tf.io.gfile.remove(file)
        if tf.io.gfile.exists(records):
            tf.io.gfile.rmtree(records)
    write_json(file, dataclasses.asdict(run))


def choose_version(serving: str, run: Run) -> int:
    """Returns the version that a run makes: the next one when it is asked first, then the same.

    So a run that was killed between the export and result.json doesn't make another.
    """
    file = f"{run.path}/{VERSION_FILE}"
    if not exists(file):
        write_json(file, max(_numbers_in(serving), default=0) + 1)
    version = read_json(file)
    # On gs:// a folder is renamed file by file; one that was cut in that begins anew.
    with _told(f"{serving}/{version}", "deleted"):
        cut = tf.io.gfile.glob(f"{serving}/{version}.*{UNFINISHED_ENDING}")
        if cut and tf.io.gfile.exists(f"{serving}/{version}"):
            tf.io.gfile.rmtree(f"{serving}/{version}")
    return version


@dataclasses.dataclass(frozen=True)
class Manifests:
    """Deliveries that are complete.

    Attributes:
      count: how many.
      newest: when the last one was written, in seconds since 1970.
    """

    count: int = 0
    newest: float = 0.0


def check_manifests(patterns: Sequence[str]) -> Manifests:
    """Checks that deliveries are complete.

    A manifest is `{"files": [{"path": …, "bytes": …}, …]}`, paths beside it or full, written when
    all of them are there.

    Raises:
      InputError: a manifest is half-written, or a file that it names is missing or of another size.
    """
    found = Manifests()
    for pattern in patterns:
        with _told(pattern, "listed"):
            paths = sorted(tf.io.gfile.glob(pattern))
        for path in paths:
            _check_manifest(path)
            with _told(path, "read"):
                written = tf.io.gfile.stat(path).mtime_nsec / 1e9
            found = Manifests(found.count + 1, max(found.newest, written))
    return found


def _check_manifest(path: str) -> None:
    try:
        found = json.loads(read_text(path))["files"]
        files = [(os.fspath(of["path"]), int(of["bytes"])) for of in found]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"manifest {path}: is half-written or none ({error}); write it again, or delete it to "
            "take what is there"
        ) from error
    for name, size in files:
        file = name if "://" in name else os.path.join(os.path.dirname(path), name)
        with _told(file, "read"):
            there = tf.io.gfile.stat(file).length if tf.io.gfile.exists(file) else None
        if there != size:
            what = "is missing" if there is None else f"has {there} bytes"
            raise InputError(
                f"manifest {path}: {file} {what}, should have {size}; complete the delivery or "
                "correct the manifest"
            )


def read_json(path: str) -> Any:
    """Reads a JSON file.

    Raises:
      InputError: it can't be read.
    """
    with _undamaged(path):
        return json.loads(read_text(path))


def write_json(path: str, value: Any) -> None:
    """Writes a JSON file whole or not at all, and the folders above it.

    Raises:
      InputError: it can't be written.
    """
    write_text(path, json.dumps(value, indent=1) + "\n")


@contextlib.contextmanager
def _undamaged(path: str) -> Iterator[None]:
    """Says in a sentence that a file of ours isn't as it was written."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: is damaged ({type(error).__name__}: {error}); mend it, or delete the run's "
            "folder"
        ) from error
