"""Files on any file system that Beam knows: local paths, gs:// and the rest."""

import bz2
import contextlib
import dataclasses
import io
import os
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import zstandard
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError
from google.cloud.storage.exceptions import InvalidResponse

from pipelines import folders
from pipelines.errors import InputError
from pipelines.records import MARKER_FILE, UNFINISHED_FILE

# What file systems raise; gs:// lets some of its own through Beam's.
STORAGE_ERRORS = (OSError, BeamIOError, GoogleAPICallError, GoogleAuthError, InvalidResponse)
# By a file's ending. Beam's own decompression takes a file that is cut off for a complete one.
DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".zst": lambda: zstandard.ZstdDecompressor().decompressobj(),
}
# Compressed bytes to read at a time; highly repetitive ones may grow a thousandfold.
COMPRESSED_BYTES = 1 << 16


class CorruptFileError(Exception):
    """A compressed file that is damaged or cut off, from some point on."""


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
        return self.path.endswith(tuple(DECOMPRESSORS))


def match_inputs(patterns: Sequence[str]) -> list[InputFile]:
    """Lists the files that match any of the patterns, once each, by name.

    Raises:
      InputError: a pattern matches nothing, or is a folder.
    """
    found: dict[str, InputFile] = {}
    for pattern in patterns:
        if os.path.isdir(pattern):
            raise InputError(
                f"--input={pattern}: is a folder; name its files: '{pattern.rstrip('/')}/*'"
            )
        try:
            (result,) = FileSystems.match([pattern])
            matched = [m for m in result.metadata_list if m.size_in_bytes is not None]
        except (*STORAGE_ERRORS, ValueError) as error:
            raise InputError(f"--input={pattern}: cannot be listed ({error})") from error
        if not matched:
            raise InputError(f"--input={pattern}: no file matches; check the path and the quotes")
        for m in matched:
            modified = m.last_updated_in_seconds or 0.0
            path = absolute(m.path)
            found[path] = InputFile(path, m.size_in_bytes, modified)
    return [found[path] for path in sorted(found)]


def absolute(path: str) -> str:
    """Returns the one name of a file or folder, wherever and however a command asks for it."""
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def open_stored(path: str) -> BinaryIO:
    """Opens a corpus file to read its bytes as they are stored; seekable.

    Raises:
      InputError: it can't be opened.
    """
    try:
        return open_uncompressed(path)
    except (*STORAGE_ERRORS, ValueError) as error:
        raise InputError(
            f"--input: {path} cannot be read ({_reason(error)}); mend that or leave it out"
        ) from error


def open_uncompressed(path: str) -> BinaryIO:
    """Opens any file as its bytes are, whatever its name ends with."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def decompress(path: str, stored: BinaryIO, end: int | None = None) -> BinaryIO:
    """Returns what a corpus file holds, decompressed if its name says so.

    Args:
      path: of the file.
      stored: the file, open where a stream of compressed data starts.
      end: where to stop in it, which is also the end of a stream; None for its end.

    Returns:
      a file; reading from it may raise `CorruptFileError`. Not seekable if it was compressed.
    """
    for ending, new_decompressor in DECOMPRESSORS.items():
        if path.endswith(ending):
            return io.BufferedReader(_Decompressed(stored, new_decompressor, end), 1 << 20)
    return stored


def _reason(error: Exception) -> str:
    """Returns what a person needs of a file system's exception."""
    cause = getattr(error, "exception_details", None) or {}
    for inner in (*cause.values(), error):
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
    return str(error)


class _Decompressed(io.RawIOBase):
    """The content of a compressed file of one or more streams, none of them cut off.

    Leaves the file open, as does reading a plain one to its end: whoever opened it wants to know
    how far it was read.
    """

    def __init__(self, file: BinaryIO, new_decompressor: Callable[[], Any], end: int | None):
        self._file = file
        self._end = end
        self._new_decompressor = new_decompressor
        self._chunks = self._decompress()
        self._rest = memoryview(b"")

    def _decompress(self) -> Iterator[bytes]:
        # Even of nothing the compressed data is some bytes.
        is_cut_off, decompressor = True, None
        while data := self._file.read(self._bytes_wanted()):
            # gzip allows zeros after a stream.
            while data := data if decompressor else data.lstrip(b"\0"):
                decompressor = decompressor or self._new_decompressor()
                try:
                    yield decompressor.decompress(data)
                except (OSError, zlib.error, zstandard.ZstdError) as error:
                    raise CorruptFileError(f"the compressed data is damaged: {error}") from error
                data, is_cut_off = b"", not decompressor.eof
                if decompressor.eof:
                    data, decompressor = decompressor.unused_data, None
        if is_cut_off:
            raise CorruptFileError("the compressed data is cut off")

    def _bytes_wanted(self) -> int:
        if self._end is None:
            return COMPRESSED_BYTES
        return min(COMPRESSED_BYTES, self._end - self._file.tell())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


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
    unique = f"{folders.TEMPORARY_PREFIX}{uuid.uuid4().hex}-{name}"
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


def reopen_output(folder: str, job: Mapping[str, Any]) -> None:
    """Takes the marker from a folder that is to be filled again."""
    write_bytes(FileSystems.join(folder, UNFINISHED_FILE), folders.serialize_job(job))
    delete_quietly([FileSystems.join(folder, MARKER_FILE)])


def finish_output(folder: str, job: Mapping[str, Any]) -> None:
    """Marks an output folder as complete; nothing may be written into it afterwards."""
    write_bytes(FileSystems.join(folder, MARKER_FILE), folders.serialize_job(job))
    delete_quietly([FileSystems.join(folder, UNFINISHED_FILE)])
    delete_prefixed(folder, folders.TEMPORARY_PREFIX)


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
        if name not in expected and not name.startswith(folders.TEMPORARY_PREFIX):
            raise InputError(
                f"--output={folder}: already holds something else ({name} …); choose another"
            )
