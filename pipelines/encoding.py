"""Feature arrays -> serialized tf.Examples -> the bytes of a TFRecord file."""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import BinaryIO

import google_crc32c
import numpy as np
import pyarrow as pa
from tfx_bsl.coders import example_coder


def encode_examples(rows: Mapping[str, np.ndarray]) -> list[bytes]:
    """Serializes rows as tf.Examples.

    Args:
      rows: name -> [rows, length] array; integers become int64 lists, floats float lists.

    Returns:
      one serialized tf.Example a row.
    """
    columns = {}
    for name, array in rows.items():
        kind = np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32
        count, length = array.shape
        offsets = np.arange(0, (count + 1) * length, length, dtype=np.int64)
        values = np.ascontiguousarray(array, kind).reshape(-1)
        columns[name] = pa.LargeListArray.from_arrays(offsets, values)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    return example_coder.RecordBatchToExamplesEncoder().encode(batch)


class RecordWriter:
    """Writes the TFRecord framing to any open file, keeping its size and SHA-256.

    TensorFlow's own writer knows fewer file systems than Beam and can't hash what it writes. The
    framing: length (uint64), its checksum (uint32), data, its checksum; all little-endian, the
    checksums CRC-32C, rotated and shifted (TensorFlow's core/lib/hash/crc32c.h, Mask).
    """

    def __init__(self, file: BinaryIO):
        """Takes a file that is open for writing; the caller closes it."""
        self._file = file
        self._sha256 = hashlib.sha256()
        self.bytes = 0

    def write(self, records: Iterable[bytes]) -> None:
        """Appends records."""
        framed = []
        for record in records:
            length = struct.pack("<Q", len(record))
            framed += (length, _checksum(length), record, _checksum(record))
        block = b"".join(framed)
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
