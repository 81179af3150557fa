"""How the outputs of an encoder for the tokens of a text become one vector.

Shape suffixes: B batch, L sequence length, H hidden size, K number of last layers.
"""

import dataclasses

from keras import ops

# The mean of all tokens, [CLS] and [SEP] included, or the output of [CLS] alone (Reimers and
# Gurevych 2019, section 3).
MEAN, CLS = "mean", "cls"
MODES = (MEAN, CLS)


@dataclasses.dataclass(frozen=True)
class Pooling:
    """What is made of the outputs of the tokens.

    Attributes:
      mode: `MEAN` or `CLS`.
      last_layers: number of last layers whose outputs are averaged before.
      is_normalized: whether the vector gets the length 1.
    """

    mode: str = MEAN
    last_layers: int = 1
    is_normalized: bool = False


# Least length by which a vector is divided, as in torch.nn.functional.normalize.
_LEAST_LENGTH = 1e-12


def pool(states_BLKH, input_mask_BL, pooling: Pooling):
    """Returns the vector of each text, float32 [B, H].

    Args:
      states_BLKH: outputs of the last layers, float32 [B, L, K, H].
      input_mask_BL: int32 [B, L], 1 for tokens and 0 for padding.
      pooling: what is made of them.
    """
    x_BLH = ops.mean(states_BLKH, axis=2)
    if pooling.mode == CLS:
        vectors_BH = x_BLH[:, 0]
    else:
        weights_BL1 = ops.cast(input_mask_BL, x_BLH.dtype)[..., None]
        # Rows that fill up a batch have no tokens.
        counts_B1 = ops.maximum(ops.sum(weights_BL1, axis=1), 1.0)
        vectors_BH = ops.sum(x_BLH * weights_BL1, axis=1) / counts_B1
    if pooling.is_normalized:
        lengths_B1 = ops.sqrt(ops.sum(ops.square(vectors_BH), axis=1, keepdims=True))
        vectors_BH = vectors_BH / ops.maximum(lengths_B1, _LEAST_LENGTH)
    return vectors_BH
