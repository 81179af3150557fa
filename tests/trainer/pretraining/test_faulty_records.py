"""Records that TensorFlow would die of, or that a model would train on without a word."""

import functools
import json
import shutil
import struct

import google_crc32c
import pytest
import tensorflow as tf
from support import small_pretraining

from beambert.errors import InputError
from beambert.pipelines.records.contract import INFO_FILE
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.pretraining.batches import evaluation_batches, training_batches
from beambert.trainer.pretraining.records import faults_named, find_fault, open_records


def header(size: int) -> bytes:
    """The start of a record of so many bytes, by TFRecord's definition (tfrecord.md)."""
    length = struct.pack("<Q", size)
    crc = google_crc32c.value(length)
    return length + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@pytest.fixture
def folder(records_folder, tmp_path):
    return shutil.copytree(records_folder, tmp_path / "records")


def told(path, **values) -> None:
    """Changes info.json."""
    info = json.loads((path / INFO_FILE).read_text())
    info["parameters"] |= {n: v for n, v in values.items() if n in info["parameters"]}
    for file in info["files"]:
        file["bytes"] = (path / file["name"]).stat().st_size
    (path / INFO_FILE).write_text(json.dumps(info))


def change(path, number: int, feature: str, value: int) -> None:
    """Puts a value into the third place of a feature of a record, counted from 1."""
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    example = tf.train.Example.FromString(records[number - 1])
    values = example.features.feature[feature].int64_list.value
    values[min(2, len(values) - 1)] = value
    records[number - 1] = example.SerializeToString()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    told(path.parent)


@pytest.mark.parametrize("name", ["max_seq_length", "max_predictions_per_seq"])
@pytest.mark.parametrize("value", [10**9, 0, -1, 2**62, "128", None, 1.5])
def test_lengths_in_info_json(folder, name, value):
    told(folder, **{name: value})
    match = f"{INFO_FILE}: says {name} is .*, which must be from 1 to 8192"
    with pytest.raises(InputError, match=match):
        open_records(str(folder), "--data")


@pytest.mark.parametrize("value", [7, -0.1, "0.15", None, float("nan")])
def test_a_mask_rate_in_info_json(folder, value):
    info = json.loads((folder / INFO_FILE).read_text())
    info["parameters"]["masked_lm_prob"] = value
    (folder / INFO_FILE).write_text(json.dumps(info))
    match = f"{INFO_FILE}: says masked_lm_prob is .*, which must be from 0 to 1"
    with pytest.raises(InputError, match=match):
        open_records(str(folder), "--data")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("feature", "value"),
    [
        ("input_ids", 10**6),
        ("input_ids", -1),
        ("input_ids", 2**40),  # in 32 bits it would be 0
        ("masked_lm_ids", 10**6),
        ("masked_lm_positions", 32),
        ("segment_ids", 2),
        ("input_mask", -(2**32)),
        ("next_sentence_labels", 2),
    ],
)
def test_values_out_of_range(folder, feature, value):
    path = folder / "part-00001-of-00003.tfrecord"
    change(path, 7, feature, value)
    records = open_records(str(folder), "--data")
    limit = {"masked_lm_positions": 32, "segment_ids": 2, "input_mask": 2}.get(
        feature, 2 if feature.startswith("next") else len(records.vocabulary)
    )
    match = rf"{path}: record 7 has {value} in {feature}, which must be from 0 to {limit - 1}; "
    with pytest.raises(InputError, match=match), faults_named([records]):
        next(iter(training_batches(records, 8, 1)))
    with pytest.raises(InputError, match=match), faults_named([records]):
        list(evaluation_batches(records, 8))


@pytest.mark.slow
def test_a_record_whose_bytes_are_no_text(folder):
    """TensorFlow quotes it, and fails to raise its error: the quotation isn't UTF-8."""
    path = folder / "part-00001-of-00003.tfrecord"
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    records[6] = b"\x0a\xa8\xff\xfe" + records[6]
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    told(folder)
    opened = open_records(str(folder), "--data")
    match = rf"{path}: record 7 (is damaged: it is not a|cannot be read as info.json)"
    for batches in (lambda: training_batches(opened, 8, 1), lambda: evaluation_batches(opened, 8)):
        with pytest.raises(InputError, match=match), faults_named([opened]):
            for _ in batches().take(100):
                pass

    @functools.partial(tf.function, autograph=False)
    def in_a_graph(iterator):
        return next(iterator)["input_ids"]

    iterator = iter(training_batches(opened, 8, 1))
    with pytest.raises(InputError, match=match), faults_named([opened]):
        for _ in range(100):
            in_a_graph(iterator)


def test_the_first_record_is_looked_at_before_the_training(folder):
    change(folder / "part-00000-of-00003.tfrecord", 1, "input_ids", 10**6)
    with pytest.raises(InputError, match="00000-of-00003.tfrecord: record 1 has 1000000 in input"):
        open_records(str(folder), "--data")


def test_a_record_of_another_length(folder, make_records, tmp_path):
    """In the midst of a file."""
    other = make_records(tmp_path / "other", length=24, documents_a_shard=(3,))
    path = folder / "part-00002-of-00003.tfrecord"
    path.write_bytes(path.read_bytes() + next(other.glob("*.tfrecord")).read_bytes())
    count = sum(1 for _ in tf.data.TFRecordDataset(str(records_of(folder)[2])))
    told(folder)
    records = open_records(str(folder), "--data")
    where, fault = find_fault(records)
    assert where == str(path) and "cannot be read as info.json describes it" in fault
    assert 1 < int(fault.removeprefix("record ").split()[0]) < count


def test_a_damaged_file_on_the_way(folder):
    """It is met while a record of a later file is looked for."""
    records = open_records(str(folder), "--data")
    path = folder / "part-00000-of-00003.tfrecord"
    path.write_bytes(path.read_bytes()[:-5])
    where, fault = find_fault(records)
    assert where == str(path) and fault.startswith("is damaged (")


@pytest.mark.slow
def test_a_damaged_file_is_named_when_a_training_meets_it(folder, small_config_file, tmp_path):
    path = folder / "part-00001-of-00003.tfrecord"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    model = tmp_path / "m"
    with pytest.raises(InputError, match=f"^{path}: is damaged .*; copy the folder again"):
        pretrain_main(small_pretraining.flags(folder, small_config_file, model, num_train_steps=99))


def records_of(folder) -> list:
    return sorted(folder.glob("*.tfrecord"))


def test_other_errors_are_left_alone(folder):
    records = open_records(str(folder), "--data")
    assert find_fault(records) is None
    error = tf.errors.InvalidArgumentError(None, None, "of the model")
    with pytest.raises(tf.errors.InvalidArgumentError), faults_named([records]):
        raise error
