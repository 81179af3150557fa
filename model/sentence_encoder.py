"""An encoder whose tokens are pooled to one vector for a text (Reimers and Gurevych 2019).

Shape suffixes: B batch, L sequence length, H hidden size.
"""

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.families.table import family_of
from beambert.model.pooling import Pooling, pool


class SentenceEncoder(keras.Model):
    """Vectors of texts; the constructor creates every variable."""

    def __init__(self, config: EncoderConfig, seed: int = 0, pooling: Pooling | None = None):
        """Creates the encoder, which has no pooler.

        Args:
          config: sizes, activation and dropout rates.
          seed: seed of every initial weight.
          pooling: what is taken of the tokens of the last layer (default: their mean).
        """
        super().__init__(name="sentence_encoder")
        self.config = config
        self.encoder = family_of(config).encoder(config, seed, has_pooler=False)
        self.pooling = pooling or Pooling()
        self.built = True

    def call(self, features, dropout_seed=None):
        """Returns the vectors of a batch, float32 [B, H].

        Args:
          features: `input_ids`, `input_mask` and `segment_ids`, int32 or int64 [B, L]; other keys
            are ignored.
          dropout_seed: integer [2], another for every step and replica; None switches dropout off.
        """
        return self.vectors(features, dropout_seed, self.pooling)

    def vectors(self, features, dropout_seed, pooling: Pooling):
        """Returns the vectors with another pooling; the other arguments are those of `call`."""
        inputs = features["input_ids"], features["input_mask"], features["segment_ids"]
        states = self.encoder.encode(*inputs, dropout_seed)
        shape = (-1, inputs[0].shape[1], 1, self.config.hidden_size)
        states_BLKH = ops.reshape(ops.cast(states, "float32"), shape)
        return pool(states_BLKH, inputs[1], pooling)
