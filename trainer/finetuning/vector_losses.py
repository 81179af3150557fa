"""Losses of the cosines between the vectors of a batch's texts, equal to sentence-transformers'.

Shape suffixes: B examples of a batch, S texts of an example, H components of a vector, C texts of
the batch that can be found, Q tokens of a query, L tokens of a document.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

# Least length by which a vector is divided, as in torch.nn.functional.normalize.
_LEAST_LENGTH = 1e-12
# A text that does not count has this logit.
_NEVER = -1e9
# The cosine of a token that does not count.
_LESS_THAN_COSINES = -2.0


def unit(vectors: tf.Tensor) -> tf.Tensor:
    """Returns vectors [..., H] with the length 1."""
    return vectors * tf.math.rsqrt(
        tf.maximum(tf.reduce_sum(tf.square(vectors), axis=-1, keepdims=True), _LEAST_LENGTH**2)
    )


def in_batch(
    vectors_BSH: tf.Tensor, text_ids_BS: tf.Tensor, weights_B: tf.Tensor, temperature: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns each example's loss of telling its answer from all others of the batch, float32 [B].

    It is InfoNCE (van den Oord et al. 2018, arXiv 1807.03748), the cross-entropy over the cosines
    divided by the temperature; sentence-transformers calls it MultipleNegativesRankingLoss.

    Args:
      vectors_BSH: vectors of the query, of the text that it must find, and of hard negatives.
      text_ids_BS, weights_B: see `contrast`.
      temperature: what the cosines are divided by.

    Returns:
      what `contrast` returns.
    """
    queries_BH = unit(vectors_BSH[:, 0])
    found_CH = unit(_by_place(vectors_BSH[:, 1:]))
    logits_BC = tf.matmul(queries_BH, found_CH, transpose_b=True) / temperature
    return contrast(logits_BC, text_ids_BS, weights_B)


def contrast(
    logits_BC: tf.Tensor, text_ids_BS: tf.Tensor, weights_B: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the cross-entropy of finding the right text of each example among those of the batch.

    What an example must find is its second text. All second texts of the batch and all further
    ones, the hard negatives, can be found. A text that is equal to the right one or to the query,
    or that an equal query must find, is no negative.

    Args:
      logits_BC: logits of the texts that can be found: the right texts of all examples come first,
        then the first negatives of all, and so on.
      text_ids_BS: int64, equal for equal texts.
      weights_B: 0 for rows that fill up the batch, whose texts cannot be found.

    Returns:
      the losses, in nats, and whether the right text has the greatest logit, float32 [B] each.
    """
    rows, texts = tf.shape(logits_BC)[0], text_ids_BS.shape[1]
    ids_C = _by_place(text_ids_BS[:, 1:, None])[:, 0]
    query_B1, right_B1 = text_ids_BS[:, :1], text_ids_BS[:, 1:2]
    # Number of equal queries, the row's own among them, that a text is right for.
    is_equal_query_BB = tf.cast(text_ids_BS[:, 0] == query_B1, tf.float32)
    answers_BC = tf.matmul(is_equal_query_BB, tf.cast(ids_C == right_B1, tf.float32))
    is_filling = tf.tile(weights_B == 0, [texts - 1])
    drops = (answers_BC > 0) | (ids_C == query_B1) | is_filling
    is_own = tf.eye(rows, rows * (texts - 1), dtype=tf.bool)
    logits_BC = tf.where(drops & ~is_own, _NEVER, logits_BC)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(rows), logits_BC)
    best = tf.argmax(logits_BC, axis=1, output_type=tf.int32)
    return losses, tf.cast(best == tf.range(rows), tf.float32)


def _by_place(values: tf.Tensor) -> tf.Tensor:
    """Returns values [B, S, H] of one place after the other, [S * B, H]."""
    return tf.reshape(tf.transpose(values, [1, 0, 2]), [-1, values.shape[-1]])


def max_sim(queries_BQH: tf.Tensor, documents_CLH: tf.Tensor, counts_CL: tf.Tensor) -> tf.Tensor:
    """Returns the score of each document for each query by late interaction, float32 [B, C].

    It is the sum over the tokens of the query of the greatest cosine with any token of the document
    (Khattab and Zaharia 2020, ColBERT, arXiv 2004.12832, section 3.3).

    Args:
      queries_BQH: vectors of the tokens of queries, of length 1.
      documents_CLH: vectors of the tokens of documents, of length 1.
      counts_CL: whether a token of a document counts, bool.
    """
    _, tokens, width = queries_BQH.shape
    length = documents_CLH.shape[1]
    flat = tf.reshape(queries_BQH, [-1, width]), tf.reshape(documents_CLH, [-1, width])
    shape = [-1, tokens, tf.shape(documents_CLH)[0], length]
    cosines_BQCL = tf.reshape(tf.matmul(*flat, transpose_b=True), shape)
    cosines_BQCL = tf.where(counts_CL, cosines_BQCL, _LESS_THAN_COSINES)
    return tf.reduce_sum(tf.reduce_max(cosines_BQCL, axis=-1), axis=1)


def cosines(vectors_BSH: tf.Tensor) -> tf.Tensor:
    """Returns the cosine of the two texts of each pair, float32 [B]."""
    return tf.reduce_sum(unit(vectors_BSH[:, 0]) * unit(vectors_BSH[:, 1]), axis=-1)


def cosent(
    cosines_B: tf.Tensor, scores_B: tf.Tensor, weights_B: tf.Tensor, temperature: float
) -> tf.Tensor:
    """Returns CoSENT's loss of a batch (Su 2022, https://kexue.fm/archives/8847), a number.

    It is log(1 + sum of exp((a - b) / temperature)) over all pairs of a cosine a and a cosine b,
    where the score of a is less than that of b.
    """
    differences_BB = (cosines_B[:, None] - cosines_B[None]) / temperature
    counts = (scores_B[:, None] < scores_B[None]) & (weights_B[:, None] > 0) & (weights_B[None] > 0)
    logits = tf.reshape(tf.where(counts, differences_BB, _NEVER), [-1])
    return tf.reduce_logsumexp(tf.concat([[0.0], logits], 0))


def at_dims(
    loss: Callable[[tf.Tensor], tf.Tensor], vectors: tf.Tensor, dims: Sequence[int]
) -> tf.Tensor:
    """Returns the loss of whole vectors [..., H], and that of their first components for each dim.

    That is Matryoshka representation learning (Kusupati et al. 2022, arXiv 2205.13147) with equal
    weights, as in sentence-transformers, where the dims must list H themselves. H counts once.
    """
    widths = dict.fromkeys([vectors.shape[-1], *dims])
    return tf.add_n([loss(vectors[..., :width]) for width in widths])
