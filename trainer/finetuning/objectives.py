"""Losses and metrics of fine-tuning, by kind of task.

All batches are padded to the same length. Each is computed at the shortest of a few lengths that
holds its sequences, so that short texts cost less than long ones and XLA compiles few programs.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from beambert.pipelines.model_inputs.features import NO_LABEL
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    MULTI_LABEL,
    REGRESSION,
    SPAN,
    TAGGING,
)
from beambert.trainer.loop.objectives import (
    Features,
    Objective,
    Sums,
    cross_entropy,
    example_weights,
    is_correct,
)

INPUTS = ("input_ids", "input_mask", "segment_ids")


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
            name: value[..., :length] if name in (*INPUTS, *self.token_features) else value
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


def loss_weights(features: Features) -> tf.Tensor | float:
    """Returns the weight of each target in the loss, see `class_weights`; 1 if there are none.

    Only training batches have them, so that held-out losses can be compared.
    """
    return features.get("loss_weights", 1.0)


class ClassificationObjective(TaskObjective):
    """Softmax over a task's labels (run_classifier.py)."""

    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples", "accuracy": "examples"}

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the logits of the labels, float32 [B, C]."""
        return model(features, dropout_seed=dropout_seed)

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of correct answers."""
        rows, labels = example_weights(features), features["label_ids"]
        losses = cross_entropy(logits, labels)
        return {
            "cross_entropy": tf.reduce_sum(rows * loss_weights(features) * losses),
            "accuracy": tf.reduce_sum(rows * is_correct(logits, labels)),
        }

    def outputs_of(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `probabilities` float32 [B, C]."""
        return {"probabilities": tf.nn.softmax(logits)}


class MultiLabelObjective(ClassificationObjective):
    """A sigmoid for each label; the loss of an example is the mean over the labels.

    That is `transformers`' loss for `multi_label_classification`.
    """

    weight_of = {"cross_entropy": "examples", "label_accuracy": "examples"}

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of the right labels' share."""
        rows, labels = example_weights(features), features["label_ids"]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        losses *= loss_weights(features)
        is_right = tf.cast((logits > 0) == (labels > 0), tf.float32)
        return {
            "cross_entropy": tf.reduce_sum(rows * tf.reduce_mean(losses, axis=1)),
            "label_accuracy": tf.reduce_sum(rows * tf.reduce_mean(is_right, axis=1)),
        }

    def outputs_of(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `probabilities` float32 [B, C]."""
        return {"probabilities": tf.sigmoid(logits)}


class ChoiceObjective(ClassificationObjective):
    """Softmax over the scores of an example's choices (Devlin et al. 2019, section 4.4)."""

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the logits of the choices, float32 [B, N]."""
        _, choices, length = features["input_ids"].shape
        flat = {name: tf.reshape(features[name], [-1, length]) for name in INPUTS}
        return tf.reshape(model(flat, dropout_seed=dropout_seed), [-1, choices])


class RegressionObjective(TaskObjective):
    """The squared error of one number per example."""

    losses = ("mean_squared_error",)
    weight_of = {"mean_squared_error": "examples"}

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the scores, float32 [B]."""
        return model(features, dropout_seed=dropout_seed)[:, 0]

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sum of the squared errors."""
        errors = tf.math.squared_difference(logits, features["label_ids"])
        return {"mean_squared_error": tf.reduce_sum(example_weights(features) * errors)}

    def outputs_of(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `scores` float32 [B]."""
        return {"scores": logits}


class TaggingObjective(TaskObjective):
    """Softmax over the labels of each word's first piece (Devlin et al. 2019, section 5.3)."""

    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "words", "accuracy": "words"}
    token_features = ("label_ids",)
    token_outputs = ("label_ids",)

    def weights(self, features: Features) -> Sums:
        """Returns the number of labelled words."""
        return {"words": tf.reduce_sum(self._word_weights(features))}

    def _word_weights(self, features: Features) -> tf.Tensor:
        is_word = tf.cast(features["label_ids"] != NO_LABEL, tf.float32)
        return is_word * example_weights(features)[:, None]

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the logits of the labels, float32 [B, L, C]."""
        return model(features, dropout_seed=dropout_seed)

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sums over the words of the loss (nats) and of correct labels."""
        words, labels = self._word_weights(features), tf.maximum(features["label_ids"], 0)
        return {
            "cross_entropy": tf.reduce_sum(words * cross_entropy(logits, labels)),
            "accuracy": tf.reduce_sum(words * is_correct(logits, labels)),
        }

    def outputs_of(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `label_ids`, int32 [B, L]: the most probable label of each token."""
        return {"label_ids": tf.argmax(logits, axis=-1, output_type=tf.int32)}


class SpanObjective(TaskObjective):
    """The mean of two losses over the tokens, one for start and one for end (run_squad.py)."""

    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples", "accuracy": "examples"}
    token_outputs = ("start_logits", "end_logits")

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the logits of the answer's first and last token, float32 [B, L] each."""
        start_logits, end_logits = tf.unstack(model(features, dropout_seed=dropout_seed), axis=-1)
        return start_logits, end_logits

    def sums_of(self, logits: tuple[tf.Tensor, tf.Tensor], features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of exactly right answers."""
        starts, ends = logits
        rows = example_weights(features)
        start, end = features["start_positions"], features["end_positions"]
        loss = (cross_entropy(starts, start) + cross_entropy(ends, end)) / 2.0
        both_right = is_correct(starts, start) * is_correct(ends, end)
        return {
            "cross_entropy": tf.reduce_sum(rows * loss),
            "accuracy": tf.reduce_sum(rows * both_right),
        }

    def outputs_of(self, logits: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns `start_logits` and `end_logits` float32 [B, L]."""
        start_logits, end_logits = logits
        return {"start_logits": start_logits, "end_logits": end_logits}


OBJECTIVES: dict[str, type[TaskObjective]] = {
    CLASSIFICATION: ClassificationObjective,
    MULTI_LABEL: MultiLabelObjective,
    REGRESSION: RegressionObjective,
    CHOICE: ChoiceObjective,
    TAGGING: TaggingObjective,
    SPAN: SpanObjective,
}
