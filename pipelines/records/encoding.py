"""Feature arrays -> serialized tf.Examples -> the bytes of a TFRecord file."""

import functools
import hashlib
import itertools
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import BinaryIO

import google_crc32c
import numpy as np

# Level 1 makes records a third as large. Level 6 would make them 7 % smaller still, in twice the
# time.
GZIP_LEVEL = 1


def encode_examples(rows: Mapping[str, np.ndarray]) -> list[bytes]:
    """Serializes rows as tf.Examples. The same rows always become the same bytes.

    The general encoders do not serve here. TensorFlow's is slow, and tfx-bsl's puts the features,
    which are a map, in an order that differs from call to call.

    Args:
      rows: name -> [rows, length] array. Integers from 0 to 2**28 - 1 become int64 lists, and
        floats become float lists. The features keep the order given. Those of length 0 are left
        out.

    Returns:
      one serialized tf.Example for each row.
    """
    columns: list[list[bytes]] = []
    # Each is uint8 [rows, bytes]: a feature that takes equally many bytes in every row.
    blocks: list[np.ndarray] = []
    for name, array in rows.items():
        if not array.shape[1]:
            continue
        if np.issubdtype(array.dtype, np.floating):
            values = np.ascontiguousarray(array, "<f4").view(np.uint8)
            blocks += _block(name, _FLOAT_LIST, values)
        elif int(array.max(initial=0)) < 0x80:
            blocks += _block(name, _INT64_LIST, array.astype(np.uint8))
        else:
            columns += [_rows_of(blocks), *_varint_feature(name, array)]
            blocks = []
    columns.append(_rows_of(blocks))
    joined = map(b"".join, zip(*(column for column in columns if column), strict=True))
    return [_tag(_FEATURES, len(features)) + features for features in joined]


# Field numbers of tensorflow/core/example/{example,feature}.proto. All fields have wire type 2, so
# a field's tag is its number times 8 plus 2.
_FEATURES = _FEATURE_ENTRY = _KEY = _VALUES = 1
_VALUE = 2
_FLOAT_LIST, _INT64_LIST = 2, 3


def _block(name: str, kind: int, values: np.ndarray) -> list[np.ndarray]:
    """Returns a feature's header, repeated for every row, and its values, uint8 [rows, bytes]."""
    header = np.frombuffer(_entry_header(name, kind, values.shape[1]), np.uint8)
    return [np.broadcast_to(header, (len(values), len(header))), values]


def _rows_of(blocks: list[np.ndarray]) -> list[bytes]:
    """Returns the bytes of each row, the blocks side by side; an empty list without blocks."""
    if not blocks:
        return []
    data = np.concatenate(blocks, axis=1)
    size, whole = data.shape[1], data.tobytes()
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def _varint_feature(name: str, array: np.ndarray) -> tuple[list[bytes], ...]:
    """Returns the header of each row, its values as varints, and the zeros at its end."""
    digits, is_digit, sizes = _varint_table(int(array.max()).bit_length())
    row_sizes = sizes[array].sum(axis=1, dtype=np.int64).tolist()
    # The table has four bytes for every integer; those that its varint lacks are zero and have to
    # go. The integer 0 is the only one whose varint is a zero byte. It is mostly padding at a row's
    # end, so all zero bytes may go, and the row's zeros are appended afterwards.
    zeros = (array.shape[1] - np.count_nonzero(array, axis=1)).tolist()
    if _has_zeros_at_ends_only(array):
        packed = digits[array].tobytes().translate(None, b"\0")
    else:
        mask = is_digit[array].view(bool)
        packed, zeros = digits[array].view(np.uint8)[mask].tobytes(), [0] * len(array)
    kept = [size - count for size, count in zip(row_sizes, zeros, strict=True)]
    ends = itertools.accumulate(kept)
    return (
        [_entry_header(name, _INT64_LIST, size) for size in row_sizes],
        [packed[end - size : end] for size, end in zip(kept, ends, strict=True)],
        [bytes(count) for count in zeros],
    )


def _has_zeros_at_ends_only(array: np.ndarray) -> bool:
    """Returns whether only zeros follow a zero, in every row."""
    return not ((array[:, :-1] == 0) & (array[:, 1:] != 0)).any()


@functools.cache
def _varint_table(bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns protocol buffers' varints of all integers of so many bits, at most 28.

    Returns:
      uint32 [integers], the varint's one to four bytes, little-endian; uint32 [integers], with the
      byte 1 where the varint has a byte and 0 elsewhere; uint8 [integers], the number of bytes.
    """
    numbers = np.arange(1 << bits, dtype="<u4")
    digits, is_digit = np.zeros_like(numbers), np.zeros_like(numbers)
    sizes = np.zeros(len(numbers), np.uint8)
    for place in range(4):
        rest = numbers >> np.uint32(7 * place)
        has_digit = (rest > 0) | (place == 0)
        digit = (rest & 0x7F) | (rest > 0x7F) * np.uint32(0x80)
        digits |= digit << np.uint32(8 * place)
        is_digit |= has_digit * np.uint32(1 << 8 * place)
        sizes += has_digit
    return digits, is_digit, sizes


@functools.cache
def _entry_header(name: str, kind: int, size: int) -> bytes:
    """Returns the bytes before a feature's packed values, which take `size` bytes."""
    header = _tag(_VALUES, size)
    header = _tag(kind, len(header) + size) + header
    header = _tag(_VALUE, len(header) + size) + header
    header = _tag(_KEY, len(name)) + name.encode() + header
    return _tag(_FEATURE_ENTRY, len(header) + size) + header


@functools.cache
def _tag(number: int, size: int) -> bytes:
    """Returns a field's tag and the size of its content."""
    digits, _, sizes = _varint_table(max(size, 1).bit_length())
    return bytes((number << 3 | 2,)) + digits[size].tobytes()[: sizes[size]]


class RecordWriter:
    """Writes records in the TFRecord framing to any open file, and keeps its size and SHA-256.

    TensorFlow's own writer knows fewer file systems than Beam and cannot hash what it writes. A
    framed record is its length (uint64), the checksum of the length (uint32), the record, and the
    checksum of the record, all little-endian. A checksum is a CRC-32C, rotated and shifted
    (TensorFlow's core/lib/hash/crc32c.h, Mask).
    """

    def __init__(self, file: BinaryIO, compression: str = "none"):
        """Takes a file that is open for writing; the caller closes it.

        Args:
          file: file that gets the bytes.
          compression: "none" or "gzip".
        """
        self._file = file
        # The gzip header has no name or time, so the same records become the same bytes.
        self._gzip = zlib.compressobj(GZIP_LEVEL, wbits=31) if compression == "gzip" else None
        self._sha256 = hashlib.sha256()
        self.bytes = 0

    def write(self, records: Iterable[bytes]) -> None:
        """Appends records."""
        records = list(records)
        checksums = _masked(np.fromiter(map(google_crc32c.value, records), np.uint32, len(records)))
        data = checksums.astype("<u4").tobytes()
        framed = [b""] * (3 * len(records))
        framed[0::3] = [_length_frame(len(record)) for record in records]
        framed[1::3] = records
        framed[2::3] = [data[start : start + 4] for start in range(0, len(data), 4)]
        block = b"".join(framed)
        self._append(self._gzip.compress(block) if self._gzip else block)

    def finish(self) -> None:
        """Writes the bytes that compression still holds; no record may be written after that."""
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


@functools.cache
def _length_frame(size: int) -> bytes:
    """Returns the length of a record and the length's checksum, which precede the record."""
    length = struct.pack("<Q", size)
    checksum = _masked(np.array([google_crc32c.value(length)], np.uint32))
    return length + checksum.astype("<u4").tobytes()


def _masked(checksums: np.ndarray) -> np.ndarray:
    """Rotates and shifts checksums, uint32 [n], as TensorFlow stores them."""
    rotated = (checksums >> np.uint32(15)) | (checksums << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)
