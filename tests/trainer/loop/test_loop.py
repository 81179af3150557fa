"""The loop: interruption, resumption, damage, several devices."""

import dataclasses
import json
import math
import os
import shutil
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.small_training import SEED, NextSentenceObjective, Words

from beambert.errors import InputError
from beambert.folders import BusyError
from beambert.model.pretrainer import BertPretrainer
from beambert.trainer.loop import progress
from beambert.trainer.loop.config import LoopConfig, OptimizerConfig, TrainingFolders
from beambert.trainer.loop.engines.tensorflow import TensorFlow
from beambert.trainer.loop.loop import Interrupted, train
from beambert.trainer.loop.steps import Phase, Trainer
from beambert.trainer.pretraining.batches import evaluation_batches, training_batches
from beambert.trainer.pretraining.objective import PretrainingObjective
from beambert.trainer.pretraining.records import open_records
from beambert.trainer.tasks.tagging import TaggingObjective

STEPS, BATCH = 12, 8
CONFIG = LoopConfig(BATCH, SEED, save_checkpoints_steps=4, eval_steps=6, max_eval_batches=1)


@pytest.fixture(scope="module")
def records(records_folder):
    return open_records(str(records_folder), "--data")


@pytest.fixture(scope="module")
def held_out(records_folder):
    return open_records(str(records_folder / "eval"), "--eval_data")


def distributed(batches, *arguments, strategy=None):
    return TensorFlow(strategy).distribute(lambda context: batches(*arguments, context))


def make_trainer(build_model, objective, strategy=None) -> Trainer:
    return Trainer(
        TensorFlow(strategy),
        build_model,
        objective,
        OptimizerConfig(1e-2, STEPS, 2),
        SEED,
    )


@pytest.fixture(scope="module")
def run(records, held_out):
    """Trains in a folder; returns the weights."""

    def run_(model_dir, evaluation_seconds=math.inf, **options) -> list[np.ndarray]:
        trainer = make_trainer(lambda: Words(rate=0.1), NextSentenceObjective((32,)))
        phase = Phase(
            STEPS,
            lambda step: distributed(training_batches, records, BATCH, SEED, step),
            lambda most: distributed(evaluation_batches, held_out, BATCH, most),
            sequences_a_step=BATCH,
            tokens_a_step=BATCH * 32,
            evaluation_batches=-(-held_out.instances // BATCH),
            evaluation_seconds=evaluation_seconds,
        )
        train(trainer, [phase], CONFIG, TrainingFolders(str(model_dir)), **options)
        return trainer.model.get_weights()

    return run_


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """An uninterrupted run, as many updates a call as the boundaries allow."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "SECONDS_A_CALL", 1e6)
        return folder, run(folder)


def metric_rows(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("is_signalled", [False, True])
def test_who_has_lost_the_lock_saves_nothing(run, tmp_path, monkeypatch, is_signalled):
    """A lost lease sends a signal, upon which a training would save."""
    seen, train_steps = [], Trainer.train_steps

    def files():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    def check():
        seen.append(files())
        if len(seen) == 2:
            raise BusyError("another command has taken the lock")

    def stopping(self, *args):
        if is_signalled and self.steps_done == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_steps(self, *args)

    monkeypatch.setattr(Trainer, "train_steps", stopping)
    with pytest.raises(BusyError, match="another command has taken the lock"):
        run(tmp_path, check_lock=check)
    assert seen[0] != seen[1] == files()
    assert [path.name for path in tmp_path.rglob("ckpt-*")] == ["ckpt-000004"]


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
    assert all(row["gradient_norm"] > 0 for row in rows if row["split"] == "train")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=["SIGTERM", "Ctrl-C", "SIGHUP"],
)
@pytest.mark.usefixtures("heeds_hangup")
def test_a_signal_saves_and_the_same_command_continues(
    whole, run, tmp_path, monkeypatch, capsys, number, status
):
    monkeypatch.setattr(progress, "SECONDS_A_CALL", 1e-9)  # one update a call
    train_steps, calls = Trainer.train_steps, []

    def interrupted_at_seven(self, *args):
        calls.append(1)
        if len(calls) == 7:
            os.kill(os.getpid(), number)
        return train_steps(self, *args)

    before = signal.getsignal(number)
    monkeypatch.setattr(Trainer, "train_steps", interrupted_at_seven)
    with pytest.raises(Interrupted) as caught:
        run(tmp_path)
    assert caught.value.code == status
    assert signal.getsignal(number) is before
    assert "stopped at step 7 of 12" in capsys.readouterr().out
    assert metric_rows(tmp_path)[-1]["step"] == 7
    assert_whole(tmp_path, run(tmp_path), whole)
    assert len(calls) == STEPS
    assert "continuing from step 7" in capsys.readouterr().out


@pytest.fixture
def copied(whole, tmp_path):
    return shutil.copytree(whole[0], tmp_path / "copy")


def damage(folder, step: int) -> None:
    data = folder / "checkpoints" / f"ckpt-{step:06d}" / "optimizer.safetensors"
    content = bytearray(data.read_bytes())
    content[-1] ^= 1  # safetensors itself would not see it
    data.write_bytes(content)


@pytest.mark.slow
def test_damaged_newest_checkpoint_falls_back(whole, run, copied, capsys):
    damage(copied, 12)
    assert_whole(copied, run(copied), whole)
    output = capsys.readouterr().out
    assert "ckpt-000012: cannot be read" in output and "trying the one before" in output
    assert "continuing from step 8" in output


def test_a_cut_metrics_file_ends_no_training(whole, run, copied):
    path = copied / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-20] + bytes(20))  # as a machine that went down leaves it
    run(copied)
    keys = [(row["split"], row["step"]) for row in metric_rows(copied)]
    assert keys == [(row["split"], row["step"]) for row in metric_rows(whole[0])]


def test_damaged_checkpoints_are_refused(run, copied):
    for step in (4, 8, 12):
        damage(copied, step)
    with pytest.raises(InputError, match=r"checkpoints: none of its checkpoints can be read"):
        run(copied)


def test_records_damaged_on_the_disk_are_one_sentence(records_folder, tmp_path):
    """Of the right size, so that opening them finds nothing."""
    damaged = shutil.copytree(records_folder, tmp_path / "records")
    records = open_records(str(damaged), "--data")
    for path in damaged.glob("*.tfrecord"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 255
        path.write_bytes(data)
    trainer = make_trainer(lambda: Words(rate=0), NextSentenceObjective((32,)))
    with pytest.raises(InputError, match="damaged in .*record .*`beambert verify`") as caught:
        trainer.evaluate(trainer.engine.distribute(lambda _: evaluation_batches(records, BATCH)))
    assert "\n" not in str(caught.value)


class Tags(keras.Model):
    """A label for each token, which the token alone decides."""

    def __init__(self):
        super().__init__(name="tags")
        normal = keras.initializers.RandomNormal(seed=SEED)
        self.table = self.add_weight(name="table", shape=(50, 3), initializer=normal)
        self.built = True

    def call(self, features, dropout_seed=None):
        return tf.gather(tf.convert_to_tensor(self.table), features["input_ids"])


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_an_evaluation_has_the_outputs_of_every_row(devices, two_devices):
    """In their order, from batches that are computed at different lengths."""
    strategy = two_devices if devices == 2 else tf.distribute.get_strategy()
    random = np.random.default_rng(SEED)
    ids = random.integers(0, 50, (10, 8)).astype(np.int32)
    labels = random.integers(0, 3, ids.shape).astype(np.int32)
    lengths = np.array([3, 2, 4, 1, 8, 5, 7, 6, 4, 3])  # those of a batch are 4, 8 and 4
    mask = (np.arange(8) < lengths[:, None]).astype(np.int32)
    labels[mask == 0] = -1
    rows = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids, "label_ids": labels}
    rows = {name: np.pad(value, [(0, 2), (0, 0)]) for name, value in rows.items()}
    rows["example_weights"] = np.array([1] * 10 + [0] * 2, np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(4, drop_remainder=True)
    trainer = make_trainer(Tags, TaggingObjective((4, 8)), strategy)
    seen = []

    def score(outputs):
        seen.append(outputs["label_ids"])
        return {"entity_f1": 0.25}

    metrics = trainer.evaluate(strategy.experimental_distribute_dataset(dataset), score=score)
    likeliest = trainer.model.get_weights()[0][ids].argmax(-1)
    expected = likeliest * (np.arange(8) < np.repeat([4, 8, 4], 4)[:10, None])
    np.testing.assert_array_equal(seen[0][:10], expected)
    assert metrics["entity_f1"] == 0.25
    assert metrics["accuracy"] == pytest.approx((likeliest == labels)[mask > 0].mean())
    others = trainer.evaluate(strategy.experimental_distribute_dataset(dataset))
    assert metrics == pytest.approx(others | {"entity_f1": 0.25})


WITHOUT_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "bert"])
def test_two_devices_train_like_one(kind, records, held_out, small_config, two_devices):
    config = dataclasses.replace(small_config, **WITHOUT_DROPOUT)
    model, objective = {
        "words": (lambda: Words(rate=0), NextSentenceObjective((32,))),
        "bert": (lambda: BertPretrainer(config, seed=SEED), PretrainingObjective()),
    }[kind]
    losses, weights, evaluations = [], [], []
    for strategy in (tf.distribute.get_strategy(), two_devices):
        trainer = make_trainer(model, objective, strategy)
        batches = distributed(training_batches, records, BATCH, SEED, 0, strategy=strategy)
        iterator = iter(batches)
        losses.append([trainer.train_steps(iterator, 1)["loss"] for _ in range(5)])
        weights.append(trainer.model.get_weights())
        evaluations.append(
            trainer.evaluate(
                distributed(evaluation_batches, held_out, BATCH, None, strategy=strategy)
            )
        )
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert evaluations[0] == pytest.approx(evaluations[1], rel=1e-4)
    for one, two in zip(*weights, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)
