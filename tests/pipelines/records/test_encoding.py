"""The contract of records, their bytes, and readers of damaged files."""

import gzip
import hashlib
import io
import json
import pathlib
import struct

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.record_files import (
    GOLDEN,
    IDS,
    ORIGINAL,
    RECORD,
    changed,
    serialize,
    statistics,
    write,
)
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio

from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines.records.batches import read_frames
from beambert.pipelines.records.contract import (
    RecordsInfo,
    feature_shapes,
    records_schema,
    shard_name,
)
from beambert.pipelines.records.encoding import RecordWriter, encode_examples
from beambert.pipelines.records.reading import find_features
from beambert.pipelines.records.statistics import EVERY_HASH, FEATURES
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.verification.findings import examine_file

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


TEXT = b"".join(f"{token}\n".encode() for token in (*SPECIAL_TOKENS, "the", "##s"))


class TestVocabulary:
    @pytest.mark.parametrize(
        "data", [TEXT, TEXT[:-1], TEXT.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + TEXT]
    )
    def test_parse(self, data):
        vocabulary = Vocabulary.parse(data, "v")
        assert vocabulary.tokens == (*SPECIAL_TOKENS, "the", "##s")
        assert (len(vocabulary), vocabulary.id_of("the")) == (7, 5)
        assert vocabulary.serialize() == TEXT
        assert vocabulary.sha256 == hashlib.sha256(TEXT).hexdigest()

    def test_only_line_feeds_end_tokens(self):
        tokens = ("\u2028", "\x85", "\u3000x", "\x1c")
        vocabulary = Vocabulary.parse(TEXT + "".join(f"{t}\n" for t in tokens).encode(), "v")
        assert vocabulary.tokens[7:] == tokens

    @pytest.mark.parametrize("token", SPECIAL_TOKENS)
    def test_missing_special_token(self, token):
        with pytest.raises(InputError, match=rf"my\.txt: .*lacks \[{token[1:-1]}\]"):
            Vocabulary.parse(TEXT.replace(f"{token}\n".encode(), b""), "my.txt")

    def test_the_last_of_two_lines_counts(self):
        """As in the original's load_vocab; no other id moves."""
        vocabulary = Vocabulary.parse(TEXT + b"the\nlast\n", "my.txt")
        count = TEXT.count(b"\n")
        assert (vocabulary.id_of("the"), vocabulary.id_of("last")) == (count, count + 1)

    def test_not_utf8(self):
        with pytest.raises(InputError, match=r"my\.txt: .*not UTF-8"):
            Vocabulary.parse(TEXT + b"caf\xe9\n", "my.txt")

    def test_case(self, shared_data):
        for name, lower in (("uncased", True), ("cased", False)):
            path = shared_data / "vocab" / f"bert-base-{name}-vocab.txt"
            vocabulary = Vocabulary.parse(path.read_bytes(), path.name)
            vocabulary.check_case(lower)
            with pytest.raises(InputError, match=f"--do_lower_case={lower}"):
                vocabulary.check_case(not lower)

    def test_caseless_vocabularies_go_with_both(self):
        vocabulary = Vocabulary((*SPECIAL_TOKENS, "中", "文", "1"))
        vocabulary.check_case(True)
        vocabulary.check_case(False)


class TestRecordsInfo:
    INFO = RecordsInfo({"max_seq_length": 8}, {"size": 7}, [], [], {"é": 1}, {"python": "3"})

    def test_round_trip(self):
        assert RecordsInfo.from_json(self.INFO.to_json(), "info.json") == self.INFO

    @pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format_version": 1}', "\x00"])
    def test_something_else(self, text):
        with pytest.raises(InputError, match="x/info.json: not the info.json"):
            RecordsInfo.from_json(text, "x/info.json")

    def test_later_format(self):
        text = self.INFO.to_json().replace('"format_version": 1', '"format_version": 2')
        with pytest.raises(InputError, match="has the format 2, not 1"):
            RecordsInfo.from_json(text, "info.json")


def test_shard_names_sort_by_number():
    names = [shard_name(i, 12) for i in range(12)]
    assert names == sorted(names) and names[-1] == "part-00011-of-00012.tfrecord"


@pytest.mark.parametrize(
    ("sources", "passes"),
    [
        ({}, 3),
        ({"wiki/*": {"documents": 2}, "books/*": {"documents": 5}}, 3),
        ({"wiki": {"passes": 0.5}, "books": {"passes": 7.25}}, 8),
    ],
)
def test_passes_over_the_source_that_is_gone_over_most(sources, passes):
    info = RecordsInfo({"dupe_factor": 3}, {}, [], [], {"sources": sources}, {})
    assert info.passes == passes
    assert RecordsInfo({}, {}, [], [], {}, {}).passes is None


@pytest.fixture(scope="module")
def golden():
    """What the original's instances hold, counted before they became records."""
    return json.loads((GOLDEN / "original.json").read_text())


class TestSchema:
    def test_domains(self):
        schema = records_schema(128, 20, 30522)
        features = {feature.name: feature for feature in schema.feature}
        assert features.keys() == set(FEATURES)
        assert features["input_ids"].int_domain.max == 30521
        assert features["masked_lm_positions"].int_domain.max == 127
        assert features["next_sentence_labels"].int_domain.max == 1
        assert features["masked_lm_weights"].float_domain.max == 1.0
        assert features["masked_lm_weights"].type == schema_pb2.FLOAT

    def test_tfx_reads_records_by_it(self, golden):
        """TFXIO derives a parser from the schema's text and reads the original's records."""
        text = text_format.MessageToString(records_schema(32, 5, len(golden["vocabulary"])))
        schema = text_format.Parse(text, schema_pb2.Schema())
        reader = tfxio.TFExampleRecord(str(ORIGINAL), schema=schema, telemetry_descriptors=["test"])
        dataset = reader.TensorFlowDataset(
            tfxio.TensorFlowDatasetOptions(batch_size=1000, num_epochs=1, shuffle=False)
        )
        (batch,) = dataset
        shapes = {name: tuple(tensor.shape[1:]) for name, tensor in batch.items()}
        assert shapes == {
            **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), (32,)),
            **dict.fromkeys(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"), (5,)),
            "next_sentence_labels": (1,),
        }
        assert len(batch["input_ids"]) == golden["instances"]
        assert int(tf.reduce_sum(batch["next_sentence_labels"])) == golden["random_next"]
        for feature in schema.feature:
            values = batch[feature.name].numpy()
            domain = feature.int_domain if values.dtype == np.int64 else feature.float_domain
            assert domain.min <= values.min() and values.max() <= domain.max


def examined(path, features=None):
    """The findings in a file, and those about the file itself."""
    found = examine_file(str(path), features, IDS, EVERY_HASH, ProgressTally(None), None)
    (file,) = found.files
    return found, file


class TestFiles:
    def test_gzip(self, tmp_path):
        _, plain = examined(write(tmp_path / "a", [RECORD] * 9))
        path = write(tmp_path / "a.gz", [RECORD] * 9)
        features = find_features(serialize(RECORD), path)
        assert (plain.instances, plain.damage) == (9, "")
        found, file = examined(path, features)
        assert (file.instances, file.damage) == (9, "")
        assert found.statistics.to_json() == statistics(*[RECORD] * 9).to_json()
        assert file.bytes == (tmp_path / "a.gz").stat().st_size

    @pytest.mark.parametrize("name", ["a", "a.gz"])
    def test_every_truncation_is_seen(self, tmp_path, name):
        content = pathlib.Path(write(tmp_path / name, [RECORD, RECORD])).read_bytes()
        is_whole = {0, len(content) // 2} if name == "a" else {0}  # between records, nothing is cut
        for size in set(range(len(content))) - is_whole:
            (tmp_path / name).write_bytes(content[:size])
            assert examined(tmp_path / name)[1].damage, size

    @pytest.mark.parametrize("name", ["a", "a.gz"])
    def test_every_flipped_byte_is_seen(self, tmp_path, name):
        content = pathlib.Path(write(tmp_path / name, [RECORD])).read_bytes()
        # gzip's own header has fields (time, system) that nothing depends on.
        for place in range(0 if name == "a" else 10, len(content)):
            damaged = bytearray(content)
            damaged[place] ^= 0xFF
            (tmp_path / name).write_bytes(damaged)
            assert examined(tmp_path / name)[1].damage, place

    @pytest.mark.parametrize("size", [2**25, 2**31, 2**64 - 1])
    @pytest.mark.parametrize("name", ["a", "a.gz"])
    def test_impossible_lengths(self, tmp_path, size, name):
        """Nothing is allocated for bytes that are not there."""
        content = pathlib.Path(write(tmp_path / "plain", [RECORD])).read_bytes()
        length = struct.pack("<Q", size)
        crc = google_crc32c.value(length)
        masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        content += length + struct.pack("<I", masked) + b"x" * 100
        (tmp_path / name).write_bytes(gzip.compress(content) if name == "a.gz" else content)
        _, file = examined(tmp_path / name)
        assert file.instances == 1 and "record 2 claims to have" in file.damage

    def test_other_names(self):
        garden = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
        hub = {"input_ids": "token_ids", "input_mask": "padding_mask"}
        expected = statistics(RECORD, RECORD).to_json()
        for renamed in (garden, hub):
            assert statistics(*[serialize(RECORD, renamed.items())] * 2).to_json() == expected

    def test_unknown_names(self):
        with pytest.raises(InputError, match="packed_input_ids"):
            find_features(serialize(RECORD, {"input_ids": "packed_input_ids"}.items()), "a file")

    @pytest.mark.parametrize("record", [b"", b"\xff\xff", serialize(changed(masked_lm_ids=[]))])
    def test_nothing_to_go_by(self, record):
        with pytest.raises(InputError, match="a file: its records"):
            find_features(record, "a file")
