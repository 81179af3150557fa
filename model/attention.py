"""Attention with rotary positions, to whole sequences or within a window.

Shape suffixes: B batch, N attention heads, L sequence length, D head size, S number of blocks, C
positions of a block, W positions that a block sees.
"""

import numpy as np
from keras import ops

from beambert.model.dropout import dropout
from beambert.model.layers import MASKED_SCORE, score_bias


def rotated(x_BNLD, theta: float):
    """Returns queries or keys, each turned by angles that grow with its position.

    Pairs (d, d + D / 2) turn by position * theta ** (-2 d / D) (Su et al. 2021, arXiv 2104.09864,
    section 3.2.2; ModernBERT pairs the two halves). The angles are float32 products, as published
    models were trained with.

    Args:
      x_BNLD: float tensor with an even D and a static L.
      theta: base of the angles.
    """
    length, width = x_BNLD.shape[2:]
    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    rates = np.float32(1) / np.power(np.float32(theta), exponents, dtype=np.float32)
    angles_LD = np.arange(length, dtype=np.float32)[:, None] * rates
    cos, sin = ops.convert_to_tensor(np.cos(angles_LD)), ops.convert_to_tensor(np.sin(angles_LD))
    first, second = ops.split(ops.cast(x_BNLD, "float32"), 2, axis=-1)
    turned = ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return ops.cast(turned, x_BNLD.dtype)


def attend(query, key, value, bias, rate: float = 0.0, dropout_seed=None, site: int = 0):
    """Returns the weighted values of scaled dot-product attention (Vaswani et al. 2017).

    Args:
      query: float tensor [..., C, D].
      key, value: float tensors [..., W, D].
      bias: float32, added to the scores [..., C, W].
      rate: dropout rate of the weights.
      dropout_seed: see `dropout`.
      site: number of the dropout in the model.
    """
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
    # The softmax is float32 under every policy, see `BertSelfAttention.attention_weights`.
    scores = ops.cast(scores, "float32") * query.shape[-1] ** -0.5 + ops.cast(bias, "float32")
    weights = dropout(ops.softmax(scores, axis=-1), rate, dropout_seed, site)
    return ops.matmul(ops.cast(weights, value.dtype), value)


def attend_locally(
    query_BNLD, key_BNLD, value_BNLD, input_mask_BL, reach: int, rate=0.0, dropout_seed=None, site=0
):
    """Returns the weighted values where each position sees `reach` others to each side.

    A block of `reach` positions sees itself and its two neighbours. So the time and the memory grow
    with L * 3 * reach, not with L * L.

    Args:
      query_BNLD, key_BNLD, value_BNLD: float tensors with a static L.
      input_mask_BL: integer [B, L], 1 for tokens and 0 for padding.
      reach: number of positions to each side.
      rate, dropout_seed, site: see `attend`.
    """
    length, heads, width = query_BNLD.shape[2], query_BNLD.shape[1], query_BNLD.shape[3]
    settings = rate, dropout_seed, site
    if length <= 3 * reach:
        bias_LL = _window_bias(np.arange(length), np.arange(length), reach)
        bias = score_bias(input_mask_BL, length) + bias_LL
        return attend(query_BNLD, key_BNLD, value_BNLD, bias, *settings)
    blocks = -(-length // reach)
    end = blocks * reach - length
    # A block of padding stands at both ends, for the neighbours of the first and the last block.
    sides = [[0, 0], [0, 0], [reach, end + reach], [0, 0]]
    query_BNSCD = ops.reshape(
        ops.pad(query_BNLD, [[0, 0], [0, 0], [0, end], [0, 0]]), (-1, heads, blocks, reach, width)
    )
    key_BNSWD, value_BNSWD = (
        _neighbours(ops.reshape(ops.pad(x, sides), (-1, heads, blocks + 2, reach, width)))
        for x in (key_BNLD, value_BNLD)
    )
    mask = ops.pad(ops.cast(input_mask_BL, "int32"), [[0, 0], [reach, end + reach]])
    mask_B1S1W = _neighbours(ops.reshape(mask, (-1, 1, blocks + 2, 1, reach)), axis=4)
    bias_CW = _window_bias(np.arange(reach), np.arange(-reach, 2 * reach), reach)
    bias = (1.0 - ops.cast(mask_B1S1W, "float32")) * MASKED_SCORE + bias_CW
    context_BNSCD = attend(query_BNSCD, key_BNSWD, value_BNSWD, bias, *settings)
    return ops.reshape(context_BNSCD, (-1, heads, blocks * reach, width))[:, :, :length]


def _neighbours(blocks, axis: int = 3):
    """Returns each block between its neighbours, side by side; blocks stand on axis 2."""
    return ops.concatenate([blocks[:, :, :-2], blocks[:, :, 1:-1], blocks[:, :, 2:]], axis=axis)


def _window_bias(queries: np.ndarray, keys: np.ndarray, reach: int) -> np.ndarray:
    """Returns what is added to scores, float32 [C, W]: 0 within reach."""
    is_out = np.abs(queries[:, None] - keys) > reach
    return is_out.astype(np.float32) * np.float32(MASKED_SCORE)
