"""DeBERTa-v3's replaced token detection, whose embeddings have disentangled gradients.

He et al. 2021 (arXiv 2111.09543), section 3, and DeBERTa/apps/tasks/rtd_task.py and
DeBERTa/apps/models/replaced_token_detection_model.py of the original. The generator is a
DeBERTa-v3 as wide as the discriminator and half as deep. Both have distance embeddings and layer
norms of their own; they share word embeddings E. Masked LM alone trains E. The discriminator reads
E + delta, and only delta gets the gradient of its loss.

Shape suffixes: B batch, L sequence length, H hidden size, V vocabulary size; R rows for tokens, B *
L of them, or fewer without padding.
"""

from collections.abc import Callable

import keras
from keras import ops

from beambert.model.deberta_encoder import DebertaEncoder
from beambert.model.embedding_deltas import SUFFIX
from beambert.model.families.debertav2_config import DebertaV2Config
from beambert.model.heads import MaskedLMHead
from beambert.model.initialization import fold_seed
from beambert.model.layers import BertDense, WordEmbeddings, bert_layer_norm, look_up
from beambert.model.replaced_tokens import ReplacedTokenPretrainer


class DisentangledEmbeddings(WordEmbeddings):
    """Word embeddings E + delta of the discriminator, through which no gradient reaches E."""

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates E, the delta, which is zero, and the layer norm."""
        super().build()
        self.delta_VH = self.add_weight(
            name=f"word_embeddings{SUFFIX}",
            shape=self.word_embeddings_VH.shape,
            initializer="zeros",
            autocast=False,
        )

    def _rows(self, input_ids_BL):
        table_VH = ops.cast(self.word_embeddings_VH, "float32")
        own_BLH = look_up(ops.cast(self.delta_VH, "float32"), input_ids_BL)
        return ops.stop_gradient(ops.take(table_VH, input_ids_BL, axis=0)) + own_BLH


class GeneratorEmbeddings(WordEmbeddings):
    """Word embeddings of the generator: another layer's table E, and a layer norm of its own."""

    def __init__(self, config: DebertaV2Config, table: Callable[[], keras.Variable]):
        """Creates the layer without its variables; `table` returns E."""
        super().__init__(config, 0, bert_layer_norm(config), config.hidden_dropout_prob)
        # A function, so that Keras doesn't count E among this layer's variables.
        self._shared = table

    @property
    def word_embeddings_VH(self) -> keras.Variable:
        """The table E."""
        return self._shared()

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the layer norm."""
        self.layer_norm.build((None, self.config.hidden_size))


class DebertaReplacedTokenHead(keras.layers.Layer):
    """Scores every token beside the first one of its sequence: the more, the likelier replaced.

    It is LMMaskPredictionHead of the original, and has its names.
    """

    def __init__(self, config: DebertaV2Config, seed: int, name: str = "mask_predictions"):
        """Creates the layer without its variables."""
        super().__init__(name=name)
        seed, self.width = fold_seed(seed, name), config.hidden_size
        self.layer_norm = bert_layer_norm(config)
        self.dense = BertDense(self.width, config, seed, "dense", activation=config.hidden_act)
        self.classifier = BertDense(1, config, seed, "classifier")

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the three layers."""
        for layer in (self.layer_norm, self.dense, self.classifier):
            layer.build((None, self.width))

    def call(self, x_RH, first_RH):
        """Returns float32 logits [R].

        Args:
          x_RH: output of the discriminator.
          first_RH: for each row the output of the first token of its sequence.
        """
        x_RH = self.dense(self.layer_norm(first_RH + x_RH))
        return ops.cast(self.classifier(x_RH)[:, 0], "float32")


class DebertaReplacedTokenPretrainer(ReplacedTokenPretrainer):
    """The pre-training model; the constructor creates every variable."""

    def __init__(self, config: DebertaV2Config, generator_size: float, seed: int = 0):
        """Creates the model and its variables.

        Args:
          config: configuration of the discriminator.
          generator_size: depth of the generator as a share of the discriminator's.
          seed: seed of every initial weight; the encoder computes what `DebertaEncoder(config,
            seed)` does, until delta is trained.
        """
        super().__init__(name="deberta_replaced_token_pretrainer")
        self.config = config
        rate = config.hidden_dropout_prob
        embeddings = DisentangledEmbeddings(config, seed, bert_layer_norm(config), rate)
        self.encoder = DebertaEncoder(config, seed, has_pooler=False, embeddings=embeddings)
        of_generator = config.shallower(generator_size)
        self.generator = DebertaEncoder(
            of_generator,
            fold_seed(seed, "generator"),
            has_pooler=False,
            embeddings=GeneratorEmbeddings(of_generator, lambda: embeddings.word_embeddings_VH),
            name="generator",
        )
        self.generator_head = MaskedLMHead(of_generator, seed, "generator_predictions")
        self.replaced_token_head = DebertaReplacedTokenHead(config, seed)
        # In `build` the variables' paths would start with this model's name.
        self.generator_head.build()
        self.replaced_token_head.build()
        self.built = True

    def _generated(self, ids_BL, mask_BL, segments_BL, dropout_seed, packing):
        return self.generator.encode(ids_BL, mask_BL, segments_BL, dropout_seed, packing)

    def _detected(self, x_RH, length: int, packing):
        if packing:
            starts_R = packing.positions_C // length * length
            rows_R = ops.take(packing.rows_T, starts_R)
        else:
            rows_R = ops.arange(x_RH.shape[0], dtype="int32") // length * length
        return self.replaced_token_head(x_RH, ops.take(x_RH, rows_R, axis=0))
