"""A batch that grows in the first steps of a training."""

import collections
import itertools
import json

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.pretraining import batches as batching
from beambert.trainer.pretraining.batches import records_dealt, training_batches
from beambert.trainer.pretraining.plan import Interval, intervals
from beambert.trainer.pretraining.records import open_records


def sizes(found: list[Interval]) -> list[tuple[bool, int, int, int]]:
    return [(s.is_long, s.first_step, s.last_step, s.batch_divisor) for s in found]


def test_the_batch_doubles_three_times_in_equal_parts_of_the_ramp():
    assert sizes(intervals(100, None, 0.6)) == [
        (False, 0, 20, 8),
        (False, 20, 40, 4),
        (False, 40, 60, 2),
        (False, 60, 100, 1),
    ]


def test_long_sequences_may_begin_on_the_ramp():
    found = intervals(100, 0.7, 0.6)
    assert sizes(found) == [
        (False, 0, 20, 8),
        (False, 20, 30, 4),
        (True, 30, 40, 4),
        (True, 40, 60, 2),
        (True, 60, 100, 1),
    ]
    assert found[3].steps_of_smaller == ((4, 10),), "the short ones are other data"


def test_no_record_is_read_twice_in_an_epoch(records_folder, monkeypatch):
    """The batches of a size go on behind those of the smaller ones."""
    monkeypatch.setattr(batching, "SEQUENCES_DEALT", 6)
    records = open_records(str(records_folder), "--data", "bert")
    seen, before = [], 0
    for size, steps in ((1, 5), (2, 4), (4, 3)):
        batches = training_batches(records, size, 1, records_before=before)
        seen += [row.tobytes() for batch in itertools.islice(batches, steps) for row in flat(batch)]
        before += records_dealt(steps, size)
    assert len(seen) == 5 + 2 * 4 + 4 * 3
    first = itertools.islice(training_batches(records, 1, 1), records_dealt(before, 1))
    read = collections.Counter(row.tobytes() for batch in first for row in flat(batch))
    assert len(read) > len(seen), "the records of the test hardly differ"
    assert not collections.Counter(seen) - read


def flat(batch) -> np.ndarray:
    names = sorted(batch)
    return np.concatenate([batch[name].numpy().astype(np.float64) for name in names], axis=1)


@pytest.fixture(scope="module")
def run(records_folder, small_config_file):
    def run_(folder, **others):
        values = {
            "data": records_folder,
            "model": small_config_file,
            "model_dir": folder,
            "num_train_steps": 8,
            "train_batch_size": 16,
            "learning_rate": 1e-3,
            "save_checkpoints_steps": 2,
            "batch_ramp_share": 0.75,
        } | others
        given = {name: value for name, value in values.items() if value is not None}
        pretrain_main([f"--{name}={value}" for name, value in given.items()])

    return run_


@pytest.mark.release
def test_interrupted_on_the_ramp_the_weights_are_the_same(run, tmp_path, monkeypatch):
    class Killed(Exception):
        pass

    run(tmp_path / "whole")
    done, train_steps = 0, Trainer.train_steps

    def train_and_die(trainer, iterator, steps):
        nonlocal done
        done += 1
        if done > 4:
            raise Killed
        return train_steps(trainer, iterator, steps)

    monkeypatch.setattr(Trainer, "train_steps", train_and_die)
    with pytest.raises(Killed):
        run(tmp_path / "killed")
    monkeypatch.undo()
    run(tmp_path / "killed")
    name = "model.weights.h5"
    assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    training = json.loads((tmp_path / "whole/training.json").read_text())
    assert training["batch_ramp_share"] == 0.75
    assert [phase["last_step"] for phase in training["phases"]] == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"batch_ramp_share": 1.0},
            "--batch_ramp_share=1.0: must be at least 0 and less than 1",
        ),
        (
            {"train_batch_size": 12},
            "--train_batch_size=12: an eighth of it, .* take a multiple of 8,",
        ),
    ],
)
def test_what_cannot_grow_is_refused(given, message, run, tmp_path):
    with pytest.raises(InputError, match=message):
        run(tmp_path / "model", **given)
