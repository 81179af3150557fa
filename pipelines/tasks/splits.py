"""The splits of a task, read together and checked against each other."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping, Sequence

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.declarations import (
    CHOICE,
    DEFAULT_METRICS,
    DEV,
    TAGGING,
    TEST,
    TRAIN,
    Task,
)
from beambert.pipelines.tasks.entities import is_entity_tag
from beambert.pipelines.tasks.examples import Example, discover_labels, read_examples
from beambert.pipelines.tasks.files import has_split, split_path
from beambert.pipelines.tasks.tables import BadRow


@dataclasses.dataclass(frozen=True)
class TaskSplits:
    """What was read.

    Attributes:
      labels: in index order; empty where there are none.
      files: path of each split.
      examples: of each split, those that can be used, in the order of the file.
      left_out: of each split, the rows that can't be used.
    """

    labels: tuple[str, ...]
    files: Mapping[str, pathlib.Path]
    examples: Mapping[str, Sequence[Example]]
    left_out: Mapping[str, Sequence[BadRow]]


def present_splits(task: Task, data_dir: str) -> tuple[str, ...]:
    """Returns train and dev, and the other splits whose file is there."""
    others = [split for split in task.files if split not in (TRAIN, DEV)]
    return (TRAIN, DEV, *(split for split in others if has_split(task, data_dir, split)))


def read_splits(
    task: Task, data_dir: str, splits: Sequence[str], skip_bad_rows: bool
) -> TaskSplits:
    """Reads splits of a task of any kind but span.

    Args:
      task: what to read.
      data_dir: the folder of its files.
      splits: train first.
      skip_bad_rows: leave out rows that can't be used instead of stopping.

    Raises:
      InputError: they can't be read, or don't go together.
    """
    files = {split: split_path(task, data_dir, split) for split in splits}
    left_out: dict[str, list[BadRow]] = {split: [] for split in splits}
    examples: dict[str, Sequence[Example]] = {}
    labels: tuple[str, ...] = ()
    for split, path in files.items():
        on_bad_row = left_out[split].append if skip_bad_rows else None
        examples[split] = read_examples(task, data_dir, split, labels or None, on_bad_row)
        _check(task, path, split, examples[split], examples[TRAIN][0])
        if split == TRAIN:
            labels = discover_labels(task, examples[split], path)
            _check_entity_tags(task, path, labels)
    return TaskSplits(labels, files, examples, left_out)


def _check_entity_tags(task: Task, path: pathlib.Path, labels: Sequence[str]) -> None:
    others = [label for label in labels if not is_entity_tag(label)]
    if task.kind == TAGGING and others and task.metrics == DEFAULT_METRICS[TAGGING]:
        raise InputError(
            f"{path} has the tag {others[0]!r}, which is none of O, B-type and I-type: "
            "name entities so, or take --task=word_labels"
        )


def _check(
    task: Task, path: pathlib.Path, split: str, examples: Sequence[Example], first: Example
) -> None:
    """Refuses a split whose rows have another shape than the first of train, or than each other."""
    of = examples[0]
    labelled = {(e.tags if task.kind == TAGGING else e.label) is not None for e in examples}
    if len(labelled) > 1:
        raise InputError(f"{path} has labels in some rows only: fill them in, or remove all.")
    if task.kind == TAGGING:
        if labelled != {True} and not split.startswith(TEST):
            raise InputError(f"{path} has no column of tags: put each word's tag behind it")
        return
    if (of.text_b is None) != (first.text_b is None):
        raise InputError(
            f"{path}: text_b stands in one of it and the train file only; add the column to the "
            "other or delete it"
        )
    if task.kind == CHOICE and len({len(example.choices) for example in (*examples, first)}) > 1:
        raise InputError(
            f"{path} has rows of different numbers of choices: give every row "
            f"{len(first.choices)}, as the first row of train"
        )


def files_sha256(files: Mapping[str, pathlib.Path]) -> dict[str, str]:
    """Returns the hash of each split's file."""
    return {split: hashlib.sha256(path.read_bytes()).hexdigest() for split, path in files.items()}
