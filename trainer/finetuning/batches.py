"""Batches of a task's features: the examples of each batch and the length they are padded to."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from beambert.pipelines.tasks.task import NO_LABEL, TaskFeatures

# The number of lengths, and so of programs that XLA compiles. More would spare little padding.
MOST_LENGTHS = 4
# Lengths are multiples of this, as processors compute on vectors of several positions.
LENGTH_MULTIPLE = 8


def choose_lengths(
    lengths: np.ndarray, max_seq_length: int, least_spared: float = 0
) -> tuple[int, ...]:
    """Returns the lengths, in ascending order, to which padding adds the fewest positions.

    Args:
      lengths: int [n], number of tokens of each example.
      max_seq_length: greatest length.
      least_spared: least number of positions per epoch that a further length must spare to be
        worth compiling for.
    """
    rounded = np.minimum(-(-lengths // LENGTH_MULTIPLE) * LENGTH_MULTIPLE, max_seq_length)
    candidates, counts = np.unique(rounded, return_counts=True)
    until = np.concatenate([[0], np.cumsum(counts)])
    # cost[j] is the number of positions of the examples that fit candidate j, padded to the lengths
    # in chosen[j].
    cost = candidates * until[1:]
    chosen = [(int(candidate),) for candidate in candidates]
    for _ in range(MOST_LENGTHS - 1):
        better, with_one_more = cost.copy(), list(chosen)
        for j in range(1, len(candidates)):
            split = cost[:j] + candidates[j] * (until[j + 1] - until[1 : j + 1])
            i = int(np.argmin(split))
            if split[i] < better[j]:
                better[j] = split[i]
                with_one_more[j] = (*chosen[i], int(candidates[j]))
        if cost[-1] - better[-1] < least_spared:
            break
        cost, chosen = better, with_one_more
    return chosen[-1]


def batch_rows(
    example_lengths: np.ndarray, lengths: Sequence[int], batch_size: int, steps: int, seed: int
) -> np.ndarray:
    """Returns the indices of the examples of every step, int32 [steps, batch_size].

    Every epoch shuffles all examples. A batch gathers examples of similar length, and the batches
    are shuffled in turn. An epoch leaves out the few examples that do not fill a batch.

    Args:
      example_lengths: int [n], number of tokens of each example; n is at least the batch size.
      lengths: lengths to which batches are padded, ascending.
      batch_size: number of examples per step.
      steps: number of training steps.
      seed: seed of all shuffling.
    """
    bucket = np.searchsorted(lengths, example_lengths)
    epochs, epoch = [], 0
    while sum(map(len, epochs)) < steps:
        generator = np.random.default_rng([seed, epoch])
        order = generator.permutation(len(bucket)).astype(np.int32)
        full, rest = [], []
        for number in range(len(lengths)):
            rows = order[bucket[order] == number]
            whole = len(rows) // batch_size * batch_size
            full.append(rows[:whole])
            rest.append(rows[whole:])
        # The remaining examples are sorted by length. Those left out are chosen at random, so that
        # they are not always the longest.
        left = np.concatenate(rest)
        spare = len(left) % batch_size
        left = np.delete(left, generator.choice(len(left), spare, replace=False))
        batches = np.concatenate([*full, left]).reshape(-1, batch_size)
        epochs.append(generator.permutation(batches))
        epoch += 1
    return np.concatenate(epochs)[:steps]


class PaddedBatches:
    """Gathers examples into padded batches inside a tf.data pipeline."""

    def __init__(self, features: TaskFeatures):
        """Turns the features into ragged tensors."""

        def ragged(values: np.ndarray) -> tf.RaggedTensor:
            return tf.RaggedTensor.from_row_lengths(values, features.lengths, validate=False)

        self._choices = features.choices
        self._ids = ragged(features.input_ids)
        self._tokens = {"segment_ids": (ragged(features.segment_ids), 0)}
        for name, values in features.token_targets.items():
            self._tokens[name] = (ragged(values), NO_LABEL)
        self._targets = {name: tf.constant(values) for name, values in features.targets.items()}

    def __call__(self, rows: tf.Tensor, length: int) -> dict[str, tf.Tensor]:
        """Returns the features of the examples with indices `rows` [B], padded to a length."""
        count = rows.shape[0] or -1
        sequences, shape = rows, [count, length]
        if self._choices > 1:
            sequences = tf.reshape(rows[:, None] * self._choices + tf.range(self._choices), [-1])
            shape = [count, self._choices, length]

        def padded(values: tf.RaggedTensor, default: int) -> tf.Tensor:
            some = tf.gather(values, sequences)
            return tf.reshape(some.to_tensor(default, shape=[None, length]), shape)

        ids = padded(self._ids, 0)
        counts = tf.gather(self._ids.row_lengths(), sequences)
        mask = tf.sequence_mask(counts, length, dtype=tf.int32)
        batch = {"input_ids": ids, "input_mask": tf.reshape(mask, shape)}
        batch |= {name: padded(*values) for name, values in self._tokens.items()}
        return batch | {name: tf.gather(values, rows) for name, values in self._targets.items()}


# AutoGraph would take long and change nothing, as no `if` depends on a tensor's value.
@tf.autograph.experimental.do_not_convert
def training_batches(
    features: TaskFeatures, lengths: Sequence[int], rows: np.ndarray
) -> tf.data.Dataset:
    """Returns the training batches, one for each row of `batch_rows` that is given."""
    padded = PaddedBatches(features)
    batches = tf.data.Dataset.from_tensor_slices(rows)
    return batches.map(lambda some: padded(some, lengths[-1])).prefetch(2)


def evaluation_order(features: TaskFeatures) -> np.ndarray:
    """Returns the indices of all examples in the order of `evaluation_batches`, shortest first."""
    return np.argsort(features.example_lengths, kind="stable").astype(np.int32)


@tf.autograph.experimental.do_not_convert
def evaluation_batches(
    features: TaskFeatures, lengths: Sequence[int], batch_size: int
) -> tf.data.Dataset:
    """Returns batches with every example once, in the order of `evaluation_order`.

    Rows of weight 0 fill up the last batch.
    """
    padded = PaddedBatches(features)
    batches = tf.data.Dataset.from_tensor_slices(evaluation_order(features)).batch(batch_size)
    # All batches have one shape, so that XLA compiles one program for each way.
    return batches.map(lambda some: fill_up(padded(some, lengths[-1]), batch_size)).prefetch(2)


def fill_up(features: dict[str, tf.Tensor], batch_size: int) -> dict[str, tf.Tensor]:
    """Adds empty rows up to a static batch size, and `example_weights`, which is 0 for those."""
    rows = tf.shape(next(iter(features.values())))[0]
    features = features | {"example_weights": tf.ones([rows], tf.float32)}
    filled = {}
    for name, value in features.items():
        paddings = [[0, batch_size - rows]] + [[0, 0]] * (value.shape.rank - 1)
        filled[name] = tf.ensure_shape(tf.pad(value, paddings), [batch_size, *value.shape[1:]])
    return filled
