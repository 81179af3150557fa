"""Deals sequences to batches so that all batches have nearly equally many tokens.

A fixed number of rows is then enough for the tokens of nearly every batch.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

# Number of sequences that are dealt to batches at a time, over all hosts. Their mean length differs
# from the mean of all sequences by a few tokens at most.
SEQUENCES_DEALT = 4096
# A share gives a batch at least so many rows. With fewer, batches would differ too much in tokens.
LEAST_ROWS = 4
# Largest number of shares, a power of two. Up to so many hosts can read a share each.
MOST_SHARES = 16


def steps_dealt(sequences_a_step: int) -> int:
    """Returns the number of steps whose sequences are dealt together."""
    return math.ceil(SEQUENCES_DEALT / sequences_a_step)


def records_dealt(batches: int, sequences_a_step: int) -> int:
    """Returns the number of records that are read for a number of batches.

    Those that were dealt to batches of this size after the last one are read, too.
    """
    steps = steps_dealt(sequences_a_step)
    return math.ceil(batches / steps) * steps * sequences_a_step


def shares_of(batch_size: int, hosts: int) -> int:
    """Returns the number of shares of the sequences. Each share is dealt by itself.

    A host reads one or more shares. Their number does not depend on the hosts (except for unusual
    numbers of hosts), so a batch has the same sequences on any number of hosts.
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
      features: name -> [rows, …]. The number of rows must be a multiple of batches * parts and of
        batches * len(shares). The rows belong to the shares in turn.
      batches: number of batches to make.
      parts: number of parts of a batch; the rows of a batch do not depend on it.
      shares: numbers of this host's shares; each gives a batch equally many rows.
      all_shares: number of shares of all hosts.

    Returns:
      name -> [batches, parts, rows / batches / parts, …].
    """
    lengths = tf.reduce_sum(features["input_mask"], axis=1)
    count = len(shares)
    order = tf.argsort(-tf.transpose(tf.reshape(lengths, [-1, count])), stable=True)
    dealt = _deal(order, batches) * count + tf.range(count)[:, None, None]
    # A batch gets piles of different numbers from the shares, since the first piles of a share have
    # other lengths than the last.
    shifts = tf.constant(list(shares))[:, None] * batches // all_shares
    piles = (tf.range(batches) + shifts) % batches
    dealt = tf.gather(dealt, piles, batch_dims=1)
    rows = tf.reshape(tf.transpose(dealt, [1, 0, 2]), [batches, -1])
    order = tf.argsort(-tf.gather(lengths, rows), stable=True)
    dealt = _deal(tf.gather(rows, order, batch_dims=1), parts)
    return {name: tf.gather(value, dealt) for name, value in features.items()}


def _deal(order: tf.Tensor, piles: int) -> tf.Tensor:
    """Deals [..., rows], longest first, to [..., piles, rows / piles], longest first.

    The direction changes after every round: the first pile of a round is the last of the next.
    """
    rounds = tf.reshape(order, [*order.shape[:-1], -1, piles])
    is_back = tf.range(tf.shape(rounds)[-2])[:, None] % 2 == 1
    return tf.linalg.matrix_transpose(tf.where(is_back, rounds[..., ::-1], rounds))
