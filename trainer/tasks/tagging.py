"""Tagging."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from beambert.model.classifier import BertTokenClassifier, Head
from beambert.model.config import EncoderConfig
from beambert.model.families.family import TOKEN_CLASSIFICATION
from beambert.pipelines.tasks.tagging import outside_index
from beambert.pipelines.tasks.task import DEV, FIRST_PIECES, NO_LABEL
from beambert.pipelines.tasks.texts import TextFeatures, first_pieces
from beambert.trainer.loop.objectives import (
    Features,
    Sums,
    Tensor,
    cross_entropy,
    example_weights,
    is_correct,
)
from beambert.trainer.tasks.base import TaskData, TaskObjective

if TYPE_CHECKING:
    import tensorflow as tf

    from beambert.trainer.tasks.graph import TaskGraph


class TagData(TaskData):
    """Sentences with one tag for each word."""

    def tokenize(self, text_features: TextFeatures) -> None:
        """Makes the features, and finds the first word piece of each word of dev."""
        super().tokenize(text_features)
        self._pieces: list[np.ndarray] = []
        for _, pieces in first_pieces(self.examples[DEV], text_features):
            self._pieces += [of_words[of_words >= 0] for of_words in pieces]

    def notes(self) -> list[str]:
        """Returns the sentences about cut sequences, and one about the words without a token."""
        notes = super().notes()
        lost = sum(np.sum(pieces == 0) for pieces in self._pieces)
        if lost:
            words = sum(map(len, self._pieces))
            notes.append(
                f"dev: {lost:,} of {words:,} words have no token at {self._room}, and are scored "
                f"as {self._outside}"
            )
        return notes

    @property
    def _outside(self) -> str:
        return self.labels[outside_index(self.labels)]

    def results(self, outputs: Mapping[str, Any]) -> dict[str, float]:
        """Returns the task's metrics of a model's outputs for dev."""
        tags = []
        for ids, pieces in zip(outputs["label_ids"], self._pieces, strict=True):
            # Position 0 is [CLS]. It stands for a word that has no token in the sequence.
            found = zip(ids[pieces], pieces, strict=True)
            tags.append([self.labels[index] if at else self._outside for index, at in found])
        return super().results({"tags": tags})


class TaggingObjective(TaskObjective):
    """Softmax over the labels of each word's first piece (Devlin et al. 2019, section 5.3)."""

    DATA = TagData
    HUGGING_FACE_CLASS = TOKEN_CLASSIFICATION
    NAMES_LABELS = True
    HUB_TASK = "token-classification"
    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "words", "accuracy": "words"}
    token_features = ("label_ids",)
    token_outputs = ("label_ids",)

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns a classifier with a logit for each label and token, [B, L, C]."""
        return BertTokenClassifier(config, num_labels, seed, head)

    def weights(self, features: Features) -> Sums:
        """Returns the number of labelled words."""
        return {"words": ops.sum(self._word_weights(features))}

    def _word_weights(self, features: Features) -> Tensor:
        is_word = ops.cast(features["label_ids"] != NO_LABEL, "float32")
        return is_word * example_weights(features)[:, None]

    def sums_of(self, logits: Tensor, features: Features) -> Sums:
        """Returns the sums over the words of the loss (nats) and of correct labels."""
        words, labels = self._word_weights(features), ops.maximum(features["label_ids"], 0)
        return {
            "cross_entropy": ops.sum(words * cross_entropy(logits, labels)),
            "accuracy": ops.sum(words * is_correct(logits, labels)),
        }

    def outputs_of(self, logits: Tensor) -> dict[str, Tensor]:
        """Returns `label_ids`, int32 [B, L]: the most probable label of each token."""
        return {"label_ids": ops.cast(ops.argmax(logits, axis=-1), "int32")}

    @classmethod
    def answer(cls, graph: "TaskGraph", *texts: Tensor) -> dict[str, Tensor]:
        """Returns the `tags` of the words, string [n, most words], filled up with ""."""
        import tensorflow as tf

        outside = outside_index([label.decode() for label in graph.labels.numpy()])
        features, pieces = graph.text_features.of_words(*texts)
        of_pieces = tf.argmax(graph.model(features), axis=-1, output_type=tf.int32)
        of_words = tf.gather(of_pieces, tf.maximum(pieces, 0), batch_dims=1)
        of_words = tf.where(pieces == 0, outside, of_words)
        return {"tags": tf.where(pieces < 0, "", tf.gather(graph.labels, of_words))}

    @classmethod
    def id_specs(cls, longest: int) -> "list[tf.TensorSpec]":
        """Returns the inputs of a graph that takes ids, with those of `TextFeatures.of_words`."""
        import tensorflow as tf

        pieces = tf.TensorSpec([None, None], tf.int32, name=FIRST_PIECES)
        return [*super().id_specs(longest), pieces]
