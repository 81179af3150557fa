"""The best weights of a training on its held-out data, and when to stop looking for better ones."""

import math
from collections.abc import Collection, Mapping

import tensorflow as tf

from beambert.errors import InputError
from beambert.pipelines.storage import tensorflow_files
from beambert.trainer.loop.checkpoints import CONTINUES, checkpoint_steps
from beambert.trainer.loop.steps import Trainer

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
    """The weights of the best evaluation, without the optimizer's state, in a folder of their own.

    TensorFlow writes a checkpoint aside and renames it.
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
        with tensorflow_files.told(self._folder, "written", CONTINUES):
            tf.io.gfile.makedirs(self._folder)
            self._checkpoint.write(f"{self._folder}/ckpt-{step}")
        for old in set(checkpoint_steps(self._folder)) - {step, *needed}:
            # The index goes first, so that nobody takes what is left for a checkpoint.
            for path in reversed(tensorflow_files.match(f"{self._folder}/ckpt-{old}.*")):
                tensorflow_files.delete(path)

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
                f"{path}: cannot be read ({tensorflow_files.reason(error)}); delete "
                f"{self._folder.rpartition('/')[0]} and train again"
            ) from error
