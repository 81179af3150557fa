"""Feature arrays -> serialized tf.Examples -> the bytes of a TFRecord file."""

import functools
import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import BinaryIO

import google_crc32c
import numpy as np
import pyarrow as pa
from tfx_bsl.coders import example_coder

# Records are mostly padding and small numbers: level 1 makes them a seventh of their size, and 6
# hardly less in three times the time.
GZIP_LEVEL = 1


def encode_examples(rows: Mapping[str, np.ndarray]) -> list[bytes]:
    """Serializes rows as tf.Examples, the same rows always as the same bytes.

    The encoder puts a row's features in an order that differs from call to call (they are a map),
    so each is encoded alone and they are joined in the order given.

    Args:
      rows: name -> [rows, length] array; integers become int64 lists, floats float lists.

    Returns:
      one serialized tf.Example a row.
    """
    encoder = example_coder.RecordBatchToExamplesEncoder()
    columns = []
    for name, array in rows.items():
        kind = np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32
        count, length = array.shape
        offsets = np.arange(0, (count + 1) * length, length, dtype=np.int64)
        values = np.ascontiguousarray(array, kind).reshape(-1)
        lists = pa.LargeListArray.from_arrays(offsets, values)
        examples = encoder.encode(pa.RecordBatch.from_arrays([lists], [name]))
        columns.append([example[_header_size(len(example)) :] for example in examples])
    joined = map(b"".join, zip(*columns, strict=True))
    return [_header(len(features)) + features for features in joined]


@functools.cache
def _header(size: int) -> bytes:
    """Returns what stands before a tf.Example's features: field number 1 and their size."""
    header = b"\x0a"
    while size > 0x7F:  # protocol buffers' variable-length integer
        header += bytes((size & 0x7F | 0x80,))
        size >>= 7
    return header + bytes((size,))


@functools.cache
def _header_size(example_size: int) -> int:
    """Returns the size of the header of a tf.Example that is so long in all."""
    return next(n for n in range(2, 12) if len(_header(example_size - n)) == n)


class RecordWriter:
    """Writes the TFRecord framing to any open file, keeping its size and SHA-256.

    TensorFlow's own writer knows fewer file systems than Beam and can't hash what it writes. The
    framing: length (uint64), its checksum (uint32), data, its checksum; all little-endian, the
    checksums CRC-32C, rotated and shifted (TensorFlow's core/lib/hash/crc32c.h, Mask).
    """

    def __init__(self, file: BinaryIO, compression: str = "none"):
        """Takes a file that is open for writing, and "none" or "gzip"; the caller closes it."""
        self._file = file
        # Without a name or time in the header, so that the same records are the same bytes.
        self._gzip = zlib.compressobj(GZIP_LEVEL, wbits=31) if compression == "gzip" else None
        self._sha256 = hashlib.sha256()
        self.bytes = 0

    def write(self, records: Iterable[bytes]) -> None:
        """Appends records."""
        framed = []
        for record in records:
            length = struct.pack("<Q", len(record))
            framed += (length, _checksum(length), record, _checksum(record))
        block = b"".join(framed)
        self._append(self._gzip.compress(block) if self._gzip else block)

    def finish(self) -> None:
        """Writes what compression has held back; nothing may be written after it."""
        if self._gzip:
            self._append(self._gzip.flush())

    def _append(self, block: bytes) -> None:
        self._file.write(block)
        self._sha256.update(block)
        self.bytes += len(block)

    @property
    def sha256(self) -> str:
        """Hash of all bytes written."""
        return self._sha256.hexdigest()


def _checksum(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)
