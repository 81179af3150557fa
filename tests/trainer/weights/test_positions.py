"""Encoders on sequences longer than those of their pre-training."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.trainer.finetuning import job
from beambert.trainer.weights.adaptation import fill_positions
from beambert.trainer.weights.initial import open_initial

POSITIONS = "bert/embeddings/position_embeddings"


def test_tiles_repeat_the_trained_positions():
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    filled = fill_positions(table, trained=3, length=7, way="tile")
    np.testing.assert_array_equal(filled, table[[0, 1, 2, 0, 1, 2, 0]])
    # Rows beyond the needed ones stay.
    np.testing.assert_array_equal(fill_positions(table, 2, 4, "tile"), table[[0, 1, 0, 1, 4]])


@pytest.mark.parametrize(("trained", "length"), [(3, 5), (4, 11), (1, 4), (2, 3)])
def test_interpolated_positions_are_those_of_numpy(trained, length):
    table = np.random.default_rng(1).standard_normal((6, 3)).astype(np.float32)
    filled = fill_positions(table, trained, length, "interpolate")
    places = np.linspace(0, trained - 1, length)
    for column in range(3):
        expected = np.interp(places, np.arange(trained), table[:trained, column])
        np.testing.assert_allclose(filled[:length, column], expected, rtol=1e-5, atol=1e-6)
    assert len(filled) == max(6, length)


def test_untrained_positions_are_named(encoder_folder, small_config):
    """The encoder has 32 positions, all of them trained."""
    initial = open_initial(str(encoder_folder), "--init")
    assert initial.with_positions(32, "keep").notes == ()
    assert initial.with_positions(32, "tile") is initial
    longer = initial.with_positions(50, "tile")
    assert longer.config == dataclasses.replace(small_config, max_position_embeddings=50)
    table, before = longer.read()[POSITIONS], initial.read()[POSITIONS]
    np.testing.assert_array_equal(table, before[np.arange(50) % 32])
    assert "positions 33 to 50 were not trained" in longer.notes[0] and "tile" in longer.notes[0]


def test_positions_that_were_never_seen_are_named_but_kept(encoder_folder, tmp_path):
    """As in an encoder of 512 positions that was trained on 128 tokens."""
    folder = shutil.copytree(encoder_folder, tmp_path / "encoder")
    (folder / "_SUCCESS").write_text("{}")
    training = json.loads((folder / "training.json").read_text())
    (folder / "training.json").write_text(json.dumps(training | {"max_seq_length": 20}))
    initial = open_initial(str(folder), "--init")
    kept = initial.with_positions(32, "keep")
    assert "positions 21 to 32 were not trained" in kept.notes[0]
    assert "--init_positions=tile" in kept.notes[0]
    np.testing.assert_array_equal(kept.read()[POSITIONS], initial.read()[POSITIONS])
    # A later training on shorter sequences forgets nothing.
    (folder / "training.json").write_text(
        json.dumps(training | {"max_seq_length": 20, "trained_positions": 32})
    )
    assert open_initial(str(folder), "--init").with_positions(32, "keep").notes == ()


def test_a_task_may_ask_for_more_positions_than_there_are(encoder_folder):
    def start(way):
        return job._start(
            job.FinetuningJob(
                task=None,
                data_dir="data",
                init=str(encoder_folder),
                output=None,
                max_seq_length=48,
                init_positions=way,
            )
        )

    with pytest.raises(InputError, match=r"--max_seq_length=48: .*at most 32.*--init_positions"):
        start("keep")
    assert start("interpolate").config.max_position_embeddings == 48
