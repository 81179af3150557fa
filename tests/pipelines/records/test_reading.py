"""Files of records: all damage is seen, other names are known, TFX reads them by their schema."""

import gzip
import json
import pathlib
import struct

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
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
from beambert.pipelines.records.contract import records_schema, serialize_schema
from beambert.pipelines.records.reading import find_features
from beambert.pipelines.records.statistics import EVERY_HASH, FEATURES
from beambert.pipelines.verification.findings import examine_file


@pytest.fixture(scope="module")
def golden():
    """What the original's instances hold, counted before they became records."""
    return json.loads((GOLDEN / "original.json").read_text())


class TestSchema:
    def test_domains(self):
        schema = text_format.Parse(
            serialize_schema(records_schema(128, 20, 30522)), schema_pb2.Schema()
        )
        features = {feature.name: feature for feature in schema.feature}
        assert features.keys() == set(FEATURES)
        assert features["input_ids"].int_domain.max == 30521
        assert features["masked_lm_positions"].int_domain.max == 127
        assert features["next_sentence_labels"].int_domain.max == 1
        assert features["masked_lm_weights"].float_domain.max == 1.0
        assert features["masked_lm_weights"].type == schema_pb2.FLOAT

    def test_tfx_reads_records_by_it(self, golden):
        """TFXIO derives a parser from the schema's text and reads the original's records."""
        text = serialize_schema(records_schema(32, 5, len(golden["vocabulary"])))
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
