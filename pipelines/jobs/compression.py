"""Decompression of input files. Pure: works on any open file."""

import bz2
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO


def _zstandard_decompressor() -> Any:
    import zstandard  # The parser of a command's flags needs no library that reads files.

    return zstandard.ZstdDecompressor().decompressobj()


# Decompressors by the ending of a file's name. They exist because Beam's own decompression takes a
# file that is cut off for a complete one.
DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".zst": _zstandard_decompressor,
}
# Number of compressed bytes to read at a time. Highly repetitive data grows a thousandfold.
COMPRESSED_BYTES = 1 << 16


class CorruptFileError(Exception):
    """A file is damaged or cut off; what comes before that place may have been read already."""


def _errors_of_damage() -> tuple[type[Exception], ...]:
    import zstandard

    return OSError, zlib.error, zstandard.ZstdError


def decompress(path: str, stored: BinaryIO, end: int | None = None) -> BinaryIO:
    """Returns the content of a file, decompressed if its name has one of the known endings.

    Args:
      path: name of the file.
      stored: the open file, at the start of a stream of compressed data.
      end: position in the file at which to stop, the end of a stream; None for the end of the file.

    Returns:
      An open file. Reading from it may raise `CorruptFileError`. It isn't seekable if the data is
      compressed.
    """
    for ending, new_decompressor in DECOMPRESSORS.items():
        if path.endswith(ending):
            return io.BufferedReader(_Decompressed(stored, new_decompressor, end), 1 << 20)
    return stored


class _Decompressed(io.RawIOBase):
    """The content of a compressed file, which consists of one or more complete streams.

    It leaves the file open at the end, because the caller asks the file for its position.
    """

    def __init__(self, file: BinaryIO, new_decompressor: Callable[[], Any], end: int | None):
        self._file = file
        self._end = end
        self._new_decompressor = new_decompressor
        self._chunks = self._decompress()
        self._rest = memoryview(b"")

    def _decompress(self) -> Iterator[bytes]:
        # An empty file is cut off, too: even compressed data without content has some bytes.
        is_cut_off, decompressor = True, None
        while data := self._file.read(self._bytes_wanted()):
            # The gzip format allows zeros after a stream.
            while data := data if decompressor else data.lstrip(b"\0"):
                decompressor = decompressor or self._new_decompressor()
                try:
                    yield decompressor.decompress(data)
                except _errors_of_damage() as error:
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
