"""Reads the splits of a task together and checks them against each other."""

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.tasks.examples import read_file
from beambert.pipelines.tasks.files import has_split, is_labelled, sha256_of, split_path
from beambert.pipelines.tasks.task import DEV, TRAIN, Task

# Share of a split's examples that may be in train, too, without a word. Of GLUE's dev splits,
# CoLA's has the greatest: 1.5 %.
_MOST_IN_TRAIN = 0.02


@dataclasses.dataclass(frozen=True)
class TaskSplits:
    """The examples of some splits of a task.

    Attributes:
      labels: labels in index order; empty for tasks without labels.
      files: split -> path of its file.
      examples: split -> its usable examples, in the order of the file.
      left_out: split -> reason -> number of examples that were left out for it.
      notes: one sentence for each row that was left out and for each other problem.
    """

    labels: tuple[str, ...]
    files: Mapping[str, pathlib.Path]
    examples: Mapping[str, Sequence[Any]]
    left_out: Mapping[str, Mapping[str, int]]
    notes: Sequence[str]

    def sha256(self) -> dict[str, str]:
        """Returns the SHA-256 of each split's file."""
        return {split: sha256_of(path) for split, path in self.files.items()}


def present_splits(task: Task, data_dir: str) -> tuple[str, ...]:
    """Returns train, dev and the other splits whose files exist."""
    others = [split for split in task.files if split not in (TRAIN, DEV)]
    return (TRAIN, DEV, *(split for split in others if has_split(task, data_dir, split)))


def read_splits(
    task: Task, data_dir: str, splits: Sequence[str], skip_bad_rows: bool
) -> TaskSplits:
    """Reads splits of a task.

    Examples of train that nothing can be learned from are left out; the other splits keep theirs.

    Args:
      task: the task to read.
      data_dir: the folder of its files.
      splits: names of the splits, train first.
      skip_bad_rows: whether to leave out rows that cannot be used instead of stopping.

    Raises:
      InputError: a file cannot be read, or the splits do not fit together.
    """
    files = {split: split_path(task, data_dir, split) for split in splits}
    examples: dict[str, Sequence[Any]] = {}
    left_out: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    labels: tuple[str, ...] = ()
    learned: set[int] = set()
    for split, path in files.items():
        file = read_file(task, data_dir, split, labels or None, skip_bad_rows, split == TRAIN)
        examples[split] = file.examples
        task.check_split(path, is_labelled(split), file.examples, examples[TRAIN][0])
        if split == TRAIN:
            labels = task.find_labels(path, file.examples)
            learned = set(map(_hash_of_texts, file.examples))
            notes += _nearly_equal(path, labels)
        else:
            notes += _in_train(path, files[TRAIN], file.examples, learned)
        reasons = collections.Counter(row.reason for row in file.bad_rows)
        left_out[split] = dict(sorted({**reasons, **file.unlearnable}.items()))
        notes += [f"left out: {row}" for row in file.bad_rows]
        notes += file.notes
    return TaskSplits(labels, files, examples, left_out, notes)


def _nearly_equal(path: pathlib.Path, labels: Sequence[str]) -> list[str]:
    """Returns a sentence for each group of labels that differ by case or blanks alone."""
    alike = collections.defaultdict(list)
    for label in labels:
        alike["".join(label.split()).casefold()].append(repr(label))
    return [
        f"{path}: the labels {', '.join(group)} differ by case or blanks alone; each is learned "
        "as a label of its own"
        for group in alike.values()
        if len(group) > 1
    ]


def _hash_of_texts(example: Any) -> int:
    """Returns a number instead of the texts, which may be paragraphs: a train file has many."""
    return hash(repr(example.texts()))


def _in_train(
    path: pathlib.Path, train: pathlib.Path, examples: Sequence[Any], learned: set[int]
) -> list[str]:
    """Returns a sentence if many examples of a split have the texts of examples of train."""
    count = sum(_hash_of_texts(example) in learned for example in examples)
    if count <= _MOST_IN_TRAIN * len(examples):
        return []
    return [
        f"{path}: {count:,} of {len(examples):,} examples have the text of an example of {train}; "
        "figures on this file promise too much"
    ]
