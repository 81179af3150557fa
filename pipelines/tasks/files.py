"""Finds the files of a task."""

import hashlib
import os
import pathlib

from beambert.errors import InputError
from beambert.pipelines.tasks.class_folders import FOLDER, contents_of
from beambert.pipelines.tasks.task import TEST, Task

# Number of files that a message names.
_SHOWN_FILES = 4


def split_path(task: Task, data_dir: str, split: str) -> pathlib.Path:
    """Returns the file of a split, or the folder that has a folder for each label.

    Raises:
      InputError: the task has no such split, the folder or the file is missing, or two files match.
    """
    if split not in task.files:
        raise InputError(f"--split={split}: not a split; choose one of {', '.join(task.files)}")
    folder = pathlib.Path(data_dir)
    if not os.path.isdir(folder):
        is_missing = "://" not in data_dir and not os.path.lexists(folder)
        raise InputError(
            f"--data_dir={data_dir}: {'no such' if is_missing else 'not a local'} folder; "
            f"name the folder of the {task.name} files"
        )
    names = _file_names(task, split)
    found = [folder / name for name in names if _is_there(folder, name)]
    if not found:
        raise InputError(
            f"--data_dir={data_dir}: has no {' or '.join(names)}{_described(folder)}; the {split} "
            f"split of {task.name} is read from there"
        )
    if len(found) > 1:
        raise InputError(
            f"--data_dir={data_dir}: has both {found[0].name} and {found[1].name}; keep one of them"
        )
    return found[0]


def has_split(task: Task, data_dir: str, split: str) -> bool:
    """Whether a split has a file in the folder."""
    return any(_is_there(pathlib.Path(data_dir), name) for name in _file_names(task, split))


def sha256_of(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a split: of its file, or of the names and texts in its folder."""
    digest = hashlib.sha256()
    for content in contents_of(path) if path.is_dir() else [path.read_bytes()]:
        digest.update(content)
    return digest.hexdigest()


def _is_there(folder: pathlib.Path, name: str) -> bool:
    # Unlike the methods of pathlib, these give False for what may not be looked at.
    looks_so = os.path.isdir if name.endswith(FOLDER) else os.path.isfile
    return looks_so(folder / name)


def _described(folder: pathlib.Path) -> str:
    """Returns which other files there are, one of which may only have another name."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return ""
    if not names:
        return ""
    shown = ", ".join(names[:_SHOWN_FILES]) + (", …" if len(names) > _SHOWN_FILES else "")
    return f" (it has {shown})"


def _file_names(task: Task, split: str) -> list[str]:
    """Returns the names that the file of a split may have."""
    declared = task.files[split]
    names = (declared,) if isinstance(declared, str) else declared
    return [name + ending for name in names for ending in (("",) if "." in name else task.ENDINGS)]


def is_labelled(split: str) -> bool:
    """Whether every row of a split must have a label."""
    return not split.startswith(TEST)
