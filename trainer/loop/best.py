"""The best weights of a training on its held-out data, and when to stop looking for better ones."""

from collections.abc import Mapping

import tensorflow as tf

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import tensorflow_files
from beambert.trainer.loop.checkpoints import open_checkpoints, save
from beambert.trainer.loop.steps import Trainer

# Folder in that of the checkpoints.
FOLDER = "best"
# The one before the best is kept too: a resumed run may begin before the newest one.
KEEP = 2


def rank(metrics: Mapping[str, float]) -> tuple[float, float]:
    """Returns a key that is greater for better metrics: accuracy decides, then the loss."""
    return metrics.get("accuracy", 0.0), -metrics["loss"]


def best_step(evaluations: Mapping[int, Mapping[str, float]]) -> int:
    """Returns the first step with the best metrics, of step -> metrics."""
    return max(sorted(evaluations), key=lambda step: rank(evaluations[step]))


def is_over(evaluations: Mapping[int, Mapping[str, float]], patience: int) -> bool:
    """Returns whether none of the last `patience` evaluations was better than one before them."""
    if len(evaluations) <= patience:
        return False
    return best_step(evaluations) <= sorted(evaluations)[-patience - 1]


class BestWeights:
    """The weights of the best evaluation, in a folder of their own."""

    def __init__(self, trainer: Trainer, checkpoints: str):
        """Opens the folder.

        Args:
          trainer: trainer whose model is kept.
          checkpoints: folder of the training's checkpoints.
        """
        self._checkpoint = tf.train.Checkpoint(model=trainer.checkpoint.model)
        self._manager = open_checkpoints(self._checkpoint, f"{checkpoints}/{FOLDER}", KEEP)

    def save(self, step: int) -> None:
        """Writes the weights of a step.

        Raises:
          InputError: the weights cannot be written.
        """
        save(self._manager, step)

    def restore(self, step: int) -> None:
        """Sets the model's weights to those of a step.

        Raises:
          InputError: the weights cannot be read.
        """
        path = f"{self._manager.directory}/ckpt-{step}"
        try:
            self._checkpoint.restore(path).assert_existing_objects_matched().expect_partial()
        except (tf.errors.OpError, AssertionError, ValueError) as error:
            raise InputError(
                f"{path}: cannot be read ({tensorflow_files.reason(error)}); delete "
                f"{self._manager.directory.rpartition('/')[0]} and train again"
            ) from error
