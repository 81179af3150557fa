"""Record files that claim more than they have."""

import gzip
import io
import struct

import google_crc32c
import pytest

from beambert.pipelines.records.reading import CorruptRecordsError, read_records


def checksum(data: bytes) -> bytes:
    """As the format of TFRecord files describes it (tensorflow.org, tutorials/load_data)."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(record: bytes, claimed: int | None = None) -> bytes:
    header = struct.pack("<Q", len(record) if claimed is None else claimed)
    return header + checksum(header) + record + checksum(record)


@pytest.mark.parametrize("claimed", [1 << 31, 1 << 62, (1 << 64) - 1])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_length_that_no_memory_has(claimed, compress):
    data = compress(framed(b"first") + framed(b"second", claimed))
    records = read_records(io.BufferedReader(io.BytesIO(data)))
    assert next(records) == b"first"
    with pytest.raises(CorruptRecordsError, match=f"record 2 claims to have {claimed:,} bytes"):
        next(records)
