"""Losses and metrics of fine-tuning, by kind of task.

All batches are padded to the same length. Each is computed at the shortest of a few lengths that
holds its sequences, so that short texts cost less than long ones and XLA compiles few programs.
"""

import abc
import functools
from collections.abc import Callable, Sequence

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

    def cut(self, features: Features, length: int) -> Features:
        """Returns the features of a batch, cut to a length."""
        return {
            name: value[..., :length] if name in (*INPUTS, *self.token_features) else value
            for name, value in features.items()
        }

    def weights(self, features: Features) -> Sums:
        """Returns the number of examples."""
        return {"examples": tf.reduce_sum(example_weights(features))}

    @abc.abstractmethod
    def outputs(self, model: keras.Model, features: Features) -> dict[str, tf.Tensor]:
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

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of correct answers."""
        logits = self.logits(model, features, dropout_seed)
        rows, labels = example_weights(features), features["label_ids"]
        losses = cross_entropy(logits, labels)
        return {
            "cross_entropy": tf.reduce_sum(rows * loss_weights(features) * losses),
            "accuracy": tf.reduce_sum(rows * is_correct(logits, labels)),
        }

    def outputs(self, model: keras.Model, features: Features) -> dict[str, tf.Tensor]:
        """Returns `probabilities` float32 [B, C]."""
        return {"probabilities": tf.nn.softmax(self.logits(model, features, None))}


class MultiLabelObjective(ClassificationObjective):
    """A sigmoid for each label; the loss of an example is the mean over the labels.

    That is `transformers`' loss for `multi_label_classification`.
    """

    weight_of = {"cross_entropy": "examples", "label_accuracy": "examples"}

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of the right labels' share."""
        logits = self.logits(model, features, dropout_seed)
        rows, labels = example_weights(features), features["label_ids"]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        losses *= loss_weights(features)
        is_right = tf.cast((logits > 0) == (labels > 0), tf.float32)
        return {
            "cross_entropy": tf.reduce_sum(rows * tf.reduce_mean(losses, axis=1)),
            "label_accuracy": tf.reduce_sum(rows * tf.reduce_mean(is_right, axis=1)),
        }

    def outputs(self, model: keras.Model, features: Features) -> dict[str, tf.Tensor]:
        """Returns `probabilities` float32 [B, C]."""
        return {"probabilities": tf.sigmoid(self.logits(model, features, None))}


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

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sum of the squared errors."""
        scores = model(features, dropout_seed=dropout_seed)[:, 0]
        errors = tf.math.squared_difference(scores, features["label_ids"])
        return {"mean_squared_error": tf.reduce_sum(example_weights(features) * errors)}

    def outputs(self, model: keras.Model, features: Features) -> dict[str, tf.Tensor]:
        """Returns `scores` float32 [B]."""
        return {"scores": model(features)[:, 0]}


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

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sums over the words of the loss (nats) and of correct labels."""
        logits = model(features, dropout_seed=dropout_seed)
        words, labels = self._word_weights(features), tf.maximum(features["label_ids"], 0)
        return {
            "cross_entropy": tf.reduce_sum(words * cross_entropy(logits, labels)),
            "accuracy": tf.reduce_sum(words * is_correct(logits, labels)),
        }

    def outputs(self, model: keras.Model, features: Features) -> dict[str, tf.Tensor]:
        """Returns `label_ids`, int32 [B, L]: the most probable label of each token."""
        logits = model(features)
        return {"label_ids": tf.argmax(logits, axis=-1, output_type=tf.int32)}


class SpanObjective(TaskObjective):
    """The mean of two losses over the tokens, one for start and one for end (run_squad.py)."""

    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples", "accuracy": "examples"}
    token_outputs = ("start_logits", "end_logits")

    def _logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        start_logits, end_logits = tf.unstack(model(features, dropout_seed=dropout_seed), axis=-1)
        return start_logits, end_logits

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of exactly right answers."""
        starts, ends = self._logits(model, features, dropout_seed)
        rows = example_weights(features)
        start, end = features["start_positions"], features["end_positions"]
        loss = (cross_entropy(starts, start) + cross_entropy(ends, end)) / 2.0
        both_right = is_correct(starts, start) * is_correct(ends, end)
        return {
            "cross_entropy": tf.reduce_sum(rows * loss),
            "accuracy": tf.reduce_sum(rows * both_right),
        }

    def outputs(self, model: keras.Model, features: Features) -> dict[str, tf.Tensor]:
        """Returns `start_logits` and `end_logits` float32 [B, L]."""
        start_logits, end_logits = self._logits(model, features, None)
        return {"start_logits": start_logits, "end_logits": end_logits}


OBJECTIVES: dict[str, type[TaskObjective]] = {
    CLASSIFICATION: ClassificationObjective,
    MULTI_LABEL: MultiLabelObjective,
    REGRESSION: RegressionObjective,
    CHOICE: ChoiceObjective,
    TAGGING: TaggingObjective,
    SPAN: SpanObjective,
}
