"""`beambert compare`: tables of model folders, made by hand as trainings leave them."""

import json
import pathlib
import re

import pytest

from beambert.errors import InputError
from beambert.trainer.comparing import compare, describe

SETTINGS = {"kind": "pretraining", "optimizer": {"learning_rate": 1e-3}, "data": []}


def make_run(folder, training=SETTINGS, hidden=128, rows=(), results=None, finished=True):
    folder.mkdir(parents=True)
    (folder / "training.json").write_text(json.dumps(training))
    config = {"vocab_size": 9, "hidden_size": hidden, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 2, "intermediate_size": 64}
    (folder / "bert_config.json").write_text(json.dumps(config))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if results is not None:
        (folder / "results.json").write_text(json.dumps(results))
    if finished:
        (folder / "_SUCCESS").write_text("{}")
    return str(folder)


def line(split, step, **metrics):
    return {"split": split, "step": step} | metrics


@pytest.fixture
def runs(tmp_path):
    """A finished training, and one of other data and rate that still trains."""
    for name, factor in (("short", 5), ("long", 10)):
        (tmp_path / name).mkdir()
        info = {"parameters": {"dupe_factor": factor, "masked_lm_prob": 0.15}}
        (tmp_path / name / "info.json").write_text(json.dumps(info))
    one = SETTINGS | {
        "columns": [],
        "data": [str(tmp_path / "short")],
        "data_sha256": ["ab" * 32] * 2,
    }
    other = one | {"data": [str(tmp_path / "long")], "data_sha256": ["ab" * 32, "cd" * 32]}
    del other["columns"]  # no setting that differs from an empty one
    other["optimizer"] = {"learning_rate": 5e-4}
    first = [
        line("train", 10, loss=7.5, tokens_per_second=900.0),
        line("train", 20, loss=6.0, tokens_per_second=1234.0),
        line("eval", 20, loss=6.5),
        line("train", 30, loss=5.0, tokens_per_second=1300.0),
        line("eval", 30, loss=4.0),
    ]
    second = [line("train", 10, loss=8.0), line("eval", 20, loss=6.25), line("train", 25, loss=6.0)]
    return [
        make_run(tmp_path / "a" / "encoder", one, 128, first, {"loss": 4.0, "a_share": 0.30512}),
        make_run(tmp_path / "b" / "encoder", other, 256, second, finished=False),
    ]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("_SUCCESS", SETTINGS | {"optimizer": {"learning_rate": 1e-4}}),
        ("_SUCCESS", {"model": {"hidden_size": 512}}),
        ("results.json", {"loss": 3.9}),
        ("metrics.jsonl", line("eval", 30, loss=3.9)),
    ],
)
def test_a_training_that_was_changed_is_refused(runs, name, changed):
    pathlib.Path(runs[0], name).write_text(json.dumps(changed) + "\n")
    with pytest.raises(InputError, match="was changed"):
        compare(runs)


def test_what_differs_and_the_results(runs, tmp_path):
    found = compare(runs)
    assert found.names == ["a/encoder", "b/encoder"]
    sums = found.settings.pop("data_sha256")
    assert sums[0] != sums[1] and all(re.fullmatch("[0-9a-f]{12}", one_sum) for one_sum in sums)
    assert found.settings == {
        "optimizer.learning_rate": [1e-3, 5e-4],
        "data": [[str(tmp_path / "short")], [str(tmp_path / "long")]],
        "encoder.hidden_size": [128, 256],
        "records.0.dupe_factor": [5, 10],
    }
    assert found.results == {
        "loss": [4.0, 6.25],  # of a training that goes on, the newest on held-out data
        "a share": [0.30512, None],
        "loss in training": [5.0, 6.0],
        "updates": [30, 25],
        "tokens a second": [1234.0, None],
        "state": ["finished", "unfinished"],
    }


def test_trainings_without_held_out_records(tmp_path):
    """Their results compare with nothing, and with everything."""
    folders = []
    for name, held_out in (("a", []), ("b", []), ("c", ["ab" * 32])):
        phases = [{"max_seq_length": 8, "eval_records_sha256": held_out}]
        folders.append(make_run(tmp_path / name, SETTINGS | {"phases": phases}))
    assert compare(folders).note == compare(folders[:2]).note == ""


def test_other_held_out_records_are_told(runs):
    told = "The held-out records differ, so the results on them do not compare."
    assert told not in describe(compare(runs))

    def change(*held_out):
        for run, sums in zip(runs, held_out, strict=True):
            path = pathlib.Path(run) / "training.json"
            phases = [{"eval_records_sha256": [one_sum]} for one_sum in sums]
            path.write_text(json.dumps(json.loads(path.read_text()) | {"phases": phases}))

    change("a", "b")
    assert told in describe(compare(runs))
    # The results are those of the last records.
    change("ba", "a")
    assert told not in describe(compare(runs))


def test_what_cannot_be_compared(tmp_path):
    good = make_run(tmp_path / "good")
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "part-00000-of-00001.tfrecord").write_text("")
    damaged = make_run(tmp_path / "damaged")
    (tmp_path / "damaged" / "training.json").write_text("{cut o")
    for folders, expected in (
        ([good], "good: is alone"),
        ([good, good + "/"], "good/: is named twice"),
        ([good, f"{tmp_path}/records"], "records: is a records folder"),
        ([good, str(tmp_path)], "not a model folder"),
        ([good, damaged], r"damaged/training.json: is damaged"),
    ):
        with pytest.raises(InputError, match=expected):
            compare(folders)
