"""Finds the files of a task. This module needs only the standard library."""

import os
import pathlib

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.task import TEST, Task


def split_path(task: Task, data_dir: str, split: str) -> pathlib.Path:
    """Returns the file of a split.

    Raises:
      InputError: the task has no such split, the folder or the file is missing, or two files match.
    """
    if split not in task.files:
        raise InputError(f"--split={split}: not a split; choose one of {', '.join(task.files)}")
    folder = pathlib.Path(data_dir)
    if not os.path.isdir(folder):  # unlike pathlib it takes a name that is too long
        raise InputError(
            f"--data_dir={data_dir}: not a local folder; name the folder of the {task.name} files"
        )
    names = _file_names(task, split)
    found = [folder / name for name in names if os.path.isfile(folder / name)]
    if not found:
        raise InputError(
            f"--data_dir={data_dir}: has no {' or '.join(names)}; the {split} split of "
            f"{task.name} is read from there"
        )
    if len(found) > 1:
        raise InputError(
            f"--data_dir={data_dir}: has both {found[0].name} and {found[1].name}; keep one of them"
        )
    return found[0]


def has_split(task: Task, data_dir: str, split: str) -> bool:
    """Whether a split has a file in the folder."""
    return any(os.path.isfile(os.path.join(data_dir, name)) for name in _file_names(task, split))


def _file_names(task: Task, split: str) -> list[str]:
    """Returns the names that the file of a split may have."""
    declared = task.files[split]
    names = (declared,) if isinstance(declared, str) else declared
    return [name + ending for name in names for ending in (("",) if "." in name else task.ENDINGS)]


def is_labelled(split: str) -> bool:
    """Whether every row of a split must have a label."""
    return not split.startswith(TEST)
