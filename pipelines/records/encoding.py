"""Feature arrays -> serialized tf.Examples -> the bytes of a TFRecord file."""

import functools
import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Level 1 makes records a third as large. Level 6 would make them 7 % smaller still, in twice the
# time.
GZIP_LEVEL = 1
# Type of an array of bytes that may have more than 2 GB.
_BYTES = pa.large_binary()


def encode_examples(rows: Mapping[str, np.ndarray]) -> pa.LargeBinaryArray:
    """Serializes rows as tf.Examples. The same rows always become the same bytes.

    The general encoders do not serve here. TensorFlow's is slow, and tfx-bsl's puts the features,
    which are a map, in an order that differs from call to call.

    Args:
      rows: name -> [rows, length] array. Integers from 0 to 2**28 - 1 become int64 lists, and
        floats become float lists. The features keep the order given. Those of length 0 are left
        out; at least one is longer.

    Returns:
      [rows], the serialized tf.Examples; its `to_pylist` returns them as a list.
    """
    columns: list[pa.LargeBinaryArray] = []
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
            columns += [*_rows_of(blocks), *_varint_feature(name, array)]
            blocks = []
    columns += _rows_of(blocks)
    sizes = sum(_sizes(column) for column in columns)
    return _join([_for_sizes(lambda size: _tag(_FEATURES, size), sizes), *columns])


# Field numbers of tensorflow/core/example/{example,feature}.proto. All fields have wire type 2, so
# a field's tag is its number times 8 plus 2.
_FEATURES = _FEATURE_ENTRY = _KEY = _VALUES = 1
_VALUE = 2
_FLOAT_LIST, _INT64_LIST = 2, 3


def _block(name: str, kind: int, values: np.ndarray) -> list[np.ndarray]:
    """Returns a feature's header, repeated for every row, and its values, uint8 [rows, bytes]."""
    header = np.frombuffer(_entry_header(name, kind, values.shape[1]), np.uint8)
    return [np.broadcast_to(header, (len(values), len(header))), values]


def _rows_of(blocks: list[np.ndarray]) -> list[pa.LargeBinaryArray]:
    """Returns the bytes of each row, the blocks side by side; an empty list without blocks."""
    if not blocks:
        return []
    # Narrow blocks come out column by column.
    data = np.ascontiguousarray(np.concatenate(blocks, axis=1))
    return [_divided(data, np.full(len(data), data.shape[1]))]


def _varint_feature(name: str, array: np.ndarray) -> list[pa.LargeBinaryArray]:
    """Returns the header of each row, its values as varints, and the zeros at its end."""
    digits, is_digit = _varint_table(int(array.max()).bit_length())
    is_zero = array == 0
    zeros = is_zero.sum(axis=1, dtype=np.int32)
    longer = [(array >= least).sum(axis=1, dtype=np.int32) for least in _LONGER_VARINTS]
    sizes = array.shape[1] + sum(longer)
    # The table has four bytes for every integer; those that its varint lacks are zero and have to
    # go. The integer 0 is the only one whose varint is a zero byte. It is mostly padding at a row's
    # end, so all zero bytes may go, and the row's zeros are appended afterwards.
    if (is_zero[:, :-1] > is_zero[:, 1:]).any():
        mask = is_digit[array].view(bool)
        packed, zeros = digits[array].view(np.uint8)[mask], np.zeros_like(zeros)
    else:
        # Clipping changes nothing, but is faster than a check of the range.
        packed = digits.take(array, mode="clip").tobytes().translate(None, b"\0")
    return [
        _for_sizes(lambda size: _entry_header(name, _INT64_LIST, size), sizes),
        _divided(packed, sizes - zeros),
        _divided(bytes(zeros.sum()), zeros),
    ]


# The least integers whose varints have a second, third and fourth byte.
_LONGER_VARINTS = (1 << 7, 1 << 14, 1 << 21)


@functools.cache
def _varint_table(bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns protocol buffers' varints of all integers of so many bits, at most 28.

    Returns:
      uint32 [integers], the varint's one to four bytes, little-endian; uint32 [integers], with the
      byte 1 where the varint has a byte and 0 elsewhere.
    """
    numbers = np.arange(1 << bits, dtype="<u4")
    digits, is_digit = np.zeros_like(numbers), np.zeros_like(numbers)
    for place in range(4):
        rest = numbers >> np.uint32(7 * place)
        has_digit = (rest > 0) | (place == 0)
        digit = (rest & 0x7F) | (rest > 0x7F) * np.uint32(0x80)
        digits |= digit << np.uint32(8 * place)
        is_digit |= has_digit * np.uint32(1 << 8 * place)
    return digits, is_digit


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
    digits, _ = _varint_table(max(size, 1).bit_length())
    places = 1 + sum(size >= least for least in _LONGER_VARINTS)
    return bytes((number << 3 | 2,)) + digits[size].tobytes()[:places]


def _for_sizes(make: Callable[[int], bytes], sizes: np.ndarray) -> pa.LargeBinaryArray:
    """Returns the bytes that a function makes for each of many sizes, most of which recur."""
    coded = pa.array(sizes).dictionary_encode()
    made = [make(size) for size in coded.dictionary.to_pylist()]
    return pa.array(made, _BYTES).take(coded.indices)


def _divided(data: bytes | np.ndarray, sizes: np.ndarray) -> pa.LargeBinaryArray:
    """Returns bytes as an array whose elements have the sizes given, without a copy."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(_BYTES, len(sizes), buffers)


def _join(columns: list[pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    """Returns the elements of several arrays of the same length joined, place by place."""
    # Arrow's own pool would keep the memory of the largest batch for good.
    pool = pa.system_memory_pool()
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", _BYTES), memory_pool=pool)


def _sizes(array: pa.LargeBinaryArray) -> np.ndarray:
    """Returns the number of bytes of each element, int64."""
    return pc.binary_length(array).to_numpy()


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

    def write(self, records: Iterable[bytes] | pa.LargeBinaryArray) -> None:
        """Appends records."""
        if not isinstance(records, pa.LargeBinaryArray):
            records = pa.array(records, _BYTES)
        if not len(records):
            return
        checksums = list(map(google_crc32c.value, records.to_pylist()))
        stored = _masked(np.array(checksums, np.uint32)).astype("<u4")
        frames = [
            _for_sizes(_length_frame, _sizes(records)),
            records,
            _divided(stored, np.full(len(records), stored.itemsize)),
        ]
        block = memoryview(_join(frames).buffers()[2])
        self._append(self._gzip.compress(block) if self._gzip else block)

    def finish(self) -> None:
        """Writes the bytes that compression still holds; no record may be written after that."""
        if self._gzip:
            self._append(self._gzip.flush())

    def _append(self, block: bytes | memoryview) -> None:
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
