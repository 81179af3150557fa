"""Short sequences, then long ones, in one run with one schedule."""

import dataclasses
import json
import shutil

import pytest
from support.small_pretraining import assert_same_weights

from beambert.errors import InputError
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.loop.steps import Trainer

# Shapes of batches matter to XLA.
WITH_XLA = True

# All of them train on two lengths, whose graphs take long to compile.
pytestmark = pytest.mark.release

STEPS, LONG_STEPS = 10, 3
SHORT, LONG = 32, 48


@pytest.fixture(scope="module")
def long_records(tmp_path_factory, make_records):
    folder = make_records(tmp_path_factory.mktemp("long") / "records", length=LONG)
    make_records(folder / "eval", documents_a_shard=(14,), seed=100, length=LONG)
    return folder


@pytest.fixture(scope="module")
def config_file(tmp_path_factory, small_config):
    path = tmp_path_factory.mktemp("config") / "bert_config.json"
    path.write_text(dataclasses.replace(small_config, max_position_embeddings=LONG).to_json())
    return path


@pytest.fixture(scope="module")
def run(records_folder, long_records, config_file):
    def run_(folder, **others):
        values = {
            "data": records_folder,
            "long_data": long_records,
            "long_data_share": LONG_STEPS / STEPS,
            "model": config_file,
            "model_dir": folder,
            "num_train_steps": STEPS,
            "train_batch_size": 8,
            "learning_rate": 1e-3,
            "save_checkpoints_steps": 4,
            "eval_steps": 5,
        } | others
        pretrain_main([f"--{name}={value}" for name, value in values.items()])

    return run_


@pytest.fixture(scope="module")
def finished(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("phases") / "model"
    run(folder)
    return folder


def rows_of(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_one_schedule_runs_over_both_lengths(finished):
    rows = [row for row in rows_of(finished) if row["split"] == "train"]
    assert STEPS - LONG_STEPS in [row["step"] for row in rows], "no call crosses the boundary"
    # Warm-up of one step, then the original's decay, which counts from step 0.
    rates = {row["step"]: row["learning_rate"] for row in rows}
    for step, rate in rates.items():
        assert rate == pytest.approx(1e-3 * (1 - (step - 1) / STEPS) if step > 1 else 0, rel=1e-4)
    speeds = [row for row in rows if "tokens_per_second" in row]
    lengths = {
        row["step"]: row["tokens_per_second"] / row["sequences_per_second"] for row in speeds
    }
    assert lengths[STEPS - LONG_STEPS] == pytest.approx(SHORT, rel=1e-3)
    assert lengths[STEPS] == pytest.approx(LONG, rel=1e-3)


def test_the_result_is_of_the_long_sequences(finished):
    training = json.loads((finished / "training.json").read_text())
    assert training["max_seq_length"] == LONG
    assert [(p["max_seq_length"], p["last_step"]) for p in training["phases"]] == [
        (SHORT, STEPS - LONG_STEPS),
        (LONG, STEPS),
    ]
    evaluations = [row["step"] for row in rows_of(finished) if row["split"] == "eval"]
    assert evaluations == [5, STEPS]


# At the first phase's last step, in the first phase, in the second.
@pytest.mark.parametrize("calls", [5, 3, 6])
def test_interrupted_in_any_phase_the_weights_are_the_same(
    calls, run, finished, tmp_path, monkeypatch
):
    class Killed(Exception):
        pass

    done = 0
    train_steps = Trainer.train_steps

    def train_and_die(trainer, iterator, steps):
        nonlocal done
        done += 1
        if done > calls:
            raise Killed
        return train_steps(trainer, iterator, steps)

    monkeypatch.setattr(Trainer, "train_steps", train_and_die)
    with pytest.raises(Killed):
        run(tmp_path / "model")
    monkeypatch.undo()
    run(tmp_path / "model")
    assert_same_weights(tmp_path / "model", finished)


def test_lengths_in_the_wrong_order_are_refused(run, records_folder, long_records, tmp_path):
    message = "--long_data=.*its max_seq_length is 32, that of --data=.* is 48; exchange the two"
    with pytest.raises(InputError, match=message):
        run(tmp_path / "model", data=long_records, long_data=records_folder)
    assert not (tmp_path / "model").exists()


def test_held_out_records_of_the_long_ones_are_checked(run, long_records, make_records, tmp_path):
    folder = shutil.copytree(long_records, tmp_path / "long", ignore=lambda *_: ["eval"])
    make_records(folder / "eval", length=SHORT)
    with pytest.raises(InputError, match=r"long/eval: its max_seq_length is 32, that of"):
        run(tmp_path / "model", long_data=folder)
