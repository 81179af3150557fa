"""Files on any file system that Beam knows: local paths, gs:// and the rest."""

import contextlib
import os
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError
from google.cloud.storage.exceptions import InvalidResponse

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import claims
from beambert.pipelines.storage.claims import MARKER_FILE, UNFINISHED_FILE

# What file systems raise; gs:// lets some of its own through Beam's.
STORAGE_ERRORS = (OSError, BeamIOError, GoogleAPICallError, GoogleAuthError, InvalidResponse)


def absolute(path: str) -> str:
    """Returns the one name of a file or folder, wherever and however a command asks for it."""
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def open_uncompressed(path: str) -> BinaryIO:
    """Opens any file as its bytes are, whatever its name ends with."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def _reason(error: Exception) -> str:
    """Returns what a person needs of a file system's exception."""
    cause = getattr(error, "exception_details", None) or {}
    for inner in (*cause.values(), error):
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
    return str(error)


def read_bytes(path: str, flag: str) -> bytes:
    """Reads a small file whole.

    Raises:
      InputError: it can't be read; names the flag it came from.
    """
    try:
        with FileSystems.open(path) as file:
            return file.read()
    except (*STORAGE_ERRORS, ValueError) as error:
        raise InputError(f"{flag}={path}: cannot be read; check the path") from error


def write_bytes(path: str, data: bytes) -> None:
    """Writes a small file: whole or not at all."""
    with open_atomically(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomically(path: str) -> Iterator[BinaryIO]:
    """Opens a file for writing that appears under its name only when it is complete.

    Raises:
      InputError: it can't be written (a full disk, no permission).
    """
    folder, name = FileSystems.split(path)
    # Beside its final name, so that the rename stays on one file system.
    unique = f"{claims.TEMPORARY_PREFIX}{uuid.uuid4().hex}-{name}"
    temporary = FileSystems.join(folder, unique)
    with create(temporary, path) as file:
        yield file
        file.close()
        FileSystems.rename([temporary], [path])


@contextlib.contextmanager
def create(path: str, name: str | None = None) -> Iterator[BinaryIO]:
    """Opens a new file for writing; deletes what was written of it where that fails.

    Args:
      path: of the file.
      name: what to call it in messages, if not by its path.

    Raises:
      InputError: it can't be written (a full disk, no permission).
    """
    try:
        make_folder(FileSystems.split(path)[0])
        with FileSystems.create(
            path, "application/octet-stream", CompressionTypes.UNCOMPRESSED
        ) as file:
            yield file
    except BaseException as error:  # also an interrupt, or what the caller raised
        delete_quietly([path])
        if not isinstance(error, STORAGE_ERRORS):
            raise
        raise InputError(
            f"{name or path}: cannot be written ({_reason(error)}); mend that or choose another "
            "--output, then give the same command again"
        ) from error


def make_folder(path: str) -> None:
    """Makes a folder where the file system has such a thing and it isn't there."""
    # Beam raises ValueError for a bucket, which is no object.
    with contextlib.suppress(FileExistsError, ValueError):
        if not FileSystems.exists(path):
            FileSystems.mkdirs(path)


def delete_quietly(paths: Sequence[str]) -> None:
    """Deletes what exists of `paths`."""
    with contextlib.suppress(*STORAGE_ERRORS):
        FileSystems.delete([path for path in paths if FileSystems.exists(path)])


def list_folder(path: str) -> list[str]:
    """Returns the names directly in a folder; none if it isn't there.

    Raises:
      InputError: the path of a store has a character that stands for others in a pattern.
    """
    if "://" not in path:
        return sorted(os.listdir(path)) if os.path.isdir(path) else []
    if set(path) & set("*?["):
        raise InputError(f"--output={path}: must not contain *, ? or [; choose another")
    try:
        (result,) = FileSystems.match([FileSystems.join(path, "*")])
    except STORAGE_ERRORS:
        return []
    return sorted(FileSystems.split(m.path.rstrip("/"))[1] for m in result.metadata_list)


def claim_output(folder: str, job: Mapping[str, Any]) -> bool:
    """Makes an output folder ours before anything is spent; see `claims.is_finished`.

    Raises:
      InputError: it holds something else or can't be made.
    """

    def read(name: str) -> bytes:
        return read_bytes(FileSystems.join(folder, name), "--output")

    if claims.is_finished(folder, list_folder(folder), read, job, "--output"):
        return True
    write_bytes(FileSystems.join(folder, UNFINISHED_FILE), claims.serialize_job(job))
    return False


def reopen_output(folder: str, job: Mapping[str, Any]) -> None:
    """Takes the marker from a folder that is to be filled again."""
    write_bytes(FileSystems.join(folder, UNFINISHED_FILE), claims.serialize_job(job))
    delete_quietly([FileSystems.join(folder, MARKER_FILE)])


def finish_output(folder: str, job: Mapping[str, Any]) -> None:
    """Marks an output folder as complete; nothing may be written into it afterwards."""
    write_bytes(FileSystems.join(folder, MARKER_FILE), claims.serialize_job(job))
    delete_quietly([FileSystems.join(folder, UNFINISHED_FILE)])
    delete_prefixed(folder, claims.TEMPORARY_PREFIX)


def delete_prefixed(folder: str, prefix: str) -> None:
    """Deletes the files directly in a folder whose names start so."""
    names = [name for name in list_folder(folder) if name.startswith(prefix)]
    delete_quietly([FileSystems.join(folder, name) for name in names])


def refuse_others(folder: str, expected: Collection[str]) -> None:
    """Refuses a folder that holds anything but some names.

    Raises:
      InputError: it does.
    """
    for name in list_folder(folder):
        if name not in expected and not name.startswith(claims.TEMPORARY_PREFIX):
            raise InputError(
                f"--output={folder}: already holds something else ({name} …); choose another"
            )
