"""All tasks of GLUE from one encoder: the table of dev results, and the leaderboard's zip."""

import collections
import dataclasses
import io
import json
import pathlib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import tensorflow_files, tensorflow_models
from beambert.pipelines.storage.weights import SAVED_MODEL_FOLDER
from beambert.pipelines.tasks.declarations import GLUE_TASKS, TASKS
from beambert.pipelines.tasks.examples import TextExample, read_examples
from beambert.pipelines.tasks.files import has_split
from beambert.pipelines.tasks.splits import read_splits
from beambert.pipelines.tasks.task import DEV, TEST, TRAIN, Task
from beambert.trainer.finetuning.plan import FinetuningJob

RESULTS_FILE = "glue.json"
SUBMISSION_FILE = "submission.zip"
# The release's folder of the diagnostic set, which the model of MNLI answers.
DIAGNOSTIC_TITLE = "AX"
_DIAGNOSTIC = dataclasses.replace(
    TASKS["mnli"], files={TEST: "diagnostic.tsv"}, title=DIAGNOSTIC_TITLE
)
# Accuracy on the dev file of genres that MNLI's training has none of.
MISMATCHED = "accuracy_mismatched"
_BATCH = 64


def find_task_folders(glue_dir: str, names: Sequence[str]) -> dict[str, str]:
    """Returns task name -> its folder, for those that are there.

    Raises:
      InputError: none is.
    """
    root = pathlib.Path(glue_dir)
    if not root.is_dir():
        raise InputError(f"--data_dir={glue_dir}: no such local folder; name that of GLUE's tasks")
    found = {name: root / TASKS[name].title for name in names}
    found = {name: str(path) for name, path in found.items() if (path / "train.tsv").is_file()}
    if not found:
        titles = ", ".join(TASKS[name].title for name in names)
        raise InputError(f"--data_dir={glue_dir}: none of {titles} with a train.tsv is in it")
    return found


def run(
    glue_dir: str,
    names: Sequence[str],
    output: str,
    job_of: Callable[[Task, str, str], FinetuningJob],
    finetune_one: Callable[[FinetuningJob], tuple[str, dict[str, float]]],
) -> dict[str, Any]:
    """Fine-tunes on every task that is there, answers the test files, and writes the results.

    Args:
      glue_dir: holds a folder for each task.
      names: of the tasks to look for.
      output: of a folder for each task, glue.json and submission.zip.
      job_of: task, data folder and model folder -> the job.
      finetune_one: job -> the folder of its finished model, and its results.

    Raises:
      InputError: what was given can't be used.
    """
    found = find_task_folders(glue_dir, names)
    jobs = {
        name: job_of(TASKS[name], folder, f"{output}/{TASKS[name].title}")
        for name, folder in found.items()
    }
    asked = {
        name: [(job.task, job.data_dir), *_diagnostic(name, glue_dir)] for name, job in jobs.items()
    }
    for name, job in jobs.items():
        _check_files(job, asked[name])
    results, submission = {}, {}
    for name, job in jobs.items():
        model_dir, results[name] = finetune_one(job)
        results[name] |= _mismatched(job, model_dir)
        for task, folder in asked[name]:
            submission |= dict(_answers(task, folder, model_dir))
    summary = {"tasks": results, "average": average(results)}
    tensorflow_files.write_bytes(f"{output}/{RESULTS_FILE}", json.dumps(summary, indent=1).encode())
    _write_zip(f"{output}/{SUBMISSION_FILE}", submission)
    print(table(results))
    absent = [TASKS[name].title for name in names if name not in found]
    if absent:
        print(f"not there, and not in the average: {', '.join(absent)}")
    print(f"{output}/{SUBMISSION_FILE}: {', '.join(submission) or 'empty, no test files'}")
    if lacking := [file for file in _submission_files() if file not in submission]:
        print(f"the leaderboard also wants {', '.join(lacking)}")
    return summary


def _submission_files() -> list[str]:
    tasks = [*(TASKS[name] for name in GLUE_TASKS), _DIAGNOSTIC]
    return [_submission_file(of, split) for of in tasks for split in of.files if TEST in split]


def _submission_file(task: Task, split: str) -> str:
    """Returns the leaderboard's name of a test file's answers, https://gluebenchmark.com/faq."""
    genres = {"test_matched.tsv": "-m", "test_mismatched.tsv": "-mm"}
    return f"{task.title}{genres.get(task.files[split], '')}.tsv"


def average(results: Mapping[str, Mapping[str, float]]) -> float:
    """Returns the mean over tasks of the mean over a task's metrics (Wang et al. 2019, 3.3)."""
    return float(np.mean([np.mean([of[m] for m in _metrics(n, of)]) for n, of in results.items()]))


def _metrics(name: str, results: Mapping[str, float]) -> list[str]:
    return [*TASKS[name].metrics, *(metric for metric in (MISMATCHED,) if metric in results)]


def table(results: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the results in per cent, beside the best answer that ignores the text."""
    lines = ["| task | metric | dev | baseline |", "|---|---|---|---|"]
    for name, of_task in results.items():
        for metric in _metrics(name, of_task):
            cells = [f"{100 * of_task[key]:.1f}" for key in (metric, f"baseline_{metric}")]
            title = TASKS[name].title
            lines.append(f"| {title} | {metric.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join([*lines, f"| average | | {100 * average(results):.1f} | |"])


def predictions_file(answers: Iterable[str]) -> str:
    """Returns a file as the leaderboard takes it: a row's number in the test file, its answer."""
    rows = [f"{index}\t{answer}" for index, answer in enumerate(answers)]
    return "\n".join(["index\tprediction", *rows]) + "\n"


def _diagnostic(name: str, glue_dir: str) -> list[tuple[Task, str]]:
    return [(_DIAGNOSTIC, f"{glue_dir}/diagnostic")] if name == "mnli" else []


def _check_files(job: FinetuningJob, asked: Sequence[tuple[Task, str]]) -> None:
    """Reads all files of a task, which some hours later would be too late."""
    splits = (TRAIN, *_present(job.task, job.data_dir, DEV))
    read_splits(job.task, job.data_dir, splits, job.skip_bad_rows)
    # The leaderboard wants an answer to every row.
    for task, folder in asked:
        for split in _present(task, folder, TEST):
            read_examples(task, folder, split)


def _present(task: Task, folder: str, kind: str) -> list[str]:
    """Returns the splits of a kind whose files are there; MNLI has two of dev and test."""
    splits = [split for split in task.files if split.startswith(kind)]
    return [split for split in splits if split == DEV or has_split(task, folder, split)]


def _mismatched(job: FinetuningJob, model_dir: str) -> dict[str, float]:
    """Returns the accuracy on MNLI's other dev file, and that of the commonest label."""
    *_, split = _present(job.task, job.data_dir, DEV)
    if split == DEV:
        return {}
    files = {TRAIN: job.task.files[TRAIN], DEV: job.task.files[split]}
    task = dataclasses.replace(job.task, files=files)
    read = read_splits(task, job.data_dir, (TRAIN, DEV), job.skip_bad_rows)
    examples = read.examples[DEV]
    ((commonest, _),) = collections.Counter(e.label for e in read.examples[TRAIN]).most_common(1)
    answers = _predict(examples, model_dir)
    pairs = {MISMATCHED: answers, f"baseline_{MISMATCHED}": [commonest] * len(examples)}
    return {
        name: float(np.mean([e.label == a for e, a in zip(examples, found, strict=True)]))
        for name, found in pairs.items()
    }


def _answers(task: Task, folder: str, model_dir: str) -> Iterator[tuple[str, str]]:
    """Yields name and text of the leaderboard's files for the test files that are there."""
    for split in _present(task, folder, TEST):
        examples = read_examples(task, folder, split)
        print(f"{task.name}: answering {len(examples):,} of {task.files[split]}", flush=True)
        yield _submission_file(task, split), predictions_file(_predict(examples, model_dir))


def _predict(examples: Sequence[TextExample], model_dir: str) -> list[str]:
    path = f"{model_dir}/{SAVED_MODEL_FOLDER}"
    model = tensorflow_models.load(path, path)
    answers: list[str] = []
    for start in range(0, len(examples), _BATCH):
        some = examples[start : start + _BATCH]
        found = tensorflow_models.call_on_texts(model, [example.texts() for example in some])
        if "score" in found:
            # The scale of STS-B.
            answers += [f"{score:.3f}" for score in np.clip(found["score"], 0, 5)]
        else:
            answers += [label.decode() for label in found["label"]]
    return answers


def _write_zip(path: str, files: Mapping[str, str]) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            # A fixed date, so that the same answers are the same bytes.
            archive.writestr(zipfile.ZipInfo(name), text)
    tensorflow_files.write_bytes(path, content.getvalue())
