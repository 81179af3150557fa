"""The two pre-training heads (Devlin et al. 2019, section 3.1).

Shape suffixes: B batch, L sequence length, H hidden size, E width of the embeddings, P predictions
per sequence, V vocabulary size, K = B * P predictions.
"""

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.initialization import fold_seed
from beambert.model.layers import BertDense, bert_layer_norm


def flat_positions(positions_BP: keras.KerasTensor, length: int) -> keras.KerasTensor:
    """Returns b * L + l for the positions l in each sequence b of length L, int32 [B * P]."""
    positions_BP = ops.cast(positions_BP, "int32")
    starts_B1 = ops.arange(ops.shape(positions_BP)[0], dtype="int32")[:, None] * length
    return ops.reshape(positions_BP + starts_B1, (-1,))


class MaskedLMHead(keras.layers.Layer):
    """Scores the vocabulary at the masked positions; its matrix is the word embedding table."""

    def __init__(self, config: EncoderConfig, seed: int, name: str = "predictions"):
        """Creates the layer without its variables."""
        super().__init__(name=name)
        self.config = config
        seed = fold_seed(fold_seed(seed, name), "transform")
        activation = config.head_act or config.hidden_act
        self.dense = BertDense(config.embedding_width, config, seed, "dense", activation)
        self.layer_norm = bert_layer_norm(config)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the transform and the output bias."""
        with keras.name_scope("transform"):
            self.dense.build((None, self.config.hidden_size))
            self.layer_norm.build((None, self.config.embedding_width))
        self.output_bias_V = self.add_weight(
            name="output_bias", shape=(self.config.vocab_size,), initializer="zeros", autocast=False
        )

    def call(self, x_KH, word_embeddings_VE):
        """Returns float32 logits [K, V] of the vectors at the predicted positions."""
        return tied_logits(self, self.layer_norm(self.dense(x_KH)), word_embeddings_VE)


def tied_logits(head, x_KE, word_embeddings_VE):
    """Returns float32 logits [K, V]: products with the embeddings, and the head's output bias."""
    table_EV = ops.transpose(ops.cast(word_embeddings_VE, head.compute_dtype))
    return ops.cast(ops.matmul(x_KE, table_EV), "float32") + head.output_bias_V


class NextSentenceHead(BertDense):
    """Scores "is next" (0) against "random" (1), or "in order" against "swapped", for a pair."""

    def __init__(self, config: EncoderConfig, seed: int, name: str = "seq_relationship"):
        """Creates the layer without its variables."""
        super().__init__(2, config, seed, name=name)

    def call(self, pooled_BH):
        """Returns float32 logits [B, 2]."""
        return ops.cast(super().call(pooled_BH), "float32")
