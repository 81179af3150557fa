"""What lies in a workspace: its runs and how they ended, on any file system TensorFlow knows.

No Beam here: the steps that train read it, too.
"""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from deploy.retraining import PUBLISHED, RECORDS, Retraining, Run, markers
from pipelines.console import quiet_stderr
from pipelines.errors import InputError
from pipelines.folders import UNFINISHED_ENDING

with quiet_stderr():
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
    try:
        names = tf.io.gfile.listdir(runs) if tf.io.gfile.isdir(runs) else []
    except tf.errors.OpError as error:
        raise InputError(f"{runs}: cannot be listed ({error.message.splitlines()[0]})") from error
    numbers = sorted(int(name) for name in (n.rstrip("/") for n in names) if name.isdecimal())
    published, refused, unfinished = [], [], None
    for number in numbers:
        path = f"{runs}/{number:06d}"
        if exists(f"{path}/{RESULT_FILE}"):
            result = json.loads(read_text(f"{path}/{RESULT_FILE}"))
            (published if result["outcome"] == PUBLISHED else refused).append(path)
        elif exists(f"{path}/{RUN_FILE}"):
            unfinished = Run.from_json(read_text(f"{path}/{RUN_FILE}"))
    return History(tuple(published), tuple(refused), unfinished, max(numbers, default=0))


def is_done(step: str, run: Run) -> bool:
    """Whether a step of a run is finished."""
    return any(exists(path) for path in markers(step, run))


def begin(run: Run) -> None:
    """Writes run.json, after deleting what a run that was cut in its first step left there."""
    for name in (RUN_FILE, RECORDS):  # in this order: without run.json it is no run
        path = f"{run.path}/{name}"
        if exists(path) or tf.io.gfile.isdir(path):
            (tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove)(path)
    write_json(f"{run.path}/{RUN_FILE}", dataclasses.asdict(run))


def choose_version(serving: str, run: Run) -> int:
    """Returns the version that a run makes: the next one when it is asked first, then the same.

    So a run that was killed between the export and result.json doesn't make another.
    """
    file = f"{run.path}/{VERSION_FILE}"
    if not exists(file):
        names = tf.io.gfile.listdir(serving) if is_folder(serving) else []
        there = [int(name) for name in (n.rstrip("/") for n in names) if name.isdecimal()]
        write_json(file, max(there, default=0) + 1)
    version = read_json(file)
    # On gs:// a folder is renamed file by file; one that was cut in that begins anew.
    if is_folder(f"{serving}/{version}") and tf.io.gfile.glob(
        f"{serving}/{version}.*{UNFINISHED_ENDING}"
    ):
        tf.io.gfile.rmtree(f"{serving}/{version}")
    return version


def is_folder(path: str) -> bool:
    """Whether a folder is there."""
    return tf.io.gfile.isdir(path)


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
        for path in sorted(tf.io.gfile.glob(pattern)):
            _check_manifest(path)
            written = tf.io.gfile.stat(path).mtime_nsec / 1e9
            found = Manifests(found.count + 1, max(found.newest, written))
    return found


def _check_manifest(path: str) -> None:
    try:
        files = [(of["path"], int(of["bytes"])) for of in json.loads(read_text(path))["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"manifest {path}: is half-written or none ({error}); write it again, or delete it to "
            "take what is there"
        ) from error
    for name, size in files:
        file = name if "://" in name else os.path.join(os.path.dirname(path), name)
        found = tf.io.gfile.stat(file).length if exists(file) else None
        if found != size:
            what = "is missing" if found is None else f"has {found} bytes"
            raise InputError(
                f"manifest {path}: {file} {what}, should have {size}; complete the delivery or "
                "correct the manifest"
            )


def exists(path: str) -> bool:
    """Whether a file is there.

    Raises:
      InputError: nobody can tell.
    """
    try:
        return tf.io.gfile.exists(path)
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be read ({error.message.splitlines()[0]})") from error


def read_text(path: str, what: str | None = None) -> str:
    """Reads a file.

    Args:
      path: of the file.
      what: to call it in messages, if not by its path.

    Raises:
      InputError: it can't be read.
    """
    try:
        with tf.io.gfile.GFile(path) as file:
            return file.read()
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        line = (str(error) or "unreadable").splitlines()[0]
        raise InputError(f"{what or path}: cannot be read ({line})") from error


def read_json(path: str) -> Any:
    """Reads a JSON file.

    Raises:
      InputError: it can't be read.
    """
    return json.loads(read_text(path))


def write_json(path: str, value: Any) -> None:
    """Writes a JSON file whole or not at all, and the folders above it.

    Raises:
      InputError: it can't be written.
    """
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_text(path: str, text: str) -> None:
    """Writes a file whole or not at all, and the folders above it.

    Raises:
      InputError: it can't be written.
    """
    try:
        tf.io.gfile.makedirs(os.path.dirname(path))
        aside = f"{path}.unfinished"
        with tf.io.gfile.GFile(aside, "w") as file:
            file.write(text)
        tf.io.gfile.rename(aside, path, overwrite=True)
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be written ({error.message.splitlines()[0]})") from error
