"""All tasks of GLUE from one encoder: the table of dev results, and the leaderboard's zip."""

import dataclasses
import io
import json
import pathlib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.errors import InputError
from pipelines.examples import TextExample, read_examples
from pipelines.tasks import REGRESSION, TASKS, TEST, Task
from trainer import folders
from trainer.finetuning import FinetuningJob

RESULTS_FILE = "glue.json"
SUBMISSION_FILE = "submission.zip"
# The release's folder of the diagnostic set, which the model of MNLI answers.
DIAGNOSTIC_TITLE = "AX"
_DIAGNOSTIC = dataclasses.replace(
    TASKS["mnli"], files={TEST: "diagnostic.tsv"}, title=DIAGNOSTIC_TITLE
)
_BATCH = 64


def find_folders(glue_dir: str, names: Sequence[str]) -> dict[str, str]:
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
    found = find_folders(glue_dir, names)
    results, submission = {}, {}
    for name, folder in found.items():
        task = TASKS[name]
        model_dir, results[name] = finetune_one(job_of(task, folder, f"{output}/{task.title}"))
        submission |= dict(_answers(task, folder, model_dir))
        if name == "mnli":
            submission |= dict(_answers(_DIAGNOSTIC, f"{glue_dir}/diagnostic", model_dir))
    summary = {"tasks": results, "average": average(results)}
    folders.write(f"{output}/{RESULTS_FILE}", json.dumps(summary, indent=1).encode())
    _write_zip(f"{output}/{SUBMISSION_FILE}", submission)
    print(table(results))
    absent = [TASKS[name].title for name in names if name not in found]
    if absent:
        print(f"not there, and not in the average: {', '.join(absent)}")
    print(f"{output}/{SUBMISSION_FILE}: {', '.join(submission) or 'empty, no test files'}")
    return summary


def average(results: Mapping[str, Mapping[str, float]]) -> float:
    """Returns the mean over tasks of the mean over a task's metrics (Wang et al. 2019, 3.3)."""
    return float(np.mean([np.mean([of[m] for m in TASKS[n].metrics]) for n, of in results.items()]))


def table(results: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the results in per cent, beside the best answer that ignores the text."""
    lines = ["| task | metric | dev | baseline |", "|---|---|---|---|"]
    for name, of_task in results.items():
        for metric in TASKS[name].metrics:
            cells = [f"{100 * of_task[key]:.1f}" for key in (metric, f"baseline_{metric}")]
            title = TASKS[name].title
            lines.append(f"| {title} | {metric.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join([*lines, f"| average | | {100 * average(results):.1f} | |"])


def predictions_file(answers: Iterable[str]) -> str:
    """Returns a file as the leaderboard takes it: a row's number in the test file, its answer."""
    rows = [f"{index}\t{answer}" for index, answer in enumerate(answers)]
    return "\n".join(["index\tprediction", *rows]) + "\n"


def _answers(task: Task, folder: str, model_dir: str) -> Iterator[tuple[str, str]]:
    """Yields name and text of the leaderboard's files for the test files that are there."""
    for split, file in task.files.items():
        if not split.startswith(TEST) or not (pathlib.Path(folder) / file).is_file():
            continue
        title = task.title
        if file.startswith("test_"):  # MNLI-m and MNLI-mm
            title += "-mm" if "mismatched" in file else "-m"
        examples = read_examples(task, folder, split)
        print(f"{task.name}: answering {len(examples):,} of {file}", flush=True)
        yield f"{title}.tsv", predictions_file(_predict(task, examples, model_dir))


def _predict(task: Task, examples: Sequence[TextExample], model_dir: str) -> list[str]:
    import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

    path = f"{model_dir}/{folders.SAVED_MODEL_FOLDER}"
    answer = tf.saved_model.load(path).signatures["serving_default"]
    answers: list[str] = []
    for start in range(0, len(examples), _BATCH):
        some = examples[start : start + _BATCH]
        texts = {"text": tf.constant([example.text for example in some])}
        if some[0].text_b is not None:
            texts["text_b"] = tf.constant([example.text_b for example in some])
        found = answer(**texts)
        if task.kind == REGRESSION:
            # The scale of STS-B.
            answers += [f"{score:.3f}" for score in np.clip(found["score"].numpy(), 0, 5)]
        else:
            answers += [label.decode() for label in found["label"].numpy()]
    return answers


def _write_zip(path: str, files: Mapping[str, str]) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            # A fixed date, so that the same answers are the same bytes.
            archive.writestr(zipfile.ZipInfo(name), text)
    folders.write(path, content.getvalue())
