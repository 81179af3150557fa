"""An encoder with a short vector for each token (Khattab and Zaharia 2020, arXiv 2004.12832).

Shape suffixes: B batch, L sequence length, T = B * L, D components of a vector.
"""

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.families.table import family_of
from beambert.model.initialization import fold_seed, truncated_normal

# Number of components of a vector (section 4.1 of the paper).
DIMENSIONS = 128
# Least length by which a vector is divided, as in torch.nn.functional.normalize.
_LEAST_LENGTH = 1e-12


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
        vectors_TD = ops.cast(self.linear(states_TH), "float32")
        squares_T1 = ops.sum(ops.square(vectors_TD), axis=1, keepdims=True)
        # The gradient of a root is infinite at 0.
        vectors_TD = vectors_TD * ops.rsqrt(ops.maximum(squares_T1, _LEAST_LENGTH**2))
        return ops.reshape(vectors_TD, (-1, inputs[0].shape[1], DIMENSIONS))
