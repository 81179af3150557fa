"""Refuses record files whose lengths TensorFlow's reader would die of.

It needs neither Beam nor TensorFlow, as the contract of a records folder.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator

import google_crc32c

from beambert.errors import InputError
from beambert.pipelines.records.contract import MOST_RECORD_BYTES

# Number of bytes of a record file, plain or gzip, that are enough to tell its first length.
START_BYTES = 1 << 16
# A record's length and its checksum; they and the checksum of the record are its frame.
_LENGTH = struct.Struct("<QI")
_FRAME_BYTES = 16
# Number of bytes that are decompressed at a time.
_BYTES_AT_A_TIME = 1 << 20


def check_start(start: bytes, path: str) -> None:
    """Refuses a record file whose first record claims more bytes than a record can have.

    Args:
      start: the first `START_BYTES` of the file, or all of a smaller one.
      path: path of the file, for messages; compressed if it ends in `.gz`.

    Raises:
      InputError: the length is too large.
    """
    for data in _plain([start], path):
        if len(data) >= _LENGTH.size and _LENGTH.unpack_from(data)[0] > MOST_RECORD_BYTES:
            _refuse_forged(data, 0, 1, path)
        return


def check_lengths(chunks: Iterable[bytes], path: str) -> None:
    """Refuses a record file in which a record claims more bytes than a record can have.

    TensorFlow's reader would allocate them, and end the process where there are not so many. It
    tells other damage itself, so nothing is said of that here.

    Args:
      chunks: content of the file, in chunks of any size.
      path: path of the file, for messages; compressed if it ends in `.gz`.

    Raises:
      InputError: a length is too large, and has the right checksum.
    """
    rest, skipped, number = b"", 0, 0
    for chunk in _plain(chunks, path):
        if skipped >= len(chunk):
            skipped -= len(chunk)
            continue
        data = rest + (chunk[skipped:] if skipped else chunk)
        place, last = 0, len(data) - _LENGTH.size
        while place <= last:
            number += 1
            size, _ = _LENGTH.unpack_from(data, place)
            if size > MOST_RECORD_BYTES:
                _refuse_forged(data, place, number, path)
            place += size + _FRAME_BYTES
        rest, skipped = data[place:], max(0, place - len(data))


def _refuse_forged(data: bytes, place: int, number: int, path: str) -> None:
    """Refuses the length at a place of the data, if its checksum is right."""
    size, checksum = _LENGTH.unpack_from(data, place)
    crc = google_crc32c.value(data[place : place + 8])
    # The mask is TFRecord's, see tensorflow/core/lib/hash/crc32c.h.
    if checksum != ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF:
        return
    which = f"record {number}" if number > 1 else "its first record"
    raise InputError(
        f"{path}: {which} claims to have {size:,} bytes, more than a record can have; "
        "copy the folder again or make it again"
    )


def _plain(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yields the content of a file, up to where its compressed data is damaged."""
    if not path.endswith(".gz"):
        yield from chunks
        return
    try:
        decompressor = zlib.decompressobj(wbits=31)
        for chunk in chunks:
            while chunk:
                yield decompressor.decompress(chunk, _BYTES_AT_A_TIME)
                chunk = decompressor.unconsumed_tail
                if decompressor.eof:
                    chunk, decompressor = decompressor.unused_data, zlib.decompressobj(wbits=31)
    except zlib.error:
        return  # The reader says what is wrong with the data.
