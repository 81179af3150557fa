"""Batches of a task's features: which examples, at which length."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from beambert.pipelines.model_inputs.features import NO_LABEL, TaskFeatures
from beambert.trainer.loop.batches import fill_up

# Programs that XLA compiles for a task: more would spare little padding.
MOST_LENGTHS = 4
# Lengths are a multiple of this: what a processor computes at a time.
LENGTH_MULTIPLE = 8


def choose_lengths(
    lengths: np.ndarray, max_seq_length: int, least_spared: float = 0
) -> tuple[int, ...]:
    """Returns the few lengths to pad to that leave the least padding, ascending.

    Args:
      lengths: int [n], tokens of each example.
      max_seq_length: the greatest.
      least_spared: positions of an epoch that each further length must spare, or it isn't worth
        compiling for.
    """
    rounded = np.minimum(-(-lengths // LENGTH_MULTIPLE) * LENGTH_MULTIPLE, max_seq_length)
    candidates, counts = np.unique(rounded, return_counts=True)
    until = np.concatenate([[0], np.cumsum(counts)])
    # cost[j]: positions of all examples up to candidate j, padded to the lengths in chosen[j].
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
    """Returns the examples of every step, int32 [steps, batch_size].

    Every epoch is a new order of all examples; those of like length stand together, and the
    batches in any order. What an epoch has left for less than a batch is left out of it.

    Args:
      example_lengths: int [n], n at least the batch size.
      lengths: what batches are padded to, ascending.
      batch_size: examples a step.
      steps: of the training.
      seed: decides all orders.
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
        # From the shortest on; any of them may be left out, not always the longest.
        left = np.concatenate(rest)
        spare = len(left) % batch_size
        left = np.delete(left, generator.choice(len(left), spare, replace=False))
        batches = np.concatenate([*full, left]).reshape(-1, batch_size)
        epochs.append(generator.permutation(batches))
        epoch += 1
    return np.concatenate(epochs)[:steps]


class PaddedBatches:
    """Gathers rows of features into padded batches, inside tf.data."""

    def __init__(self, features: TaskFeatures):
        """Takes the features as ragged tensors."""

        def ragged(values: np.ndarray) -> tf.RaggedTensor:
            return tf.RaggedTensor.from_row_lengths(values, features.lengths, validate=False)

        self._choices = features.choices
        self._ids = ragged(features.input_ids)
        self._tokens = {"segment_ids": (ragged(features.segment_ids), 0)}
        for name, values in features.token_targets.items():
            self._tokens[name] = (ragged(values), NO_LABEL)
        self._targets = {name: tf.constant(values) for name, values in features.targets.items()}

    def __call__(self, rows: tf.Tensor, length: int) -> dict[str, tf.Tensor]:
        """Returns the features of some rows [B] at a length."""
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


def training_batches(
    features: TaskFeatures, lengths: Sequence[int], rows: np.ndarray
) -> tf.data.Dataset:
    """Returns a batch for each of `batch_rows`' rows that are left to do."""
    padded = PaddedBatches(features)
    batches = tf.data.Dataset.from_tensor_slices(rows)
    return batches.map(lambda some: padded(some, lengths[-1])).prefetch(2)


def evaluation_batches(
    features: TaskFeatures, lengths: Sequence[int], batch_size: int
) -> tf.data.Dataset:
    """Returns every example once, the short ones first; rows of weight 0 fill up the last batch."""
    order = np.argsort(features.example_lengths, kind="stable").astype(np.int32)
    return _batches_of(features, order, lengths[-1], batch_size)


def prediction_batches(
    features: TaskFeatures, lengths: Sequence[int], batch_size: int
) -> list[tuple[np.ndarray, tf.data.Dataset]]:
    """Returns the rows that fit each length, and their batches at that length."""
    bucket = np.searchsorted(lengths, features.example_lengths)
    parts = []
    for number, length in enumerate(lengths):
        rows = np.flatnonzero(bucket == number).astype(np.int32)
        if len(rows):
            parts.append((rows, _batches_of(features, rows, length, batch_size)))
    return parts


def _batches_of(
    features: TaskFeatures, rows: np.ndarray, length: int, batch_size: int
) -> tf.data.Dataset:
    padded = PaddedBatches(features)
    batches = tf.data.Dataset.from_tensor_slices(rows).batch(batch_size)
    # One shape for all, so that one program computes them.
    return batches.map(lambda some: fill_up(padded(some, length), batch_size)).prefetch(2)
