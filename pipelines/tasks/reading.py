"""Reads the examples of a task's files, and checks its splits against each other."""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.errors import InputError
from beambert.io import is_local, sha256_of
from beambert.pipelines.tasks.task import TEST, TRAIN, ExampleFile, Task


def split_path(task: Task, data_dir: str, split: str) -> pathlib.Path:
    """Returns the file of a split.

    Raises:
      InputError: the task has no such split, the folder or the file is missing, or two files match.
    """
    if split not in task.files:
        raise InputError(f"--split={split}: not a split; choose one of {', '.join(task.files)}")
    folder = pathlib.Path(data_dir)
    if not os.path.isdir(folder):
        is_missing = is_local(data_dir) and not os.path.lexists(folder)
        raise InputError(
            f"--data_dir={data_dir}: {'no such' if is_missing else 'not a local'} folder; "
            f"name the folder of the {task.name} files"
        )
    names = _file_names(task, split)
    found = [folder / name for name in names if os.path.isfile(folder / name)]
    if not found:
        raise InputError(
            f"--data_dir={data_dir}: has no {' or '.join(names)}; the {split} "
            f"split of {task.name} is read from there"
        )
    if len(found) > 1:
        raise InputError(
            f"--data_dir={data_dir}: has both {found[0].name} and {found[1].name}; keep one of them"
        )
    return found[0]


def has_split(task: Task, data_dir: str, split: str) -> bool:
    """Whether a split has a file in the folder."""
    # Unlike the methods of pathlib, this gives False for what may not be looked at.
    return any(os.path.isfile(f"{data_dir}/{name}") for name in _file_names(task, split))


def _file_names(task: Task, split: str) -> list[str]:
    """Returns the names that the file of a split may have."""
    declared = task.files[split]
    names = (declared,) if isinstance(declared, str) else declared
    return [name + ending for name in names for ending in (("",) if "." in name else task.ENDINGS)]


def is_labelled(split: str) -> bool:
    """Whether every row of a split must have a label."""
    return not split.startswith(TEST)


def read_file(
    task: Task,
    data_dir: str,
    split: str,
    labels: Sequence[str] | None = None,
    skip_bad_rows: bool = False,
    to_learn: bool = False,
) -> ExampleFile:
    """Reads one split of a task of any kind.

    Args:
      task: the task to read.
      data_dir: the folder of the task's files.
      split: name of the split, a key of `task.files`.
      labels: the labels that rows may have (default: those the task declares; any label if it
        declares none).
      skip_bad_rows: whether to leave out rows that cannot be used instead of stopping.
      to_learn: whether to leave out examples that nothing can be learned from.

    Raises:
      InputError: the folder, the file or a column is missing, there are no examples, or a row has
        the wrong number of fields, bytes that are not UTF-8, an empty text, an empty label or a
        label not in `labels`. The message names the file and the row.
    """
    path = split_path(task, data_dir, split)
    read = task.read_to_learn if to_learn else task.read
    file = read(path, is_labelled(split), labels if labels is not None else task.labels)
    bad = file.bad_rows
    if bad and not file.examples:
        none = f" (none of {len(bad):,} rows can be used)" if len(bad) > 1 else ""
        raise InputError(f"{bad[0]}{none}")
    if bad and not skip_bad_rows:
        others = (
            "" if len(bad) == 1 else f" ({len(bad):,} such rows; --skip_bad_rows leaves them out)"
        )
        raise InputError(f"{bad[0]}{others}")
    if not file.examples:
        raise InputError(f"{path}: has no examples; put at least one row in it")
    task.check_file(path, file.examples)
    return file


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
      sha256: split -> SHA-256 of its file.
    """

    labels: tuple[str, ...]
    files: Mapping[str, pathlib.Path]
    examples: Mapping[str, Sequence[Any]]
    left_out: Mapping[str, Mapping[str, int]]
    notes: Sequence[str]
    sha256: Mapping[str, str]


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
      InputError: a file cannot be read or was changed meanwhile, or the splits do not fit together.
    """
    files = {split: split_path(task, data_dir, split) for split in splits}
    examples: dict[str, Sequence[Any]] = {}
    left_out: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    labels: tuple[str, ...] = ()
    sha256: dict[str, str] = {}
    learned: set[int] = set()
    for split, path in files.items():
        sha256[split] = sha256_of(str(path))
        file = read_file(task, data_dir, split, labels or None, skip_bad_rows, split == TRAIN)
        if sha256_of(str(path)) != sha256[split]:
            raise InputError(
                f"{path}: was changed while it was read; give the command again when the file is "
                "complete"
            )
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
    return TaskSplits(labels, files, examples, left_out, notes, sha256)


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
