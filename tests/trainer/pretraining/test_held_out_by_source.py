"""The held-out loss of each source, and the values of --eval_data."""

import json
import os
import shutil

import pytest
import tensorflow as tf
from support import small_pretraining

from beambert.errors import InputError
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop.phases import HeldOutPart
from beambert.trainer.loop.progress import describe_metrics
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.pretraining.job import parse_eval_data
from beambert.trainer.pretraining.records import open_held_out, open_records


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
    assert list(open_held_out(records, None, "bert")) == [""]
    of_sources = shutil.copytree(records_folder, tmp_path / "of_sources")
    shutil.move(of_sources / "eval", of_sources / "wiki")
    (of_sources / "eval").mkdir()
    shutil.move(of_sources / "wiki", of_sources / "eval" / "wiki")
    shutil.copytree(of_sources / "eval" / "wiki", of_sources / "eval" / "books")
    records = open_records(str(of_sources), "--data")
    found = open_held_out(records, None, "bert")
    assert list(found) == ["books", "wiki"]
    assert found["books"].folder == f"{of_sources}/eval/books"
    shutil.rmtree(of_sources / "eval")
    assert open_held_out(records, None, "bert") == {}


def test_a_line_for_each_source():
    metrics = {"loss": 3.0, "masked_lm_accuracy": 0.25, "wiki/loss": 2.0, "books/loss": 4.0}
    expected = "loss 3.000, masked lm accuracy 25.0%\n  wiki: loss 2.000\n  books: loss 4.000"
    assert describe_metrics(metrics) == expected


@pytest.mark.release
def test_a_training_shows_each(records_folder, small_config_file, tmp_path, capsys):
    """Two halves of the same records: all of them together have the loss of the whole folder."""
    held_out = open_records(str(records_folder / "eval"), "--eval_data")
    halves = {}
    serialized = [
        record
        for path in held_out.files
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator()
    ]
    third = len(serialized) // 3
    for name, some in (("wiki", serialized[:third]), ("books", serialized[third:])):
        halves[name] = shutil.copytree(records_folder / "eval", tmp_path / name)
        about = json.loads((halves[name] / "info.json").read_text())
        for file in about["files"]:
            (halves[name] / file["name"]).unlink()
        about["files"] = [about["files"][0] | {"instances": len(some)}]
        about["counts"]["instances"] = len(some)
        path = halves[name] / about["files"][0]["name"]
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in some:
                writer.write(record)
        about["files"][0]["bytes"] = path.stat().st_size
        (halves[name] / "info.json").write_text(json.dumps(about))
    given = {
        "whole": [f"--eval_data={records_folder}/eval"],
        "parts": [f"--eval_data={name}={folder}" for name, folder in halves.items()],
    }
    results = {}
    for name, flags in given.items():
        model = tmp_path / f"model-{name}"
        pretrain_main([*small_pretraining.flags(records_folder, small_config_file, model), *flags])
        results[name] = json.loads((model / "results.json").read_text())
    printed = capsys.readouterr().out
    assert f"{len(serialized):,} held out (wiki {third:,}, books" in printed
    assert "\n  wiki: loss " in printed and "masked lm perplexity" in printed
    whole, parts = results["whole"], results["parts"]
    for metric, value in whole.items():
        assert parts[metric] == pytest.approx(value, rel=1e-4), metric
    for name in ("wiki", "books"):
        mine = [f"{name}/{metric}" for metric in ("masked_lm_loss", "masked_lm_perplexity")]
        assert all(metric in parts for metric in mine)
        assert parts[f"{name}/masked_lm_loss_per_character"] == pytest.approx(
            parts[f"{name}/masked_lm_loss"] / parts[f"{name}/characters_per_token"]
        )
    low, high = sorted(parts[f"{name}/masked_lm_loss"] for name in halves)
    assert low <= whole["masked_lm_loss"] <= high
    rows = map(json.loads, (tmp_path / "model-parts" / "metrics.jsonl").read_text().splitlines())
    assert all("wiki/masked_lm_loss" in row for row in rows if row["split"] == "eval")


def test_parts_that_are_not_read_whole_count_whole():
    """The mean of all is weighted by what the sources have, not by what was read of them."""

    class Sums:
        _evaluate_parts = Trainer._evaluate_parts

        def _totals(self, batches, report, rows):
            report(1)
            return batches

        def _metrics(self, totals):
            return {"loss": totals["sum"] / totals["weight"]}

    parts = [
        HeldOutPart("wiki", {"sum": 10.0, "weight": 10.0}, share=0.1),
        HeldOutPart("books", {"sum": 30.0, "weight": 10.0}, share=1.0),
    ]
    seen = []
    metrics = Sums()._evaluate_parts(parts, seen.append)
    assert metrics == {
        "loss": pytest.approx((100 + 30) / 110),
        "wiki/loss": 1.0,
        "books/loss": 3.0,
    }
    assert seen == [1, 2]
