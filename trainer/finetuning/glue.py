"""Fine-tunes one encoder on all tasks of GLUE: the table of dev results."""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert import folders, io
from beambert.errors import InputError
from beambert.model_files import RESULTS_FILE as MODEL_RESULTS_FILE
from beambert.pipelines.tasks.declarations import TASKS
from beambert.pipelines.tasks.find_model import find_model
from beambert.pipelines.tasks.reading import has_split, read_splits
from beambert.pipelines.tasks.saved_models import load
from beambert.pipelines.tasks.table_task import TextExample
from beambert.pipelines.tasks.task import DEV, TRAIN, Task
from beambert.process import run_apart
from beambert.saved_models import call_on_texts

RESULTS_FILE = "glue.json"
# The accuracy on MNLI's second dev file, whose genres do not occur in the training data.
MISMATCHED = "accuracy_mismatched"
_BATCH = 64


def find_task_folders(glue_dir: str, names: Sequence[str]) -> dict[str, str]:
    """Returns the folder of each task that is present, by task name.

    Raises:
      InputError: no task is present.
    """
    root = pathlib.Path(glue_dir)
    if not root.is_dir():
        raise InputError(
            f"--data_dir={glue_dir}: no such local folder; give the one that holds "
            "CoLA, SST-2 and so on"
        )
    found = {name: root / TASKS[name].title for name in names}
    found = {name: str(path) for name, path in found.items() if (path / "train.tsv").is_file()}
    if not found:
        titles = ", ".join(TASKS[name].title for name in names)
        raise InputError(
            f"--data_dir={glue_dir}: holds none of {titles} with a train.tsv; give "
            "the folder that does"
        )
    return found


def run(
    glue_dir: str,
    names: Sequence[str],
    output: str,
    flags: Sequence[str] = (),
    skip_bad_rows: bool = False,
) -> dict[str, Any]:
    """Fine-tunes on every task that is present, and writes the results.

    Args:
      glue_dir: folder that holds a folder for each task.
      names: names of the tasks to look for.
      output: folder for a model folder for each task, and glue.json.
      flags: flags of `beambert finetune` for all tasks.
      skip_bad_rows: leave out rows that cannot be used; it is one of the flags, too.

    Returns:
      the content of glue.json.

    Raises:
      InputError: the data or a setting cannot be used.
    """
    found = find_task_folders(glue_dir, names)
    folders.check_own(f"{output}/{RESULTS_FILE}", "tasks", "average")
    for name, folder in found.items():
        # Faults show before hours of training.
        splits = (TRAIN, *_dev_splits(TASKS[name], folder))
        read_splits(TASKS[name], folder, splits, skip_bad_rows)
    results = {}
    for name, folder in found.items():
        model_dir = f"{output}/{TASKS[name].title}"
        named = (f"--task={name}", f"--data_dir={folder}", f"--model_dir={model_dir}")
        if status := run_apart(["finetune", *named, *flags]):
            raise InputError(
                f"{TASKS[name].title}: the fine-tuning failed (status {status}); correct the error "
                "above, or free memory if there is none, and give the same command again, which "
                "continues"
            )
        results[name] = io.read_object(f"{model_dir}/{MODEL_RESULTS_FILE}")
        results[name] |= _mismatched(TASKS[name], folder, model_dir, skip_bad_rows)
    summary = {"tasks": results, "average": average(results)}
    io.write_bytes(f"{output}/{RESULTS_FILE}", json.dumps(summary, indent=1).encode())
    print(table(results))
    absent = [TASKS[name].title for name in names if name not in found]
    if absent:
        print(f"tasks without data, not in the average: {', '.join(absent)}")
    return summary


def average(results: Mapping[str, Mapping[str, float]]) -> float:
    """Returns the mean over tasks of the mean of each task's metrics (Wang et al. 2019, 3.3)."""
    return float(
        np.mean(
            [np.mean([result[m] for m in _metrics(n, result)]) for n, result in results.items()]
        )
    )


def _metrics(name: str, results: Mapping[str, float]) -> list[str]:
    return [*TASKS[name].metrics, *(metric for metric in (MISMATCHED,) if metric in results)]


def table(results: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a Markdown table of the results and the baselines, in per cent."""
    lines = ["| task | metric | dev | baseline |", "|---|---|---|---|"]
    for name, of_task in results.items():
        for metric in _metrics(name, of_task):
            cells = [f"{100 * of_task[key]:.1f}" for key in (metric, f"baseline_{metric}")]
            title = TASKS[name].title
            lines.append(f"| {title} | {metric.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join([*lines, f"| average | | {100 * average(results):.1f} | |"])


def _dev_splits(task: Task, folder: str) -> list[str]:
    """Returns the splits to score on that are present; MNLI has two."""
    splits = [split for split in task.files if split.startswith(DEV)]
    return [split for split in splits if split == DEV or has_split(task, folder, split)]


def _mismatched(task: Task, folder: str, model_dir: str, skip_bad_rows: bool) -> dict[str, float]:
    """Returns the accuracy and its baseline on MNLI's second dev file; nothing for other tasks."""
    *_, split = _dev_splits(task, folder)
    if split == DEV:
        return {}
    files = {TRAIN: task.files[TRAIN], DEV: task.files[split]}
    read = read_splits(dataclasses.replace(task, files=files), folder, (TRAIN, DEV), skip_bad_rows)
    examples = read.examples[DEV]
    ((commonest, _),) = collections.Counter(e.label for e in read.examples[TRAIN]).most_common(1)
    answers = _predict(examples, model_dir)
    pairs = {MISMATCHED: answers, f"baseline_{MISMATCHED}": [commonest] * len(examples)}
    return {
        name: float(np.mean([e.label == a for e, a in zip(examples, found, strict=True)]))
        for name, found in pairs.items()
    }


def _predict(examples: Sequence[TextExample], model_dir: str) -> list[str]:
    model = load(find_model(model_dir))
    answers: list[str] = []
    for start in range(0, len(examples), _BATCH):
        some = examples[start : start + _BATCH]
        found = call_on_texts(model, [example.texts() for example in some])
        answers += [label.decode() for label in found["label"]]
    return answers
