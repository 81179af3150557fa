"""Checkpoints of a training: written, rotated, and read again whatever happened to the folder."""

import contextlib
import functools
import re

import tensorflow as tf

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import tensorflow_files


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
    try:
        # Not `isdir`, which says no where the storage can't be reached: training would begin anew.
        names = tf.io.gfile.listdir(directory) if tf.io.gfile.exists(directory) else []
    except tf.errors.OpError as error:
        raise InputError(
            f"{directory}: cannot be listed ({tensorflow_files.reason(error)}); "
            "mend that, then the same command continues"
        ) from error
    steps = sorted(int(found[1]) for n in names if (found := re.fullmatch(r"ckpt-(\d+)\.index", n)))
    if steps:
        print(f"{directory}/checkpoint: cannot be read; {len(steps)} found by name", flush=True)
        # CheckpointState of tensorflow/python/training/checkpoint_state.proto, as text.
        lines = [f'model_checkpoint_path: "ckpt-{steps[-1]}"']
        lines += [f'all_model_checkpoint_paths: "ckpt-{step}"' for step in steps]
        # What has none is kept for ever.
        lines += ["all_model_checkpoint_timestamps: 1"] * len(steps)
        tensorflow_files.write(f"{directory}/checkpoint", "\n".join(lines).encode())
    return manager()


def save(manager: tf.train.CheckpointManager, step: int) -> None:
    """Writes the checkpoint of a step.

    Raises:
      InputError: it can't be written.
    """
    try:
        manager.save(checkpoint_number=step)
    except tf.errors.OpError as error:
        raise InputError(
            f"{manager.directory}: cannot be written ({tensorflow_files.reason(error)}); "
            "mend that, then the same command continues"
        ) from error


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
