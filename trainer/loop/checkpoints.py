"""Checkpoints of a training: written, rotated, and read again whatever happened to the folder."""

import contextlib
import functools
import re

import tensorflow as tf

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import tensorflow_files

# What to do when storage fails in the middle of a training.
CONTINUES = "mend that, then the same command continues"


def open_checkpoints(
    checkpoint: tf.train.Checkpoint, directory: str, keep: int
) -> tf.train.CheckpointManager:
    """Returns the manager of a folder's checkpoints.

    TensorFlow begins anew where its list of them is missing or can't be read; a machine that went
    down, or a copy, may have lost it. The checkpoints are then found by their names.

    Args:
      checkpoint: what is saved.
      directory: the folder; need not be there.
      keep: how many of them stay.

    Raises:
      InputError: the folder can't be listed, or the list can't be written.
    """
    manager = functools.partial(tf.train.CheckpointManager, checkpoint, directory, max_to_keep=keep)
    with contextlib.suppress(ValueError):  # an empty list
        opened = manager()
        if opened.checkpoints:
            return opened
    names = tensorflow_files.list_folder(directory, CONTINUES)
    steps = sorted(int(found[1]) for n in names if (found := re.fullmatch(r"ckpt-(\d+)\.index", n)))
    if steps:
        print(f"{directory}/checkpoint: cannot be read; {len(steps)} found by name", flush=True)
        # CheckpointState of tensorflow/python/training/checkpoint_state.proto, as text.
        lines = [f'model_checkpoint_path: "ckpt-{steps[-1]}"']
        lines += [f'all_model_checkpoint_paths: "ckpt-{step}"' for step in steps]
        # What has none is kept for ever.
        lines += ["all_model_checkpoint_timestamps: 1"] * len(steps)
        tensorflow_files.write_bytes(f"{directory}/checkpoint", "\n".join(lines).encode())
    return manager()


def save(manager: tf.train.CheckpointManager, step: int) -> None:
    """Writes the checkpoint of a step.

    Raises:
      InputError: it can't be written.
    """
    with tensorflow_files.told(manager.directory, "written", CONTINUES):
        manager.save(checkpoint_number=step)


def restore_newest(
    checkpoint: tf.train.Checkpoint, manager: tf.train.CheckpointManager
) -> str | None:
    """Loads the newest checkpoint that can be read; returns its path, None if there are none.

    Raises:
      InputError: there are some, and none can be read.
    """
    for path in reversed(manager.checkpoints):
        try:
            status = checkpoint.restore(path)
            status.expect_partial()  # keeps TensorFlow from listing what is missing at exit
            status.assert_consumed()
        except (tf.errors.OpError, AssertionError, ValueError, IndexError) as error:
            reason = tensorflow_files.reason(error)
            print(f"{path}: cannot be read ({reason}); trying the one before", flush=True)
        else:
            return path
    if manager.checkpoints:
        raise InputError(
            f"{manager.directory}: none of its checkpoints can be read; "
            "choose another --model_dir or delete it"
        )
    return None
