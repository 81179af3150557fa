"""Faulty records are refused; held-out records of sources are found."""

import json
import os
import shutil

import pytest
import tensorflow as tf
from support import small_pretraining

from beambert.errors import InputError
from beambert.pipelines.records.contract import INFO_FILE
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop.steps import HeldOutPart, Trainer
from beambert.trainer.pretraining.batches import evaluation_batches
from beambert.trainer.pretraining.job import parse_eval_data
from beambert.trainer.pretraining.records import (
    open_held_out,
    open_records,
)


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
@pytest.mark.parametrize("value", [10**9, 0, "128"])
def test_lengths_in_info_json(folder, name, value):
    told(folder, **{name: value})
    match = f"{INFO_FILE}: says {name} is .*, which must be from 1 to 8192"
    with pytest.raises(InputError, match=match):
        open_records(str(folder), "--data")


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        ("input_ids", 10**6),
        ("input_ids", 2**40),  # in 32 bits it would be 0
        ("input_mask", -(2**32)),
        ("next_sentence_labels", 2),
    ],
)
def test_values_out_of_range(folder, feature, value):
    change(folder / "part-00001-of-00003.tfrecord", 7, feature, value)
    records = open_records(str(folder), "--data")
    match = f"^{folder}: a record cannot be .*out of range.*; find it with `beambert verify`"
    with pytest.raises(InputError, match=match):
        list(evaluation_batches(records, 8))


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
    with pytest.raises(InputError, match="a record cannot be read"):
        list(evaluation_batches(opened, 8))


def test_a_record_of_another_length(folder, make_records, tmp_path):
    """In the midst of a file."""
    other = make_records(tmp_path / "other", length=24, documents_a_shard=(3,))
    path = folder / "part-00002-of-00003.tfrecord"
    path.write_bytes(path.read_bytes() + next(other.glob("*.tfrecord")).read_bytes())
    told(folder)
    records = open_records(str(folder), "--data")
    with pytest.raises(InputError, match="a record cannot be read"):
        list(evaluation_batches(records, 8))


def test_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_eval_data(["records/eval"]) == {"": "records/eval"}
    assert parse_eval_data(["wiki=a/b", "books=gs://c/d=e"]) == {
        "wiki": "a/b",
        "books": "gs://c/d=e",
    }
    # A folder that is there is that folder.
    os.mkdir("seed=1")
    assert parse_eval_data(["seed=1"]) == {"": "seed=1"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a/eval", "wiki=b"], "--eval_data=a/eval: has no name, but there are several"),
        (["wiki=a", "wiki=b"], "--eval_data=wiki=b: there are two wiki"),
    ],
)
def test_values_that_are_refused(given, message):
    with pytest.raises(InputError) as refused:
        parse_eval_data(given)
    assert str(refused.value).startswith(message)


def test_the_folders_beside_the_records(records_folder, tmp_path):
    whole = shutil.copytree(records_folder, tmp_path / "whole")
    records = open_records(str(whole), "--data")
    assert list(open_held_out(records, (), "bert")) == [""]
    of_sources = shutil.copytree(records_folder, tmp_path / "of_sources")
    shutil.move(of_sources / "eval", of_sources / "wiki")
    (of_sources / "eval").mkdir()
    shutil.move(of_sources / "wiki", of_sources / "eval" / "wiki")
    shutil.copytree(of_sources / "eval" / "wiki", of_sources / "eval" / "books")
    records = open_records(str(of_sources), "--data")
    found = open_held_out(records, (), "bert")
    assert list(found) == ["books", "wiki"]
    assert found["books"].folder == f"{of_sources}/eval/books"
    shutil.rmtree(of_sources / "eval")
    assert open_held_out(records, (), "bert") == {}


@pytest.mark.release
def test_a_training_shows_each(records_folder, make_records, small_config_file, tmp_path, capsys):
    wiki = {"documents_a_shard": (5,), "seed": 200}
    folders = {"wiki": make_records(tmp_path / "wiki", **wiki), "books": records_folder / "eval"}
    counts = [open_records(str(each), "--eval_data").instances for each in folders.values()]
    model = tmp_path / "model"
    arguments = small_pretraining.flags(records_folder, small_config_file, model)
    pretrain_main([*arguments, *(f"--eval_data={n}={each}" for n, each in folders.items())])
    printed = capsys.readouterr().out
    assert f"{sum(counts):,} held out (wiki {counts[0]:,}, books" in printed
    assert "\n  wiki: loss " in printed and "masked lm perplexity" in printed
    results = json.loads((model / "results.json").read_text())
    low, high = sorted(results[f"{name}/masked_lm_loss"] for name in folders)
    assert low < results["masked_lm_loss"] < high
    for name in folders:
        assert results[f"{name}/masked_lm_loss_per_character"] == pytest.approx(
            results[f"{name}/masked_lm_loss"] / results[f"{name}/characters_per_token"]
        )
    rows = map(json.loads, (model / "metrics.jsonl").read_text().splitlines())
    assert all("wiki/masked_lm_loss" in row for row in rows if row["split"] == "eval")


def test_parts_that_are_not_read_whole_count_whole():
    """The mean of all is weighted by what the sources have, not by what was read of them."""

    class Sums:
        _evaluate_parts = Trainer._evaluate_parts

        def _totals(self, batches, report, rows, seconds):
            report(1)
            return batches

        def _metrics(self, totals):
            return {"loss": totals["sum"] / totals["weight"]}

    parts = [
        HeldOutPart("wiki", {"sum": 10.0, "weight": 10.0}, batches_of_all=10.0),
        HeldOutPart("books", {"sum": 30.0, "weight": 10.0}, batches_of_all=1.0),
    ]
    seen = []
    metrics = Sums()._evaluate_parts(parts, seen.append)
    assert metrics == {
        "loss": pytest.approx((100 + 30) / 110),
        "wiki/loss": 1.0,
        "books/loss": 3.0,
    }
    assert seen == [1, 2]
