"""The loop: interruption, resumption, damage, several devices."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from model.dropout import dropout
from model.pretrainer import BertPretrainer
from pipelines.errors import InputError
from trainer import loop
from trainer.config import LoopConfig, OptimizerConfig
from trainer.input_pipeline import evaluation_batches, open_records, training_batches
from trainer.loop import Interrupted, Trainer, train
from trainer.objectives import PretrainingObjective

STEPS, BATCH, SEED = 12, 8, 7
CONFIG = LoopConfig(BATCH, SEED, save_checkpoints_steps=4, eval_steps=6, max_eval_batches=1)
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def records(records_folder):
    return open_records(str(records_folder), "--data")


@pytest.fixture(scope="module")
def held_out(records_folder):
    return open_records(str(records_folder / "eval"), "--eval_data")


def make_trainer(config, strategy=None) -> Trainer:
    return Trainer(
        strategy or tf.distribute.get_strategy(),
        lambda: BertPretrainer(config, seed=SEED),
        PretrainingObjective(),
        OptimizerConfig(1e-2, STEPS, 2),
        SEED,
    )


@pytest.fixture(scope="module")
def run(records, held_out, small_config):
    """Trains in a folder; returns the weights."""

    def run_(model_dir) -> list[np.ndarray]:
        trainer = make_trainer(small_config)
        train(
            trainer,
            lambda step: training_batches(records, BATCH, SEED, step),
            lambda most: evaluation_batches(held_out, BATCH, most),
            CONFIG,
            str(model_dir),
        )
        return trainer.model.get_weights()

    return run_


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """An uninterrupted run, as many updates a call as the boundaries allow."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "SECONDS_A_CALL", 1e6)
        return folder, run(folder)


def metric_rows(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_whole(folder, weights, whole) -> None:
    """The weights are the uninterrupted run's to the bit, no step is logged twice."""
    for mine, theirs in zip(weights, whole[1], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    keys = [(row["split"], row["step"]) for row in metric_rows(folder)]
    assert len(keys) == len(set(keys))
    assert ("eval", STEPS) in keys and ("eval", 6) in keys and ("train", STEPS) in keys


def test_metrics_of_a_whole_run(whole):
    rows = metric_rows(whole[0])
    # 1 compiles, 1 measures, then up to every checkpoint and evaluation.
    assert [r["step"] for r in rows if r["split"] == "train"] == [1, 2, 4, 6, 8, 12]
    assert [row["step"] for row in rows if row["split"] == "eval"] == [6, 12]
    assert rows[0]["learning_rate"] == 0 and rows[-2]["learning_rate"] == pytest.approx(1e-2 / 12)
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert all(row["gradient_norm"] > 0 for row in rows if row["split"] == "train")


def test_sigterm_saves_and_the_same_command_continues(whole, run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(loop, "SECONDS_A_CALL", 1e-9)  # one update a call
    train_steps, calls = Trainer.train_steps, []

    def interrupted_at_seven(self, *args):
        calls.append(1)
        if len(calls) == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_steps(self, *args)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Trainer, "train_steps", interrupted_at_seven)
    with pytest.raises(Interrupted) as caught:
        run(tmp_path)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert "stopped at step 7 of 12" in capsys.readouterr().out
    assert metric_rows(tmp_path)[-1]["step"] == 7
    assert_whole(tmp_path, run(tmp_path), whole)
    assert len(calls) == STEPS
    assert "continuing from step 7" in capsys.readouterr().out


@pytest.fixture
def copied(whole, tmp_path):
    return shutil.copytree(whole[0], tmp_path / "copy")


def damage(folder, step: int) -> None:
    (data,) = (folder / "checkpoints").glob(f"ckpt-{step}.data-*")
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])


def test_damaged_newest_checkpoint_falls_back(whole, run, copied, capsys):
    damage(copied, 12)
    assert_whole(copied, run(copied), whole)
    output = capsys.readouterr().out
    assert "ckpt-12: cannot be read" in output and "trying the one before" in output
    assert "continuing from step 8" in output


def test_rotation_keeps_the_newest_checkpoints(whole):
    names = {path.name.split(".")[0] for path in (whole[0] / "checkpoints").glob("ckpt-*")}
    assert names == {"ckpt-4", "ckpt-8", "ckpt-12"}


def test_a_run_killed_after_its_last_checkpoint_evaluates_once(whole, run, copied):
    assert_whole(copied, run(copied), whole)


def test_damaged_checkpoints_are_refused(run, copied):
    for step in (4, 8, 12):
        damage(copied, step)
    with pytest.raises(InputError, match=r"checkpoints: none of its checkpoints can be read"):
        run(copied)


class Line(keras.Model):
    """A weight for every element, so that gradients show what each replica saw."""

    def __init__(self):
        super().__init__()
        self.weight = self.add_weight(name="weight/kernel", shape=(64,), initializer="zeros")
        self.built = True


class LineObjective:
    losses = ("line",)
    weight_of = {"line": "examples"}

    def weights(self, features):
        return {"examples": tf.cast(tf.shape(features["x"])[0], tf.float32)}

    def sums(self, model, features, dropout_seed):
        kept = dropout(features["x"], 0.5, dropout_seed, site=0)
        return {"line": tf.reduce_sum(kept * tf.convert_to_tensor(model.weight))}


def line_trainer(strategy=None, **options) -> Trainer:
    return Trainer(
        strategy or tf.distribute.get_strategy(),
        Line,
        LineObjective(),
        OptimizerConfig(**{"learning_rate": 0.1, "num_train_steps": 6, "num_warmup_steps": 0}),
        SEED,
    )


def line_batches(bad_step: int, value: float):
    x = np.ones((6, 2, 64), np.float32)
    x[bad_step:] = value
    return lambda step: iter(tf.data.Dataset.from_tensor_slices({"x": x[step:]}))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("bad_step", [3, 5])
def test_a_loss_that_is_no_number_stops(tmp_path, value, bad_step):
    config = LoopConfig(2, SEED, save_checkpoints_steps=2)
    with pytest.raises(InputError) as caught:
        train(line_trainer(), line_batches(bad_step, value), None, config, str(tmp_path))
    first, last = bad_step // 2 * 2, bad_step // 2 * 2 + 2
    assert f"between steps {first} and {last}" in str(caught.value)
    assert "--learning_rate" in str(caught.value) and str(tmp_path) in str(caught.value)
    assert not list((tmp_path / "checkpoints").glob(f"ckpt-{last}.*")), "spoilt weights are saved"


def test_a_last_gradient_that_is_no_number_stops(tmp_path):
    class Spoilt(LineObjective):
        def sums(self, model, features, dropout_seed):
            # The loss is 0, the gradient of the square root there is infinite.
            return {"line": tf.reduce_sum(tf.sqrt(tf.convert_to_tensor(model.weight)))}

    trainer = line_trainer()
    trainer.objective = Spoilt()
    config = LoopConfig(2, SEED, save_checkpoints_steps=1)
    with pytest.raises(InputError, match=r"norm (inf|nan) between steps 0 and 1"):
        train(trainer, line_batches(6, 0), None, config, str(tmp_path))


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(InputError, match=r"checkpoints: cannot be written \(.+\)") as caught:
        train(line_trainer(), line_batches(6, 0), None, LoopConfig(2, SEED), str(tmp_path))
    assert "\n" not in str(caught.value)


def two_devices() -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def test_replicas_draw_different_masks():
    trainer = line_trainer(two_devices())
    batches = tf.data.Dataset.from_tensors({"x": tf.ones([2, 64])}).repeat()
    trainer.train_steps(iter(trainer.strategy.experimental_distribute_dataset(batches)), 1)
    (moment,) = trainer._optimizer.means
    levels = np.unique(np.round(moment.numpy() / moment.numpy().max(), 3))
    # Each replica has one row: kept by none, one or both.
    np.testing.assert_array_equal(levels, [0, 0.5, 1])


def test_each_step_draws_other_masks():
    trainer = line_trainer()
    iterator = iter(tf.data.Dataset.from_tensors({"x": tf.ones([1, 64])}).repeat())
    moments = []
    for _ in range(2):
        trainer.train_steps(iterator, 1)
        moments.append(trainer._optimizer.means[0].numpy() > 0)
    assert not np.array_equal(*moments)


def test_two_devices_train_like_one(records, held_out, small_config):
    config = type(small_config).from_json(
        json.dumps(
            json.loads(small_config.to_json())
            | {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
        )
    )
    losses, weights, evaluations = [], [], []
    for strategy in (tf.distribute.get_strategy(), two_devices()):
        trainer = make_trainer(config, strategy)
        batches = strategy.distribute_datasets_from_function(
            lambda context: training_batches(
                records, context.get_per_replica_batch_size(BATCH) * 2 if 0 else BATCH, SEED, 0, context
            )
        )
        iterator = iter(batches)
        losses.append([trainer.train_steps(iterator, 1)["loss"] for _ in range(5)])
        weights.append(trainer.model.get_weights())
        evaluations.append(
            trainer.evaluate(
                strategy.distribute_datasets_from_function(
                    lambda context: evaluation_batches(held_out, BATCH, None, context)
                )
            )
        )
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert evaluations[0] == pytest.approx(evaluations[1], rel=1e-4)
    for one, two in zip(*weights, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)
