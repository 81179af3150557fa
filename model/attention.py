"""Attention with rotary positions, to whole sequences or within a window.

Shape suffixes: B batch, N attention heads, L sequence length, D head size, S number of blocks, C
positions of a block, W positions that a block sees.
"""

import numpy as np
from keras import ops

from beambert.model.layers import (
    MASKED_SCORE,
    attend,
    attend_fused,
    other_document_bias,
    score_bias,
)

# Queries whose scores are held at once in long sequences. Parts of 512 and 1,024 took more time and
# memory.
QUERIES = 256


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


def attend_in_parts(query_BNLD, key_BNLD, value_BNLD, bias, document_BL=None):
    """Returns what `attend` does without dropout, and holds the scores of a part of the queries.

    The backward pass computes them again from what the softmax divides by (Dao et al. 2022, arXiv
    2205.14135, section 3.1). Loops keep the compiler from holding them.

    Args:
      query_BNLD, key_BNLD, value_BNLD: float tensors with a static L.
      bias: float32, added to the scores [B, N, L, L]; it is the same for all queries.
      document_BL: integers, the numbers of the tokens' documents, across which none is seen; None
        if all may be seen.
    """
    whole = bias
    if document_BL is not None:
        whole = bias + other_document_bias(document_BL, document_BL)[:, None]
    context_BNLD = attend_fused(query_BNLD, key_BNLD, value_BNLD, whole)
    if context_BNLD is not None:
        return context_BNLD
    heads, length, width = query_BNLD.shape[1:]
    count, scale = -(-length // QUERIES), width**-0.5

    def divided(x_BNLD):
        """Returns [count, B, N, QUERIES, D]; the last part has padding."""
        missing = [[0, 0], [0, 0], [0, count * QUERIES - length], [0, 0]]
        parts = ops.reshape(ops.pad(x_BNLD, missing), (-1, heads, count, QUERIES, x_BNLD.shape[3]))
        return ops.transpose(parts, (2, 0, 1, 3, 4))

    def joined(parts):
        """Returns [B, N, L, D] of what `divided` returns."""
        whole = ops.reshape(
            ops.transpose(parts, (1, 2, 0, 3, 4)), (-1, heads, count * QUERIES, width)
        )
        return whole[:, :, :length]

    # The parts of the queries know which documents they are of.
    documents = ()
    if document_BL is not None:
        document_BL = ops.cast(document_BL, "float32")
        missing = [[0, 0], [0, count * QUERIES - length]]
        parts = ops.reshape(ops.pad(document_BL, missing), (-1, count, QUERIES))
        documents = (document_BL, ops.transpose(parts, (1, 0, 2)))

    # All tensors are arguments, for the sake of JAX where layers are computed again.
    @ops.custom_gradient
    def attended(query_BNLD, key_BNLD, value_BNLD, bias, *of_documents):
        document_BL, *documents = of_documents or (None,)

        def scores_of(query, key, *document):
            scores = ops.cast(_product(query, key), "float32") * scale + bias
            for of_queries in document:
                scores = scores + other_document_bias(of_queries, document_BL)[:, None]
            return scores

        def part(inputs):
            query, *document = inputs
            scores = scores_of(query, key_BNLD, *document)
            greatest = ops.max(scores, axis=-1, keepdims=True)
            raised = ops.exp(scores - greatest)
            total = ops.sum(raised, axis=-1, keepdims=True)
            sums = ops.matmul(ops.cast(raised, value_BNLD.dtype), value_BNLD)
            context = ops.cast(ops.cast(sums, "float32") / total, value_BNLD.dtype)
            return context, greatest + ops.log(total)

        queries = divided(query_BNLD)
        contexts, logarithms = ops.map(part, (queries, *documents))

        def gradient(upstream_BNLD):
            parts = queries, divided(upstream_BNLD), contexts, logarithms, *documents

            def step(index, gradients):
                query, upstream, context, logarithm, *document = (
                    one_part[index] for one_part in parts
                )
                weights = ops.exp(scores_of(query, key_BNLD, *document) - logarithm)
                of_weights = ops.cast(_product(upstream, value_BNLD), "float32")
                mean = ops.sum(ops.cast(upstream * context, "float32"), axis=-1, keepdims=True)
                of_scores = ops.cast(weights * (of_weights - mean) * scale, query.dtype)
                weights = ops.cast(weights, value_BNLD.dtype)
                of_queries, of_key, of_value = gradients
                of_query = ops.matmul(of_scores, key_BNLD)[None]
                to_key = ops.matmul(ops.swapaxes(of_scores, -1, -2), query)
                to_value = ops.matmul(ops.swapaxes(weights, -1, -2), upstream)
                return (
                    ops.slice_update(of_queries, (index, 0, 0, 0, 0), of_query),
                    of_key + ops.cast(to_key, "float32"),
                    of_value + ops.cast(to_value, "float32"),
                )

            # Many parts are added up, for which bfloat16 has too few digits.
            sums = (ops.zeros_like(x, dtype="float32") for x in (key_BNLD, value_BNLD))
            found = ops.fori_loop(0, count, step, (ops.zeros_like(queries), *sums))
            of_queries, of_key, of_value = (ops.cast(x, query_BNLD.dtype) for x in found)
            nothing = (ops.zeros_like(x) for x in (bias, *of_documents))
            return joined(of_queries), of_key, of_value, *nothing

        return joined(contexts), gradient

    return attended(query_BNLD, key_BNLD, value_BNLD, bias, *documents)


def _product(first, second):
    """Returns the products of all rows of two tensors [..., D]."""
    return ops.matmul(first, ops.swapaxes(second, -1, -2))


def attend_locally(
    query_BNLD,
    key_BNLD,
    value_BNLD,
    input_mask_BL,
    reach: int,
    rate=0.0,
    dropout_seed=None,
    site=0,
    document_BL=None,
):
    """Returns the weighted values where each position sees `reach` others to each side.

    A block of `reach` positions sees itself and its two neighbours. So the time and the memory grow
    with L * 3 * reach, not with L * L.

    Args:
      query_BNLD, key_BNLD, value_BNLD: float tensors with a static L.
      input_mask_BL: integer [B, L], 1 for tokens and 0 for padding.
      reach: number of positions to each side.
      rate, dropout_seed, site: see `attend`.
      document_BL: see `attend_in_parts`.
    """
    length, heads, width = query_BNLD.shape[2], query_BNLD.shape[1], query_BNLD.shape[3]
    settings = rate, dropout_seed, site
    if dropout_seed is None or rate == 0:
        bias = score_bias(input_mask_BL, length, document_BL=document_BL)
        context_BNLD = attend_fused(query_BNLD, key_BNLD, value_BNLD, bias, reach)
        if context_BNLD is not None:
            return context_BNLD
    if length <= 3 * reach:
        bias_LL = _window_bias(np.arange(length), np.arange(length), reach)
        bias = score_bias(input_mask_BL, length, document_BL=document_BL) + bias_LL
        return attend(query_BNLD, key_BNLD, value_BNLD, bias, *settings)
    blocks = -(-length // reach)
    end = blocks * reach - length
    # A block of padding is at both ends, for the neighbours of the first and the last block.
    sides = [[0, 0], [0, 0], [reach, end + reach], [0, 0]]
    query_BNSCD = ops.reshape(
        ops.pad(query_BNLD, [[0, 0], [0, 0], [0, end], [0, 0]]), (-1, heads, blocks, reach, width)
    )
    key_BNSWD, value_BNSWD = (
        _neighbours(ops.reshape(ops.pad(x, sides), (-1, heads, blocks + 2, reach, width)))
        for x in (key_BNLD, value_BNLD)
    )

    def of_keys(x_BL):
        """Returns [B, 1, S, 1, W]: the integers of the positions that each block sees."""
        padded = ops.pad(ops.cast(x_BL, "int32"), [[0, 0], [reach, end + reach]])
        return _neighbours(ops.reshape(padded, (-1, 1, blocks + 2, 1, reach)), axis=4)

    bias_CW = _window_bias(np.arange(reach), np.arange(-reach, 2 * reach), reach)
    bias = (1.0 - ops.cast(of_keys(input_mask_BL), "float32")) * MASKED_SCORE + bias_CW
    if document_BL is not None:
        of_queries = ops.reshape(ops.pad(document_BL, [[0, 0], [0, end]]), (-1, 1, blocks, reach))
        bias = bias + other_document_bias(of_queries, of_keys(document_BL)[:, :, :, 0])
    context_BNSCD = attend(query_BNSCD, key_BNSWD, value_BNSWD, bias, *settings)
    return ops.reshape(context_BNSCD, (-1, heads, blocks * reach, width))[:, :, :length]


def _neighbours(blocks, axis: int = 3):
    """Returns each block between its neighbours, side by side; blocks are on axis 2."""
    return ops.concatenate([blocks[:, :, :-2], blocks[:, :, 1:-1], blocks[:, :, 2:]], axis=axis)


def _window_bias(queries: np.ndarray, keys: np.ndarray, reach: int) -> np.ndarray:
    """Returns what is added to scores, float32 [C, W]: 0 within reach."""
    is_out = np.abs(queries[:, None] - keys) > reach
    return is_out.astype(np.float32) * np.float32(MASKED_SCORE)
