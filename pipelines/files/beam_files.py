"""Files on any file system that Beam knows, such as local paths and gs://."""

# `pipelines.storage.tensorflow_files` does the same through TensorFlow. The project needs both.
# Beam also reads s3:// and hdfs://, and its commands and Dataflow's workers start without
# TensorFlow, which takes seconds to load. The hosts that train have no Beam. Functions of the same
# name behave the same in both modules, and both raise the error of `claims.refusal`.

import contextlib
import errno
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from apache_beam.io.aws.clients.s3.messages import S3ClientError
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from google.api_core.exceptions import GoogleAPIError
from google.auth.exceptions import GoogleAuthError
from google.cloud.storage.exceptions import InvalidResponse

from beambert.errors import InputError, LostClaimError
from beambert.pipelines.files.ranged_files import read_gs
from beambert.pipelines.storage import claims
from beambert.pipelines.storage.claims import MARKER_FILE, UNFINISHED_FILE
from beambert.pipelines.storage.given_paths import has_wildcard


def _errors_of_clients() -> Iterator[type[Exception]]:
    """Yields the exceptions of the clients for hdfs:// and s3:// that are installed.

    Beam has loaded these clients if they are there, and passes on their exceptions.
    """
    for module, name in (("hdfs", "HdfsError"), ("botocore.exceptions", "BotoCoreError")):
        if module in sys.modules:
            yield getattr(sys.modules[module], name)


# The exceptions of file systems. Beam's own ones pass on some of the libraries beneath them.
STORAGE_ERRORS = (
    *(OSError, BeamIOError, GoogleAPIError, GoogleAuthError, InvalidResponse, S3ClientError),
    *_errors_of_clients(),
)


# Failures that may be gone at the next try, besides the server's own: too slow, too many.
_PASSING_STATUSES = (408, 429)
_PASSING_NUMBERS = (errno.EAGAIN, errno.EHOSTUNREACH, errno.EIO, errno.ENETUNREACH, errno.ESTALE)
# Python's exceptions and those of the clients have the same names.
_PASSING_ERRORS = ("ConnectionError", "RetryError", "Timeout", "TimeoutError", "TransportError")
# Number of bytes of a small file to read at a time.
BYTES_AT_A_TIME = 1 << 24


def open_uncompressed(path: str) -> BinaryIO:
    """Opens a file to read its bytes as stored, even if its name says that it is compressed."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def read_range(path: str, start: int, size: int) -> bytes:
    """Returns some bytes of a file as stored, with one request on gs://.

    Args:
      path: path of the file.
      start: position of the first byte.
      size: number of bytes; the file must have them.

    Raises:
      EOFError: the file ends earlier.
    """
    if not size:
        return b""
    if path.startswith("gs://"):
        data = read_gs(path, start, size)
    else:
        with open_uncompressed(path) as file:
            file.seek(start)
            data = file.read(size)
    if len(data) < size:
        raise EOFError(f"{path}: ends at byte {start + len(data)} of {start + size}")
    return data


def reason(error: Exception) -> str:
    """Returns the part of a file system's exception that helps a user."""
    # Beam's own exceptions hold the original ones in a dictionary, by path.
    for inner in (getattr(error, "exception_details", None) or {}).values():
        if isinstance(inner, Exception):
            return reason(inner)
    if isinstance(error, InvalidResponse):  # Its text is a tuple's, with all allowed statuses.
        return " ".join(map(str, error.args[:2]))
    return getattr(error, "strerror", None) or str(error)


def may_pass(error: BaseException | None) -> bool:
    """Returns whether a failure of storage may be gone when the work is tried again.

    Args:
      error: exception of a file system or its client; None for what no storage has caused.
    """
    for inner in (getattr(error, "exception_details", None) or {}).values():
        if isinstance(inner, Exception):
            return may_pass(inner)
    status = getattr(error, "code", None)
    if isinstance(error, InvalidResponse):
        status = error.response.status_code
    is_missing = status == 404 or isinstance(error, FileNotFoundError)
    if is_missing and claims.TEMPORARY_PREFIX in str(error):
        return True  # Another attempt at the same work has ended, and its command has tidied up.
    names = {kind.__name__ for kind in type(error).__mro__}
    return (
        (isinstance(status, int) and (status in _PASSING_STATUSES or status >= 500))
        or not names.isdisjoint(_PASSING_ERRORS)
        or (isinstance(error, OSError) and error.errno in _PASSING_NUMBERS)
    )


def read_bytes(path: str, flag: str = "") -> bytes:
    """Returns the content of a small file, decompressed if its name says that it is compressed.

    Args:
      path: path of the file.
      flag: flag that names the file, for messages.

    Raises:
      InputError: the file cannot be read, or is no regular file.
    """
    claims.check_regular(path, flag)
    try:
        with FileSystems.open(path) as file:
            # To a call without a size Beam gives at most 16 MiB of a compressed file.
            return b"".join(iter(lambda: file.read(BYTES_AT_A_TIME), b""))
    except (*STORAGE_ERRORS, ValueError) as error:
        raise claims.refusal(
            claims.named(path, flag), "read", reason(error), "check the path"
        ) from error


def write_bytes(path: str, data: bytes) -> None:
    """Writes a small file completely or not at all.

    Raises:
      InputError: the file cannot be written.
    """
    with open_atomically(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomically(path: str) -> Iterator[BinaryIO]:
    """Opens a file for writing. It gets its name only when it is complete.

    Raises:
      InputError: the file cannot be written, for example because the disk is full.
    """
    temporary = claims.aside(path)
    with create(temporary, path) as file:
        yield file
        _close(file, temporary)
        rename(temporary, path)


def rename(path: str, new: str) -> None:
    """Gives a file another name. A file that has that name already is replaced.

    Raises:
      BeamIOError: the file cannot be renamed.
    """
    try:
        FileSystems.rename([path], [new])
    except BeamIOError:
        # HDFS refuses a name that is taken, perhaps by a worker that was too slow.
        if "://" not in new or not (FileSystems.exists(path) and FileSystems.exists(new)):
            raise
        FileSystems.delete([new])
        FileSystems.rename([path], [new])


@contextlib.contextmanager
def create(path: str, name: str | None = None) -> Iterator[BinaryIO]:
    """Opens a new file for writing, and deletes it on any failure.

    Args:
      path: path of the file.
      name: name of the file in messages (default: its path).

    Raises:
      InputError: the file cannot be written, for example because the disk is full.
    """
    try:
        make_folder(FileSystems.split(path)[0])
        with FileSystems.create(
            path, "application/octet-stream", CompressionTypes.UNCOMPRESSED
        ) as file:
            try:
                yield file
            finally:
                _close(file, path)
    except BaseException as error:  # This includes an interrupt and errors of the caller.
        delete_quietly([path])
        if not isinstance(error, STORAGE_ERRORS):
            raise
        remedy = "mend that or choose another --output, then give the same command again"
        raise claims.refusal(name or path, "written", reason(error), remedy) from error


def _close(file: BinaryIO, path: str) -> None:
    if path.startswith("s3://") and not file.closed and not file.tell():
        # S3 completes no upload without a part, and Beam makes none for an empty file.
        file.raw._uploader._write_to_s3(b"")
    file.close()


def make_folder(path: str) -> None:
    """Makes a folder unless it exists. On object storage, which has no folders, it does nothing."""
    # Beam raises ValueError for the path of a bucket, which is no object.
    with contextlib.suppress(FileExistsError, ValueError):
        if not FileSystems.exists(path):
            FileSystems.mkdirs(path)


def delete_quietly(paths: Sequence[str]) -> None:
    """Deletes files, and ignores failures, such as that of a file that does not exist."""
    with contextlib.suppress(*STORAGE_ERRORS):
        if paths and paths[0].startswith("gs://"):
            # Beam would list each of the objects before, instead of a request for a hundred.
            FileSystems.get_filesystem(paths[0])._gcsIO().delete_batch(list(paths))
        else:
            FileSystems.delete(list(paths))


def list_folder(path: str) -> list[str]:
    """Returns the sorted names of the files and folders in a folder; none if it doesn't exist.

    Raises:
      InputError: the folder cannot be listed, or a path on object storage has a wildcard character.
    """
    if "://" in path and has_wildcard(path):
        raise InputError(f"--output={path}: must not contain *, ? or [; choose another")
    try:
        if "://" not in path:
            return sorted(os.listdir(path)) if os.path.isdir(path) else []
        (result,) = FileSystems.match([FileSystems.join(path, "*")])
    except STORAGE_ERRORS as error:
        # HDFS raises an error for a missing folder. A bucket, which has no folders, has no reason.
        if not path.startswith("gs://") and _is_missing(path):
            return []
        raise claims.refusal(path, "listed", reason(error)) from error
    return sorted(FileSystems.split(m.path.rstrip("/"))[1] for m in result.metadata_list)


def _is_missing(path: str) -> bool:
    try:
        return not FileSystems.exists(path)
    except STORAGE_ERRORS:
        return False


def claim_output(
    folder: str,
    job: Mapping[str, Any],
    flags_of: claims.FlagsOf = (),
    inner: Collection[str] = (),
) -> bool:
    """Marks an output folder as the job's before any work is done; see `claims.is_finished`.

    Args:
      folder: path of the folder.
      job: everything that decides the output.
      flags_of: the flags behind the values of the job, for messages.
      inner: names of folders in it that have claims of their own.

    Returns:
      True if the same job has finished there already, and there is nothing to do.

    Raises:
      InputError: the folder holds something else, or cannot be made.
    """

    def read(name: str) -> bytes:
        return read_bytes(FileSystems.join(folder, name), "--output")

    if os.path.isfile(folder):
        raise InputError(f"--output={folder}: is a file; name a folder to make")
    names = [name for name in list_folder(folder) if name not in inner]
    if claims.is_finished(folder, names, read, job, "--output", flags_of):
        return True
    write_bytes(FileSystems.join(folder, UNFINISHED_FILE), claims.serialize_job(job))
    return False


def check_claimed(folder: str, job: Mapping[str, Any]) -> None:
    """Checks on a worker that an output folder is still the job's.

    A cluster may go on with a job whose command has failed and has given the folder back.

    Raises:
      LostClaimError: the folder is gone, or another job's.
    """
    for name in (UNFINISHED_FILE, MARKER_FILE):
        with contextlib.suppress(InputError, *STORAGE_ERRORS):
            if read_bytes(FileSystems.join(folder, name)) == claims.serialize_job(job):
                return
    raise LostClaimError(f"--output={folder}: isn't this job's any more; its command has ended")


def reopen_output(folder: str, job: Mapping[str, Any]) -> None:
    """Marks a finished output folder as unfinished, before it is filled again."""
    write_bytes(FileSystems.join(folder, UNFINISHED_FILE), claims.serialize_job(job))
    delete_quietly([FileSystems.join(folder, MARKER_FILE)])


def finish_output(folder: str, job: Mapping[str, Any]) -> None:
    """Marks an output folder as complete. Nothing may be written into it afterwards."""
    write_bytes(FileSystems.join(folder, MARKER_FILE), claims.serialize_job(job))
    delete_quietly([FileSystems.join(folder, UNFINISHED_FILE)])
    delete_prefixed(folder, claims.TEMPORARY_PREFIX)


def delete_prefixed(folder: str, prefix: str) -> None:
    """Deletes the files in a folder whose names start with a prefix."""
    names = [
        name
        for name in list_folder(folder)
        if name.startswith(prefix) and not name.startswith(claims.LOCK_PREFIX)
    ]
    delete_quietly([FileSystems.join(folder, name) for name in names])


def refuse_others(folder: str, expected: Collection[str]) -> None:
    """Refuses a folder that holds other names than the expected ones.

    Raises:
      InputError: the folder holds another name.
    """
    for name in list_folder(folder):
        if name not in expected and not claims.is_aside(name):
            raise InputError(
                f"--output={folder}: already holds something else ({name} …); choose another "
                "or delete it"
            )
