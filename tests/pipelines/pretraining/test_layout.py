"""Where documents go: shards, folders and files, and the shuffle."""

import collections
import errno
import io
from collections import defaultdict

import apache_beam as beam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.io import TEMPORARY_PREFIX
from beambert.pipelines.pretraining.documents import document_hash, is_held_out
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.layout import (
    FILES,
    RUNNER,
    Layout,
    Shuffle,
    choose,
    spill_prefix,
)

DOCUMENTS = 20_000


@pytest.fixture(scope="module")
def hashes():
    return np.frombuffer(b"".join(document_hash([str(i)]) for i in range(DOCUMENTS)), "V16")


def keys_of(where, hashes):
    """The shards of documents that are too short to be divided."""
    return where.keys(hashes, is_held_out(hashes, where.job.eval_fraction))


def layout(lengths=(128,), num_shards=8, **fields) -> Layout:
    return Layout(
        PretrainingDataJob(vocab_file="vocab", output="/out/", max_seq_length=lengths, **fields),
        num_shards,
    )


@pytest.mark.parametrize("fraction", [0.0, 0.3])
def test_every_document_has_one_shard_and_shards_are_alike(hashes, fraction):
    where = layout(eval_fraction=fraction)
    keys = keys_of(where, hashes)
    counts = np.bincount(keys, minlength=where.total_shards)
    assert keys.shape == (DOCUMENTS,) and len(counts) == where.total_shards == 8 + (fraction and 3)
    for some, share in ((counts[:8], (1 - fraction) / 8), (counts[8:], fraction / 3)):
        expected = DOCUMENTS * share
        assert np.all(np.abs(some - expected) < 5 * np.sqrt(expected))


@pytest.mark.parametrize(
    ("lengths", "train", "held_out"),
    [
        ((128,), ["/out"], ["/out/eval"]),
        ((512, 128), ["/out/512", "/out/128"], ["/out/512/eval", "/out/128/eval"]),
    ],
)
def test_folders(lengths, train, held_out):
    assert [folder.path for folder in layout(lengths).folders()] == train
    folders = layout(lengths, eval_fraction=0.1).folders()
    assert [folder.path for folder in folders] == train + held_out
    assert [folder.is_eval for folder in folders] == [False] * len(train) + [True] * len(held_out)
    assert [folder.parameters.max_seq_length for folder in folders] == [*lengths, *lengths]


@pytest.mark.parametrize("lengths", [(128,), (128, 512)])
@pytest.mark.parametrize(("compression", "ending"), [("none", ""), ("gzip", ".gz")])
def test_files(lengths, compression, ending):
    where = layout(lengths, 4, eval_fraction=0.5, compression=compression)
    names = collections.defaultdict(list)
    for key in range(where.total_shards):
        for folder, name in where.files_of(key):
            assert folder.is_eval == (key >= 4)
            names[folder.path].append(name)
    assert names.keys() == {folder.path for folder in where.folders()}
    for path, found in names.items():
        count = 2 if path.endswith("eval") else 4
        assert found == [f"part-0000{n}-of-0000{count}.tfrecord{ending}" for n in range(count)]


def test_root_folder():
    job = PretrainingDataJob(vocab_file="vocab", output="/")
    assert Layout(job, 1).folders()[0].path == "/"


exact = settings(derandomize=True, max_examples=60, deadline=None, database=None)


@pytest.mark.slow
@exact
@given(
    st.sampled_from([FILES, RUNNER]),
    st.integers(1, 1200),
    st.lists(st.dictionaries(st.integers(0, 1199), st.binary(max_size=40), max_size=30)),
    st.dictionaries(st.integers(0, 1199), st.binary(min_size=1, max_size=32), max_size=5),
    st.randoms(use_true_random=False),
)
def test_each_shard_gets_what_was_sent(tmp_path_factory, way, shards, sendings, marks, draw):
    """Against a dictionary, for any number of shards and order of arrival."""
    folder = tmp_path_factory.mktemp("shuffle")
    shuffle = Shuffle(way, str(folder), "run", shards)
    expected, expected_marks = defaultdict(list), defaultdict(list)
    elements = shuffle.groups()
    for items in sendings:
        items = sorted((shard % shards, content) for shard, content in items.items())
        for shard, content in items:
            expected[shard].append(content)
        elements += shuffle.send(items)
    for shard, content in marks.items():
        expected_marks[shard % shards].append(content)
        elements.append(shuffle.mark(shard % shards, content))
    draw.shuffle(elements)
    groups = defaultdict(list)
    for group, value in elements:
        groups[group].append(value)
    found = {}
    for group, values in groups.items():
        received = shuffle.receive(group, values)
        assert not found.keys() & received.keys()
        found |= received
    assert sorted(found) == list(range(shards))
    for shard, received in found.items():
        assert sorted(map(bytes, received.packed)) == sorted(expected[shard])
        assert sorted(received.marks) == sorted(expected_marks[shard])


def test_a_retried_worker_writes_another_file(tmp_path):
    shuffle = Shuffle(FILES, str(tmp_path), "run", 1)
    first, again = (list(shuffle.send([(0, b"abc")])) for _ in range(2))
    assert first != again and len(list(tmp_path.iterdir())) == 2
    assert shuffle.receive(0, [first[0][1], again[0][1]])[0].packed == [b"abc", b"abc"]


def test_a_file_that_was_cut_off_is_noticed(tmp_path):
    shuffle = Shuffle(FILES, str(tmp_path), "run", 1)
    ((group, value),) = shuffle.send([(0, b"abc")])
    next(tmp_path.iterdir()).write_bytes(b"ab")
    with pytest.raises(EOFError, match="ends at byte 2 of 3"):
        shuffle.receive(group, [value])


def test_names_are_temporary_and_tell_the_run(tmp_path):
    for run in ("one", "two"):
        list(Shuffle(FILES, str(tmp_path), run, 1).send([(0, b"x")]))
    names = [path.name for path in tmp_path.iterdir()]
    assert all(name.startswith(TEMPORARY_PREFIX) for name in names)
    assert sum(name.startswith(spill_prefix("one")) for name in names) == 1


class FullDisk(io.FileIO):
    """Takes ten bytes and no more."""

    def write(self, data):
        if self.tell() + len(data) > 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("can_create", [False, True])
def test_full_disk(tmp_path, monkeypatch, can_create):
    (tmp_path / "out").mkdir()

    def create(_, path):
        if not can_create:
            raise OSError(errno.ENOSPC, "No space left on device")
        return FullDisk(path, "wb")

    monkeypatch.setattr("beambert.io._Local.create", create)
    shuffle = Shuffle(FILES, str(tmp_path / "out"), "run", 2)
    with pytest.raises(InputError, match="No space left on device.*another --output"):
        list(shuffle.send([(0, b"x" * 8), (1, b"y" * 8)]))
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("runner", "way"),
    [
        ("FnApiRunner", FILES),
        ("PrismRunner", FILES),
        ("DataflowRunner", RUNNER),
        ("FlinkRunner", RUNNER),
    ],
)
def test_the_runner_decides(runner, way):
    assert choose("auto", runner) == way
    assert {choose(each, runner) for each in (RUNNER, FILES)} == {RUNNER, FILES}
    # A runner of another name would be given files: Beam still has these.
    assert type(beam.runners.create_runner(runner)).__name__ in (runner, "SwitchingDirectRunner")
