"""The best weights on held-out data, and early stopping."""

import os
import signal

import numpy as np
import pytest
import tensorflow as tf
from support.small_training import SEED, NextSentenceObjective, Words

from beambert.pipelines.shared.errors import InputError
from beambert.trainer.loop import loop, progress
from beambert.trainer.loop.best import best_step, is_over
from beambert.trainer.loop.config import (
    LoopConfig,
    OptimizerConfig,
    default_epochs,
    default_learning_rate,
)
from beambert.trainer.loop.loop import Interrupted, train
from beambert.trainer.loop.phase import Phase
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.model_folders import TrainingFolders
from beambert.trainer.pretraining.batches import training_batches
from beambert.trainer.pretraining.records import open_records

STEPS, EVERY = 12, 2


def evaluations(*accuracies: float) -> dict[int, dict[str, float]]:
    return {
        EVERY * number: {"loss": 1.0, "accuracy": accuracy}
        for number, accuracy in enumerate(accuracies, start=1)
    }


def test_accuracy_decides_then_the_loss_then_the_earlier_step():
    assert best_step(evaluations(0.5, 0.9, 0.9, 0.8)) == 4
    found = evaluations(0.9, 0.9)
    found[4]["loss"] = 0.5
    assert best_step(found) == 4
    assert best_step({2: {"loss": 0.3}, 4: {"loss": 0.2}, 6: {"loss": 0.4}}) == 4


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ((), False),
        ((0.9, 0.8), False),
        ((0.9, 0.8, 0.9), True),
        ((0.7, 0.8, 0.7), False),
        ((0.7, 0.8, 0.7, 0.7), True),
        ((0.7, 0.8, 0.7, 0.9), False),
    ],
)
def test_two_evaluations_without_a_better_one_are_enough(accuracies, expected):
    assert is_over(evaluations(*accuracies), patience=2) is expected


@pytest.fixture
def run(records_folder, monkeypatch):
    """Trains with scripted evaluations; returns the metrics, the weights and those of each step."""
    records = open_records(str(records_folder), "--data")
    monkeypatch.setattr(loop, "matmul_peak", lambda *_: 1e12)
    monkeypatch.setattr(progress, "SECONDS_A_CALL", 1e-9)  # one update a call

    def run_(folder, accuracies, stop_before=None):
        seen, scripted = {}, evaluations(*accuracies)
        train_steps = Trainer.train_steps

        def evaluate(self, *_):
            seen[self.steps_done] = self.model.get_weights()
            return scripted[self.steps_done]

        def stopping(self, *args):
            if self.steps_done + 1 == stop_before:
                os.kill(os.getpid(), signal.SIGTERM)
            return train_steps(self, *args)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "evaluate", evaluate)
            patch.setattr(Trainer, "train_steps", stopping)
            trainer = Trainer(
                tf.distribute.get_strategy(),
                lambda: Words(rate=0.1),
                NextSentenceObjective((32,)),
                OptimizerConfig(1e-2, STEPS, 2),
                SEED,
            )
            phase = Phase(
                STEPS,
                lambda step: training_batches(records, 8, SEED, step),
                lambda most: None,
                tokens_a_step=8 * 32,
                flops_a_step=1.0,
            )
            config = LoopConfig(8, SEED, eval_steps=EVERY, patience=2)
            metrics = train(trainer, [phase], config, TrainingFolders.of(str(folder)))
        return metrics, trainer.model.get_weights(), seen

    return run_


def assert_equal(mine, theirs) -> None:
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_training_stops_early_with_its_best_weights(run, tmp_path, capsys):
    accuracies = (0.5, 0.9, 0.8, 0.7, 1.0, 1.0)
    metrics, weights, seen = run(tmp_path / "whole", accuracies)
    assert metrics["accuracy"] == 0.9 and max(seen) == 8
    assert_equal(weights, seen[4])
    assert "stopped early at step 8 of 12: step 4 is better than the 2" in capsys.readouterr().out
    # Interrupted after the best step, the training ends with the same weights.
    with pytest.raises(Interrupted):
        run(tmp_path / "cut", accuracies, stop_before=7)
    metrics, again, _ = run(tmp_path / "cut", accuracies)
    assert metrics["accuracy"] == 0.9
    assert_equal(again, weights)
    # Nothing but the evaluation at the end is left to do.
    metrics, again, seen = run(tmp_path / "cut", accuracies)
    assert metrics["accuracy"] == 0.9 and list(seen) == [8]
    assert_equal(again, weights)


def test_the_last_weights_may_be_the_best(run, tmp_path):
    metrics, weights, seen = run(tmp_path, (0.5, 0.4, 0.6, 0.7, 0.6, 0.8))
    assert metrics["accuracy"] == 0.8
    assert_equal(weights, seen[STEPS])


def test_lost_best_weights_are_one_sentence(run, tmp_path):
    run(tmp_path, (0.5, 0.9, 0.8, 0.7))
    for path in (tmp_path / "checkpoints" / "best").glob("ckpt-4*"):
        path.unlink()
    with pytest.raises(InputError, match="best/ckpt-4: cannot be read"):
        run(tmp_path, (0.5, 0.9, 0.8, 0.7))


def test_narrow_encoders_learn_at_higher_rates():
    widths = (64, 128, 256, 512, 768, 1024)
    rates = [default_learning_rate(width, is_frozen=False) for width in widths]
    assert rates == [1e-3, 1e-3, 3e-4, 1e-4, 5e-5, 3e-5]
    assert default_learning_rate(768, is_frozen=True) == 1e-3


@pytest.mark.parametrize(
    ("examples", "own", "expected"),
    [(249, True, 30.0), (996, True, 10.0), (100_000, True, 3.0), (249, False, 3.0)],
)
def test_few_examples_of_ones_own_are_read_more_often(examples, own, expected):
    assert default_epochs(examples, 32, own) == expected
