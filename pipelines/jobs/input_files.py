"""A command's input: which files match, and their bytes, decompressed."""

import bz2
import dataclasses
import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import zstandard
from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.jobs.files import STORAGE_ERRORS, open_uncompressed, reason
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import absolute

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


def open_stored(path: str) -> BinaryIO:
    """Opens a corpus file to read its bytes as they are stored; seekable.

    Raises:
      InputError: it can't be opened.
    """
    try:
        return open_uncompressed(path)
    except (*STORAGE_ERRORS, ValueError) as error:
        raise InputError(
            f"--input: {path} cannot be read ({reason(error)}); mend that or leave it out"
        ) from error


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
