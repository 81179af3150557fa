"""Regression and reranking."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from beambert.model.classifier import BertClassifier, Head
from beambert.model.config import EncoderConfig
from beambert.pipelines.tasks.feature_folder import TaskFeatureFiles
from beambert.pipelines.tasks.metrics import text_id
from beambert.pipelines.tasks.regression import LISTWISE
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.trainer.finetuning.batches import LISTS
from beambert.trainer.loop.objectives import Features, Sums, example_weights
from beambert.trainer.tasks.base import TaskData, TaskGraph, TaskObjective, with_target

# A candidate of another query has this logit.
_NEVER = -1e9


class RegressionObjective(TaskObjective):
    """The squared error of one number per example."""

    losses = ("mean_squared_error",)
    weight_of = {"mean_squared_error": "examples"}

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns a classifier with one logit, the number."""
        return BertClassifier(config, 1, seed, head)

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

    @classmethod
    def answer(cls, graph: TaskGraph, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the `score`, float32 [n]."""
        return {"score": graph.logits(*texts)[:, 0]}


class RelevanceData(TaskData):
    """Candidates with their relevance for a query."""

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes or reads the features, and numbers the queries if lists of them are learnt."""
        super().tokenize(text_features, made)
        if self.task.loss == LISTWISE:
            for split, features in self._features.items():
                queries = np.array([text_id(example.text) for example in self.examples[split]])
                self._features[split] = with_target(features, LISTS, queries)


class RelevanceObjective(RegressionObjective):
    """A sigmoid of one number per pair, whose target is the relevance (BCE of cross-encoders)."""

    DATA = RelevanceData
    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples"}

    @classmethod
    def of_data(cls, data: TaskData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective of the task's loss."""
        return ListObjective(lengths) if data.task.loss == LISTWISE else cls(lengths)

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sum of the losses, in nats."""
        losses = tf.nn.sigmoid_cross_entropy_with_logits(features["label_ids"], logits)
        return {"cross_entropy": tf.reduce_sum(example_weights(features) * losses)}

    def outputs_of(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `scores` float32 [B], from 0 to 1."""
        return {"scores": tf.sigmoid(logits)}

    @classmethod
    def answer(cls, graph: TaskGraph, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the `score`, float32 [n], from 0 to 1."""
        return {"score": tf.sigmoid(graph.logits(*texts)[:, 0])}


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
