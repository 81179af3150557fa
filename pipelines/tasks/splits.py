"""The splits of a task, read together and checked against each other."""

import collections
import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.tasks.examples import read_file
from beambert.pipelines.tasks.files import has_split, is_labelled, split_path
from beambert.pipelines.tasks.task import DEV, TRAIN, Task


@dataclasses.dataclass(frozen=True)
class TaskSplits:
    """What was read.

    Attributes:
      labels: in index order; empty where there are none.
      files: path of each split.
      examples: of each split, those that can be used, in the order of the file.
      left_out: of each split, reason -> number of examples that are left out.
      notes: a sentence on each row that is left out, and on all else that is amiss.
    """

    labels: tuple[str, ...]
    files: Mapping[str, pathlib.Path]
    examples: Mapping[str, Sequence[Any]]
    left_out: Mapping[str, Mapping[str, int]]
    notes: Sequence[str]

    def sha256(self) -> dict[str, str]:
        """Returns the hash of each split's file."""
        return {
            split: hashlib.sha256(path.read_bytes()).hexdigest()
            for split, path in self.files.items()
        }


def present_splits(task: Task, data_dir: str) -> tuple[str, ...]:
    """Returns train and dev, and the other splits whose file is there."""
    others = [split for split in task.files if split not in (TRAIN, DEV)]
    return (TRAIN, DEV, *(split for split in others if has_split(task, data_dir, split)))


def read_splits(
    task: Task, data_dir: str, splits: Sequence[str], skip_bad_rows: bool
) -> TaskSplits:
    """Reads splits of a task: of train what can be learned from, of the others all.

    Args:
      task: what to read.
      data_dir: the folder of its files.
      splits: train first.
      skip_bad_rows: leave out rows that can't be used instead of stopping.

    Raises:
      InputError: they can't be read, or don't go together.
    """
    files = {split: split_path(task, data_dir, split) for split in splits}
    examples: dict[str, Sequence[Any]] = {}
    left_out: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    labels: tuple[str, ...] = ()
    for split, path in files.items():
        file = read_file(task, data_dir, split, labels or None, skip_bad_rows, split == TRAIN)
        examples[split] = file.examples
        task.check_split(path, is_labelled(split), file.examples, examples[TRAIN][0])
        if split == TRAIN:
            labels = task.find_labels(path, file.examples)
        reasons = collections.Counter(row.reason for row in file.bad_rows)
        left_out[split] = dict(sorted({**reasons, **file.unlearnable}.items()))
        notes += [f"left out: {row}" for row in file.bad_rows]
        notes += file.notes
    return TaskSplits(labels, files, examples, left_out, notes)
