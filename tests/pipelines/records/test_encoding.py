"""Record files as TensorFlow itself reads them back."""

import hashlib
import io

import numpy as np
import pytest
import tensorflow as tf

from beambert.pipelines.records.contract import feature_shapes
from beambert.pipelines.records.encoding import RecordWriter, encode_examples

L, P = 24, 4


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    kinds = {"int64": np.int32, "float32": np.float32}
    return {
        name: random.integers(0, 250_000, (50, length)).astype(kinds[kind])
        for name, (length, kind) in feature_shapes(L, P).items()
    }


def test_contract_of_the_original_release():
    assert feature_shapes(L, P) == {
        "input_ids": (L, "int64"),
        "input_mask": (L, "int64"),
        "segment_ids": (L, "int64"),
        "masked_lm_positions": (P, "int64"),
        "masked_lm_ids": (P, "int64"),
        "masked_lm_weights": (P, "float32"),
        "next_sentence_labels": (1, "int64"),
    }


def test_tensorflow_reads_what_was_written(rows, tmp_path):
    path = tmp_path / "part.tfrecord"
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for part in (slice(0, 1), slice(1, 30), slice(30, 30), slice(30, 50)):
            writer.write(encode_examples({name: array[part] for name, array in rows.items()}))
    spec = {
        name: tf.io.FixedLenFeature([length], kind)
        for name, (length, kind) in feature_shapes(L, P).items()
    }
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    found = tf.io.parse_example(records, spec)
    assert len(records) == 50
    for name, array in rows.items():
        assert np.array_equal(found[name].numpy(), array)
    # No feature but those of the contract.
    assert set(tf.train.Example.FromString(records[0]).features.feature) == set(spec)
    data = path.read_bytes()
    assert (writer.bytes, writer.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_same_bytes_as_tensorflows_writer(tmp_path):
    records = [b"", b"x", bytes(range(256)) * 300]
    file = io.BytesIO()
    RecordWriter(file).write(records)
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    assert file.getvalue() == (tmp_path / "theirs").read_bytes()


def test_gzip(rows, tmp_path):
    """What TensorFlow reads is the same; the same records are the same bytes, hashed as stored."""
    examples = encode_examples(rows)
    files = []
    for _ in range(2):
        file = io.BytesIO()
        writer = RecordWriter(file, "gzip")
        for first in range(0, len(examples), 7):
            writer.write(examples[first : first + 7])
        writer.finish()
        files.append(file.getvalue())
    assert files[0] == files[1]
    assert (writer.bytes, writer.sha256) == (
        len(files[0]),
        hashlib.sha256(files[0]).hexdigest(),
    )
    path = tmp_path / "part.tfrecord.gz"
    path.write_bytes(files[0])
    records = tf.data.TFRecordDataset(str(path), "GZIP").as_numpy_iterator()
    assert list(records) == examples


def test_same_rows_same_bytes(rows):
    first = encode_examples(rows)
    for _ in range(5):
        assert encode_examples(rows) == first
    # The reverse of what TensorFlow parses is canonical: one field that holds all features.
    example = tf.train.Example.FromString(first[0])
    assert len(first[0]) == example.ByteSize()


@pytest.mark.parametrize("length", [1, 60, 120, 130, 9_000])
def test_examples_of_any_size(length):
    (record,) = encode_examples({"a": np.full((1, length), 200), "b": np.ones((1, 1))})
    features = tf.train.Example.FromString(record).features.feature
    assert list(features["a"].int64_list.value) == [200] * length
    assert list(features["b"].float_list.value) == [1.0]


def test_nothing_written():
    file = io.BytesIO()
    writer = RecordWriter(file)
    writer.write([])
    assert (file.getvalue(), writer.bytes) == (b"", 0)
    assert writer.sha256 == hashlib.sha256(b"").hexdigest()
