"""The loss of TSDAE: texts are written again from the vectors of some of their words.

Wang et al. 2021 (arXiv 2104.06979), section 3.

Shape suffixes: B batch, L sequence length, V vocabulary size.
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from beambert.model.denoising import DenoisingAutoencoder
from beambert.pipelines.model_inputs.signatures import ID_INPUTS
from beambert.pipelines.tasks.vector_kinds import VectorTask
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.finetuning.objective_base import TaskObjective
from beambert.trainer.finetuning.vector_data import VectorData
from beambert.trainer.finetuning.vector_objectives import VectorObjective
from beambert.trainer.loop.objectives import Features, Sums, cross_entropy, is_correct

# Share of the words that are deleted: the best of those that the paper tried.
DELETED = 0.6


def with_deletions(
    features: Features, is_continuation_V: np.ndarray, drawn_BL: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns texts without some of their words; of each text at least one word stays.

    Args:
      features: `input_ids`, `input_mask` and `segment_ids` of single texts, int32 [B, L].
      is_continuation_V: whether each token continues a word, which is deleted as a whole.
      drawn_BL: uniform numbers from 0 to 1, float32; the n-th one decides about the n-th word.
    """
    ids, mask = features["input_ids"], features["input_mask"]
    places, lengths = tf.range(ids.shape[1])[None], tf.reduce_sum(mask, axis=1, keepdims=True)
    is_frame = (places == 0) | (places == lengths - 1)  # [CLS] and [SEP]
    is_text = (mask > 0) & ~is_frame
    begins = ~tf.gather(tf.constant(is_continuation_V), ids) | is_frame
    words = tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1
    drawn = tf.where(is_text, tf.gather(drawn_BL, words, batch_dims=1), -1.0)
    stays = (drawn >= DELETED) | (drawn == tf.reduce_max(drawn, axis=1, keepdims=True))
    stays = (stays & is_text) | (is_frame & (mask > 0))
    # The tokens that stay move to the front, in their order.
    order = tf.argsort(tf.cast(~stays, tf.int32), axis=1, stable=True)
    count = tf.reduce_sum(tf.cast(stays, tf.int32), axis=1, keepdims=True)
    left = tf.cast(places < count, tf.int32)
    return {
        "input_ids": tf.gather(ids, order, batch_dims=1) * left,
        "input_mask": left,
        "segment_ids": tf.zeros_like(ids),
    }


class DenoisingObjective(VectorObjective):
    """The cross-entropy of the tokens of texts; on dev, of pairs, the in-batch loss.

    A prediction is a token in training, and an example on dev.
    """

    weight_of = {"cross_entropy": "predictions", "accuracy": "predictions"}

    def __init__(
        self, lengths: Sequence[int], task: VectorTask, longest_first: int, vocabulary: Vocabulary
    ):
        """Takes what `VectorObjective` takes, and the vocabulary of the ids."""
        super().__init__(lengths, task, longest_first)
        self._is_continuation = vocabulary.is_continuation

    def trained(self, model: keras.Model) -> keras.Model:
        """Returns the autoencoder around a sentence encoder."""
        return DenoisingAutoencoder(model)

    def kept(self, trained: keras.Model) -> keras.Model:
        """Returns the sentence encoder."""
        return trained.sentence_encoder

    def weights(self, features: Features) -> Sums:
        """Returns the number of predictions."""
        if features["input_ids"].shape.rank == 2:
            counts = tf.cast(features["input_mask"][:, 1:], tf.float32)
            return {"predictions": tf.reduce_sum(counts)}
        return {"predictions": super().weights(features)["examples"]}

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sums over the predictions of the loss (nats) and of the right ones."""
        if features["input_ids"].shape.rank == 3:
            return super().sums(model, features, dropout_seed)
        texts = {name: features[name] for name in ID_INPUTS}
        drawn = tf.random.stateless_uniform(texts["input_ids"].shape, dropout_seed)
        noisy = with_deletions(texts, self._is_continuation, drawn)
        logits = model.logits(noisy, texts, dropout_seed)[:, :-1]
        labels = texts["input_ids"][:, 1:]
        counts = tf.cast(texts["input_mask"][:, 1:], tf.float32)
        return {
            "cross_entropy": tf.reduce_sum(counts * cross_entropy(logits, labels)),
            "accuracy": tf.reduce_sum(counts * is_correct(logits, labels)),
        }

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the in-batch loss of pairs, and the texts that are found."""
        found = super().sums_of(logits, features)
        return {"cross_entropy": found["cross_entropy"], "accuracy": found["in_batch_accuracy"]}


class EmbeddingObjective(VectorObjective):
    """The in-batch loss, or that of TSDAE, if that is how single texts are learnt."""

    @classmethod
    def of_data(cls, data: VectorData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective for the examples of a task."""
        if not data.denoises:
            return super().of_data(data, lengths)
        vocabulary = data.text_features.vocabulary
        return DenoisingObjective(lengths, data.task, data.longest_first, vocabulary)
