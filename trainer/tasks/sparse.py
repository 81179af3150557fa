"""Sparse vectors of texts, from an encoder's head of masked LM (SPLADE)."""

from typing import TYPE_CHECKING

import keras
from keras import ops

from beambert.model.classifier import Head
from beambert.model.config import EncoderConfig
from beambert.model.families.family import MASKED_LM
from beambert.model.objectives import MLM
from beambert.model.pretrainer import BertPretrainer
from beambert.pipelines.tasks.sparse import MOST_TOKENS
from beambert.trainer.loop.objectives import Features, Sums, Tensor, example_weights
from beambert.trainer.tasks.vectors import VectorObjective, by_place, contrast

if TYPE_CHECKING:
    from beambert.trainer.tasks.graph import TaskGraph


class SparseEncoder(BertPretrainer):
    """Weights of the tokens of the vocabulary; it has the variables of a masked language model."""

    def call(self, features, dropout_seed=None):
        """Returns the weights of a batch, float32 [B, V].

        The logarithm grows with the logit, so that it is taken of the greatest one alone.

        Args:
          features: `input_ids`, `input_mask` and `segment_ids`, int32 or int64 [B, L]; other keys
            are ignored.
          dropout_seed: integer [2], another for every step and replica; None switches dropout off.
        """
        inputs = features["input_ids"], features["input_mask"], features["segment_ids"]
        x_TH = self.encoder.of_tokens(self.encoder.encode(*inputs, dropout_seed))
        table_VH = ops.convert_to_tensor(self.encoder.word_embeddings)
        logits_TV = self.masked_lm_head(x_TH, table_VH)
        shape = (-1, inputs[0].shape[1], self.config.vocab_size)
        mask_BL1 = ops.cast(inputs[1], "float32")[..., None]
        greatest_BV = ops.max(ops.reshape(logits_TV, shape) * mask_BL1, axis=1)
        return ops.log1p(ops.relu(greatest_BV))


def flops(vectors_BV: Tensor, weights_B: Tensor) -> Tensor:
    """Returns the sum over the tokens of the squared mean weight (Paria et al. 2020, FLOPS).

    Args:
      vectors_BV: vectors of texts (arXiv 2004.05665, equation 3, for weights that are not below 0).
      weights_B: 0 for rows that fill up the batch.
    """
    means_V = ops.matmul(weights_B, vectors_BV) / ops.maximum(ops.sum(weights_B), 1.0)
    return ops.sum(ops.square(means_V))


class SparseObjective(VectorObjective):
    """The in-batch loss of products of sparse vectors, and the loss that keeps them sparse."""

    # The variables are those of a masked language model.
    HUGGING_FACE_CLASS = MASKED_LM
    HUB_TASK = "feature-extraction"
    losses = ("cross_entropy", "flops")
    weight_of = {**VectorObjective.weight_of, "flops": "examples"}

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns an encoder of texts as sparse vectors."""
        return SparseEncoder(config, seed, MLM)

    def sums_of(self, logits: Tensor, features: Features) -> Sums:
        """Returns the sums over the examples of both losses and of the texts that are found."""
        rows, ids = example_weights(features), features["text_ids"]
        ids = ops.concatenate([ids, ids], axis=1) if ids.shape[1] == 1 else ids
        queries_BV, documents_CV = logits[:, 0], by_place(logits[:, 1:])
        products_BC = ops.matmul(queries_BV, ops.transpose(documents_CV))
        losses, is_found = contrast(products_BC / self._task.temperature, ids, rows)
        density = flops(queries_BV, rows)
        density += flops(documents_CV, ops.tile(rows, [logits.shape[1] - 1]))
        return {
            "cross_entropy": ops.sum(rows * losses),
            "flops": self._task.flops_weight * ops.sum(rows) * density,
            "in_batch_accuracy": ops.sum(rows * is_found),
        }

    def outputs_of(self, logits: Tensor) -> dict[str, Tensor]:
        """Returns the greatest weights and their tokens, [B, S, K] each."""
        weights, tokens = ops.top_k(logits, min(MOST_TOKENS, logits.shape[-1]))
        return {"tokens": tokens, "weights": weights}

    @classmethod
    def answer(cls, graph: "TaskGraph", *texts: Tensor) -> dict[str, Tensor]:
        """Returns the `tokens` of each text with the greatest `weights`, [n, K] each."""
        import tensorflow as tf

        vectors_BV = graph.model(graph.text_features(*texts))
        weights, tokens = tf.math.top_k(vectors_BV, min(MOST_TOKENS, vectors_BV.shape[-1]))
        return {"tokens": tokens, "weights": weights}
