"""Files: listed once, read by ranges, decompressed in small pieces, written whole or not at all."""

import bz2
import gzip
import os
import random
import threading
import tracemalloc
import zlib
from io import SEEK_END, BufferedReader, BytesIO

import apache_beam as beam
import pytest
import requests
import zstandard
from apache_beam.testing.util import assert_that, equal_to
from google.api_core.exceptions import RetryError
from hypothesis import given, settings
from hypothesis import strategies as st
from support.data_command import wikiextractor
from support.emulated_storage import requests_made
from support.sample_text import make_document

from beambert import folders, io
from beambert.compression import CorruptFileError, decompress
from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.io import RangedFile, open_atomically, read_bytes, read_range, write_bytes
from beambert.pipelines.corpus import base as parts
from beambert.pipelines.corpus.reading import ReadOptions, read_part, split_file
from beambert.pipelines.input_files import (
    StoredValue,
    check_unchanged,
    match_inputs,
    match_sources,
    store_values,
)

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


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


exact = settings(derandomize=True, max_examples=80, deadline=None, database=None)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("seek"), st.integers(0, 130)),
        st.tuples(st.just("from_end"), st.integers(-9, 0)),
        st.tuples(st.just("read"), st.integers(0, 60)),
        st.tuples(st.just("readline"), st.integers(1, 60)),
    ),
    max_size=20,
)


@exact
@given(st.binary(min_size=10, max_size=120), STEPS, st.none() | st.integers(0, 120), st.data())
def test_like_a_file_in_memory(content, steps, end, data):
    """Any seeks and reads against BytesIO, with requests and buffers of a few bytes."""

    def read(start, size):
        assert 0 <= start < len(content) and 0 < size <= len(content) - start
        return content[start : start + size]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "REQUEST_BYTES", data.draw(st.integers(1, 50)))
        patch.setattr(io, "BYTES_BEYOND", data.draw(st.integers(1, 9)))
        raw = RangedFile(read, len(content), end)
        found = BufferedReader(raw, data.draw(st.integers(1, 20)))
        expected = BytesIO(content)
        for name, number in steps:
            for file in (found, expected):
                if name == "seek":
                    file.seek(number)
                elif name == "from_end":
                    file.seek(number, SEEK_END)
            if name.startswith("read"):
                assert getattr(found, name)(number) == getattr(expected, name)(number)
            assert found.tell() == expected.tell()


@pytest.fixture
def traffic(monkeypatch):
    """The method of each request of this thread, and the number of bytes of its answer."""
    seen = []
    request = requests.Session.request
    reader = threading.get_ident()  # a lease of an earlier test may still be kept by its thread

    def counted(self, method, url, *rest, **named):
        answer = request(self, method, url, *rest, **named)
        # Others are those for an account's rights.
        if "/b/bucket" in url and threading.get_ident() == reader:
            seen.append((method, int(answer.headers.get("Content-Length", 0))))
        return answer

    monkeypatch.setattr(requests.Session, "request", counted)
    return seen


def test_a_range_on_gs_is_one_request(gs, traffic):
    path = f"{gs}/ranges/a"
    write_bytes(path, bytes(range(256)) * 4000)
    read_range(path, 0, 1)  # the client connects
    traffic.clear()
    assert read_range(path, 1000, 300) == (bytes(range(256)) * 6)[1000:1300]
    assert traffic == [("GET", 300)]
    with pytest.raises(EOFError, match="ends at byte 1024000 of 1024001"):
        read_range(path, 1_023_999, 2)
    with pytest.raises(EOFError):
        read_range(path, 1_024_000, 1)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_corpus_on_gs(gs, traffic, monkeypatch, tmp_path, ending):
    """The documents are those of the local file, in parts of their own size, read once."""
    draw = random.Random(1)
    text = wikiextractor([make_document(draw, 40) for _ in range(120)]).encode()
    content = gzip.compress(text) if ending else text
    (tmp_path / f"wiki{ending}").write_bytes(content)
    write_bytes(f"{gs}/corpus{ending}/wiki{ending}", content)
    monkeypatch.setattr(parts, "PART_BYTES", 9_000)
    monkeypatch.setattr(parts, "STORED_PART_BYTES", 50_000)
    monkeypatch.setattr(io, "REQUEST_BYTES", 100_000 if ending else 30_000)
    monkeypatch.setattr(io, "BYTES_BEYOND", 1_000)
    options, found = ReadOptions(), []
    for pattern in (str(tmp_path / "wiki*"), f"{gs}/corpus{ending}/*"):
        (file,) = match_inputs([pattern])
        divided = split_file(file, options)
        traffic.clear()
        progress = ProgressTally(None)
        found.append([each.text for part in divided for each in read_part(part, options, progress)])
    assert len(found[0]) == 120 and found[1] == found[0]
    assert len(divided) == (1 if ending else round(len(text) / 50_000))
    # A listing, a description of the object or a second look at its beginning would be more.
    received = sum(size for _, size in traffic)
    assert {method for method, _ in traffic} == {"GET"}
    assert len(content) <= received <= len(content) + 9_000 * len(divided)
    assert len(traffic) <= len(content) / 30_000 + 3 * len(divided)


def test_a_lost_object_is_a_sentence(gs):
    with pytest.raises(InputError, match=r"gs://bucket/gone: cannot be read \(.*\); correct that"):
        io.open_file(f"{gs}/gone")
    with pytest.raises(InputError, match=r"gs://bucket/gone: cannot be read \(.*\); correct that"):
        io.open_file(f"{gs}/gone", size=5).read()


def names(*patterns) -> list[str]:
    return [os.path.basename(file.path) for file in match_inputs([str(p) for p in patterns])]


def test_a_name_that_exists_is_itself(tmp_path):
    for name in ("a1.jsonl", "a[1].jsonl", "b*.txt", "b2.txt"):
        (tmp_path / name).write_text("x")
    assert names(tmp_path / "a1.jsonl", tmp_path / "a[1].jsonl") == ["a1.jsonl", "a[1].jsonl"]
    assert names(tmp_path / "b*.txt") == ["b*.txt"]
    assert names(tmp_path / "a[12].jsonl") == ["a1.jsonl"]
    assert names(tmp_path / "*") == ["a1.jsonl", "a[1].jsonl", "b*.txt", "b2.txt"]


@pytest.mark.parametrize("pattern", ["gone.txt", "*.txt"])
def test_a_link_to_nothing_is_named(tmp_path, pattern):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"gone\.txt: is a link to .*nothing, which cannot be"):
        names(tmp_path / pattern)


def test_only_regular_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    for path in ("/dev/zero", tmp_path / "pipe.txt", tmp_path / "*.txt"):
        with pytest.raises(InputError, match="is not a regular file"):
            names(path)
    for path in ("/dev/zero", tmp_path / "pipe.txt"):
        with pytest.raises(InputError, match="--vocab_file=.*not a regular file"):
            read_bytes(str(path), "--vocab_file")


def test_a_name_that_is_not_utf8(tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    with open(path, "w") as file:
        file.write("x")
    for pattern in (os.fsdecode(path), str(tmp_path / "*")):
        with pytest.raises(InputError, match=r"caf\\udce9\.txt: the name is not UTF-8") as caught:
            match_inputs([pattern])
        str(caught.value).encode()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda path: path.write_text(""), "has 0 bytes now and had 5"),
        (lambda path: path.write_text("longer text"), "has 11 bytes now"),
        (lambda path: os.utime(path, (1, 1)), "has another date"),
        (lambda path: path.unlink(), "is gone"),
    ],
)
def test_changes_are_seen(tmp_path, change, what):
    path = tmp_path / "a.txt"
    path.write_text("text\n")
    inputs = match_inputs([str(path)])
    check_unchanged(inputs, [str(path)], "wait")
    change(path)
    with pytest.raises(InputError, match=f"was changed while it was read .{what}.*; wait"):
        check_unchanged(inputs, [str(path)], "wait")


def test_changes_of_objects_are_seen(gs):
    write_bytes(f"{gs}/inputs/a.txt", b"text")
    patterns = [f"{gs}/inputs/*"]
    inputs = match_inputs(patterns)
    check_unchanged(inputs, patterns, "wait")
    write_bytes(f"{gs}/inputs/a.txt", b"longer text")
    with pytest.raises(InputError, match=r"a\.txt: was changed .*11 bytes now and had 4"):
        check_unchanged(inputs, patterns, "wait")


def test_a_file_of_the_working_folder_by_several_names_is_listed_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "b.txt").write_text("text")
    names = ["*.txt", "./*.txt", "b.txt", "in/../*.txt", str(tmp_path / "b.txt")]
    for asked in (names, *([name] for name in names)):
        (found,) = match_inputs(asked)
        assert (found.path, found.bytes) == (str(tmp_path / "b.txt"), 4)
    with pytest.raises(InputError, match=r"--input=\*\.csv: matches no file"):
        match_inputs(["*.csv"])
    with pytest.raises(InputError, match="=b.txt,c.txt: matches no file; give blanks between"):
        match_inputs(["b.txt,c.txt"])


def test_files_of_several_sources_are_listed_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.txt"):
        (tmp_path / name).write_text("text")
    sources = {"one": (f"{tmp_path}/b.txt", f"{tmp_path}/a.txt"), "two": (f"{tmp_path}/[bc].txt",)}
    assert [file.path for file in match_sources(sources)] == [f"{tmp_path}/{n}.txt" for n in "abc"]
    with pytest.raises(InputError, match="^--source=two"):
        match_sources({"two": (f"{tmp_path}/none*",)})


VALUES = [["a"], {"b": (1, None)}, "", ["c" * 5000]]


def test_workers_read_them(tmp_path):
    places = store_values(f"{tmp_path}/values", VALUES)
    assert [place.read() for place in places] == VALUES
    pipeline = beam.Pipeline(runner="FnApiRunner")
    read = pipeline | beam.Create(places) | beam.Map(StoredValue.read)
    assert_that(read, equal_to(VALUES))
    # The job has their places only.
    assert b"ccccc" not in pipeline.to_runner_api().SerializeToString()
    pipeline.run()


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_what_was_changed_is_not_loaded(tmp_path, number):
    """A pickle runs code, so a byte from somebody else is a byte too many."""
    path = tmp_path / "values"
    place = store_values(str(path), VALUES)[number]
    data = bytearray(path.read_bytes())
    data[place.start] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="values: was changed while the job ran"):
        place.read()


def test_a_file_that_was_cut_off_is_noticed(tmp_path):
    place = store_values(f"{tmp_path}/values", VALUES)[-1]
    os.truncate(place.path, place.start + 10)
    with pytest.raises(EOFError, match="values: ends at byte"):
        place.read()
