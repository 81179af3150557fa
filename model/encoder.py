"""The BERT encoder: embeddings, post-layer-norm transformer layers and the pooler.

Shape suffixes: B batch, L sequence length, T = B * L tokens, H hidden size, F intermediate size,
N attention heads, D = H / N head size, S segment types, V vocabulary size.

Activations travel between layers as matrices [T, H], so that every product with a weight is one
plain two-dimensional matrix multiplication. With a `Packing` they are [C, H], tokens without
padding. Variables have the names of the original release, with `layer_norm` for `LayerNorm`:
`bert/encoder/layer_0/attention/self/query/kernel`.
"""

import keras
from keras import ops

from beambert.model.config import BertConfig
from beambert.model.dropout import dropout
from beambert.model.initialization import fold_seed, truncated_normal
from beambert.model.packing import Packing

# This is added to the variance, as in tf.contrib.layers.layer_norm, which the original modeling.py
# calls.
LAYER_NORM_EPSILON = 1e-12

# This is added to the scores of padding. Its exponential is 0 in float32 (`attention_layer` in the
# original modeling.py).
MASKED_SCORE = -10000.0


def gelu(x: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the exact GELU, x * Phi(x) (Hendrycks and Gimpel, arXiv:1606.08415, section 2).

    It uses erf. `ops.gelu` uses erfc on TensorFlow, which XLA expands to an exponential, a division
    and a choice between two polynomials. It computes in float32, since 1 + erf loses digits for
    x < 0.
    """
    x_float32 = ops.cast(x, "float32")
    probability = 0.5 * (1.0 + ops.erf(x_float32 * 2**-0.5))
    return ops.cast(x_float32 * probability, x.dtype)


_ACTIVATIONS = {
    "gelu": gelu,
    "gelu_new": lambda x: ops.gelu(x, approximate=True),
    "relu": ops.relu,
    "tanh": ops.tanh,
}


class BertDense(keras.layers.Dense):
    """A dense layer with BERT's initial weights."""

    def __init__(
        self,
        units: int,
        config: BertConfig,
        seed: int,
        name: str,
        activation: str | None = None,
    ):
        """Creates the layer; its own seed is folded from its owner's `seed` and `name`."""
        super().__init__(
            units,
            activation=_ACTIVATIONS[activation] if activation else None,
            kernel_initializer=truncated_normal(config.initializer_range, fold_seed(seed, name)),
            name=name,
        )


def bert_layer_norm() -> keras.layers.LayerNormalization:
    """Returns BERT's layer norm, which computes its statistics in float32 under every policy."""
    return keras.layers.LayerNormalization(epsilon=LAYER_NORM_EPSILON, name="layer_norm")


def look_up(table_VH: keras.KerasTensor, ids_BL: keras.KerasTensor) -> keras.KerasTensor:
    """Picks rows of a table, with a dense gradient.

    TensorFlow's own gradient would be a list of rows. To add the tied decoder's gradient to it,
    TensorFlow would append the whole vocabulary to that list and then scatter it row by row.

    Args:
      table_VH: float [V, H].
      ids_BL: int32 [B, L], each in [0, V).

    Returns:
      float [B, L, H].
    """
    rows, width = table_VH.shape

    @ops.custom_gradient
    def gather(table_VH):
        def gradient(upstream_BLH):
            upstream_TH = ops.reshape(upstream_BLH, (-1, width))
            return ops.segment_sum(upstream_TH, ops.reshape(ids_BL, (-1,)), num_segments=rows)

        return ops.take(table_VH, ids_BL, axis=0), gradient

    return gather(table_VH)


def score_bias(
    input_mask: keras.KerasTensor, length: int, is_decoder: bool = False
) -> keras.KerasTensor:
    """Returns what attention adds to the scores of a mask [B, L], float32.

    Its shape is [B, 1, 1, L]. In a decoder, where a token doesn't see those after it, it is
    [B, 1, L, L].
    """
    bias_BL = (1.0 - ops.cast(input_mask, "float32")) * MASKED_SCORE
    bias_B11L = ops.reshape(bias_BL, (-1, 1, 1, length))
    if not is_decoder:
        return bias_B11L
    is_later_LL = ops.triu(ops.ones((length, length), "float32"), k=1)
    return bias_B11L + is_later_LL * MASKED_SCORE


class BertEmbeddings(keras.layers.Layer):
    """Sum of word, segment and position embeddings, normalized (Devlin et al. 2019, figure 2)."""

    def __init__(self, config: BertConfig, seed: int, name: str = "embeddings"):
        """Creates the layer without its variables."""
        super().__init__(name=name)
        self.config = config
        self.seed = fold_seed(seed, name)
        self.layer_norm = bert_layer_norm()

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the three tables and the layer norm."""
        config = self.config
        self.word_embeddings_VH = self._table("word_embeddings", config.vocab_size)
        self.token_type_embeddings_SH = self._table("token_type_embeddings", config.type_vocab_size)
        self.position_embeddings = self._table(
            "position_embeddings", config.max_position_embeddings
        )
        self.layer_norm.build((None, config.hidden_size))

    def _table(self, name: str, rows: int) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=(rows, self.config.hidden_size),
            initializer=truncated_normal(self.config.initializer_range, fold_seed(self.seed, name)),
            # The table stays float32, since a frequent token's gradient is a sum of thousands of
            # rows.
            autocast=False,
        )

    def call(self, input_ids_BL, segment_ids_BL, dropout_seed=None, packing=None):
        """Returns the normalized sums x_TH; with a packing, x_CH."""
        length = input_ids_BL.shape[1]
        # The cast turns the variable into a tensor, which TensorFlow's custom gradients need.
        word_BLH = look_up(ops.cast(self.word_embeddings_VH, "float32"), input_ids_BL)
        segment_BLS = ops.one_hot(segment_ids_BL, self.config.type_vocab_size, dtype="float32")
        segment_BLH = ops.matmul(segment_BLS, self.token_type_embeddings_SH)
        position_LH = self.position_embeddings[:length]
        x_TH = ops.reshape(word_BLH + segment_BLH + position_LH, (-1, self.config.hidden_size))
        x_TH = self.layer_norm(packing.pack(x_TH) if packing else x_TH)
        return dropout(x_TH, self.config.hidden_dropout_prob, dropout_seed, site=0)


class BertSelfAttention(keras.layers.Layer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2)."""

    def __init__(self, config: BertConfig, seed: int, site: int, name: str = "self"):
        """Creates the layer; `site` numbers its dropout."""
        super().__init__(name=name)
        self.config = config
        self.site = site
        seed = fold_seed(seed, name)
        self.query = BertDense(config.hidden_size, config, seed, name="query")
        self.key = BertDense(config.hidden_size, config, seed, name="key")
        self.value = BertDense(config.hidden_size, config, seed, name="value")

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the three projections."""
        for projection in (self.query, self.key, self.value):
            projection.build((None, self.config.hidden_size))

    def _heads(self, x_TH, length: int, packing: Packing | None):
        x_TH = packing.unpack(x_TH) if packing else x_TH
        heads = self.config.num_attention_heads
        x_BLND = ops.reshape(x_TH, (-1, length, heads, self.config.hidden_size // heads))
        return ops.transpose(x_BLND, (0, 2, 1, 3))

    def attention_weights(self, x_TH, score_bias_B11L, packing=None):
        """Returns the attention weights without dropout, float32 [B, N, L, L]; rows sum to 1."""
        length = score_bias_B11L.shape[-1]
        query_BNLD = self._heads(self.query(x_TH), length, packing)
        key_BNLD = self._heads(self.key(x_TH), length, packing)
        head_size = query_BNLD.shape[-1]
        score_BNLL = ops.matmul(query_BNLD, ops.transpose(key_BNLD, (0, 1, 3, 2)))
        # The softmax is float32 under every policy: bfloat16 has 8 bits, and a row of weights must
        # sum to 1. The bias may have been rounded to the compute dtype, which keeps 0 exact.
        score_BNLL = ops.cast(score_BNLL, "float32") * head_size**-0.5
        score_BNLL = score_BNLL + ops.cast(score_bias_B11L, "float32")
        return ops.softmax(score_BNLL, axis=-1)

    def call(self, x_TH, score_bias_B11L, dropout_seed=None, packing=None):
        """Returns the weighted values, heads side by side, as [T, H]."""
        weight_BNLL = self.attention_weights(x_TH, score_bias_B11L, packing)
        value_BNLD = self._heads(self.value(x_TH), score_bias_B11L.shape[-1], packing)
        rate = self.config.attention_probs_dropout_prob
        weight_BNLL = dropout(weight_BNLL, rate, dropout_seed, self.site)
        context_BNLD = ops.matmul(ops.cast(weight_BNLL, self.compute_dtype), value_BNLD)
        context_BLND = ops.transpose(context_BNLD, (0, 2, 1, 3))
        context_TH = ops.reshape(context_BLND, (-1, self.config.hidden_size))
        return packing.pack(context_TH) if packing else context_TH


class BertSublayerOutput(keras.layers.Layer):
    """Projection to the width, dropout, residual sum and layer norm (post-LN).

    It computes LayerNorm(x + Dropout(Sublayer(x))) (Vaswani et al. 2017, sections 3.1 and 5.4).
    """

    def __init__(self, config: BertConfig, seed: int, site: int, input_size: int):
        """Creates the layer; `input_size` is the width of its input, `site` numbers its dropout."""
        super().__init__(name="output")
        self.config = config
        self.site = site
        self.input_size = input_size
        self.dense = BertDense(config.hidden_size, config, fold_seed(seed, "output"), name="dense")
        self.layer_norm = bert_layer_norm()

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the projection and the layer norm."""
        self.dense.build((None, self.input_size))
        self.layer_norm.build((None, self.config.hidden_size))

    def call(self, x, residual_TH, dropout_seed=None):
        """Returns x_TH; `x` is [T, H] after attention and [T, F] after the feed-forward layer."""
        x_TH = self.dense(x)
        x_TH = dropout(x_TH, self.config.hidden_dropout_prob, dropout_seed, self.site)
        return self.layer_norm(x_TH + residual_TH)


class BertAttention(keras.layers.Layer):
    """Self-attention with its output sublayer."""

    def __init__(self, config: BertConfig, seed: int, site: int, name: str = "attention"):
        """Creates the layer; its dropouts have the numbers `site` and `site + 1`."""
        super().__init__(name=name)
        seed = fold_seed(seed, name)
        self.self_attention = BertSelfAttention(config, seed, site)
        self.sublayer_output = BertSublayerOutput(config, seed, site + 1, config.hidden_size)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables of the parts."""
        self.self_attention.build()
        self.sublayer_output.build()

    def call(self, x_TH, score_bias_B11L, dropout_seed=None, packing=None):
        """Returns x_TH after attention."""
        context_TH = self.self_attention(
            x_TH, score_bias_B11L, dropout_seed=dropout_seed, packing=packing
        )
        return self.sublayer_output(context_TH, x_TH, dropout_seed=dropout_seed)


class BertLayer(keras.layers.Layer):
    """One transformer layer: attention, then the feed-forward network."""

    def __init__(self, config: BertConfig, seed: int, index: int):
        """Creates layer `index`, counted from 0."""
        name = f"layer_{index}"
        super().__init__(name=name)
        self.config = config
        seed = fold_seed(seed, name)
        # The embeddings have dropout site 0, and each layer has three sites.
        site = 1 + 3 * index
        self.attention = BertAttention(config, seed, site)
        self.intermediate = BertDense(
            config.intermediate_size,
            config,
            fold_seed(seed, "intermediate"),
            name="dense",
            activation=config.hidden_act,
        )
        self.sublayer_output = BertSublayerOutput(config, seed, site + 2, config.intermediate_size)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables of the parts."""
        self.attention.build()
        with keras.name_scope("intermediate"):
            self.intermediate.build((None, self.config.hidden_size))
        self.sublayer_output.build()

    def call(self, x_TH, score_bias_B11L, dropout_seed=None, packing=None):
        """Returns x_TH after the layer."""
        x_TH = self.attention(x_TH, score_bias_B11L, dropout_seed=dropout_seed, packing=packing)
        x_TF = self.intermediate(x_TH)
        return self.sublayer_output(x_TF, x_TH, dropout_seed=dropout_seed)


class BertEncoder(keras.Model):
    """The encoder of Devlin et al. 2019 and its pooler; the constructor creates every variable.

    Example:

    ```python
    encoder = BertEncoder(preset("tiny"), seed=1)
    sequence_output, pooled_output = encoder(input_ids, input_mask, segment_ids)
    ```
    """

    def __init__(self, config: BertConfig, seed: int = 0, has_pooler: bool = True):
        """Creates the encoder and its variables.

        Args:
          config: sizes, activation and dropout rates.
          seed: seed of every initial weight; Keras's global seed has no influence.
          has_pooler: whether there is a pooler. A model that reads no pooled output has none, since
            weight decay alone would wear it away.
        """
        super().__init__(name="bert")
        self.config = config
        self.embeddings = BertEmbeddings(config, seed)
        encoder_seed = fold_seed(seed, "encoder")
        self.encoder_layers = [
            BertLayer(config, encoder_seed, index) for index in range(config.num_hidden_layers)
        ]
        self.pooler = None
        if has_pooler:
            self.pooler = BertDense(
                config.hidden_size, config, fold_seed(seed, "pooler"), "dense", activation="tanh"
            )
        self.build()

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables; the constructor calls it."""
        self.embeddings.build()
        with keras.name_scope("encoder"):
            for layer in self.encoder_layers:
                layer.build()
        if self.pooler:
            with keras.name_scope("pooler"):
                self.pooler.build((None, self.config.hidden_size))

    @property
    def word_embeddings(self) -> keras.Variable:
        """The word embedding table [V, H], to which the masked-LM decoder is tied."""
        return self.embeddings.word_embeddings_VH

    def call(self, input_ids, input_mask, segment_ids, dropout_seed=None):
        """Encodes a batch.

        Args:
          input_ids: int32 or int64 [B, L], word piece ids in [0, V).
          input_mask: int32 or int64 [B, L], 1 for tokens and 0 for padding.
          segment_ids: int32 or int64 [B, L], 0 for sentence A and 1 for sentence B.
          dropout_seed: integer [2], another for every step and replica; None switches dropout off.

        Returns:
          sequence_output [B, L, H] and pooled_output [B, H], in the policy's compute dtype; the
          second is None without a pooler.

        Raises:
          ValueError: L is not static or is more than `max_position_embeddings`.
        """
        x_TH = self.encode(input_ids, input_mask, segment_ids, dropout_seed)
        sequence_BLH = ops.reshape(x_TH, (-1, input_ids.shape[1], self.config.hidden_size))
        pooled_BH = self.pooler(self.summary(x_TH, input_mask)) if self.pooler else None
        return sequence_BLH, pooled_BH

    def summary(self, x_TH, input_mask):
        """Returns the rows of x_TH that stand for their sequences, [B, H].

        They are those of the first tokens, [CLS]. In a decoder, where [CLS] sees nothing else, they
        are those of the last tokens (Radford et al. 2018, Improving language understanding by
        generative pre-training, section 3.1).
        """
        length = input_mask.shape[1]
        if not self.config.is_decoder:
            return x_TH[::length]
        tokens_B = ops.sum(ops.cast(input_mask, "int32"), axis=1)
        first_B = ops.arange(ops.shape(input_mask)[0], dtype="int32") * length
        return ops.take(x_TH, first_B + ops.maximum(tokens_B - 1, 0), axis=0)

    def encode(
        self,
        input_ids,
        input_mask,
        segment_ids,
        dropout_seed=None,
        packing: Packing | None = None,
        last_layers: int = 1,
    ):
        """Returns the output of the last layers.

        Args:
          input_ids, input_mask, segment_ids, dropout_seed: see `call`.
          packing: rows of the tokens without padding; None computes the padding too.
          last_layers: number of last layers, whose outputs are put side by side; the embeddings
            count as the layer before the first.

        Returns:
          [T, last_layers * H]; with a packing, [C, last_layers * H].
        """
        self._check_length(input_ids)
        score_bias_B11L = score_bias(input_mask, input_ids.shape[1], self.config.is_decoder)
        x_TH = self.embeddings(
            ops.cast(input_ids, "int32"),
            ops.cast(segment_ids, "int32"),
            dropout_seed=dropout_seed,
            packing=packing,
        )
        outputs = [x_TH]
        for layer in self.encoder_layers:
            x_TH = layer(x_TH, score_bias_B11L, dropout_seed=dropout_seed, packing=packing)
            outputs.append(x_TH)
        return x_TH if last_layers == 1 else ops.concatenate(outputs[-last_layers:], axis=-1)

    def _check_length(self, input_ids) -> None:
        length = input_ids.shape[1]
        limit = self.config.max_position_embeddings
        if length is None:
            raise ValueError("the sequence length must be static, but is unknown")
        if length > limit:
            raise ValueError(
                f"the sequence length {length} is more than max_position_embeddings {limit}"
            )
