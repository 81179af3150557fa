"""The parts of encoders: initial weights, dropout, activations, dense layers, attention, layers.

Initial weights are a function of one seed and the path of each variable. Each variable's seed is
folded from the model's seed and the names on its path, so its initial value does not depend on the
order of construction, on global state, or on the other heads of the model.

Dropout has no state: the mask is a function of a seed, a site and an element's index. The bits come
from an integer hash of the index rather than from a generator of the framework. XLA fuses the hash
into the operations around it and recomputes it in the backward pass. A step takes as long as
without dropout, whereas TensorFlow's Philox adds a quarter (2 layers of width 128, batch 64 x 128,
2 CPU cores). A checkpoint needs no generator state, and a repeated step draws the same masks.

Activations travel between layers as matrices [T, H], so that every product with a weight is one
plain two-dimensional matrix multiplication. With a `Packing` they are [C, H], tokens without
padding. Variables have the names of the original release, with `layer_norm` for `LayerNorm`:
`bert/encoder/layer_0/attention/self/query/kernel`.

Shape suffixes: B batch, L sequence length, T = B * L tokens, H hidden size, F intermediate size,
N attention heads, D = H / N head size, S segment types, V vocabulary size.
"""

import contextlib
import contextvars
import functools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.unpadding import Packing


def fold_seed(seed: int, name: str) -> int:
    """Derives the seed of a part from its owner's seed and its name.

    Args:
      seed: the owner's seed, any integer.
      name: the part's name within its owner.

    Returns:
      An integer in [0, 2**31).
    """
    return zlib.crc32(f"{seed}/{name}".encode()) & 0x7FFFFFFF


def truncated_normal(stddev: float, seed: int) -> keras.initializers.Initializer:
    """Returns the initializer of a matrix: normal, with values beyond 2 deviations drawn again.

    Args:
      stddev: standard deviation before truncation (`create_initializer` in the original
        modeling.py).
      seed: the variable's own seed.

    Returns:
      The initializer.
    """
    return keras.initializers.TruncatedNormal(mean=0.0, stddev=stddev, seed=seed)


# Multipliers and shifts of lowbias32, a 32-bit finalizer found by search for low avalanche bias
# (Wellons, "Prospecting for Hash Functions", 2018, nullprogram.com/blog/2018/07/31).
_FIRST_MULTIPLIER = 0x7FEB352D
_SECOND_MULTIPLIER = 0x846CA68B

# The index of an element is an int32.
MOST_ELEMENTS = 2**31 - 1


def most_rows(config: EncoderConfig, length: int) -> int:
    """Returns the greatest number of sequences of a length that dropout can take at once."""
    weights = config.num_attention_heads * length * length
    return MOST_ELEMENTS // max(weights, length * config.hidden_size)


def dropout(
    x: keras.KerasTensor, rate: float, seed: keras.KerasTensor | None, site: int
) -> keras.KerasTensor:
    """Zeroes elements with probability `rate` and scales the rest by 1 / (1 - rate).

    Args:
      x: float tensor of any shape with fewer than 2**31 elements.
      rate: probability in [0, 1); it is exact to within 2**-32.
      seed: integer [2], another for every step and replica; None means no dropout.
      site: number of this dropout in the model; no two of them share a number.

    Returns:
      A tensor like `x`.
    """
    if seed is None or rate == 0:
        return x
    threshold = _uint32(round(rate * 2**32))
    keep = ops.greater_equal(random_bits(ops.shape(x), seed, site), threshold)
    return ops.where(keep, x * ops.cast(1 / (1 - rate), x.dtype), ops.zeros((), x.dtype))


def random_bits(shape: tuple, seed: keras.KerasTensor, site: int) -> keras.KerasTensor:
    """Returns 32 uniform bits for each element, as uint32 of the given shape."""
    # One key word enters before the first round and another between the rounds. With a single one,
    # added or xored to the counter, the masks of two seeds would be permutations of each other.
    first_key, second_key = _keys(seed, site)
    size = 1
    for dimension in shape:
        size = size * dimension
    # The range is of int32, since TensorFlow's range falls back to float32 for unsigned types.
    counter = ops.cast(ops.arange(size, dtype="int32"), "uint32")
    bits = _mix(ops.bitwise_xor(counter, first_key), _FIRST_MULTIPLIER, 16)
    bits = _mix(bits + second_key, _SECOND_MULTIPLIER, 15)
    return ops.reshape(_xor_shift(bits, 16), shape)


def _keys(seed: keras.KerasTensor, site: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Returns two key words, hashed from the seed and the site."""
    words = ops.cast(seed, "uint32")
    first = finalize(words[0] + _uint32(site))
    second = finalize(ops.bitwise_xor(words[1], first))
    return finalize(first + second), second


def finalize(word: keras.KerasTensor) -> keras.KerasTensor:
    """Returns a hash of every element of a uint32 tensor; different words have different hashes."""
    word = _mix(word + _uint32(0x9E3779B9), _FIRST_MULTIPLIER, 16)
    return _xor_shift(_mix(word, _SECOND_MULTIPLIER, 15), 16)


def _mix(word: keras.KerasTensor, multiplier: int, shift: int) -> keras.KerasTensor:
    return _xor_shift(word, shift) * _uint32(multiplier)


def _xor_shift(word: keras.KerasTensor, shift: int) -> keras.KerasTensor:
    return ops.bitwise_xor(word, ops.right_shift(word, _uint32(shift)))


def _uint32(value: int) -> Any:
    return ops.convert_to_tensor(value, dtype="uint32")


# This is added to the scores of padding. Its exponential is 0 in float32 (`attention_layer` in the
# original modeling.py).
MASKED_SCORE = -10000.0

# Number of dropouts in a layer.
SITES_OF_LAYER = 3


def gelu(x: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the exact GELU, x * Phi(x) (Hendrycks and Gimpel, arXiv:1606.08415, section 2).

    It uses erf. `ops.gelu` uses erfc on TensorFlow, which XLA expands to an exponential, a division
    and a choice between two polynomials. It computes in float32, since 1 + erf loses digits for
    x < 0.
    """
    x_float32 = ops.cast(x, "float32")
    probability = 0.5 * (1.0 + ops.erf(x_float32 * 2**-0.5))
    return ops.cast(x_float32 * probability, x.dtype)


ACTIVATIONS = {
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
        config: EncoderConfig,
        seed: int,
        name: str,
        activation: str | None = None,
    ):
        """Creates the layer; its own seed is folded from its owner's `seed` and `name`."""
        super().__init__(
            units,
            activation=ACTIVATIONS[activation] if activation else None,
            kernel_initializer=truncated_normal(config.initializer_range, fold_seed(seed, name)),
            name=name,
        )


def bert_layer_norm(config: EncoderConfig) -> keras.layers.LayerNormalization:
    """Returns BERT's layer norm, which computes its statistics in float32 under every policy."""
    return keras.layers.LayerNormalization(epsilon=config.layer_norm_eps, name="layer_norm")


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


class WordEmbeddings(keras.layers.Layer):
    """Word embeddings, normalized, of an encoder without tables of positions and of segments."""

    def __init__(
        self,
        config: EncoderConfig,
        seed: int,
        layer_norm: keras.layers.LayerNormalization,
        rate: float,
        name: str = "embeddings",
    ):
        """Creates the layer without its variables; `rate` is that of its dropout."""
        super().__init__(name=name)
        self.config = config
        self.seed = fold_seed(seed, name)
        self.layer_norm = layer_norm
        self.rate = rate

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the table and the layer norm."""
        self.word_embeddings_VH = self._table("word_embeddings", self.config.vocab_size)
        self.layer_norm.build((None, self.config.embedding_width))

    def _table(self, name: str, rows: int) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=(rows, self.config.embedding_width),
            initializer=truncated_normal(self.config.initializer_range, fold_seed(self.seed, name)),
            # The table stays float32, since a frequent token's gradient is a sum of thousands of
            # rows.
            autocast=False,
        )

    def call(self, input_ids_BL, segment_ids_BL, dropout_seed=None, packing=None):
        """Returns the normalized embeddings x_TE; with a packing, x_CE."""
        x_BLE = self._sums(input_ids_BL, segment_ids_BL)
        x_TE = ops.reshape(x_BLE, (-1, self.config.embedding_width))
        x_TE = self.layer_norm(packing.pack(x_TE) if packing else x_TE)
        return dropout(x_TE, self.rate, dropout_seed, site=0)

    def _sums(self, input_ids_BL, segment_ids_BL):
        """Returns what is normalized, float32 [B, L, E]; segments change nothing."""
        # The cast turns the variable into a tensor, which TensorFlow's custom gradients need.
        return look_up(ops.cast(self.word_embeddings_VH, "float32"), input_ids_BL)


def score_bias(
    input_mask: keras.KerasTensor,
    length: int,
    document_BL: keras.KerasTensor | None = None,
) -> keras.KerasTensor:
    """Returns what attention adds to the scores of a mask [B, L], float32.

    Its shape is [B, 1, 1, L]; with the numbers of documents, where a token doesn't see those of
    other documents, it is [B, 1, L, L].
    """
    bias_BL = (1.0 - ops.cast(input_mask, "float32")) * MASKED_SCORE
    bias = ops.reshape(bias_BL, (-1, 1, 1, length))
    if document_BL is not None:
        bias = bias + other_document_bias(document_BL, document_BL)[:, None]
    return bias


def other_document_bias(query_document: keras.KerasTensor, key_document: keras.KerasTensor):
    """Returns what is added to scores, float32 [..., C, W]: 0 within a document.

    Args:
      query_document: integer [..., C], the numbers of the documents of queries.
      key_document: the same of keys, [..., W].
    """
    is_other = ops.not_equal(query_document[..., :, None], key_document[..., None, :])
    return ops.cast(is_other, "float32") * MASKED_SCORE


_fused: contextvars.ContextVar[Callable[..., Any] | None] = contextvars.ContextVar(
    "fused attention", default=None
)


@contextlib.contextmanager
def attention_by(fused: Callable[..., Any] | None) -> Iterator[None]:
    """Lets an engine compute attention without dropout, in models that are traced meanwhile.

    Args:
      fused: function that does not hold the scores. It takes what `jax.nn.dot_product_attention`
        takes, and returns None for types or shapes that it cannot compute. None for no function.
    """
    token = _fused.set(fused)
    try:
        yield
    finally:
        _fused.reset(token)


def attend(query, key, value, bias, rate: float = 0.0, dropout_seed=None, site: int = 0):
    """Returns the weighted values of scaled dot-product attention (Vaswani et al. 2017).

    Args:
      query: float tensor [B, N, ..., C, D].
      key, value: float tensors [B, N, ..., W, D].
      bias: float32, added to the scores [B, N, ..., C, W]; the same for all heads.
      rate: dropout rate of the weights.
      dropout_seed: see `dropout`.
      site: number of the dropout in the model.
    """
    if dropout_seed is None or rate == 0:
        context = attend_fused(query, key, value, bias)
        if context is not None:
            return context
    # The softmax is float32 under every policy: bfloat16 has 8 bits, and a row of weights must sum
    # to 1. The bias may have been rounded to the compute dtype, which keeps 0 exact.
    scores = ops.cast(ops.matmul(query, ops.swapaxes(key, -1, -2)), "float32")
    scores = scores * query.shape[-1] ** -0.5 + ops.cast(bias, "float32")
    weights = dropout(ops.softmax(scores, axis=-1), rate, dropout_seed, site)
    return ops.matmul(ops.cast(weights, value.dtype), value)


def attend_fused(query, key, value, bias, reach: int | None = None):
    """Returns what `attend` does without dropout by that of `attention_by`; None if that cannot.

    Args:
      query, key, value: see `attend`.
      bias: see `attend`; the same bias for all queries is that of padding behind the tokens.
      reach: number of positions to each side that each query sees; None for all.
    """
    fused = _fused.get()
    if fused is None:
        return None
    # Heads come last, and blocks are sequences by themselves.
    inputs = [ops.moveaxis(x, 1, -2) for x in (query, key, value)]
    shape = inputs[0].shape
    inputs = [ops.reshape(x, (-1, *x.shape[-3:])) for x in inputs]
    if bias.shape[-2] == 1 and bias.ndim == 4:
        lengths = ops.sum(ops.cast(bias[:, 0, 0] > MASKED_SCORE / 2, "int32"), axis=-1)
        # A row that fills up the batch has no token.
        masking = {"key_value_seq_lengths": ops.maximum(lengths, 1)}
    else:
        bias = ops.moveaxis(bias, 1, -3)
        bias = ops.reshape(ops.cast(bias, query.dtype), (-1, *bias.shape[-3:]))
        masking = {"bias": bias}
    if reach is not None:
        masking["local_window_size"] = reach
    context = fused(*inputs, **masking)
    return None if context is None else ops.moveaxis(ops.reshape(context, (-1, *shape[1:])), -2, 1)


_is_recomputed: contextvars.ContextVar[bool] = contextvars.ContextVar("recomputed", default=False)


@contextlib.contextmanager
def layers_recomputed(are_recomputed: bool) -> Iterator[None]:
    """Lets the backward pass compute the layers again, in models that are traced meanwhile."""
    token = _is_recomputed.set(are_recomputed)
    try:
        yield
    finally:
        _is_recomputed.reset(token)


def recomputed(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the `call` of a layer, which `layers_recomputed` lets hold its first input alone."""

    @functools.wraps(call)
    def call_layer(self, x, *args, **kwargs):
        if not _is_recomputed.get():
            return call(self, x, *args, **kwargs)
        return keras.remat(lambda x: call(self, x, *args, **kwargs))(x)

    return call_layer


class BertSelfAttention(keras.layers.Layer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2)."""

    def __init__(self, config: EncoderConfig, seed: int, site: int, name: str = "self"):
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

    def call(self, x_TH, score_bias_B11L, dropout_seed=None, packing=None, positions=None):
        """Returns the weighted values, heads side by side, as [T, H].

        Args:
          x_TH: output of the layer before.
          score_bias_B11L: see `score_bias`.
          dropout_seed: see `dropout`.
          packing: see `Encoder.encode`.
          positions: embeddings of relative positions [S, H], which a subclass reads.
        """
        length = ops.shape(score_bias_B11L)[-1]
        query_BNLD, key_BNLD, value_BNLD = (
            self._heads(project(x_TH), length, packing)
            for project in (self.query, self.key, self.value)
        )
        inputs = query_BNLD, key_BNLD, value_BNLD
        context_BNLD = self._attended(*inputs, score_bias_B11L, dropout_seed, positions)
        context_BLND = ops.transpose(context_BNLD, (0, 2, 1, 3))
        context_TH = ops.reshape(context_BLND, (-1, self.config.hidden_size))
        return packing.pack(context_TH) if packing else context_TH

    def _attended(self, query_BNLD, key_BNLD, value_BNLD, bias, dropout_seed, positions=None):
        """Returns the weighted values, [B, N, L, D]."""
        rate = self.config.attention_probs_dropout_prob
        return attend(query_BNLD, key_BNLD, value_BNLD, bias, rate, dropout_seed, self.site)


class BertSublayerOutput(keras.layers.Layer):
    """Projection to the width, dropout, residual sum and layer norm (post-LN).

    It computes LayerNorm(x + Dropout(Sublayer(x))) (Vaswani et al. 2017, sections 3.1 and 5.4).
    """

    def __init__(self, config: EncoderConfig, seed: int, site: int, input_size: int, rate: float):
        """Creates the layer.

        Args:
          config: configuration of the encoder.
          seed: seed of its owner.
          site: number of its dropout.
          input_size: width of its input.
          rate: rate of its dropout.
        """
        super().__init__(name="output")
        self.config = config
        self.rate = rate
        self.site = site
        self.input_size = input_size
        self.dense = BertDense(config.hidden_size, config, fold_seed(seed, "output"), name="dense")
        self.layer_norm = bert_layer_norm(config)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the projection and the layer norm."""
        self.dense.build((None, self.input_size))
        self.layer_norm.build((None, self.config.hidden_size))

    def call(self, x, residual_TH, dropout_seed=None):
        """Returns x_TH; `x` is [T, H] after attention and [T, F] after the feed-forward layer."""
        x_TH = self.dense(x)
        x_TH = dropout(x_TH, self.rate, dropout_seed, self.site)
        return self.layer_norm(x_TH + residual_TH)


class BertAttention(keras.layers.Layer):
    """Self-attention with its output sublayer."""

    def __init__(
        self, config: EncoderConfig, seed: int, site: int, of_self: type[BertSelfAttention]
    ):
        """Creates the layer.

        Args:
          config: configuration of the encoder.
          seed: seed of its owner.
          site: number of its first dropout; the other has the next one.
          of_self: class of the self-attention.
        """
        super().__init__(name="attention")
        seed = fold_seed(seed, "attention")
        self.self_attention = of_self(config, seed, site)
        rate = config.hidden_dropout_prob if config.drops_attention_output else 0.0
        self.sublayer_output = BertSublayerOutput(config, seed, site + 1, config.hidden_size, rate)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables of the parts."""
        self.self_attention.build()
        self.sublayer_output.build()

    def call(self, x_TH, score_bias_B11L, dropout_seed=None, packing=None, positions=None):
        """Returns x_TH after attention; see `BertSelfAttention.call`."""
        context_TH = self.self_attention(
            x_TH,
            score_bias_B11L,
            dropout_seed=dropout_seed,
            packing=packing,
            positions=positions,
        )
        return self.sublayer_output(context_TH, x_TH, dropout_seed=dropout_seed)


class BertLayer(keras.layers.Layer):
    """One transformer layer: attention, then the feed-forward network."""

    def __init__(
        self,
        config: EncoderConfig,
        seed: int,
        index: int,
        of_self: type[BertSelfAttention] = BertSelfAttention,
    ):
        """Creates layer `index`, counted from 0; `of_self` is the class of its self-attention."""
        name = f"layer_{index}"
        super().__init__(name=name)
        self.config = config
        seed = fold_seed(seed, name)
        # The embeddings have dropout site 0.
        site = 1 + SITES_OF_LAYER * index
        self.attention = BertAttention(config, seed, site, of_self)
        self.intermediate = BertDense(
            config.intermediate_size,
            config,
            fold_seed(seed, "intermediate"),
            name="dense",
            activation=config.hidden_act,
        )
        self.sublayer_output = BertSublayerOutput(
            config, seed, site + 2, config.intermediate_size, config.hidden_dropout_prob
        )

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables of the parts."""
        self.attention.build()
        with keras.name_scope("intermediate"):
            self.intermediate.build((None, self.config.hidden_size))
        self.sublayer_output.build()

    @recomputed
    def call(self, x_TH, score_bias_B11L, dropout_seed=None, packing=None, positions=None):
        """Returns x_TH after the layer; see `BertSelfAttention.call`."""
        x_TH = self.attention(
            x_TH,
            score_bias_B11L,
            dropout_seed=dropout_seed,
            packing=packing,
            positions=positions,
        )
        x_TF = self.intermediate(x_TH)
        return self.sublayer_output(x_TF, x_TH, dropout_seed=dropout_seed)
