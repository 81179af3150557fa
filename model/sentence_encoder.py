"""Encoders that return vectors: one for each document, or a short one for each token.

The first pools the outputs of all tokens (Reimers and Gurevych 2019), the second is that of
Khattab and Zaharia 2020 (arXiv 2004.12832).

Shape suffixes: B batch, L sequence length, T = B * L, H hidden size, D components of a token's
vector.
"""

import dataclasses

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.families.table import family_of
from beambert.model.layers import fold_seed, truncated_normal

# The mean of all tokens, [CLS] and [SEP] included, or the output of [CLS] alone (Reimers and
# Gurevych 2019, section 3).
MEAN, CLS = "mean", "cls"
MODES = (MEAN, CLS)


@dataclasses.dataclass(frozen=True)
class Pooling:
    """What is made of the outputs of the tokens.

    Attributes:
      mode: `MEAN` or `CLS`.
      is_normalized: whether the vector gets the length 1.
    """

    mode: str = MEAN
    is_normalized: bool = False


# Least length by which a vector is divided, as in torch.nn.functional.normalize.
_LEAST_LENGTH = 1e-12


def pool(x_BLH, input_mask_BL, pooling: Pooling):
    """Returns the vector of each document, float32 [B, H].

    Args:
      x_BLH: outputs of the last layer, float32.
      input_mask_BL: int32 [B, L], 1 for tokens and 0 for padding.
      pooling: what is made of them.
    """
    if pooling.mode == CLS:
        vectors_BH = x_BLH[:, 0]
    else:
        weights_BL1 = ops.cast(input_mask_BL, x_BLH.dtype)[..., None]
        # Rows that fill up a batch have no tokens.
        counts_B1 = ops.maximum(ops.sum(weights_BL1, axis=1), 1.0)
        vectors_BH = ops.sum(x_BLH * weights_BL1, axis=1) / counts_B1
    return unit(vectors_BH) if pooling.is_normalized else vectors_BH


def unit(vectors):
    """Returns vectors [..., H] with the length 1."""
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    # The gradient of a root is infinite at 0.
    return vectors * ops.rsqrt(ops.maximum(squares, _LEAST_LENGTH**2))


class SentenceEncoder(keras.Model):
    """Vectors of documents; the constructor creates every variable."""

    def __init__(self, config: EncoderConfig, seed: int, pooling: Pooling):
        """Creates the encoder, which has no pooler.

        Args:
          config: sizes, activation and dropout rates.
          seed: seed of every initial weight.
          pooling: what is taken of the tokens of the last layer.
        """
        super().__init__(name="sentence_encoder")
        self.config = config
        self.encoder = family_of(config).encoder(config, seed, has_pooler=False)
        self.pooling = pooling
        self.built = True

    def call(self, features, dropout_seed=None):
        """Returns the vectors of a batch, float32 [B, H].

        Args:
          features: `input_ids`, `input_mask` and `segment_ids`, int32 or int64 [B, L]; other keys
            are ignored.
          dropout_seed: integer [2], another for every step and replica; None switches dropout off.
        """
        inputs = features["input_ids"], features["input_mask"], features["segment_ids"]
        states = self.encoder.encode(*inputs, dropout_seed)
        shape = (-1, inputs[0].shape[1], self.config.hidden_size)
        return pool(ops.reshape(ops.cast(states, "float32"), shape), inputs[1], self.pooling)


# Number of components of a vector (section 4.1 of the paper).
DIMENSIONS = 128


class TokenEncoder(keras.Model):
    """Vectors of tokens for late interaction; the constructor creates every variable."""

    def __init__(self, config: EncoderConfig, seed: int = 0):
        """Creates the encoder, which has no pooler, and the layer on top, which has no bias.

        Args:
          config: sizes, activation and dropout rates.
          seed: seed of every initial weight.
        """
        super().__init__(name="token_encoder")
        self.config = config
        self.encoder = family_of(config).encoder(config, seed, has_pooler=False)
        initializer = truncated_normal(config.initializer_range, fold_seed(seed, "linear"))
        self.linear = keras.layers.Dense(
            DIMENSIONS, use_bias=False, kernel_initializer=initializer, name="linear"
        )
        self.linear.build((None, config.hidden_size))
        self.built = True

    def call(self, features, dropout_seed=None):
        """Returns the vectors of all tokens, padding included, of length 1, float32 [B, L, D].

        Args:
          features: `input_ids`, `input_mask` and `segment_ids`, int32 or int64 [B, L]; other keys
            are ignored.
          dropout_seed: integer [2], another for every step and replica; None switches dropout off.
        """
        inputs = features["input_ids"], features["input_mask"], features["segment_ids"]
        states_TH = self.encoder.encode(*inputs, dropout_seed)
        vectors_TD = unit(ops.cast(self.linear(states_TH), "float32"))
        return ops.reshape(vectors_TD, (-1, inputs[0].shape[1], DIMENSIONS))
