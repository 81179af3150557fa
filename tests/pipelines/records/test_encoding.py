"""Record files as TensorFlow itself reads them back."""

import hashlib
import io

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from beambert.pipelines.records.batches import read_frames
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


def records_of(frames) -> list[bytes]:
    return list(read_frames(io.BufferedReader(io.BytesIO(frames))))


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


def test_gzip(rows, tmp_path):
    """What TensorFlow reads is the same; the same records are the same bytes, hashed as stored."""
    examples = encode_examples(rows)
    files = []
    for _ in range(2):
        file = io.BytesIO()
        writer = RecordWriter(file, "gzip")
        for _ in range(7):
            writer.write(examples)
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
    assert list(records) == 7 * records_of(examples)


# Values around the least numbers whose varints have one more byte.
AROUND_VARINTS = [0, 1, 127, 128, (1 << 14) - 1, 1 << 14, (1 << 21) - 1, 1 << 21]


@st.composite
def any_rows(draw):
    """Features of random lengths and types; some end in zeros, as padding does."""
    count = draw(st.integers(1, 6))
    rows = {}
    for name in draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True)):
        shape = (count, draw(st.integers(0, 9)))
        if draw(st.booleans()):
            floats = st.floats(width=32, allow_nan=False)
            rows[name] = draw(arrays(np.float32, shape, elements=floats))
            continue
        integers = st.sampled_from(AROUND_VARINTS) | st.integers(0, draw(st.sampled_from([1, 300])))
        rows[name] = draw(arrays(np.int32, shape, elements=integers))
        if draw(st.booleans()):
            rows[name] = (rows[name] & 0xFF).astype(np.uint8)
        if draw(st.booleans()):
            rows[name][:, draw(st.integers(0, shape[1])) :] = 0
    assume(any(array.size for array in rows.values()))
    return rows


@settings(max_examples=60, deadline=None)
@given(any_rows())
def test_any_features_as_protocol_buffers_have_them(rows):
    """The same bytes as those of protocol buffers, feature by feature, and the same values."""
    for row, record in enumerate(records_of(encode_examples(rows))):
        expected = b""
        for name, array in rows.items():
            if not array.shape[1]:
                continue
            kind = "float_list" if array.dtype == np.float32 else "int64_list"
            example = tf.train.Example()
            getattr(example.features.feature[name], kind).value.extend(array[row].tolist())
            expected += example.features.SerializeToString()
        # A field 1 with these features.
        assert record == tf.train.BytesList(value=[expected]).SerializeToString()


@pytest.mark.parametrize("size", [*range(1, 40), 9_000])
def test_records_as_tensorflow_frames_them(size, tmp_path):
    """Records of any length, whose checksums take 16 bytes at a time."""
    frames = encode_examples({"a": np.full((2, size), 7, np.uint8), "b": np.ones((2, 1))})
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records_of(frames):
            writer.write(record)
    assert frames.tobytes() == (tmp_path / "theirs").read_bytes()
