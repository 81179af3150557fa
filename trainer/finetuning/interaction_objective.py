"""The loss of fine-tuning for late interaction.

Shape suffixes: B examples of a batch, S texts of an example, Q tokens of a query, L tokens of a
document, H components of a vector, C documents of the batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from beambert.pipelines.model_inputs.interaction import InteractionFeatures
from beambert.pipelines.model_inputs.signatures import ID_INPUTS
from beambert.pipelines.tasks.interaction import KEPT
from beambert.pipelines.tasks.vector_kinds import LateInteraction
from beambert.trainer.finetuning.gradient_cache import part_seed
from beambert.trainer.finetuning.objective_base import TaskObjective
from beambert.trainer.finetuning.vector_data import InteractionData
from beambert.trainer.finetuning.vector_losses import contrast, max_sim
from beambert.trainer.finetuning.vector_objectives import FIRST_TEXTS, VectorObjective
from beambert.trainer.loop.objectives import Features, Sums, example_weights


class TokenVectors(NamedTuple):
    """The vectors of a batch.

    Attributes:
      queries: float32 [B, Q, H].
      documents: float32 [B, S - 1, L, H].
      counts: whether a token of a document counts, bool [B, S - 1, L].
    """

    queries: tf.Tensor
    documents: tf.Tensor
    counts: tf.Tensor


class InteractionObjective(VectorObjective):
    """The in-batch loss of the scores of documents.

    Each query must find its document among all documents of the batch, hard negatives included. The
    paper has one negative for each query (section 3.3), and ColBERTv2 adds those of the batch
    (Santhanam et al. 2022, arXiv 2112.01488, section 3.2).
    """

    def __init__(
        self, lengths: Sequence[int], task: LateInteraction, text_features: InteractionFeatures
    ):
        """Takes the lengths, see `TaskObjective`, the task and the converter of its texts."""
        super().__init__(lengths, task, text_features.query_length)
        self._text_features = text_features

    @classmethod
    def of_data(cls, data: InteractionData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective for the examples of a task."""
        return cls(lengths, data.task, data.text_features)

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> TokenVectors:
        """Returns the vectors of the tokens."""
        given = {name: features[name] for name in ID_INPUTS}
        length = given["input_ids"].shape[2]
        size = self._text_features.query_length
        missing = [[0, 0], [0, 0], [0, max(size - length, 0)]]
        first = {name: tf.pad(each[:, :1, :size], missing) for name, each in given.items()}
        others = {name: each[:, 1:] for name, each in given.items()}
        seed = part_seed(dropout_seed, FIRST_TEXTS)
        queries = self._encoded(model, self._text_features.expanded(first), seed)
        documents = self._encoded(model, others, dropout_seed)
        return TokenVectors(queries[:, 0], documents, self._text_features.counting(others))

    def sums_of(self, logits: TokenVectors, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of the texts that are found."""
        rows = example_weights(features)
        _, _, length, width = logits.documents.shape
        # The right documents of all examples come first, then the first negatives of all.
        documents = tf.reshape(tf.transpose(logits.documents, [1, 0, 2, 3]), [-1, length, width])
        counts = tf.reshape(tf.transpose(logits.counts, [1, 0, 2]), [-1, length])
        scores = max_sim(logits.queries, documents, counts)
        losses, is_found = contrast(scores / self._task.temperature, features["text_ids"], rows)
        return {
            "cross_entropy": tf.reduce_sum(rows * losses),
            "in_batch_accuracy": tf.reduce_sum(rows * is_found),
        }

    def outputs_of(self, logits: TokenVectors) -> dict[str, tf.Tensor]:
        """Returns the vectors by name, as 16 bits, and which of them count.

        Those of documents are padded to the greatest length, as all ways return equal shapes.
        """
        spare = [[0, 0], [0, 0], [0, self.lengths[-1] - logits.counts.shape[2]]]
        return {
            "queries": tf.cast(logits.queries, KEPT),
            "documents": tf.pad(tf.cast(logits.documents, KEPT), [*spare, [0, 0]]),
            "counts": tf.pad(logits.counts, spare),
        }
