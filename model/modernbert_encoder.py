"""The network of ModernBERT (Warner et al. 2024, arXiv 2412.13663, section 2.1).

Shape suffixes: B batch, L sequence length, T = B * L tokens, H hidden size, F intermediate size,
N attention heads, D = H / N head size, V vocabulary size; with a packing, T is the number of rows
of tokens without padding.
"""

import math

import keras
from keras import ops

from beambert.model.attention import attend_in_parts, attend_locally, rotated
from beambert.model.encoder import Encoder
from beambert.model.families.modernbert import ModernBertConfig
from beambert.model.layers import (
    ACTIVATIONS,
    SITES_OF_LAYER,
    WordEmbeddings,
    attend,
    dropout,
    fold_seed,
    recomputed,
    score_bias,
    truncated_normal,
)
from beambert.model.pretrainer import tied_logits
from beambert.model.sentence_encoder import Pooling, pool
from beambert.model.unpadding import Packing


def _dense(units: int, stddev: float, seed: int, name: str) -> keras.layers.Dense:
    """Returns a dense layer without a bias."""
    initializer = truncated_normal(stddev, fold_seed(seed, name))
    return keras.layers.Dense(units, use_bias=False, kernel_initializer=initializer, name=name)


def _layer_norm(config: ModernBertConfig) -> keras.layers.LayerNormalization:
    """Returns a layer norm without a bias."""
    return keras.layers.LayerNormalization(
        epsilon=config.layer_norm_eps, center=False, name="layer_norm"
    )


def _output_stddev(config: ModernBertConfig) -> float:
    """Returns the deviation of the weights before a residual sum.

    It is smaller the more layers there are (`_init_weights` of ModernBertPreTrainedModel in
    transformers).
    """
    return config.initializer_range / math.sqrt(2 * config.num_hidden_layers)


class ModernBertAttention(keras.layers.Layer):
    """Layer norm, attention to all tokens or to those nearby, and the output projection."""

    def __init__(self, config: ModernBertConfig, seed: int, index: int, name: str = "attention"):
        """Creates the layer for the attention of layer `index`."""
        super().__init__(name=name)
        self.config = config
        self.is_global = config.is_global(index)
        self.site = 1 + SITES_OF_LAYER * index
        seed = fold_seed(seed, name)
        # The embeddings are normalized already.
        self.layer_norm = _layer_norm(config) if index else None
        self.query_key_value = _dense(
            3 * config.hidden_size, config.initializer_range, seed, "self"
        )
        self.projection = _dense(config.hidden_size, _output_stddev(config), seed, "output")

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the layer norm and the two projections."""
        for layer in (self.layer_norm, self.query_key_value, self.projection):
            if layer:
                layer.build((None, self.config.hidden_size))

    def call(self, x_TH, input_mask_BL, dropout_seed=None, packing=None, document_BL=None):
        """Returns what attention adds to x_TH."""
        config, length = self.config, input_mask_BL.shape[1]
        x_T3H = self.query_key_value(self.layer_norm(x_TH) if self.layer_norm else x_TH)
        heads = config.num_attention_heads
        x_BL3ND = ops.reshape(
            packing.unpack(x_T3H) if packing else x_T3H,
            (-1, length, 3, heads, config.hidden_size // heads),
        )
        query_BNLD, key_BNLD, value_BNLD = (
            ops.transpose(x_BL3ND[:, :, index], (0, 2, 1, 3)) for index in range(3)
        )
        theta = config.global_rope_theta if self.is_global else config.local_rope_theta
        query_BNLD, key_BNLD = rotated(query_BNLD, theta), rotated(key_BNLD, theta)
        rate = config.attention_probs_dropout_prob
        inputs = query_BNLD, key_BNLD, value_BNLD
        settings = rate, dropout_seed, self.site
        if not self.is_global:
            context_BNLD = attend_locally(
                *inputs, input_mask_BL, config.reach, *settings, document_BL=document_BL
            )
        elif config.holds_scores(length):
            bias = score_bias(input_mask_BL, length, document_BL=document_BL)
            context_BNLD = attend(*inputs, bias, *settings)
        else:
            bias = score_bias(input_mask_BL, length)
            context_BNLD = attend_in_parts(*inputs, bias, document_BL)
        context_TH = ops.reshape(
            ops.transpose(context_BNLD, (0, 2, 1, 3)), (-1, config.hidden_size)
        )
        x_TH = self.projection(packing.pack(context_TH) if packing else context_TH)
        return dropout(x_TH, rate, dropout_seed, self.site + 1)


class ModernBertFeedForward(keras.layers.Layer):
    """Layer norm and a gated feed-forward network (Shazeer 2020, arXiv 2002.05202)."""

    def __init__(self, config: ModernBertConfig, seed: int, index: int, name: str = "feed_forward"):
        """Creates the layer for the feed-forward network of layer `index`."""
        super().__init__(name=name)
        self.config = config
        self.site = 3 + SITES_OF_LAYER * index
        seed = fold_seed(seed, name)
        self.layer_norm = _layer_norm(config)
        self.intermediate = _dense(
            2 * config.intermediate_size, config.initializer_range, seed, "intermediate"
        )
        self.projection = _dense(config.hidden_size, _output_stddev(config), seed, "output")

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the layer norm and the two projections."""
        self.layer_norm.build((None, self.config.hidden_size))
        self.intermediate.build((None, self.config.hidden_size))
        self.projection.build((None, self.config.intermediate_size))

    def call(self, x_TH, dropout_seed=None):
        """Returns what the network adds to x_TH."""
        x_TF, gate_TF = ops.split(self.intermediate(self.layer_norm(x_TH)), 2, axis=-1)
        x_TF = ACTIVATIONS[self.config.hidden_act](x_TF) * gate_TF
        x_TF = dropout(x_TF, self.config.hidden_dropout_prob, dropout_seed, self.site)
        return self.projection(x_TF)


class ModernBertLayer(keras.layers.Layer):
    """One layer: attention, then the feed-forward network, each added to its input."""

    def __init__(self, config: ModernBertConfig, seed: int, index: int):
        """Creates layer `index`, counted from 0."""
        name = f"layer_{index}"
        super().__init__(name=name)
        seed = fold_seed(seed, name)
        self.attention = ModernBertAttention(config, seed, index)
        self.feed_forward = ModernBertFeedForward(config, seed, index)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables of the parts."""
        self.attention.build()
        self.feed_forward.build()

    @recomputed
    def call(self, x_TH, input_mask_BL, dropout_seed=None, packing=None, document_BL=None):
        """Returns x_TH after the layer."""
        x_TH = x_TH + self.attention(
            x_TH,
            input_mask_BL,
            dropout_seed=dropout_seed,
            packing=packing,
            document_BL=document_BL,
        )
        return x_TH + self.feed_forward(x_TH, dropout_seed=dropout_seed)


class ModernBertHead(keras.layers.Layer):
    """Dense layer, GELU and layer norm, which the decoder and the classifiers read through."""

    def __init__(self, config: ModernBertConfig, seed: int, name: str = "head"):
        """Creates the layer without its variables."""
        super().__init__(name=name)
        self.config = config
        self.dense = _dense(
            config.hidden_size, _output_stddev(config), fold_seed(seed, name), "dense"
        )
        self.layer_norm = _layer_norm(config)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the dense layer and the layer norm."""
        self.dense.build((None, self.config.hidden_size))
        self.layer_norm.build((None, self.config.hidden_size))

    def call(self, x_TH):
        """Returns x_TH."""
        return self.layer_norm(ACTIVATIONS["gelu"](self.dense(x_TH)))


class ModernBertEncoder(Encoder):
    """The encoder of ModernBERT, and the head that all of its uses have."""

    def __init__(self, config: ModernBertConfig, seed: int = 0, has_pooler: bool = True):
        """Creates the encoder and its variables.

        Args:
          config: sizes, kinds of layers and dropout rates.
          seed: seed of every initial weight; Keras's global seed has no influence.
          has_pooler: has no effect, since masked LM uses the head, too.
        """
        super().__init__(name=config.family)
        self.config = config
        self.embeddings = WordEmbeddings(
            config, seed, _layer_norm(config), config.embedding_dropout
        )
        encoder_seed = fold_seed(seed, "encoder")
        self.encoder_layers = [
            ModernBertLayer(config, encoder_seed, index)
            for index in range(config.num_hidden_layers)
        ]
        self.layer_norm = _layer_norm(config)
        self.pooler = ModernBertHead(config, seed)
        self.build()

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables; the constructor calls it."""
        self.embeddings.build()
        with keras.name_scope("encoder"):
            for layer in self.encoder_layers:
                layer.build()
        self.layer_norm.build((None, self.config.hidden_size))
        self.pooler.build()

    def pooled(self, sequence_BLH, input_mask_BL):
        """Returns the head's output for the first token or the mean of the tokens, [B, H]."""
        # In float32 under every policy: bfloat16 cannot count beyond 256.
        x_BLH, pooling = ops.cast(sequence_BLH, "float32"), Pooling(self.config.classifier_pooling)
        return self.pooler(ops.cast(pool(x_BLH, input_mask_BL, pooling), sequence_BLH.dtype))

    def of_tokens(self, x_TH):
        """Returns the head's output for each token, [T, H]."""
        return self.pooler(x_TH)

    def _outputs(
        self, x, input_mask, dropout_seed, packing: Packing | None, document_BL=None
    ) -> list:
        outputs = [x]
        for layer in self.encoder_layers:
            outputs.append(
                layer(
                    outputs[-1],
                    input_mask,
                    dropout_seed=dropout_seed,
                    packing=packing,
                    document_BL=document_BL,
                )
            )
        outputs[-1] = self.layer_norm(outputs[-1])
        return outputs


class ModernBertMaskedLMHead(keras.layers.Layer):
    """Scores the vocabulary; its matrix is the word embedding table."""

    def __init__(self, config: ModernBertConfig, seed: int, name: str = "predictions"):
        """Creates the layer without its variables; no initial weight is random."""
        super().__init__(name=name)
        self.config = config

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the output bias."""
        self.output_bias_V = self.add_weight(
            name="output_bias", shape=(self.config.vocab_size,), initializer="zeros", autocast=False
        )

    def call(self, x_KH, word_embeddings_VH):
        """Returns float32 logits [K, V] of the encoder's head at predicted positions."""
        return tied_logits(self, x_KH, word_embeddings_VH)
