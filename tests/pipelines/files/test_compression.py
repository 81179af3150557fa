"""Compressed files are read in small pieces, however much they grow."""

import bz2
import gzip
import io
import random
import tracemalloc
import zlib

import pytest
import zstandard

from beambert.compression import decompress

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, 5 << 20])
def test_any_size_is_read_back(ending, size):
    data = random.Random(0).randbytes(size // 2) + bytes(size - size // 2)
    stored = io.BytesIO(COMPRESS[ending](data) + COMPRESS[ending](b"the end"))
    assert decompress(f"a{ending}", stored).read() == data + b"the end"


def bomb(ending: str, megabytes: int) -> bytes:
    """Zeros, compressed a megabyte at a time."""
    stream = {
        ".gz": lambda: zlib.compressobj(wbits=31),
        ".bz2": bz2.BZ2Compressor,
        ".zst": zstandard.ZstdCompressor().compressobj,
    }[ending]()
    return b"".join(stream.compress(bytes(1 << 20)) for _ in range(megabytes)) + stream.flush()


@pytest.mark.slow
@pytest.mark.parametrize("ending", COMPRESS)
def test_a_bomb_takes_little_memory(ending):
    stored = io.BytesIO(bomb(ending, 60))
    assert len(stored.getvalue()) < 100_000
    tracemalloc.start()
    opened = decompress(f"a{ending}", stored)
    size = 0
    while data := opened.read(1 << 16):
        size += len(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size == 60 << 20
    assert most < 40 << 20
