"""TFRecord files on any file system that Beam knows -> records. Every checksum is checked."""

import gzip
import hashlib
import io
import itertools
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beambert.errors import InputError
from beambert.pipelines.files.beam_files import STORAGE_ERRORS

_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
# First bytes of a gzip stream. As the length of a record they would mean half a megabyte and more.
_GZIP_START = b"\x1f\x8b\x08"
# A tf.Example has less: protocol buffers of 2 GiB and more cannot be read.
_MOST_BYTES = (1 << 31) - 1
# Number of bytes of a record that are allocated before they are read.
_BYTES_AT_A_TIME = 1 << 24


class CorruptRecordsError(Exception):
    """A record file is damaged or cut off."""


class HashedFile(io.RawIOBase):
    """A file that hashes and counts the bytes that are read from it."""

    def __init__(self, file: BinaryIO):
        """Takes a file that is open for reading."""
        self._file = file
        self._sha256 = hashlib.sha256()
        self.bytes = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: memoryview) -> int:
        """Reads into a buffer and returns the number of bytes."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._sha256.update(data)
        self.bytes += len(data)
        return len(data)

    @property
    def sha256(self) -> str:
        """Hash of the bytes read so far."""
        return self._sha256.hexdigest()


def open_hashed(path: str) -> HashedFile:
    """Opens a file to read its bytes as stored.

    Raises:
      InputError: the file cannot be opened.
    """
    try:
        return HashedFile(FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))
    except (*STORAGE_ERRORS, ValueError) as error:
        raise InputError(f"{path}: cannot be read; check the path and permissions") from error


def read_records(file: io.BufferedReader) -> Iterator[bytes]:
    """Yields the records of a TFRecord file, plain or gzip, and checks every checksum.

    Raises:
      CorruptRecordsError: a record cannot be read; the message has its number. No record after it
        is read.
    """
    if file.peek(3)[:3] == _GZIP_START:
        file = io.BufferedReader(gzip.GzipFile(fileobj=file), 1 << 20)
    for number in itertools.count(1):
        try:
            header = file.read(_LENGTH.size)
            if not header:
                return
            yield _read_record(file, header, number)
        except (EOFError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
                raise  # the disk or the network failed; the file may be in order
            raise CorruptRecordsError(f"the gzip data is damaged at record {number}") from error


def _read_record(file: io.BufferedReader, header: bytes, number: int) -> bytes:
    if len(header) < _LENGTH.size:
        raise CorruptRecordsError(f"cut off in record {number}")
    size, checksum = _LENGTH.unpack(header)
    if _masked_crc(header[:8]) != checksum:
        raise CorruptRecordsError(
            "not a TFRecord file, or damaged in its first bytes"
            if number == 1
            else f"damaged in the length of record {number}"
        )
    if size > _MOST_BYTES:
        raise CorruptRecordsError(
            f"record {number} claims to have {size:,} bytes, more than any tf.Example"
        )
    record, trailer = _read(file, size), file.read(_CHECKSUM.size)
    if len(trailer) < _CHECKSUM.size:
        raise CorruptRecordsError(f"cut off in record {number}")
    if _masked_crc(record) != _CHECKSUM.unpack(trailer)[0]:
        raise CorruptRecordsError(f"damaged in record {number}")
    return record


def _read(file: io.BufferedReader, size: int) -> bytes:
    """Returns the next bytes of a file, fewer at its end; it allocates no more than there are."""
    if size <= _BYTES_AT_A_TIME:
        return file.read(size)
    pieces = []
    while size and (piece := file.read(min(size, _BYTES_AT_A_TIME))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _masked_crc(data: bytes) -> int:
    # TensorFlow's core/lib/hash/crc32c.h, Mask. It is written again here, since the writer's own
    # function would not notice its own mistake.
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
