"""Files: listed once each, decompressed in small pieces, written whole or not at all."""

import bz2
import gzip
import tracemalloc
import zlib
from io import BytesIO

import pytest
import zstandard
from google.api_core.exceptions import RetryError
from support.emulated_storage import requests_made

from beambert import folders, io
from beambert.compression import CorruptFileError, decompress
from beambert.errors import InputError
from beambert.io import open_atomically
from beambert.pipelines.input_files import match_inputs

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def test_a_file_asked_for_by_several_names_is_listed_once(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "one.txt"
    path.write_text("text")
    monkeypatch.chdir(tmp_path / "folder")
    (file,) = match_inputs(["one.txt", "./*.txt", "../folder/one.txt", str(path)])
    assert (file.path, file.bytes) == (str(path), 4)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match=r"is a folder; name its files: '.*/\*'"):
        match_inputs([f"{tmp_path}/"])


def read(path):
    with open(path, "rb") as stored:
        return decompress(str(path), stored).read()


@pytest.mark.parametrize("ending", COMPRESS)
def test_no_byte_is_no_compressed_file(tmp_path, ending):
    """What a transfer that failed at once leaves."""
    path = tmp_path / f"file{ending}"
    path.write_bytes(b"")
    with pytest.raises(CorruptFileError, match="cut off"):
        read(path)
    path.write_bytes(COMPRESS[ending](b""))
    assert read(path) == b""


@pytest.mark.parametrize("zeros", [10, 200_000])
def test_zeros_after_a_stream(tmp_path, zeros):
    """Padding, as gzip itself takes it, however much; then another stream."""
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(b"one ") + bytes(zeros) + gzip.compress(b"two") + bytes(zeros))
    assert read(path) == gzip.decompress(path.read_bytes()) == b"one two"


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError("too large"), ValueError("bug")])
def test_what_fails_while_writing_leaves_nothing(tmp_path, error):
    """And passes as it is: it says nothing about the file."""
    path = tmp_path / "folder" / "file"
    kind = type(error) if isinstance(error, Exception) else error
    with pytest.raises(kind) as raised, open_atomically(str(path)) as file:
        file.write(b"half")
        raise error
    assert "cannot be written" not in str(raised.value)
    assert list(path.parent.iterdir()) == []


def test_a_storage_that_does_not_answer_for_minutes(monkeypatch):
    """Google's library gives up with an exception that is none of a call."""

    def open_(*_):
        raise RetryError("Timeout of 120.0s exceeded", ConnectionError("no route"))

    monkeypatch.setattr(io._GOOGLE_STORAGE, "open", open_)
    with pytest.raises(InputError, match=r"gs://b/a: cannot be read \(Timeout of 120.0s exceeded"):
        io.read_bytes("gs://b/a")


def test_a_worker_writes_only_where_its_job_has_the_folder(tmp_path):
    """The command may have given it back, and another may have it."""
    folder, refusal = str(tmp_path / "out"), "isn't this job's any more"
    with pytest.raises(InputError, match=refusal):
        folders.check_claimed(folder, {"a": 1})
    assert not folders.claim_output(folder, {"a": 1})
    folders.check_claimed(folder, {"a": 1})
    with pytest.raises(InputError, match=refusal):
        folders.check_claimed(folder, {"a": 2})
    # The last step may be tried again after it has ended.
    folders.finish_output(folder, {"a": 1})
    folders.check_claimed(folder, {"a": 1})


@pytest.mark.slow
def test_many_objects_are_deleted_by_few_requests(gs):
    paths = [f"{gs}/records/part-{number}" for number in range(120)]
    for path in paths[1:]:
        io.write_bytes(path, b"x")
    io.write_bytes(f"{gs}/records/part-[1]", b"x")
    requests_made()
    # The first one does not exist, and a name is no pattern.
    io.delete_quietly([*paths, f"{gs}/records/part-[1]"])
    assert len(requests_made()) < 10
    assert io.list_folder(f"{gs}/records") == []


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
    stored = BytesIO(bomb(ending, 60))
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
