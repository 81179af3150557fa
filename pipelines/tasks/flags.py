"""The flags that name a task and its data; `finetune`, `evaluate` and other commands share them."""

import argparse
import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from beambert.config import Settings, read_settings, setting
from beambert.errors import InputError
from beambert.pipelines.corpus.encodings import encoding_setting, parse_encodings
from beambert.pipelines.tasks.classification import BALANCED
from beambert.pipelines.tasks.declarations import TASKS, find_task
from beambert.pipelines.tasks.late_interaction import DEFAULT_QUERY_LENGTH
from beambert.pipelines.tasks.sparse import DEFAULT_FLOPS_WEIGHT
from beambert.pipelines.tasks.task import SHORTEST_LENGTH, Task
from beambert.pipelines.tasks.vectors import (
    COSENT,
    COSINE,
    DEFAULT_TEMPERATURE,
    VectorTask,
)

# Flags that only the tasks on one's own data take.
_COLUMN_FLAGS = ("text_columns", "label_column", "choice_columns", "labels", "label_separator")


def split_names(text: str) -> tuple[str, ...]:
    """Returns the names in a text that stand between commas."""
    return tuple(name.strip() for name in text.split(","))


def _dims(text: str) -> tuple[int, ...]:
    try:
        dims = tuple(int(part) for part in text.split(","))
    except ValueError:
        dims = ()
    if not dims or min(dims) < 1 or len(set(dims)) < len(dims):
        raise argparse.ArgumentTypeError(
            f"{text!r} does not list different whole numbers above 0, such as 384,128,64"
        )
    return dims


def _weights(text: str) -> str | dict[str, float]:
    if text == BALANCED:
        return text
    pairs = [pair.rpartition("=") for pair in text.split(",")]
    try:
        weights = {name.strip(): float(weight) for name, _, weight in pairs}
    except ValueError:
        weights = {}
    if "" in weights or not weights or not all(0 < w < math.inf for w in weights.values()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither {BALANCED} nor labels with weights, such as spam=4,ham=1"
        )
    return weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSettings(Settings):
    """The flags that name a task and its data."""

    task: str = setting(help=f"name of the task: {', '.join(TASKS)}")
    data_dir: str = setting(metavar="DIR", help="folder of the task's files")
    text_columns: tuple[str, ...] | None = setting(
        None,
        parse=split_names,
        metavar="A,B",
        help="for a task of your own: the column of the text and, for pairs, of the second text "
        "(default: text, and text_b if there is one)",
    )
    label_column: str | None = setting(
        None,
        metavar="NAME",
        help="for a task of your own: the column of the label (default: label)",
    )
    choice_columns: tuple[str, ...] | None = setting(
        None,
        parse=split_names,
        metavar="A,B,…",
        help="for --task=choice: columns of the endings (default: all that begin with choice); for "
        "embedding, late_interaction and sparse: columns of hard negatives (default: all that "
        "begin with negative)",
    )
    labels: tuple[str, ...] | None = setting(
        None,
        parse=split_names,
        metavar="A,B,…",
        help="for a task of your own: labels in the order of the model's outputs (default: those "
        "of the training data, sorted)",
    )
    label_separator: str | None = setting(
        None,
        metavar="TEXT",
        help="for --task=multi_label: what stands between the labels of a row (default: a comma); "
        "a JSON list needs none",
    )
    encoding: str = encoding_setting()
    skip_bad_rows: bool = setting(
        False,
        help="leave out and list rows that cannot be used, instead of stopping at the first",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningSettings(TaskSettings):
    """The same flags, and those of how a task with labels is learnt."""

    max_windows: int | None = setting(
        None,
        minimum=1,
        metavar="N",
        help="for classification: greatest number of windows of a text that is longer than an "
        "input, whose logits are averaged (default: 1, the beginning of the text)",
    )
    class_weights: Any = setting(
        None,
        parse=_weights,
        metavar=f"{BALANCED} or LABEL=WEIGHT,…",
        help="for classification: how much each label counts in the loss (default: all alike)",
    )
    loss: str | None = setting(
        None,
        choices=(COSENT, COSINE),
        help=f"for similarity: learn the order of the scores ({COSENT}, the default), or the "
        f"scores themselves as cosines from -1 to 1 ({COSINE})",
    )
    temperature: float | None = setting(
        None,
        above=0,
        help="for embedding and similarity: number by which cosines are divided in the loss "
        f"(default: {DEFAULT_TEMPERATURE:g}); for late_interaction and sparse: number by which "
        "scores are divided (default: 1)",
    )
    flops_weight: float | None = setting(
        None,
        minimum=0,
        help="for sparse: weight of the loss that keeps most weights at 0 (default: "
        f"{DEFAULT_FLOPS_WEIGHT:g})",
    )
    query_length: int | None = setting(
        None,
        minimum=SHORTEST_LENGTH,
        metavar="N",
        help="for late_interaction: number of tokens of every query; [MASK] fills up shorter ones "
        f"(default: {DEFAULT_QUERY_LENGTH})",
    )
    matryoshka_dims: tuple[int, ...] | None = setting(
        None,
        parse=_dims,
        metavar="N,M,…",
        help="for embedding and similarity: learn so that the first N, M, … components are vectors "
        "by themselves (default: whole vectors alone)",
    )
    pooling: str | None = setting(
        None,
        choices=("mean", "cls"),
        help="for embedding and similarity: what is taken of a text's tokens: their mean, or [CLS] "
        "(default: what the folder of --init says, or else mean)",
    )


def task_of(flags: argparse.Namespace) -> Task:
    """Returns the task that the flags declare.

    Raises:
      InputError: there is no such task, or it does not take one of the given flags.
    """
    settings = read_settings(LearningSettings, flags)
    task = find_task(settings.task)
    given = _given(settings, _COLUMN_FLAGS)
    if given and not task.is_own:
        others = f", or take --task={task.kind}" if task.OWN is not None else ""
        raise InputError(
            f"--{next(iter(given))}: {task.name} has its own columns and labels; leave the "
            f"flag out{others}"
        )
    for name in given:
        if name not in task.COLUMN_FLAGS:
            raise InputError(f"--{name}: {_one(task.kind)} task has none; leave the flag out")
    if "text_columns" in given:
        least = 2 if task.COMPARES_TEXTS else 1
        if not least <= len(given["text_columns"]) <= 2:
            wanted = "the two columns that it compares" if least == 2 else "one or two columns"
            raise InputError(f"--text_columns={','.join(given['text_columns'])}: name {wanted}")
        # A train file for vectors may still have single texts, and dev shows what a typo hides.
        given["text_b_is_optional"] = task.text_b_is_optional and isinstance(task, VectorTask)
    if given.get("label_separator") == "":
        raise InputError("--label_separator: is empty; give at least one character")
    parse_encodings(settings.encoding)  # It fails before any file is read.
    given["encoding"] = settings.encoding
    given |= _learning_flags(settings, task)
    labels = given.get("labels")
    if labels is not None and (len(labels) < 2 or len({*labels, ""}) <= len(labels)):
        raise InputError(f"--labels={','.join(labels)}: name at least two labels, each once")
    return dataclasses.replace(task, **given)


def _given(settings: LearningSettings, names: Iterable[str]) -> dict[str, Any]:
    found = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _learning_flags(settings: LearningSettings, task: Task) -> dict[str, Any]:
    """Returns the given flags of learning, which not every command has."""
    shared = {field.name for field in dataclasses.fields(TaskSettings)}
    names = [field.name for field in dataclasses.fields(settings) if field.name not in shared]
    given = _given(settings, names)
    for name in given:
        if name not in task.LEARNING_FLAGS:
            raise InputError(f"--{name}: {_one(task.kind)} task has none; leave the flag out")
    if given.get("loss") == COSINE and "temperature" in given:
        raise InputError(
            f"--temperature={given['temperature']:g}: does nothing in --loss={COSINE}; leave it out"
        )
    return given


def _one(kind: str) -> str:
    """Returns the name of a kind with its article."""
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
