"""Losses and metrics of fine-tuning, by kind of task."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    EMBEDDING,
    ID_INPUTS,
    LATE_INTERACTION,
    MULTI_LABEL,
    NO_LABEL,
    REGRESSION,
    RERANK,
    SIMILARITY,
    SPAN,
    TAGGING,
)
from beambert.trainer.finetuning.batches import LISTS
from beambert.trainer.finetuning.data import RelevanceData
from beambert.trainer.finetuning.objective_base import TaskObjective
from beambert.trainer.finetuning.vector_objectives import (
    EmbeddingObjective,
    InteractionObjective,
    VectorObjective,
)
from beambert.trainer.loop.objectives import (
    Features,
    Sums,
    cross_entropy,
    example_weights,
    is_correct,
)

# A candidate of another query has this logit.
_NEVER = -1e9


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
        flat = {name: tf.reshape(features[name], [-1, length]) for name in ID_INPUTS}
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


class RelevanceObjective(RegressionObjective):
    """A sigmoid of one number per pair, whose target is the relevance (BCE of cross-encoders)."""

    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples"}

    @classmethod
    def of_data(cls, data: RelevanceData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective of the task's loss."""
        return ListObjective(lengths) if data.is_listwise else cls(lengths)

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sum of the losses, in nats."""
        losses = tf.nn.sigmoid_cross_entropy_with_logits(features["label_ids"], logits)
        return {"cross_entropy": tf.reduce_sum(example_weights(features) * losses)}

    def outputs_of(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `scores` float32 [B], from 0 to 1."""
        return {"scores": tf.sigmoid(logits)}


class ListObjective(RelevanceObjective):
    """The cross-entropy of the candidates of a query, among which the relevant ones are chosen.

    The target of a candidate is its share of the relevance of all candidates of its query that the
    batch has: the softmax loss of Bruch et al. 2019 (ICTIR, An analysis of the softmax cross
    entropy loss for learning-to-rank with binary relevance), and for one relevant candidate that of
    Gao et al. 2021 (arXiv 2101.08751).
    """

    weight_of = {"cross_entropy": "queries"}

    def weights(self, features: Features) -> Sums:
        """Returns the number of queries that have a relevant candidate."""
        _, shares_B, sizes_B = self._lists(features)
        is_learnt_B = tf.cast(tf.reduce_sum(shares_B, axis=1) > 0, tf.float32)
        return {"queries": tf.reduce_sum(is_learnt_B / sizes_B)}

    @staticmethod
    def _lists(features: Features) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns which candidates have the query of each row, their targets, and their number.

        The first is bool [B, B], the second float32 [B, B], the third at least 1, float32 [B].
        """
        rows_B, queries_B = example_weights(features), features[LISTS]
        together_BB = (queries_B[:, None] == queries_B[None]) & (rows_B[None] > 0)
        together_BB &= rows_B[:, None] > 0
        relevance_BB = tf.where(together_BB, features["label_ids"][None], 0.0)
        totals_B1 = tf.reduce_sum(relevance_BB, axis=1, keepdims=True)
        sizes_B = tf.reduce_sum(tf.cast(together_BB, tf.float32), axis=1)
        return together_BB, tf.math.divide_no_nan(relevance_BB, totals_B1), tf.maximum(sizes_B, 1.0)

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sum over the queries of the losses, in nats."""
        together_BB, shares_BB, _ = self._lists(features)
        others_BB = tf.where(together_BB, logits[None], _NEVER)
        normalizer_B = tf.reduce_logsumexp(others_BB, axis=1)
        own_B = tf.linalg.diag_part(shares_BB)
        return {"cross_entropy": tf.reduce_sum(own_B * (normalizer_B - logits))}


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
    RERANK: RelevanceObjective,
    CHOICE: ChoiceObjective,
    TAGGING: TaggingObjective,
    SPAN: SpanObjective,
    EMBEDDING: EmbeddingObjective,
    SIMILARITY: VectorObjective,
    LATE_INTERACTION: InteractionObjective,
}
