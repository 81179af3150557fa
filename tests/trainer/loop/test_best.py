"""The best weights on held-out data, and early stopping."""

import math
import os
import shutil
import signal

import numpy as np
import pytest
from support.small_training import SEED, NextSentenceObjective, Words

from beambert.trainer.finetuning.settings import default_epochs
from beambert.trainer.loop import progress
from beambert.trainer.loop.checkpoints import best_step, is_over, needed_steps
from beambert.trainer.loop.config import (
    LoopConfig,
    OptimizerConfig,
    TrainingFolders,
    default_learning_rate,
)
from beambert.trainer.loop.engines.tensorflow import TensorFlow
from beambert.trainer.loop.loop import Interrupted, train
from beambert.trainer.loop.steps import Phase, Trainer
from beambert.trainer.pretraining.batches import training_batches
from beambert.trainer.pretraining.records import open_records

STEPS, EVERY = 12, 2


def evaluations(*accuracies: float) -> dict[int, dict[str, float]]:
    return {
        EVERY * number: {"loss": 1.0, "accuracy": accuracy}
        for number, accuracy in enumerate(accuracies, start=1)
    }


def test_the_metric_decides_then_the_loss_then_the_earlier_step():
    assert best_step(evaluations(0.5, 0.9, 0.9, 0.8), "accuracy") == 4
    found = evaluations(0.9, 0.9)
    found[4]["loss"] = 0.5
    assert best_step(found, "accuracy") == 4
    assert best_step({2: {"loss": 0.3}, 4: {"loss": 0.2}, 6: {"loss": 0.4}}, "loss") == 4


def test_other_metrics_than_the_accuracy_decide():
    found = {
        2: {"loss": 0.1, "accuracy": 0.9, "matthews_correlation": 0.0},
        4: {"loss": 0.2, "accuracy": 0.8, "matthews_correlation": 0.3},
        # A score that is no number is no good one; an older version has not written any.
        6: {"loss": 0.0, "accuracy": 0.7, "matthews_correlation": math.nan},
    }
    chosen = {metric: best_step(found, metric) for metric in (*found[2], "spearman")}
    assert chosen == {
        "loss": 6,
        "accuracy": 2,
        "matthews_correlation": 4,
        "spearman": 6,
    }
    assert is_over(found, "accuracy", 2) and not is_over(found, "matthews_correlation", 2)


def test_weights_are_kept_for_all_that_may_be_resumed():
    found = evaluations(0.5, 0.9, 0.8, 0.7, 0.95)
    assert needed_steps(found, "accuracy", ()) == {10}
    assert needed_steps(found, "accuracy", (1, 3, 7, 9)) == {2, 4, 10}


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
    assert is_over(evaluations(*accuracies), "accuracy", patience=2) is expected


class PowerFailure(Exception):
    """Nothing can be saved any more."""


@pytest.fixture
def run(records_folder, monkeypatch):
    """Trains with scripted evaluations; returns the metrics, the weights and those of each step.

    What ends it is a signal before a step, or a power failure.
    """
    records = open_records(str(records_folder), "--data")
    monkeypatch.setattr(progress, "SECONDS_A_CALL", 1e-9)  # one update a call

    known = {}

    def run_(folder, accuracies, stop_before=None, fail_before=None, save_every=1000):
        seen, scripted = {}, evaluations(*accuracies)
        train_steps = Trainer.train_steps

        def evaluate(self, *_, **__):
            weights = self.model.get_weights()
            for step, those in known.items():  # the best weights are evaluated again
                if step != self.steps_done and all(map(np.array_equal, weights, those)):
                    return scripted[step]
            seen[self.steps_done] = known[self.steps_done] = weights
            return scripted[self.steps_done]

        def stopping(self, *args):
            if self.steps_done + 1 == stop_before:
                os.kill(os.getpid(), signal.SIGTERM)
            if self.steps_done + 1 == fail_before:
                raise PowerFailure
            return train_steps(self, *args)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "evaluate", evaluate)
            patch.setattr(Trainer, "train_steps", stopping)
            trainer = Trainer(
                TensorFlow(),
                lambda: Words(rate=0.1),
                NextSentenceObjective((32,)),
                OptimizerConfig(1e-2, STEPS, 2),
                SEED,
            )
            phase = Phase(
                STEPS,
                lambda step: TensorFlow().distribute(
                    lambda context: training_batches(records, 8, SEED, step, context)
                ),
                lambda most: None,
                sequences_a_step=8,
                tokens_a_step=8 * 32,
            )
            config = LoopConfig(
                8,
                SEED,
                eval_steps=EVERY,
                save_checkpoints_steps=save_every,
                patience=2,
                best_metric="accuracy",
            )
            metrics = train(trainer, [phase], config, TrainingFolders(str(folder)))
        return metrics, trainer.model.get_weights(), seen

    return run_


def assert_equal(mine, theirs) -> None:
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_training_stops_early_with_its_best_weights(run, tmp_path, capsys):
    accuracies = (0.5, 0.9, 0.8, 0.7, 1.0, 1.0)
    metrics, weights, seen = run(tmp_path / "whole", accuracies)
    assert metrics["accuracy"] == 0.9 and max(seen) == 8
    assert_equal(weights, seen[4])
    said = capsys.readouterr().out
    assert "at step 8 of 12: none of the 2 evaluations after step 4 has a better accur" in said
    assert "best accuracy on held-out data: step 4, " in said
    # Of the optimizer's state there is one checkpoint, that of the end.
    assert steps_in(tmp_path / "whole" / "checkpoints") == [8]
    assert steps_in(tmp_path / "whole" / "checkpoints" / "best") == [4]
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


def steps_in(folder) -> list[int]:
    return sorted(int(path.name.removeprefix("ckpt-")) for path in folder.glob("ckpt-*"))


@pytest.mark.slow
@pytest.mark.parametrize("fail_before", [6, pytest.param(8, marks=pytest.mark.slow)])
def test_a_training_that_is_killed_ends_with_the_same_weights(run, tmp_path, fail_before):
    """Before and after the evaluation of step 6, since the checkpoint of step 5."""
    accuracies = (0.5, 0.9, 0.95, 0.7, 0.6)
    _, weights, seen = run(tmp_path / "whole", accuracies, save_every=5)
    assert_equal(weights, seen[6])
    with pytest.raises(PowerFailure):
        run(tmp_path / "cut", accuracies, fail_before=fail_before, save_every=5)
    _, again, seen = run(tmp_path / "cut", accuracies, save_every=5)
    assert min(seen) == 6
    assert_equal(again, weights)


@pytest.mark.slow
def test_devices_that_compute_otherwise_after_a_kill(run, tmp_path):
    """The best weights up to the checkpoint are still there if the later ones do not come again."""
    with pytest.raises(PowerFailure):
        run(tmp_path, (0.5, 0.6, 0.7, 0.8), fail_before=9, save_every=3)
    assert steps_in(tmp_path / "checkpoints" / "best") == [2, 6, 8]
    shutil.rmtree(tmp_path / "checkpoints" / "ckpt-000006")
    metrics, _, _ = run(tmp_path, (0.5, 0.4, 0.3), save_every=3)
    assert metrics["accuracy"] == 0.5


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
