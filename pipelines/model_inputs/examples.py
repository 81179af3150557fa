"""Examples of a task -> model inputs without padding, in columns."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.model_inputs.windows import Windows
from beambert.pipelines.tasks.declarations import CHOICE, REGRESSION, TAGGING
from beambert.pipelines.tasks.examples import Example

# Label of tokens that have none: the loss leaves them out.
NO_LABEL = -1
# Sequences that are tokenized at a time.
SEQUENCES_AT_A_TIME = 4096


@dataclasses.dataclass(frozen=True)
class TaskFeatures:
    """The sequences of a task's examples; of a choice, those of an example follow each other.

    Attributes:
      input_ids: int32 [tokens], of all sequences end to end.
      segment_ids: int32 [tokens].
      lengths: int64 [sequences], tokens of each.
      targets: by name, an array with a row for each example (`label_ids`, `start_positions`,
        `end_positions`).
      token_targets: by name, an array with a row for each token (`label_ids` of a tagging task).
      choices: sequences of an example.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray
    lengths: np.ndarray
    targets: Mapping[str, np.ndarray]
    token_targets: Mapping[str, np.ndarray]
    choices: int = 1

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.lengths) // self.choices

    @property
    def example_lengths(self) -> np.ndarray:
        """Tokens of each example's longest sequence, int64 [examples]."""
        return self.lengths.reshape(-1, self.choices).max(axis=1)


def make_features(
    kind: str, examples: Sequence[Example], labels: Sequence[str], text_features: TextFeatures
) -> TaskFeatures:
    """Converts examples; without labels they have no targets.

    Args:
      kind: of the task; not span.
      examples: at least one.
      labels: in index order.
      text_features: tokenizes and frames.
    """
    index = {label: i for i, label in enumerate(labels)}
    if kind == TAGGING:
        return _tagging_features(examples, index, text_features)
    choices = len(examples[0].choices) if kind == CHOICE else 1
    if kind == CHOICE:
        texts = [example.text for example in examples for _ in range(choices)]
        others = [ending for example in examples for ending in example.endings]
    else:
        texts = [example.text for example in examples]
        others = [example.text_b for example in examples]
    columns = [texts] if others[0] is None else [texts, others]
    batches = list(_converted(text_features, columns))
    targets = {}
    if examples[0].label is not None:
        if kind == REGRESSION:
            targets["label_ids"] = np.array([float(e.label) for e in examples], np.float32)
        else:
            targets["label_ids"] = np.array([index[e.label] for e in examples], np.int32)
    return TaskFeatures(*_without_padding(batches), targets, {}, choices)


def count_cut(
    kind: str,
    examples: Sequence[Example],
    labels: Sequence[str],
    text_features: TextFeatures,
    features: TaskFeatures,
) -> int:
    """Returns how many sequences lost tokens: those that one more would have room in.

    Args:
      kind, examples, labels, text_features: what `make_features` was given.
      features: what it made of them.
    """
    length = text_features.max_seq_length
    full = np.flatnonzero(features.example_lengths == length)
    if not len(full):
        return 0
    some = [examples[index] for index in full]
    longer = make_features(kind, some, labels, _longer(text_features))
    return int((longer.lengths > length).sum())


@functools.lru_cache(maxsize=1)
def _longer(text_features: TextFeatures) -> TextFeatures:
    """Returns what makes sequences of one more token; once, see `_graph`."""
    of = text_features
    return TextFeatures(of.vocabulary, of.do_lower_case, of.max_seq_length + 1)


def span_features(windows: Windows) -> TaskFeatures:
    """Returns what the model sees of windows; each counts as an example."""
    targets = {
        "start_positions": windows.start_positions.astype(np.int32),
        "end_positions": windows.end_positions.astype(np.int32),
    }
    return TaskFeatures(windows.input_ids, windows.segment_ids, windows.lengths, targets, {})


def first_pieces(
    examples: Sequence[Example], text_features: TextFeatures
) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
    """Yields features and the words' first pieces of some sentences, `TextFeatures.of_words`."""
    convert = _graph(text_features.of_words)
    for start in range(0, len(examples), SEQUENCES_AT_A_TIME):
        some = examples[start : start + SEQUENCES_AT_A_TIME]
        features, pieces = convert(tf.constant([" ".join(example.words) for example in some]))
        yield {name: value.numpy() for name, value in features.items()}, pieces.numpy()


def _tagging_features(
    examples: Sequence[Example], index: Mapping[str, int], text_features: TextFeatures
) -> TaskFeatures:
    batches, label_ids = [], []
    for number, (features, pieces) in enumerate(first_pieces(examples, text_features)):
        some = examples[number * SEQUENCES_AT_A_TIME :][: len(pieces)]
        batches.append(features)
        labels = np.full_like(features["input_ids"], NO_LABEL)
        rows, words = np.nonzero(pieces > 0)
        if some[0].tags is not None:
            tags = [index[some[row].tags[word]] for row, word in zip(rows, words, strict=True)]
            labels[rows, pieces[rows, words]] = tags
        label_ids.append(labels[features["input_mask"] > 0])
    targets = {"label_ids": np.concatenate(label_ids)} if examples[0].tags is not None else {}
    return TaskFeatures(*_without_padding(batches), {}, targets)


def _converted(
    text_features: TextFeatures, columns: Sequence[Sequence[str]]
) -> Iterator[dict[str, np.ndarray]]:
    convert = _graph(text_features.__call__)
    for start in range(0, len(columns[0]), SEQUENCES_AT_A_TIME):
        some = (tf.constant(column[start : start + SEQUENCES_AT_A_TIME]) for column in columns)
        yield {name: value.numpy() for name, value in convert(*some).items()}


@functools.lru_cache(maxsize=4)
def _graph(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function as a graph, which takes longer to trace than many texts to convert."""
    return tf.function(convert, reduce_retracing=True, autograph=False)


def _without_padding(
    batches: Sequence[Mapping[str, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    masks = [batch["input_mask"] > 0 for batch in batches]
    ids, segments = (
        np.concatenate([batch[name][mask] for batch, mask in zip(batches, masks, strict=True)])
        for name in ("input_ids", "segment_ids")
    )
    return ids, segments, np.concatenate([mask.sum(axis=1) for mask in masks])
