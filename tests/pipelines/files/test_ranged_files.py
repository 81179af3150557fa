"""Files that are read by ranges: their bytes, and hardly a byte more than is needed."""

import gzip
import random
import threading
from io import SEEK_END, BufferedReader, BytesIO

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from support.data_command import wikiextractor
from support.sample_text import make_document

from beambert import io
from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.io import RangedFile, read_range, write_bytes
from beambert.pipelines.corpus import base as parts
from beambert.pipelines.corpus.reading import ReadOptions, read_part, split_file
from beambert.pipelines.input_files import match_inputs

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
