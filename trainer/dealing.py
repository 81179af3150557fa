"""Batches of nearly equally many tokens, so that a fixed number of rows holds each one's tokens."""

import math

import tensorflow as tf

# Sequences that are dealt to batches at a time, over all hosts: the mean length of so many is that
# of all within a few tokens.
SEQUENCES_DEALT = 4096


def steps_dealt(sequences_a_step: int) -> int:
    """Returns the steps whose sequences are dealt to batches together."""
    return math.ceil(SEQUENCES_DEALT / sequences_a_step)


def deal(features: dict[str, tf.Tensor], batches: int, parts: int) -> dict[str, tf.Tensor]:
    """Divides rows into batches, and those into parts, of nearly equally many tokens each.

    Args:
      features: [rows, …]; rows must be a multiple of batches * parts.
      batches: to make.
      parts: of each batch; which rows a batch has doesn't depend on them.

    Returns:
      features [batches, parts, rows / batches / parts, …].
    """
    order = tf.argsort(-tf.reduce_sum(features["input_mask"], axis=1), stable=True)
    dealt = _deal(_deal(order, batches), parts)
    return {name: tf.gather(value, dealt) for name, value in features.items()}


def _deal(order: tf.Tensor, piles: int) -> tf.Tensor:
    """Deals [..., rows], longest first, to [..., piles, rows / piles], longest first.

    There and back, as cards are not: the pile that is first in one round is last in the next.
    """
    rounds = tf.reshape(order, [*order.shape[:-1], -1, piles])
    is_back = tf.range(tf.shape(rounds)[-2])[:, None] % 2 == 1
    return tf.linalg.matrix_transpose(tf.where(is_back, rounds[..., ::-1], rounds))
