"""Where documents go: one shard each, held out by share, a file in every folder of the split."""

import collections

import numpy as np
import pytest

from beambert.pipelines.pretraining.documents import document_hash, is_held_out
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.layout import Layout

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
