"""Batches against records read one by one, and what is refused."""

import collections
import dataclasses
import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.pretraining import batches as batching
from beambert.trainer.pretraining.batches import (
    FILES_AT_ONCE,
    _in_turn,
    _training_stream,
    evaluation_batches,
    find_record,
    training_batches,
)
from beambert.trainer.pretraining.records import check_same, open_records

SEED = 5
BATCH = 8


@pytest.fixture(scope="module")
def records(records_folder):
    return open_records(str(records_folder), "--data")


def split_again(records, folder, counts, compression=""):
    """The first records again, in files of other counts."""
    folder.mkdir(exist_ok=True)
    options = tf.io.TFRecordOptions(compression_type=compression)
    suffix = ".gz" if compression else ""
    serialized, files = iter(tf.data.TFRecordDataset(records.files).repeat()), []
    for number, count in enumerate(counts):
        files.append({"name": f"{number:02d}.tfrecord{suffix}", "instances": count})
        with tf.io.TFRecordWriter(str(folder / files[-1]["name"]), options) as writer:
            for record in itertools.islice(serialized, count):
                writer.write(record.numpy())
    info = dataclasses.replace(records.info, files=files)
    return dataclasses.replace(records, folder=str(folder), info=info)


# More files than are read at once, one of them empty, sizes far apart.
COUNTS = [3, 1, 4, 1, 5, 9, 0, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]


@pytest.fixture(scope="module", params=["", pytest.param("GZIP", marks=pytest.mark.slow)])
def many_files(records, tmp_path_factory, request):
    return split_again(records, tmp_path_factory.mktemp("many"), COUNTS, request.param)


def take(dataset, count: int) -> list[dict[str, np.ndarray]]:
    return [{k: v.numpy() for k, v in batch.items()} for batch in itertools.islice(dataset, count)]


def assert_same(batch, other) -> None:
    assert batch.keys() == other.keys()
    for name in batch:
        np.testing.assert_array_equal(batch[name], other[name])


def fingerprints(batches) -> list[bytes]:
    """Every row of the batches as bytes."""
    return [
        b"".join(batch[name][row].astype(np.float64).tobytes() for name in sorted(batch))
        for batch in batches
        for row in range(len(batch["input_ids"]))
    ]


def plain_fingerprints(rows) -> list[bytes]:
    return [
        b"".join(row[name].astype(np.float64).tobytes() for name in sorted(row)) for row in rows
    ]


@pytest.mark.slow
def test_every_epoch_covers_every_record_once(records, records_folder, read_rows, monkeypatch):
    monkeypatch.setattr(batching, "SEQUENCES_DEALT", records.instances)
    expected = collections.Counter(plain_fingerprints(read_rows(records_folder)))
    count = records.instances
    assert sum(expected.values()) == count
    rows = fingerprints(take(training_batches(records, 1, SEED), 4 * count))
    epochs = [rows[i : i + count] for i in range(0, 4 * count, count)]
    for epoch in epochs:
        assert collections.Counter(epoch) == expected
    assert len({tuple(epoch) for epoch in epochs}) > 1, "the order of the files never changes"


@pytest.mark.slow
def test_batches_from_a_step_continue_the_stream(records):
    steps_an_epoch = records.instances // BATCH
    assert records.instances % BATCH, "batches should cross the ends of epochs"
    stream = take(training_batches(records, BATCH, SEED), 2 * steps_an_epoch + 6)
    for step in (1, steps_an_epoch - 1, steps_an_epoch, steps_an_epoch + 1, 2 * steps_an_epoch + 3):
        resumed = take(training_batches(records, BATCH, SEED, first_step=step), 3)
        for batch, other in zip(resumed, stream[step : step + 3], strict=True):
            assert_same(batch, other)


def in_turn(files):
    """The records of some files, one of each file after the other."""
    for first in range(0, len(files), FILES_AT_ONCE):
        for round_of in itertools.zip_longest(*files[first : first + FILES_AT_ONCE]):
            yield from (record for record in round_of if record is not None)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.data())
def test_a_record_is_found_from_the_counts(counts, data):
    order = list(in_turn([[(file, i) for i in range(count)] for file, count in enumerate(counts)]))
    index = data.draw(st.integers(0, len(order) - 1))
    first_file, rounds, rest = find_record(counts, index)
    assert first_file % FILES_AT_ONCE == 0 and rest < FILES_AT_ONCE
    files = [
        [(file, i) for i in range(rounds if file < first_file + FILES_AT_ONCE else 0, count)]
        for file, count in enumerate(counts)
        if file >= first_file
    ]
    assert list(in_turn(files))[rest:] == order[index:]


def test_the_files_take_turns(many_files):
    compression = "GZIP" if many_files.files[0].endswith(".gz") else ""
    read = lambda name: tf.data.TFRecordDataset(name, compression).as_numpy_iterator()  # noqa: E731
    expected = list(in_turn([list(read(name)) for name in many_files.files]))
    assert len(expected) == sum(COUNTS)
    stream = _in_turn(tf.constant(many_files.files), many_files)
    assert list(stream.as_numpy_iterator()) == expected


@pytest.mark.slow
def test_the_stream_from_any_record_is_the_rest_of_the_stream(many_files):
    count = many_files.instances
    rows = lambda first, n: list(  # noqa: E731
        _training_stream(many_files, SEED, first).take(n).as_numpy_iterator()
    )
    whole = rows(0, 3 * count)
    for first in (1, 17, count // 2, count - 1, count, count + 80):
        assert rows(first, count) == whole[first : first + count], first


@pytest.mark.slow
def test_a_far_step_opens_no_file_that_is_done(records, tmp_path):
    copy = split_again(records, tmp_path, [6] * (2 * FILES_AT_ONCE))
    done = FILES_AT_ONCE * 6
    expected = list(_training_stream(copy, SEED, done).take(done).as_numpy_iterator())
    contents = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for record in _training_stream(copy, SEED, 0).take(done).as_numpy_iterator():
        for path, content in contents.items():
            if record in content:
                path.write_bytes(b"")
    emptied = sum(not path.stat().st_size for path in contents)
    assert emptied == FILES_AT_ONCE
    assert list(_training_stream(copy, SEED, done).take(done).as_numpy_iterator()) == expected


@pytest.mark.slow
def test_four_hosts_of_two_replicas_share_the_batches_of_one(many_files, monkeypatch):
    monkeypatch.setattr(batching, "SEQUENCES_DEALT", 16)  # dealing would mix the steps
    contexts = [tf.distribute.InputContext(4, host, 8) for host in range(4)]
    parts = [take(training_batches(many_files, 16, SEED, 3, context), 12) for context in contexts]
    for step, whole in enumerate(take(training_batches(many_files, 16, SEED, 3), 6)):
        of_step = [batch for part in parts for batch in part[2 * step : 2 * step + 2]]
        assert {len(batch["input_ids"]) for batch in of_step} == {2}
        assert sorted(fingerprints(of_step)) == sorted(fingerprints([whole]))


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 9, 18, 33])
def test_any_batch_can_be_dealt(records, batch_size):
    batch = next(iter(training_batches(records, batch_size, SEED)))
    assert batch["input_ids"].shape == (batch_size, records.max_seq_length)


@pytest.mark.slow
def test_the_seed_decides_the_order(records):
    streams = [take(training_batches(records, BATCH, seed), 1)[0] for seed in range(6)]
    assert_same(streams[0], take(training_batches(records, BATCH, 0), 1)[0])
    assert len({batch["input_ids"].tobytes() for batch in streams}) > 1


def halves(make) -> list[list[dict[str, np.ndarray]]]:
    """The batches of two input pipelines."""
    contexts = (tf.distribute.InputContext(2, pipeline, 2) for pipeline in range(2))
    return [make(context) for context in contexts]


@pytest.mark.slow
def test_two_input_pipelines_share_the_batches_of_one(records, monkeypatch):
    monkeypatch.setattr(batching, "SEQUENCES_DEALT", BATCH)  # dealing would mix the steps
    count = records.instances // BATCH + 2
    parts = halves(
        lambda context: take(
            training_batches(records, BATCH, SEED, first_step=2, context=context), count
        )
    )
    for one, *two in zip(
        take(training_batches(records, BATCH, SEED, first_step=2), count), *parts, strict=True
    ):
        assert all(len(half["input_ids"]) == BATCH // 2 for half in two)
        assert sorted(fingerprints([one])) == sorted(fingerprints(two))


@pytest.mark.slow
def test_two_input_pipelines_deal_the_batches_that_one_deals(records):
    steps = batching.steps_dealt(BATCH)
    parts = halves(
        lambda context: take(training_batches(records, BATCH, SEED, context=context), steps)
    )
    whole = take(training_batches(records, BATCH, SEED), steps)
    for one, *two in zip(whole, *parts, strict=True):
        assert sorted(fingerprints([one])) == sorted(fingerprints(two))


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "parts"), [(1, 1), (2, 1), (2, 2)])
def test_batches_and_their_parts_have_equally_many_tokens(records, replicas, parts):
    rows = BATCH // replicas
    context = tf.distribute.InputContext(1, 0, replicas)
    steps = batching.steps_dealt(BATCH)
    batches = take(
        training_batches(records, BATCH, SEED, 0, context, gradient_accumulation_steps=parts),
        steps * replicas,
    )
    together = [
        np.concatenate([b["input_mask"].sum(axis=1) for b in batches[i : i + replicas]])
        for i in range(0, len(batches), replicas)
    ]
    whole = take(training_batches(records, BATCH, SEED), steps)
    for lengths, batch in zip(together, whole, strict=True):
        assert sorted(lengths) == sorted(batch["input_mask"].sum(axis=1)), "other batches"
    mean = np.mean(together) * BATCH
    totals = [lengths.sum() for lengths in together]
    undealt = np.std(np.concatenate(together)) * np.sqrt(BATCH)
    assert np.std(totals) < undealt / 5
    assert np.abs(totals - mean).max() < undealt
    for batch in batches:
        shares = batch["input_mask"].reshape(parts, -1).sum(axis=1)
        # There and back leaves less between the parts than one sequence.
        assert np.ptp(shares) <= 32
        assert len(batch["input_mask"]) == rows


def without_filled_rows(batches):
    for batch in batches:
        real = batch["example_weights"] == 1
        yield {name: v[real] for name, v in batch.items() if name != "example_weights"}


def test_evaluation_covers_every_record_once(records, records_folder, read_rows):
    batches = take(evaluation_batches(records, BATCH), 10_000)
    assert {batch["input_ids"].shape for batch in batches} == {(BATCH, 32)}
    assert {tuple(np.unique(batch["example_weights"])) for batch in batches[:-1]} == {(1.0,)}
    filled = batches[-1]["example_weights"] == 0
    assert filled.sum() == -records.instances % BATCH > 0
    assert not batches[-1]["masked_lm_weights"][filled].any()
    expected = plain_fingerprints(read_rows(records_folder))
    assert sorted(fingerprints(without_filled_rows(batches))) == sorted(expected)


def test_two_input_pipelines_evaluate_every_record_once(records, records_folder, read_rows):
    parts = halves(
        lambda context: take(evaluation_batches(records, BATCH, context=context), 10_000)
    )
    assert len(parts[0]) == len(parts[1]), "a worker would wait for another batch for ever"
    expected = plain_fingerprints(read_rows(records_folder))
    both = [batch for part in parts for batch in without_filled_rows(part)]
    assert sorted(fingerprints(both)) == sorted(expected)


@pytest.mark.slow
@pytest.mark.parametrize("instances", [1, 2, 9, 16, 17])
def test_pipelines_evaluate_equally_many_batches(records, instances, tmp_path):
    few = split_again(records, tmp_path, [instances])
    parts = halves(lambda context: take(evaluation_batches(few, 8, context=context), 99))
    assert len(parts[0]) == len(parts[1]) == -(-instances // 8)
    assert sum(b["example_weights"].sum() for part in parts for b in part) == instances


def test_evaluation_on_the_way_reads_the_first_batches(records):
    some = take(evaluation_batches(records, BATCH, max_batches=2), 99)
    assert len(some) == 2
    for batch, other in zip(some, take(evaluation_batches(records, BATCH), 2), strict=True):
        assert_same(batch, other)


def test_types_and_shapes_are_static(records):
    spec = training_batches(records, BATCH, SEED).element_spec
    assert {name: tuple(s.shape) for name, s in spec.items()} == {
        "input_ids": (BATCH, 32),
        "input_mask": (BATCH, 32),
        "segment_ids": (BATCH, 32),
        "masked_lm_positions": (BATCH, 5),
        "masked_lm_ids": (BATCH, 5),
        "masked_lm_weights": (BATCH, 5),
        "next_sentence_labels": (BATCH, 1),
    }
    assert {s.dtype for s in spec.values()} == {tf.int32, tf.float32}


@pytest.fixture
def copied(records_folder, tmp_path):
    return shutil.copytree(records_folder, tmp_path / "records")


def refusal(folder) -> str:
    with pytest.raises(InputError) as caught:
        open_records(str(folder), "--data")
    message = str(caught.value)
    assert "\n" not in message and str(folder) in message and "beambert data" in message
    return message


def test_missing_folder_is_refused(tmp_path):
    assert refusal(tmp_path / "nowhere").startswith("--data=")


def test_unfinished_folder_is_refused(copied):
    (copied / "_SUCCESS").unlink()
    assert "_SUCCESS" in refusal(copied)


def test_truncated_file_is_refused(copied):
    path = sorted(copied.glob("*.tfrecord"))[1]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-7])
    message = refusal(copied)
    assert path.name in message and str(size) in message and str(size - 7) in message


def test_missing_file_is_refused(copied):
    path = sorted(copied.glob("*.tfrecord"))[0]
    path.unlink()
    message = refusal(copied)
    assert path.name in message and "missing" in message


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format_version": 1}', "\udcff"])
def test_damaged_info_is_refused(copied, text):
    (copied / "info.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "info.json" in refusal(copied)


def test_other_format_version_is_refused(copied):
    info = json.loads((copied / "info.json").read_text())
    (copied / "info.json").write_text(json.dumps(info | {"format_version": 99}))
    message = refusal(copied)
    assert "99" in message and "info.json" in message


@pytest.mark.parametrize("name", ["max_seq_length", "max_predictions_per_seq"])
def test_records_of_another_length_than_their_info_are_refused(copied, name):
    info = json.loads((copied / "info.json").read_text())
    info["parameters"][name] += 1
    (copied / "info.json").write_text(json.dumps(info))
    message = refusal(copied)
    assert "tfrecord: record 1 cannot be read as info.json describes it" in message
    assert "\n" not in message


def test_a_damaged_first_record_is_refused(copied):
    path = sorted(copied.glob("*.tfrecord"))[0]
    data = bytearray(path.read_bytes())
    data[20] ^= 255
    path.write_bytes(data)
    assert "its first record cannot be read" in refusal(copied)


def test_missing_info_is_refused(copied):
    (copied / "info.json").unlink()
    with pytest.raises(InputError, match=r"info\.json: cannot be read"):
        open_records(str(copied), "--data")


def test_records_without_instances_are_refused(copied):
    info = json.loads((copied / "info.json").read_text())
    for file in info["files"]:
        file.update(instances=0, bytes=0)
        (copied / file["name"]).write_bytes(b"")
    (copied / "info.json").write_text(json.dumps(info))
    assert "no records" in refusal(copied)


def test_vocabulary_that_is_not_the_records_is_refused(copied):
    path = copied / "vocab.txt"
    path.write_bytes(path.read_bytes() + b"more\n")
    assert "vocab.txt" in refusal(copied)


def test_held_out_records_of_another_vocabulary_are_refused(
    records, make_records, vocabulary, tmp_path
):
    other_vocabulary = Vocabulary((*vocabulary.tokens, "more"))
    other = make_records(tmp_path / "other", vocabulary=other_vocabulary, documents_a_shard=(2,))
    with pytest.raises(InputError) as caught:
        check_same(records, open_records(str(other), "--eval_data"))
    for part in ("--eval_data", str(other), vocabulary.sha256[:12], other_vocabulary.sha256[:12]):
        assert part in str(caught.value)


def test_held_out_records_of_another_length_are_refused(records, make_records, tmp_path):
    other = make_records(tmp_path / "other", length=24, documents_a_shard=(2,))
    with pytest.raises(InputError, match=r"--eval_data=.*max_seq_length is 24.*is 32"):
        check_same(records, open_records(str(other), "--eval_data"))
