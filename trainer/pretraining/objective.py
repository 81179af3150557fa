"""The pre-training objective: masked LM and next sentence prediction."""

import math
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from beambert.model.packing import Capacity
from beambert.trainer.loop.objectives import (
    Features,
    Objective,
    Sums,
    cross_entropy,
    example_weights,
    is_correct,
)


class PretrainingObjective(Objective):
    """The sum of the mean losses of masked LM and next sentence prediction (run_pretraining.py)."""

    losses = ("masked_lm_loss", "next_sentence_loss")
    weight_of = {
        "masked_lm_loss": "predictions",
        "masked_lm_accuracy": "predictions",
        "next_sentence_loss": "examples",
        "next_sentence_accuracy": "examples",
    }

    def __init__(self, capacities: Mapping[int, Capacity] | None = None):
        """Takes length -> numbers of rows, for the lengths whose padding is left out."""
        self._capacities = capacities or {}

    def weights(self, features: Features) -> Sums:
        """Returns the number of predictions and of examples."""
        return {
            "predictions": tf.reduce_sum(features["masked_lm_weights"]),
            "examples": tf.reduce_sum(example_weights(features)),
        }

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sums of the losses, in nats, and the numbers of correct predictions."""
        logits = model(features, dropout_seed=dropout_seed)
        tokens, weights = features["masked_lm_ids"], features["masked_lm_weights"]
        return self._sums(logits, tokens, weights, features)

    def derived(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns the perplexity: the exponential of the mean loss in nats."""
        # float64 overflows above e**709, which must not end a training that diverges.
        loss = metrics["masked_lm_loss"]
        return {"masked_lm_perplexity": math.inf if loss > 709 else math.exp(loss)}

    def ways(self) -> Sequence[Callable[[keras.Model, Features, tf.Tensor | None], Sums]]:
        """Returns `sums`, and a function that computes the same without padding."""
        return [self.sums, self._packed_sums]

    def way(self, features: Features) -> tf.Tensor | None:
        """Returns 1 if there are enough rows for the batch's tokens and predictions, else 0.

        Returns None if batches of this length are always computed with their padding.
        """
        capacity = self._capacities.get(features["input_ids"].shape[1])
        if capacity is None:
            return None
        tokens = tf.reduce_sum(features["input_mask"])
        predictions = tf.math.count_nonzero(features["masked_lm_weights"], dtype=tf.int32)
        fits = (tokens <= capacity.tokens) & (predictions <= capacity.predictions)
        return tf.cast(fits, tf.int32)

    def _packed_sums(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> Sums:
        capacity = self._capacities[features["input_ids"].shape[1]]
        logits = model.packed_logits(features, capacity, dropout_seed)
        tokens, weights = (
            tf.gather(tf.reshape(features[name], [-1]), logits["prediction_slots"])
            for name in ("masked_lm_ids", "masked_lm_weights")
        )
        return self._sums(logits, tokens, weights, features)

    def _sums(
        self, logits: Sums, tokens: tf.Tensor, weights: tf.Tensor, features: Features
    ) -> Sums:
        token_logits, label_logits = logits["masked_lm_logits"], logits["next_sentence_logits"]
        labels = features["next_sentence_labels"][:, 0]
        rows = example_weights(features)
        return {
            "masked_lm_loss": tf.reduce_sum(weights * cross_entropy(token_logits, tokens)),
            "masked_lm_accuracy": tf.reduce_sum(weights * is_correct(token_logits, tokens)),
            "next_sentence_loss": tf.reduce_sum(rows * cross_entropy(label_logits, labels)),
            "next_sentence_accuracy": tf.reduce_sum(rows * is_correct(label_logits, labels)),
        }
