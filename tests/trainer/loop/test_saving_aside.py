"""Checkpoints that a thread writes: a kill in the middle of one, and an error of the thread."""

import pathlib
import sys

import pytest
import tensorflow as tf
from support import forked

from beambert.errors import InputError
from beambert.trainer.loop import checkpoints

ROOT = pathlib.Path(__file__).parents[3]
KILLED = """
import os, sys
import tensorflow as tf
from beambert.trainer.loop import checkpoints
state = tf.train.Checkpoint(large=tf.Variable(tf.fill([1 << 24], 1.0)))
manager = checkpoints.open_checkpoints(state, sys.argv[1], 3)
checkpoints.save(manager, 1, aside=True)
checkpoints.wait(manager, 1)
state.large.assign_add(tf.ones_like(state.large))
checkpoints.save(manager, 2, aside=True)
os._exit(9)
"""


@pytest.mark.release
def test_killed_while_a_checkpoint_is_written_aside(tmp_path):
    """The one before it is the newest, as if nothing had been begun."""
    done = forked.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT)
    assert done.returncode == 9
    state = tf.train.Checkpoint(large=tf.Variable(tf.zeros([1 << 24])))
    manager = checkpoints.open_checkpoints(state, str(tmp_path), 3)
    assert checkpoints.restore_newest(state, manager) == str(tmp_path / "ckpt-1")
    assert (state.large.numpy() == 1.0).all()
    assert checkpoints.checkpoint_steps(str(tmp_path)) == [1]


def test_a_checkpoint_that_cannot_be_written_aside(tmp_path):
    """The error of the thread is told by the next call."""
    state = tf.train.Checkpoint(step=tf.Variable(1))
    manager = checkpoints.open_checkpoints(state, str(tmp_path / "there"), 3)
    (tmp_path / "there").write_text("a file in place of the folder")
    checkpoints.save(manager, 1, aside=True)
    with pytest.raises(InputError, match="there: cannot be written"):
        checkpoints.wait(manager, 1)
