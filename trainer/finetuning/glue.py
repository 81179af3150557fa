"""Fine-tunes one encoder on all tasks of GLUE: the table of dev results and submission.zip."""

import collections
import dataclasses
import json
import pathlib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from beambert import folders, io, saved_models
from beambert.errors import InputError
from beambert.model_files import RESULTS_FILE as MODEL_RESULTS_FILE
from beambert.model_files import SAVED_MODEL_FOLDER
from beambert.pipelines.tasks.declarations import GLUE_TASKS, TASKS
from beambert.pipelines.tasks.reading import has_split, read_examples, read_splits
from beambert.pipelines.tasks.table_task import TextExample
from beambert.pipelines.tasks.task import DEV, TEST, TRAIN, Task
from beambert.pipelines.tasks.text_models import TextModel
from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary
from beambert.process import run_apart
from beambert.trainer import model_folders

RESULTS_FILE = "glue.json"
SUBMISSION_FILE = "submission.zip"
# GLUE's name for the diagnostic set. The model of MNLI answers it.
DIAGNOSTIC_TITLE = "AX"
_DIAGNOSTIC = dataclasses.replace(
    TASKS["mnli"], files={TEST: "diagnostic.tsv"}, title=DIAGNOSTIC_TITLE
)
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
    """Fine-tunes on every task that is present, answers the test files, and writes the results.

    Args:
      glue_dir: folder that holds a folder for each task.
      names: names of the tasks to look for.
      output: folder for a model folder for each task, glue.json and submission.zip.
      flags: flags of `beambert finetune` for all tasks.
      skip_bad_rows: leave out rows that cannot be used; it is one of the flags, too.

    Returns:
      the content of glue.json.

    Raises:
      InputError: the data or a setting cannot be used.
    """
    found = find_task_folders(glue_dir, names)
    folders.check_own(f"{output}/{RESULTS_FILE}", "tasks", "average")
    if not io.exists(f"{output}/{RESULTS_FILE}"):
        io.check_new(f"{output}/{SUBMISSION_FILE}")
    asked = {name: [(TASKS[name], found[name]), *_diagnostic(name, glue_dir)] for name in found}
    for name, folder in found.items():
        _check_files(TASKS[name], folder, asked[name], skip_bad_rows)
    results, submission = {}, {}
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
        for task, its_folder in asked[name]:
            submission |= dict(_answers(task, its_folder, model_dir))
    summary = {"tasks": results, "average": average(results)}
    io.write_bytes(f"{output}/{RESULTS_FILE}", json.dumps(summary, indent=1).encode())
    _write_zip(f"{output}/{SUBMISSION_FILE}", submission)
    print(table(results))
    absent = [TASKS[name].title for name in names if name not in found]
    if absent:
        print(f"tasks without data, not in the average: {', '.join(absent)}")
    print(f"{output}/{SUBMISSION_FILE}: {', '.join(submission) or 'empty, without test files'}")
    if lacking := [file for file in _submission_files() if file not in submission]:
        print(f"missing for the leaderboard: {', '.join(lacking)}")
    return summary


def _submission_files() -> list[str]:
    tasks = [*(TASKS[name] for name in GLUE_TASKS), _DIAGNOSTIC]
    return [
        _submission_file(task, split) for task in tasks for split in task.files if TEST in split
    ]


def _submission_file(task: Task, split: str) -> str:
    """Returns the name that the leaderboard wants for answers (https://gluebenchmark.com/faq)."""
    genres = {"test_matched.tsv": "-m", "test_mismatched.tsv": "-mm"}
    return f"{task.title}{genres.get(task.files[split], '')}.tsv"


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


def predictions_file(answers: Iterable[str]) -> str:
    """Returns a file of answers in the leaderboard's format: row number and answer on each line."""
    rows = [f"{index}\t{answer}" for index, answer in enumerate(answers)]
    return "\n".join(["index\tprediction", *rows]) + "\n"


def _diagnostic(name: str, glue_dir: str) -> list[tuple[Task, str]]:
    return [(_DIAGNOSTIC, f"{glue_dir}/diagnostic")] if name == "mnli" else []


def _check_files(
    task: Task, folder: str, asked: Sequence[tuple[Task, str]], skip_bad_rows: bool
) -> None:
    """Reads all files of a task, so that faults show before hours of training."""
    read_splits(task, folder, (TRAIN, *_present(task, folder, DEV)), skip_bad_rows)
    # No bad rows are left out here, as the leaderboard wants an answer to every row.
    for asked_task, its_folder in asked:
        for split in _present(asked_task, its_folder, TEST):
            read_examples(asked_task, its_folder, split)


def _present(task: Task, folder: str, kind: str) -> list[str]:
    """Returns the splits of a kind (dev or test) that are present; MNLI has two of each kind."""
    splits = [split for split in task.files if split.startswith(kind)]
    return [split for split in splits if split == DEV or has_split(task, folder, split)]


def _mismatched(task: Task, folder: str, model_dir: str, skip_bad_rows: bool) -> dict[str, float]:
    """Returns the accuracy and its baseline on MNLI's second dev file; nothing for other tasks."""
    *_, split = _present(task, folder, DEV)
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


def _answers(task: Task, folder: str, model_dir: str) -> Iterator[tuple[str, str]]:
    """Yields the name and content of a file of answers for each test file that is present."""
    for split in _present(task, folder, TEST):
        examples = read_examples(task, folder, split)
        print(
            f"{task.name}: answering {len(examples):,} examples of {task.files[split]}", flush=True
        )
        yield _submission_file(task, split), predictions_file(_predict(examples, model_dir))


def _predict(examples: Sequence[TextExample], model_dir: str) -> list[str]:
    path = f"{model_dir}/{SAVED_MODEL_FOLDER}"
    model = _on_texts(saved_models.load(path, path), model_dir)
    answers: list[str] = []
    for start in range(0, len(examples), _BATCH):
        some = examples[start : start + _BATCH]
        found = saved_models.call_on_texts(model, [example.texts() for example in some])
        if "score" in found:
            # The scores of STS-B lie between 0 and 5.
            answers += [f"{score:.3f}" for score in np.clip(found["score"], 0, 5)]
        else:
            answers += [label.decode() for label in found["label"]]
    return answers


def _on_texts(model: Any, model_dir: str) -> Any:
    """Returns a SavedModel that takes texts, also if its graph takes ids."""
    found = model_folders.open_model(model_dir, "--model_dir")
    if isinstance(found.vocabulary, TokenizerVocabulary):
        return TextModel(model, found.training, found.vocabulary)
    return model


def _write_zip(path: str, files: Mapping[str, str]) -> None:
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            # ZipInfo has a fixed date, so that the same answers give the same bytes.
            archive.writestr(zipfile.ZipInfo(name), text)
    io.write_bytes(path, content.getvalue())
