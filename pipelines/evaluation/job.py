"""What an evaluation is asked for, and the examples that it is on."""

import dataclasses
import pathlib
from collections.abc import Sequence

from beambert.pipelines.evaluation.blessing import Threshold
from beambert.pipelines.prediction.saved_models import local_path
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.declarations import CHOICE, SPAN, TAGGING, Task
from beambert.pipelines.tasks.examples import Example, read_examples
from beambert.pipelines.tasks.files import split_path
from beambert.pipelines.tasks.squad import Question, read_questions


@dataclasses.dataclass(frozen=True)
class EvaluationJob:
    """What is asked for.

    Attributes:
      task: which files, labels and metrics.
      data_dir: the folder of the task's files.
      model: a folder, see `saved_models.find_model`.
      output: a folder that does not exist, is empty, or holds an earlier evaluation.
      split: which file of the task to evaluate on.
      thresholds: what to reach, all of them.
      baseline: an earlier evaluation on the same file, or None.
      min_change: how much better than the baseline's the task's first metric must be.
      skip_bad_rows: leaves out rows that cannot be used, and names them.
    """

    task: Task
    data_dir: str
    model: str
    output: str
    split: str
    thresholds: tuple[Threshold, ...]
    baseline: str | None = None
    min_change: float = 0.0
    skip_bad_rows: bool = False

    def data_file(self) -> pathlib.Path:
        """Returns the file of the split.

        Raises:
          InputError: there is none.
        """
        return split_path(self.task, local_path(self.data_dir, "--data_dir"), self.split)


def read_labelled(job: EvaluationJob, labels: Sequence[str]) -> list[Example] | list[Question]:
    """Reads the examples of the split, which must have labels.

    Args:
      job: what is asked for.
      labels: of the model.

    Raises:
      InputError: as `examples.read_examples` and `squad.read_questions`; or there are no labels, or
        others than the model's.
    """
    return _read_questions(job) if job.task.kind == SPAN else _read_examples(job, labels)


def _read_examples(job: EvaluationJob, labels: Sequence[str]) -> list[Example]:
    task, file = job.task, job.data_file()
    if task.labels is not None and set(task.labels) != set(labels):
        raise InputError(
            f"--model has the labels {', '.join(labels)} but task {task.name} has "
            f"{', '.join(task.labels)}: name a model that was fine-tuned on {task.name}."
        )
    on_bad_row = print if job.skip_bad_rows else None
    found = read_examples(task, job.data_dir, job.split, labels or None, on_bad_row)
    if any((e.tags if task.kind == TAGGING else e.label) is None for e in found):
        raise InputError(f"{file} has no labels to compare with: choose another --split.")
    uneven = [e for e in found if task.kind == CHOICE and len(e.choices) != len(labels)]
    if uneven:
        raise InputError(
            f"{file} has {len(uneven[0].choices)} endings in some rows but --model chooses from "
            f"{len(labels)}: name a model of that many."
        )
    return found


def _read_questions(job: EvaluationJob) -> list[Question]:
    found = read_questions(job.data_file(), job.task.allows_no_answer)
    for sentence in found.notes():
        print(sentence)
    return list(found.questions)
