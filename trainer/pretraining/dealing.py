"""Batches of nearly equally many tokens, so that a fixed number of rows holds each one's tokens."""

import math
from collections.abc import Sequence

import tensorflow as tf

# Sequences that are dealt to batches at a time, over all hosts: the mean length of so many is that
# of all within a few tokens.
SEQUENCES_DEALT = 4096
# Rows that a share gives a batch, at least: fewer couldn't have equally many tokens in each.
LEAST_ROWS = 4
# Hosts that can read a share each, powers of two.
MOST_SHARES = 16


def steps_dealt(sequences_a_step: int) -> int:
    """Returns the steps whose sequences are dealt to batches together."""
    return math.ceil(SEQUENCES_DEALT / sequences_a_step)


def shares_of(batch_size: int, hosts: int) -> int:
    """Returns how many shares the sequences are dealt in, each by itself.

    Their number doesn't depend on the hosts, each of which reads some of them: so a batch has the
    same sequences on any number of hosts, but for unusual ones.
    """
    shares = math.gcd(batch_size, max(batch_size // LEAST_ROWS, 1), MOST_SHARES)
    return shares if shares % hosts == 0 else hosts


def deal(
    features: dict[str, tf.Tensor],
    batches: int,
    parts: int,
    shares: Sequence[int] = (0,),
    all_shares: int = 1,
) -> dict[str, tf.Tensor]:
    """Divides rows into batches, and those into parts, of nearly equally many tokens each.

    Args:
      features: [rows, …]; rows must be a multiple of batches * parts and of batches * len(shares).
        They belong to one share after the other, again and again.
      batches: to make.
      parts: of each batch; which rows a batch has doesn't depend on them.
      shares: numbers of this host's shares; each gives a batch equally many rows.
      all_shares: of all hosts.

    Returns:
      features [batches, parts, rows / batches / parts, …].
    """
    lengths = tf.reduce_sum(features["input_mask"], axis=1)
    count = len(shares)
    order = tf.argsort(-tf.transpose(tf.reshape(lengths, [-1, count])), stable=True)
    dealt = _deal(order, batches) * count + tf.range(count)[:, None, None]
    # A batch gets another pile of every share: the first ones, of extremes, differ from the last.
    shifts = tf.constant(list(shares))[:, None] * batches // all_shares
    piles = (tf.range(batches) + shifts) % batches
    dealt = tf.gather(dealt, piles, batch_dims=1)
    rows = tf.reshape(tf.transpose(dealt, [1, 0, 2]), [batches, -1])
    order = tf.argsort(-tf.gather(lengths, rows), stable=True)
    dealt = _deal(tf.gather(rows, order, batch_dims=1), parts)
    return {name: tf.gather(value, dealt) for name, value in features.items()}


def _deal(order: tf.Tensor, piles: int) -> tf.Tensor:
    """Deals [..., rows], longest first, to [..., piles, rows / piles], longest first.

    There and back, as cards are not: the pile that is first in one round is last in the next.
    """
    rounds = tf.reshape(order, [*order.shape[:-1], -1, piles])
    is_back = tf.range(tf.shape(rounds)[-2])[:, None] % 2 == 1
    return tf.linalg.matrix_transpose(tf.where(is_back, rounds[..., ::-1], rounds))
