"""Curves by updates, tokens, minutes and operations."""

import dataclasses

import numpy as np
import pytest

from beambert.explore.axes import FLOPS, MINUTES, TOKENS, UPDATES
from beambert.explore.curves import curves_by, flops_a_step, shared_metrics
from beambert.model.config import BertConfig
from beambert.model.flops import training_flops
from beambert.trainer.comparison.runs import ComparedRun

CONFIG = BertConfig(60, 32, 2, 4, 64)
SETTINGS = {f"encoder.{name}": value for name, value in dataclasses.asdict(CONFIG).items()} | {
    "loop.train_batch_size": 8,
    "records.0.max_seq_length": 32,
    "records.0.max_predictions_per_seq": 5,
}
STEPS = np.array([10, 20, 40])
RUN = ComparedRun(
    "run",
    SETTINGS,
    {},
    {
        ("train", "loss"): (STEPS, np.array([3.0, 2.0, 1.0])),
        ("train", "seconds_per_step"): (STEPS, np.array([6.0, 6.0, 3.0])),
        ("train", "tokens_per_second"): (STEPS, np.array([10.0, 20.0, 40.0])),
        ("eval", "loss"): (np.array([30]), np.array([1.5])),
    },
    True,
)


@pytest.mark.parametrize(
    ("axis", "train", "held_out"),
    [
        (UPDATES, [10, 20, 40], 30),
        (MINUTES, [1, 2, 3], 2.5),
        (TOKENS, [600, 1800, 4200], 3000),
    ],
)
def test_axes(axis, train, held_out):
    curves = curves_by(RUN, axis)
    np.testing.assert_allclose(curves["train", "loss"][0], train)
    np.testing.assert_allclose(curves["eval", "loss"][0], [held_out])
    assert curves["train", "loss"][1].tolist() == [3.0, 2.0, 1.0]


def test_operations_are_those_of_the_updates():
    each = training_flops(CONFIG, 8, 32, 5)
    assert flops_a_step(SETTINGS) == each
    at, _ = curves_by(RUN, FLOPS)["train", "loss"]
    np.testing.assert_allclose(at, STEPS * each)


@pytest.mark.parametrize(
    "changed",
    [
        {"records.1.max_seq_length": 128},
        {"loop.train_batch_size": None},
        {"mask_rate": [0.3, 0.15]},
        {"distill_from_sha256": "a"},
        {"generator_size": 0.25},
    ],
)
def test_what_is_not_known_is_not_drawn(changed):
    settings = {name: value for name, value in (SETTINGS | changed).items() if value is not None}
    assert curves_by(dataclasses.replace(RUN, settings=settings), FLOPS) == {}
    assert curves_by(dataclasses.replace(RUN, curves={}), TOKENS) == {}


def test_held_out_curves_come_first():
    assert shared_metrics([RUN.curves])[0] == ("eval", "loss")
