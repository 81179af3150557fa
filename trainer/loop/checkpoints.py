"""Writes, rotates and restores the checkpoints of a training."""

import contextlib
import functools
import re

import tensorflow as tf

from beambert.errors import InputError
from beambert.pipelines.storage import tensorflow_files

# Remedy in errors of storage that occur in the middle of a training.
CONTINUES = "mend that and run the same command again, which continues"


def open_checkpoints(
    checkpoint: tf.train.Checkpoint, directory: str, keep: int
) -> tf.train.CheckpointManager:
    """Returns the manager of a folder's checkpoints.

    TensorFlow keeps a list of the checkpoints and starts anew if it is missing or cannot be read. A
    crash or an incomplete copy may have lost it. This function then finds the checkpoints by their
    names and writes the list again.

    Args:
      checkpoint: objects that are saved.
      directory: path of the folder; it need not exist.
      keep: number of checkpoints that are kept.

    Raises:
      InputError: the folder cannot be listed, or the list cannot be written.
    """
    manager = functools.partial(tf.train.CheckpointManager, checkpoint, directory, max_to_keep=keep)
    with contextlib.suppress(ValueError):  # an empty list
        opened = manager()
        if opened.checkpoints:
            return opened
    steps = checkpoint_steps(directory)
    if steps:
        print(
            f"{directory}/checkpoint: cannot be read; found {len(steps)} checkpoints by name",
            flush=True,
        )
        # CheckpointState of tensorflow/python/training/checkpoint_state.proto, as text.
        lines = [f'model_checkpoint_path: "ckpt-{steps[-1]}"']
        lines += [f'all_model_checkpoint_paths: "ckpt-{step}"' for step in steps]
        # A checkpoint without a timestamp would be kept for ever.
        lines += ["all_model_checkpoint_timestamps: 1"] * len(steps)
        tensorflow_files.write_bytes(f"{directory}/checkpoint", "\n".join(lines).encode())
    return manager()


def checkpoint_steps(directory: str) -> list[int]:
    """Returns the steps of the checkpoints in a folder, ascending.

    Raises:
      InputError: the folder cannot be listed.
    """
    names = tensorflow_files.list_folder(directory, CONTINUES)
    return sorted(int(found[1]) for n in names if (found := re.fullmatch(r"ckpt-(\d+)\.index", n)))


def saves_aside(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether a thread writes checkpoints while the training goes on.

    A TPU would stand still for as long as gs:// takes. Elsewhere the second copy of the state, in
    the host's memory, is worth more than the time.
    """
    return isinstance(strategy, tf.distribute.TPUStrategy)


def save(manager: tf.train.CheckpointManager, step: int, aside: bool = False) -> None:
    """Writes the checkpoint of a step.

    Args:
      manager: manager of the checkpoints.
      step: the step.
      aside: True to return once the state is copied; call `wait` before it is relied upon. The
        checkpoint before it stays the newest one until the new one is whole.

    Raises:
      InputError: the checkpoint, or the one before it, cannot be written.
    """
    options = tf.train.CheckpointOptions(enable_async=True) if aside else None
    with tensorflow_files.told(manager.directory, "written", CONTINUES):
        manager.save(checkpoint_number=step, options=options)


def wait(manager: tf.train.CheckpointManager, step: int) -> None:
    """Waits until the checkpoint of a step, which was written aside, is whole.

    Raises:
      InputError: it cannot be written.
    """
    with tensorflow_files.told(manager.directory, "written", CONTINUES):
        manager.checkpoint.sync()
    if not (manager.latest_checkpoint or "").endswith(f"/ckpt-{step}"):
        save(manager, step, aside=True)  # This call raises the error of the thread.


def restore_newest(
    checkpoint: tf.train.Checkpoint, manager: tf.train.CheckpointManager
) -> str | None:
    """Restores the newest checkpoint that can be read.

    Returns:
      the path of the checkpoint; None if there are no checkpoints.

    Raises:
      InputError: there are checkpoints, but none can be read.
    """
    for path in reversed(manager.checkpoints):
        try:
            status = checkpoint.restore(path)
            status.expect_partial()  # silences TensorFlow's warnings at exit
            status.assert_consumed()
        except (tf.errors.OpError, AssertionError, ValueError, IndexError) as error:
            reason = tensorflow_files.reason(error)
            print(f"{path}: cannot be read ({reason}); trying the one before", flush=True)
        else:
            return path
    if manager.checkpoints:
        raise InputError(
            f"{manager.directory}: none of its checkpoints can be read; choose another --model_dir "
            "or delete the folder"
        )
    return None
