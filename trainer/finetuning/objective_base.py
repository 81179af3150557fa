"""The base class of the losses and metrics of fine-tuning.

All batches are padded to the same length. Each is computed at the shortest of a few lengths that
holds its sequences, so that short texts cost less than long ones and XLA compiles few programs.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from beambert.pipelines.tasks.task import ID_INPUTS
from beambert.trainer.finetuning.data import TaskData
from beambert.trainer.loop.objectives import Features, Objective, Sums, example_weights


class TaskObjective(Objective):
    """Losses and metrics of a task's model.

    `input_ids`, `input_mask` and `segment_ids` are int32 [B, L]; [B, N, L] for N choices.
    """

    # Names of the features, besides the inputs, with a value for every token.
    token_features: tuple[str, ...] = ()
    # Names of the outputs with a value for every token.
    token_outputs: tuple[str, ...] = ()

    def __init__(self, lengths: Sequence[int]):
        """Takes the lengths to compute batches at, ascending; batches are padded to the last."""
        self.lengths = tuple(lengths)

    @classmethod
    def of_data(cls, data: TaskData, lengths: Sequence[int]) -> "TaskObjective":
        """Returns the objective for the examples of a task; they decide the loss of some kinds."""
        return cls(lengths)

    def trained(self, model: keras.Model) -> keras.Model:
        """Returns the model that is trained: the task's own, or one around it."""
        return model

    def kept(self, trained: keras.Model) -> keras.Model:
        """Returns the task's model, which `trained` was given."""
        return trained

    def ways(self) -> Sequence[Callable[[keras.Model, Features, tf.Tensor | None], Sums]]:
        """Returns `sums` for the full length, then for each shorter length."""

        def cut_sums(
            length: int, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
        ) -> Sums:
            return self.sums(model, self.cut(features, length), dropout_seed)

        return [self.sums, *(functools.partial(cut_sums, length) for length in self.lengths[:-1])]

    def way(self, features: Features) -> tf.Tensor | None:
        """Returns the index in `ways` for the shortest length that holds the batch."""
        if len(self.lengths) == 1:
            return None
        longest = tf.reduce_max(tf.reduce_sum(features["input_mask"], axis=-1))
        shorter = tf.constant(self.lengths[:-1], tf.int32)
        index = tf.searchsorted(shorter, longest[None])[0]
        return tf.where(index < len(self.lengths) - 1, index + 1, 0)

    def answers(self) -> Sequence[Callable[[keras.Model, Features], tuple[Sums, Sums]]]:
        """Returns functions as `ways` does, that also return the outputs of each row."""
        return [functools.partial(self._answers, n) for n in (None, *self.lengths[:-1])]

    def _answers(
        self, length: int | None, model: keras.Model, features: Features
    ) -> tuple[Sums, Sums]:
        if length is not None:
            features = self.cut(features, length)
        logits = self.logits(model, features, None)
        outputs = self.outputs_of(logits)
        # All ways return equal shapes.
        spare = 0 if length is None else self.lengths[-1] - length
        padded = {name: tf.pad(outputs[name], [[0, 0], [0, spare]]) for name in self.token_outputs}
        return self.sums_of(logits, features), outputs | padded

    def cut(self, features: Features, length: int) -> Features:
        """Returns the features of a batch, cut to a length."""
        return {
            name: value[..., :length] if name in (*ID_INPUTS, *self.token_features) else value
            for name, value in features.items()
        }

    def weights(self, features: Features) -> Sums:
        """Returns the number of examples."""
        return {"examples": tf.reduce_sum(example_weights(features))}

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sum of every metric over a replica's batch."""
        return self.sums_of(self.logits(model, features, dropout_seed), features)

    @abc.abstractmethod
    def logits(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Any:
        """Returns what the model computes, float32, with a row for each example."""

    @abc.abstractmethod
    def sums_of(self, logits: Any, features: Features) -> Sums:
        """Returns the sums of the losses, in nats where they are entropies, and of the metrics."""

    @abc.abstractmethod
    def outputs_of(self, logits: Any) -> dict[str, tf.Tensor]:
        """Returns the outputs that predictions are made from, with a row for each example."""
