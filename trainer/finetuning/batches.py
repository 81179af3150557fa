"""Batches of a task's features: the examples of each batch and the length they are padded to."""

from collections.abc import Iterator, Sequence

import numpy as np

from beambert.pipelines.pretraining.documents import starts_of
from beambert.pipelines.tasks.task import NO_LABEL, TaskFeatures
from beambert.trainer.loop.engine import InputContext

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
    """Gathers examples into padded batches."""

    def __init__(self, features: TaskFeatures):
        """Takes the features of all examples."""
        self._features = features
        self._starts = starts_of(features.lengths)
        self._tokens = {"input_ids": (features.input_ids, 0)}
        self._tokens["segment_ids"] = features.segment_ids, 0
        for name, values in features.token_targets.items():
            self._tokens[name] = values, NO_LABEL

    def __call__(self, rows: np.ndarray, length: int, size: int = 0) -> dict[str, np.ndarray]:
        """Returns the features of the examples with indices `rows` [B], padded to a length.

        Args:
          rows: the indices.
          length: number of tokens of a sequence.
          size: number of rows that the batch is filled up to with empty ones.
        """
        choices = self._features.choices
        sequences = (rows[:, None] * choices + np.arange(choices)).ravel()
        mask = np.arange(length) < self._features.lengths[sequences, None]
        places = self._starts[sequences, None] + np.arange(length)
        batch = {
            name: np.where(mask, values.take(places, mode="clip"), values.dtype.type(default))
            for name, (values, default) in self._tokens.items()
        }
        batch["input_mask"] = mask.astype(np.int32)
        shape = (-1, choices, length) if choices > 1 else (-1, length)
        batch = {name: values.reshape(shape) for name, values in batch.items()}
        batch |= {name: values[rows] for name, values in self._features.targets.items()}
        missing = max(size - len(rows), 0)
        return {
            name: np.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)])
            for name, values in batch.items()
        }


def training_batches(
    features: TaskFeatures, lengths: Sequence[int], rows: np.ndarray, context: InputContext
) -> Iterator[dict[str, np.ndarray]]:
    """Yields a training batch for each of the host's replicas in turn.

    Args:
      features: features of all examples.
      lengths: lengths to compute at, ascending.
      rows: indices of the examples of each step, as of `batch_rows`.
      context: the share of this host.
    """
    padded = PaddedBatches(features)
    for some in rows:
        for mine in _of_replicas(some, context):
            yield padded(mine, lengths[-1])


def _of_replicas(rows: np.ndarray, context: InputContext) -> np.ndarray:
    """Returns the shares of this host's replicas in the rows of a batch."""
    shares = rows.reshape(context.num_replicas_in_sync, -1)
    return np.split(shares, context.num_input_pipelines)[context.input_pipeline_id]


def evaluation_order(features: TaskFeatures) -> np.ndarray:
    """Returns the indices of all examples in the order of `evaluation_batches`, shortest first."""
    return np.argsort(features.example_lengths, kind="stable").astype(np.int32)


def evaluation_batches(
    features: TaskFeatures, lengths: Sequence[int], batch_size: int, context: InputContext
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches with every example once, in the order of `evaluation_order`.

    Rows of weight 0 fill up the last batch: `example_weights` float32 [B].
    """
    padded, order = PaddedBatches(features), evaluation_order(features)
    filled = np.pad(order, (0, -len(order) % batch_size), constant_values=-1)
    for some in filled.reshape(-1, batch_size):
        for mine in _of_replicas(some, context):
            # All batches have one shape, so that XLA compiles one program for each way.
            batch = padded(mine[mine >= 0], lengths[-1], len(mine))
            yield batch | {"example_weights": (mine >= 0).astype(np.float32)}
