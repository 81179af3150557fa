"""Decompression of input files. Pure: works on any open file."""

import bz2
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from beambert.errors import InputError

# Number of compressed bytes to read at a time.
COMPRESSED_BYTES = 1 << 16
# Greatest number of bytes to decompress at a time. Repetitive data grows more than a thousandfold.
DECOMPRESSED_BYTES = 1 << 20
# Number of compressed bytes to give to zstandard at a time, which has no such limit. A block of 128
# KiB takes four bytes or more (RFC 8878, section 3.1.1.2).
_ZSTANDARD_BYTES = 1 << 8
# Greatest window of a frame: that of `zstd --long=31`, as OSCAR and The Pile have.
_ZSTANDARD_WINDOW = 1 << 31


class _Decompressor:
    """Decompresses one stream; it has the attributes of the library's object."""

    _stream: Any

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data


class _Gzip(_Decompressor):
    """Decompresses one stream of gzip."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        piece = self._stream.decompress(data, DECOMPRESSED_BYTES)
        yield piece
        while not self._stream.eof and (
            self._stream.unconsumed_tail or len(piece) == DECOMPRESSED_BYTES
        ):
            piece = self._stream.decompress(self._stream.unconsumed_tail, DECOMPRESSED_BYTES)
            yield piece


class _Bzip2(_Decompressor):
    """Decompresses one stream of bzip2."""

    def __init__(self) -> None:
        self._stream = bz2.BZ2Decompressor()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        yield self._stream.decompress(data, DECOMPRESSED_BYTES)
        while not (self._stream.eof or self._stream.needs_input):
            yield self._stream.decompress(b"", DECOMPRESSED_BYTES)


class _Zstandard(_Decompressor):
    """Decompresses one frame of zstandard."""

    def __init__(self) -> None:
        import zstandard  # The parser of a command's flags needs no library that reads files.

        self._stream = zstandard.ZstdDecompressor(max_window_size=_ZSTANDARD_WINDOW).decompressobj()
        self._unused = b""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTANDARD_BYTES):
            yield self._stream.decompress(data[start : start + _ZSTANDARD_BYTES])
            if self._stream.eof:
                self._unused = self._stream.unused_data + data[start + _ZSTANDARD_BYTES :]
                return

    @property
    def unused_data(self) -> bytes:
        return self._unused


# Decompressors by the ending of a file's name. They exist because Beam's own decompression takes a
# file that is cut off for a complete one.
DECOMPRESSORS: dict[str, Callable[[], Any]] = {".gz": _Gzip, ".bz2": _Bzip2, ".zst": _Zstandard}


def plain_name(path: str) -> str:
    """Returns a path without the ending of a compression."""
    ending = next((ending for ending in DECOMPRESSORS if path.endswith(ending)), "")
    return path.removesuffix(ending)


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


def decompressed(path: str, data: bytes) -> bytes:
    """Returns the content of a small file, see `decompress`.

    Raises:
      InputError: the data is damaged.
    """
    try:
        return decompress(path, io.BytesIO(data)).read()
    except CorruptFileError as error:
        raise InputError(f"{path}: {error}; copy it again") from error


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
                    yield from decompressor.pieces(data)
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
