"""Records -> batches: order, resuming, hosts, and equally many tokens in each."""

import collections
import dataclasses
import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import assert_same, take

from beambert.errors import InputError
from beambert.model.objectives import BERT
from beambert.pipelines.records.contract import INFO_FILE
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.pretraining import batches as batching
from beambert.trainer.pretraining.batches import (
    FILES_AT_ONCE,
    _training_stream,
    deal,
    evaluation_batches,
    find_record,
    shares_of,
    training_batches,
)
from beambert.trainer.pretraining.records import open_held_out, open_records
from beambert.trainer.pretraining.run import (
    describe_characters,
    losses_per_character,
)

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
        assert_same(resumed, stream[step : step + 3])


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


@pytest.mark.slow
def test_the_stream_from_any_record_is_the_rest_of_the_stream(many_files):
    count = many_files.instances
    rows = lambda first, n: list(  # noqa: E731
        itertools.islice(_training_stream(many_files, SEED, first), n)
    )
    whole = rows(0, 3 * count)
    for first in (1, 17, count // 2, count - 1, count, count + 80):
        assert rows(first, count) == whole[first : first + count], first


@pytest.mark.slow
def test_four_hosts_of_two_replicas_share_the_batches_of_one(many_files, monkeypatch):
    monkeypatch.setattr(batching, "SEQUENCES_DEALT", 16)  # dealing would mix the steps
    contexts = [tf.distribute.InputContext(4, host, 8) for host in range(4)]
    parts = [take(training_batches(many_files, 16, SEED, 3, context), 12) for context in contexts]
    for step, whole in enumerate(take(training_batches(many_files, 16, SEED, 3), 6)):
        of_step = [batch for part in parts for batch in part[2 * step : 2 * step + 2]]
        assert {len(batch["input_ids"]) for batch in of_step} == {2}
        assert sorted(fingerprints(of_step)) == sorted(fingerprints([whole]))


def halves(make) -> list[list[dict[str, np.ndarray]]]:
    """The batches of two input pipelines."""
    contexts = (tf.distribute.InputContext(2, pipeline, 2) for pipeline in range(2))
    return [make(context) for context in contexts]


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


def test_evaluation_on_the_way_reads_the_first_batches(records):
    some = take(evaluation_batches(records, BATCH, max_batches=2), 99)
    assert len(some) == 2
    assert_same(some, take(evaluation_batches(records, BATCH), 2))


@pytest.fixture
def copied(records_folder, tmp_path):
    return shutil.copytree(records_folder, tmp_path / "records")


def damage(folder, what) -> None:
    """Damages a records folder in one of the ways of `DAMAGES`."""
    path, info_file = sorted(folder.glob("*.tfrecord"))[1], folder / INFO_FILE
    info = json.loads(info_file.read_text())
    if what == "vocab.txt":
        (folder / what).write_bytes((folder / what).read_bytes() + b"more\n")
    elif what in ("_SUCCESS", INFO_FILE):
        (folder / what).unlink()
    elif what == "cut":
        path.write_bytes(path.read_bytes()[:-7])
    elif what == "missing":
        path.unlink()
    elif what == "first record":
        path = sorted(folder.glob("*.tfrecord"))[0]
        data = bytearray(path.read_bytes())
        data[20] ^= 255
        path.write_bytes(data)
    elif what == "no records":
        for file in info["files"]:
            file.update(instances=0, bytes=0)
            (folder / file["name"]).write_bytes(b"")
        info_file.write_text(json.dumps(info))
    elif what == "format_version":
        info_file.write_text(json.dumps(info | {what: 99}))
    elif what in info["parameters"]:
        info["parameters"][what] += 1
        info_file.write_text(json.dumps(info))
    else:
        info_file.write_text(what)


# What is wrong -> what the message says.
DAMAGES = {
    "vocab.txt": "vocab.txt",
    "_SUCCESS": "_SUCCESS",
    INFO_FILE: INFO_FILE,
    "cut": "00001-of-00003.tfrecord",
    "missing": "missing",
    "first record": "its first record cannot be read",
    "no records": "no records",
    "format_version": "99",
    "max_seq_length": "cannot be read as info.json describes it",
    "max_predictions_per_seq": "cannot be read as info.json describes it",
    "{": INFO_FILE,
    "[]": INFO_FILE,
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_folders_are_refused(copied, what):
    damage(copied, what)
    with pytest.raises(InputError) as caught:
        open_records(str(copied), "--data")
    message = str(caught.value)
    assert "\n" not in message and str(copied) in message and DAMAGES[what] in message


def test_held_out_records_of_another_vocabulary_are_refused(
    records, make_records, vocabulary, tmp_path
):
    other_vocabulary = Vocabulary((*vocabulary.tokens, "more"))
    other = make_records(tmp_path / "other", vocabulary=other_vocabulary, documents_a_shard=(2,))
    with pytest.raises(InputError) as caught:
        open_held_out(records, [str(other)], BERT)
    for part in ("--eval_data", str(other), vocabulary.sha256[:12], other_vocabulary.sha256[:12]):
        assert part in str(caught.value)


def test_held_out_records_of_another_length_are_refused(records, make_records, tmp_path):
    other = make_records(tmp_path / "other", length=24, documents_a_shard=(2,))
    with pytest.raises(InputError, match=r"--eval_data=.*max_seq_length is 24.*is 32"):
        open_held_out(records, [str(other)], BERT)


exact = settings(derandomize=True, max_examples=25, deadline=None, database=None)
LONGEST = 40


@st.composite
def dealings(draw):
    """Lengths of sequences, batches, parts of a batch, and shares of one host."""
    batches, parts, shares = (
        draw(st.integers(1, 6)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
    )
    count = batches * parts * shares * draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, LONGEST), min_size=count, max_size=count))
    return lengths, batches, parts, shares


def features(lengths, first=0):
    """Features of sequences of these lengths; `row` numbers them."""
    mask = (np.arange(LONGEST) < np.array(lengths)[:, None]).astype(np.int32)
    rows = np.arange(first, first + len(lengths), dtype=np.int32)
    return {"input_mask": mask, "row": rows}


def dealt(lengths, batches, parts=1, shares=(0,), all_shares=1):
    """Returns the numbers of the rows, [batches, parts, rows]."""
    found = deal(features(lengths), batches, parts, shares, all_shares)
    assert found["input_mask"].shape == (*found["row"].shape, LONGEST)
    assert (found["input_mask"].sum(-1) == np.array(lengths)[found["row"]]).all()
    return found["row"]


def test_cards_go_there_and_back():
    """Eight sequences of 8 to 1 tokens in two batches of 18 tokens, the longest first."""
    lengths = np.array([3, 8, 1, 6, 5, 2, 7, 4])
    assert lengths[dealt(lengths, 2)].tolist() == [[[8, 5, 4, 1]], [[7, 6, 3, 2]]]
    assert lengths[dealt(lengths, 2, 2)].tolist() == [[[8, 1], [5, 4]], [[7, 2], [6, 3]]]


@exact
@given(dealings())
def test_every_sequence_is_in_one_part_of_one_batch(case):
    lengths, batches, parts, shares = case
    rows = dealt(lengths, batches, parts, range(shares), shares)
    assert rows.shape == (batches, parts, len(lengths) // batches // parts)
    assert sorted(rows.ravel()) == list(range(len(lengths)))


@exact
@given(dealings())
def test_totals_differ_by_no_more_than_two_sequences_do(case):
    """Batches by the spread of each share, parts of a batch by the spread of the batch."""
    lengths, batches, parts, shares = case
    rows = dealt(lengths, batches, parts, range(shares), shares)
    tokens = np.array(lengths)[rows]
    spread = sum(np.ptp(lengths[share::shares]) for share in range(shares))
    assert np.ptp(tokens.sum(axis=(1, 2))) <= spread
    for batch in tokens:
        assert np.ptp(batch.sum(axis=1)) <= np.ptp(batch)


@exact
@given(dealings())
def test_the_parts_of_a_batch_do_not_change_what_is_in_it(case):
    """Training on another number of devices, or in more parts, sees the same batches."""
    lengths, batches, parts, shares = case
    many, one = (dealt(lengths, batches, n, range(shares), shares) for n in (parts, 1))
    for a, b in zip(many, one, strict=True):
        assert sorted(a.ravel()) == sorted(b.ravel())


@pytest.mark.parametrize("hosts", [2, 4])
def test_hosts_together_deal_what_one_deals(hosts):
    """Each reads its shares; a batch of all hosts has the rows that one host gives it."""
    shares, batches, rounds = 4, 8, 6
    lengths = np.random.default_rng(0).integers(1, LONGEST, shares * batches * rounds)
    whole = dealt(lengths, batches, 1, range(shares), shares).reshape(batches, -1)
    number = np.arange(len(lengths))
    together = []
    for host in np.split(np.arange(shares), hosts):
        mine = number[np.isin(number % shares, host)]
        rows = dealt(lengths[mine], batches, 2, host.tolist(), shares)
        together.append(mine[rows].reshape(batches, -1))
    together = np.concatenate(together, axis=1)
    assert np.sort(together).tolist() == np.sort(whole).tolist()


def test_a_batch_has_not_the_longest_of_every_share():
    """Of four shares with the same lengths, a batch gets four different piles."""
    shares, batches = 4, 8
    lengths = np.repeat(np.arange(1, 2 * batches + 1), shares)  # each length in every share
    found = lengths[dealt(lengths, batches, 1, range(shares), shares)].reshape(batches, -1)
    assert all(len(set(batch)) == len(batch) for batch in found)
    # From all over the pack: the best batch is hardly better off than the worst.
    assert set(found.max(axis=1)) == {15, 16} and set(found.min(axis=1)) == {1, 2}


@pytest.mark.parametrize(
    ("batch_size", "shares"),
    [(256, 16), (64, 16), (32, 8), (16, 4), (8, 2), (4, 1), (2, 1), (1, 1), (40, 2), (10_240, 16)],
)
def test_shares_have_four_rows_of_a_batch_or_more(batch_size, shares):
    """As many as divide it and leave four rows a share, up to 16."""
    assert shares_of(batch_size, 1) == shares


@exact
@given(st.integers(1, 64), st.sampled_from([1, 2, 3, 4, 8, 16, 32]))
def test_shares_divide_the_batch_among_the_hosts(rows_a_host, hosts):
    """Where one host's shares can't be divided among the hosts, each host gets one of its own."""
    shares, of_one = shares_of(rows_a_host * hosts, hosts), shares_of(rows_a_host * hosts, 1)
    assert rows_a_host * hosts % shares == 0 and shares % hosts == 0
    assert shares == (hosts if of_one % hosts else of_one)


# Three tokens: a special one, one of two characters and one of five.
CHARACTERS = np.array([0, 2, 5])
PREDICTED = {"wiki": np.array([0, 30, 10]), "law": np.array([0, 10, 50])}
RESULTS = {"masked_lm_loss": 3.0, "wiki/masked_lm_loss": 2.0, "law/masked_lm_loss": 4.0}


def test_the_losses_of_all_predictions_over_all_their_characters():
    found = losses_per_character(RESULTS, PREDICTED, CHARACTERS)
    assert found == pytest.approx(
        {
            "characters_per_token": (110 + 270) / 100,
            "masked_lm_loss_per_character": 3.0 * 100 / (110 + 270),
            "wiki/characters_per_token": 110 / 40,
            "wiki/masked_lm_loss_per_character": 2.0 * 40 / 110,
            "law/characters_per_token": 270 / 60,
            "law/masked_lm_loss_per_character": 4.0 * 60 / 270,
        }
    )
    line = describe_characters(found, PREDICTED)
    assert line.startswith("masked lm loss per character: 0.789 (3.80 characters a token); wiki ")
    assert line.endswith("; law 0.889 (4.50 characters a token)")


def test_text_without_sources_and_text_without_predictions():
    found = losses_per_character(RESULTS, {"": PREDICTED["wiki"]}, CHARACTERS)
    assert found.keys() == {"characters_per_token", "masked_lm_loss_per_character"}
    assert losses_per_character(RESULTS, {"": np.zeros(3, np.int64)}, CHARACTERS) == {}
    assert "none, as no token" in describe_characters({}, [""])
