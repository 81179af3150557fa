"""Files on any file system that Beam knows: local paths, gs:// and the rest."""

import contextlib
import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from pipelines import folders
from pipelines.errors import InputError
from pipelines.records import MARKER_FILE, UNFINISHED_FILE


@dataclasses.dataclass(frozen=True)
class InputFile:
    """A file to read.

    Attributes:
      path: local or gs://.
      bytes: its size as stored.
      modified: seconds since 1970, 0 where the file system doesn't tell.
    """

    path: str
    bytes: int
    modified: float = 0.0

    @property
    def is_compressed(self) -> bool:
        """Whether its ending says so; such files are decompressed as they are read."""
        return self.path.endswith((".gz", ".bz2", ".zst", ".deflate"))


def match_inputs(patterns: Sequence[str]) -> list[InputFile]:
    """Lists the files that match any of the patterns, once each, by name.

    Raises:
      InputError: a pattern matches nothing.
    """
    found: dict[str, InputFile] = {}
    for pattern in patterns:
        try:
            (result,) = FileSystems.match([pattern])
            matched = [m for m in result.metadata_list if m.size_in_bytes is not None]
        except (BeamIOError, ValueError) as error:
            raise InputError(f"--input={pattern}: cannot be listed ({error})") from error
        if not matched:
            raise InputError(f"--input={pattern}: no file matches; check the path and the quotes")
        for m in matched:
            modified = m.last_updated_in_seconds or 0.0
            found[m.path] = InputFile(m.path, m.size_in_bytes, modified)
    return [found[path] for path in sorted(found)]


def read_bytes(path: str, flag: str) -> bytes:
    """Reads a small file whole.

    Raises:
      InputError: it can't be read; names the flag it came from.
    """
    try:
        with FileSystems.open(path) as file:
            return file.read()
    except (OSError, BeamIOError, ValueError) as error:
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
    temporary_folder = FileSystems.join(folder, folders.TEMPORARY_FOLDER)
    temporary = FileSystems.join(temporary_folder, f"{uuid.uuid4().hex}-{name}")
    try:
        make_folder(temporary_folder)
        with FileSystems.create(temporary, "application/octet-stream") as file:
            yield file
        FileSystems.rename([temporary], [path])
    except (OSError, BeamIOError) as error:
        with contextlib.suppress(OSError, BeamIOError):
            FileSystems.delete([temporary])
        raise InputError(
            f"{path}: cannot be written ({error}); mend that or choose another --output, "
            "then give the same command again"
        ) from error


def make_folder(path: str) -> None:
    """Makes a folder where the file system has such a thing and it isn't there."""
    with contextlib.suppress(FileExistsError):
        if not FileSystems.exists(path):
            FileSystems.mkdirs(path)


def delete_quietly(paths: Sequence[str]) -> None:
    """Deletes what exists of `paths`."""
    with contextlib.suppress(OSError, BeamIOError):
        FileSystems.delete([path for path in paths if FileSystems.exists(path)])


def list_folder(path: str) -> list[str]:
    """Returns the names directly in a folder; none if it isn't there."""
    try:
        (result,) = FileSystems.match([FileSystems.join(path, "*")])
    except BeamIOError:
        return []
    return sorted(FileSystems.split(m.path.rstrip("/"))[1] for m in result.metadata_list)


def claim_output(folder: str, job: Mapping[str, Any]) -> bool:
    """Makes an output folder ours before anything is spent; see `folders.is_finished`.

    Raises:
      InputError: it holds something else or can't be made.
    """

    def read(name: str) -> bytes:
        return read_bytes(FileSystems.join(folder, name), "--output")

    if folders.is_finished(folder, list_folder(folder), read, job, "--output"):
        return True
    write_bytes(FileSystems.join(folder, UNFINISHED_FILE), folders.serialize_job(job))
    return False


def finish_output(folder: str, job: Mapping[str, Any]) -> None:
    """Marks an output folder as complete; nothing may be written into it afterwards."""
    write_bytes(FileSystems.join(folder, MARKER_FILE), folders.serialize_job(job))
    delete_quietly(
        [FileSystems.join(folder, name) for name in (UNFINISHED_FILE, folders.TEMPORARY_FOLDER)]
    )
