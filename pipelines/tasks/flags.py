"""The flags that name a task and its data; `finetune`, `evaluate` and other commands share them."""

import argparse
import dataclasses

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import SWITCH
from beambert.pipelines.tasks.declarations import (
    OWN_TASKS,
    TASKS,
    find_task,
)
from beambert.pipelines.tasks.task import Task

# Flags that only the tasks on one's own data take.
_COLUMN_FLAGS = ("text_columns", "label_column", "choice_columns", "labels", "label_separator")


def add_task_flags(parser: argparse.ArgumentParser) -> None:
    """Adds --task, --data_dir, and the flags that name the columns of a task on one's own data."""
    add = parser.add_argument
    add("--task", required=True, help=f"name of the task: {', '.join(TASKS)}")
    add("--data_dir", required=True, metavar="DIR", help="folder of the task's files")
    add(
        "--text_columns",
        type=_names,
        metavar="A,B",
        help="for your own data: the column of the text and, for pairs, that of the second text "
        "(default: text, and text_b if there is one)",
    )
    add(
        "--label_column",
        metavar="NAME",
        help="for your own data: the column of the label (default: label)",
    )
    add(
        "--choice_columns",
        type=_names,
        metavar="A,B,…",
        help="for --task=choice: columns of the endings (default: all that begin with choice)",
    )
    add(
        "--labels",
        type=_names,
        metavar="A,B,…",
        help="for your own data: labels in the order of the model's outputs (default: those of "
        "the training data, sorted)",
    )
    add(
        "--label_separator",
        metavar="TEXT",
        help="for --task=multi_label: what stands between the labels of a row (default: a comma); "
        "a JSON list needs none",
    )
    add_skip_bad_rows_flag(parser)


def add_skip_bad_rows_flag(parser: argparse.ArgumentParser) -> None:
    """Adds --skip_bad_rows."""
    parser.add_argument(
        "--skip_bad_rows",
        **SWITCH,
        help="leave out and list rows that cannot be used, instead of stopping at the first",
    )


def task_of(flags: argparse.Namespace) -> Task:
    """Returns the task that the flags declare.

    Raises:
      InputError: there is no such task, or it does not take one of the given flags.
    """
    task = find_task(flags.task)
    given = {name: getattr(flags, name) for name in _COLUMN_FLAGS}
    given = {name: value for name, value in given.items() if value is not None}
    if given and task.name not in OWN_TASKS:
        others = f", or take --task={task.kind}" if task.kind in OWN_TASKS else ""
        raise InputError(
            f"--{next(iter(given))}: {task.name} has its own columns and labels; leave the "
            f"flag out{others}"
        )
    for name in given:
        if name not in task.COLUMN_FLAGS:
            raise InputError(f"--{name}: a {task.kind} task has none; leave the flag out")
    if "text_columns" in given:
        if not 1 <= len(given["text_columns"]) <= 2:
            raise InputError(
                f"--text_columns={','.join(given['text_columns'])}: name one or two columns"
            )
        given["text_b_is_optional"] = False
    if given.get("label_separator") == "":
        raise InputError("--label_separator: is empty; give at least one character")
    labels = given.get("labels")
    if labels is not None and (len(labels) < 2 or len({*labels, ""}) <= len(labels)):
        raise InputError(f"--labels={','.join(labels)}: name at least two labels, each once")
    return dataclasses.replace(task, **given)


def task_arguments(flags: argparse.Namespace) -> list[str]:
    """Returns the values of the flags of `add_task_flags` as arguments of a command line."""
    arguments = []
    for name in ("task", "data_dir", *_COLUMN_FLAGS):
        value = getattr(flags, name)
        if value is not None:
            arguments.append(f"--{name}={','.join(value) if isinstance(value, tuple) else value}")
    return [*arguments, "--skip_bad_rows"] if flags.skip_bad_rows else arguments


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))
