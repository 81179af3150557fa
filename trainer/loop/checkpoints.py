"""The checkpoints of a training, and the weights of its best evaluation."""

import contextlib
import functools
import math
import re
from collections.abc import Collection, Mapping

import tensorflow as tf

from beambert import storage
from beambert.errors import InputError
from beambert.trainer.loop.steps import Trainer

# Remedy in errors of storage that occur in the middle of a training.
CONTINUES = "fix that and run the same command again, which continues"


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
        # CheckpointState of tensorflow/python/training/checkpoint_state.proto, in text format.
        lines = [f'model_checkpoint_path: "ckpt-{steps[-1]}"']
        lines += [f'all_model_checkpoint_paths: "ckpt-{step}"' for step in steps]
        # A checkpoint without a timestamp would be kept for ever.
        lines += ["all_model_checkpoint_timestamps: 1"] * len(steps)
        storage.write_bytes(f"{directory}/checkpoint", "\n".join(lines).encode())
    return manager()


def checkpoint_steps(directory: str) -> list[int]:
    """Returns the steps of the checkpoints in a folder, ascending.

    Raises:
      InputError: the folder cannot be listed.
    """
    names = storage.list_folder(directory, CONTINUES)
    return sorted(int(found[1]) for n in names if (found := re.fullmatch(r"ckpt-(\d+)\.index", n)))


def save(manager: tf.train.CheckpointManager, step: int) -> None:
    """Writes the checkpoint of a step.

    Raises:
      InputError: it cannot be written.
    """
    with storage.translate_errors(manager.directory, "written", CONTINUES):
        manager.save(checkpoint_number=step)


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
            reason = storage.reason(error)
            print(f"{path}: cannot be read ({reason}); trying the one before", flush=True)
        else:
            return path
    if manager.checkpoints:
        raise InputError(
            f"{manager.directory}: none of its checkpoints can be read; choose another --model_dir "
            "or delete the folder"
        )
    return None


Evaluations = Mapping[int, Mapping[str, float]]


def rank(metrics: Mapping[str, float], metric: str) -> tuple[float, float]:
    """Returns a key that is greater for better metrics: one metric decides, then the loss."""
    sign = -1 if metric == "loss" else 1
    return _least_if_nan(sign * metrics.get(metric, math.nan)), _least_if_nan(-metrics["loss"])


def _least_if_nan(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def best_step(evaluations: Evaluations, metric: str) -> int:
    """Returns the first step with the best metrics, of step -> metrics."""
    return max(sorted(evaluations), key=lambda step: rank(evaluations[step], metric))


def is_over(evaluations: Evaluations, metric: str, patience: int) -> bool:
    """Returns whether none of the last `patience` evaluations was better than one before them."""
    if len(evaluations) <= patience:
        return False
    return best_step(evaluations, metric) <= sorted(evaluations)[-patience - 1]


def needed_steps(evaluations: Evaluations, metric: str, resumable: Collection[int]) -> set[int]:
    """Returns the steps that are or were the best, for a training and all that may resume from it.

    Args:
      evaluations: step -> metrics of all evaluations so far.
      metric: see `rank`.
      resumable: steps of the checkpoints, from which the training may be resumed. It then knows
        the evaluations up to there only.
    """
    known = [evaluations]
    known += [
        {s: evaluation for s, evaluation in evaluations.items() if s <= last} for last in resumable
    ]
    return {best_step(some, metric) for some in known if some}


class BestWeights:
    """The weights of the best evaluation, without the optimizer's state, in a separate folder.

    TensorFlow writes a checkpoint under a temporary name and renames it.
    """

    def __init__(self, trainer: Trainer, folder: str):
        """Takes the trainer whose weights are kept, and the folder."""
        self._checkpoint = tf.train.Checkpoint(model=trainer.checkpoint.model)
        self._folder = folder

    def save(self, step: int, needed: Collection[int]) -> None:
        """Writes the weights of a step, and deletes those of steps that are not needed any more.

        Raises:
          InputError: the weights cannot be written.
        """
        with storage.translate_errors(self._folder, "written", CONTINUES):
            tf.io.gfile.makedirs(self._folder)
            self._checkpoint.write(f"{self._folder}/ckpt-{step}")
        for old in set(checkpoint_steps(self._folder)) - {step, *needed}:
            # The index goes first, so that what is left is not taken for a checkpoint.
            for path in reversed(storage.match_in(self._folder, f"ckpt-{old}.*")):
                storage.delete(path)

    def restore(self, step: int) -> None:
        """Sets the model's weights to those of a step.

        Raises:
          InputError: the weights cannot be read.
        """
        path = f"{self._folder}/ckpt-{step}"
        try:
            self._checkpoint.read(path).assert_existing_objects_matched().expect_partial()
        except (tf.errors.OpError, AssertionError, ValueError) as error:
            raise InputError(
                f"{path}: cannot be read ({storage.reason(error)}); delete "
                f"{self._folder.rpartition('/')[0]} and train again"
            ) from error
