"""Losses and metrics of fine-tuning for vectors of texts."""

import abc
from collections.abc import Sequence

import keras
import tensorflow as tf

from beambert.pipelines.model_inputs.signatures import ID_INPUTS
from beambert.pipelines.tasks.vector_kinds import COSINE, VectorTask
from beambert.trainer.finetuning.gradient_cache import encode_in_parts, part_seed
from beambert.trainer.finetuning.objective_base import TaskObjective
from beambert.trainer.finetuning.vector_data import VectorData
from beambert.trainer.finetuning.vector_losses import at_dims, cosent, cosines, in_batch
from beambert.trainer.loop.objectives import Features, Sums, example_weights

# The first texts are encoded by themselves if their greatest length is less than this share of that
# of all texts; else one call of the encoder is cheaper to compile.
_MUCH_SHORTER = 0.75
# The part number of the first texts, apart from the numbers of parts of a batch.
FIRST_TEXTS = 1 << 8


class VectorObjective(TaskObjective):
    """The in-batch loss of texts that must find others.

    The features are int32 [B, S, L], for S texts of an example. Those of single texts, int32
    [B, L], are encoded twice: each must find itself under another dropout (SimCSE).
    """

    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples", "in_batch_accuracy": "examples"}

    def __init__(self, lengths: Sequence[int], task: VectorTask, longest_first: int):
        """Takes the lengths, see `TaskObjective`, the task, and the first texts' longest length."""
        super().__init__(lengths)
        self._task = task
        self._longest_first = longest_first

    @classmethod
    def of_data(cls, data: VectorData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective of the task's loss, or the in-batch loss without scores."""
        of_loss: type[VectorObjective] = VectorObjective
        if data.has_scores:
            of_loss = CosineObjective if data.task.loss == COSINE else CosentObjective
        return of_loss(lengths, data.task, data.longest_first)

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the vectors, float32 [B, S, H]."""
        given = {name: features[name] for name in ID_INPUTS}
        if given["input_ids"].shape.rank == 2:
            given = {name: tf.stack([value, value], axis=1) for name, value in given.items()}
        _, texts, length = given["input_ids"].shape
        if self._longest_first >= _MUCH_SHORTER * length:
            return self._encoded(model, given, dropout_seed)
        first = {name: value[:, :1, : self._longest_first] for name, value in given.items()}
        others = {name: value[:, 1:] for name, value in given.items()}
        found = [
            self._encoded(model, first, part_seed(dropout_seed, FIRST_TEXTS)),
            self._encoded(model, others, dropout_seed),
        ]
        return tf.concat(found, axis=1)

    def _encoded(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        _, texts, length = features["input_ids"].shape
        flat = {name: tf.reshape(value, [-1, length]) for name, value in features.items()}

        def encode(some: Features, seed: tf.Tensor | None) -> tf.Tensor:
            return model(some, dropout_seed=seed)

        size = self._task.gradient_cache_batch_size
        vectors = encode_in_parts(encode, flat, dropout_seed, size)
        return tf.reshape(vectors, [-1, texts, *vectors.shape[1:]])

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of the texts that are found."""
        rows = example_weights(features)
        ids = features["text_ids"]
        ids = tf.concat([ids, ids], axis=1) if ids.shape[1] == 1 else ids

        def loss(vectors: tf.Tensor) -> tf.Tensor:
            return in_batch(vectors, ids, rows, self._task.temperature)[0]

        _, is_found = in_batch(logits, ids, rows, self._task.temperature)
        return {
            "cross_entropy": tf.reduce_sum(rows * at_dims(loss, logits, self._dims)),
            "in_batch_accuracy": tf.reduce_sum(rows * is_found),
        }

    @property
    def _dims(self) -> Sequence[int]:
        return self._task.matryoshka_dims

    def outputs_of(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `vectors` float32 [B, S, H]."""
        return {"vectors": logits}


class _ScoreObjective(VectorObjective, abc.ABC):
    """A loss of the cosines of pairs with scores."""

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sum of the losses."""
        rows, scores = example_weights(features), features["label_ids"]

        def loss(vectors: tf.Tensor) -> tf.Tensor:
            return self._loss(cosines(vectors), scores, rows)

        return {self.losses[0]: at_dims(loss, logits, self._dims)}

    @abc.abstractmethod
    def _loss(self, found: tf.Tensor, scores: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns the sum of the losses over the examples."""


class CosentObjective(_ScoreObjective):
    """The loss of the order of the cosines; that of a batch counts for each of its examples."""

    losses = ("cosent",)
    weight_of = {"cosent": "examples"}

    def _loss(self, found: tf.Tensor, scores: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(rows) * cosent(found, scores, rows, self._task.temperature)


class CosineObjective(_ScoreObjective):
    """The squared error of the cosines."""

    losses = ("mean_squared_error",)
    weight_of = {"mean_squared_error": "examples"}

    def _loss(self, found: tf.Tensor, scores: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(rows * tf.math.squared_difference(found, scores))
