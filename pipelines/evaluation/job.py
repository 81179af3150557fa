"""What an evaluation is asked for, and the examples that it is on."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

from beambert.pipelines.evaluation.blessing import Threshold
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.examples import Example, read_file
from beambert.pipelines.tasks.files import split_path
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class EvaluationJob:
    """What is asked for. Each folder may be local or on gs://.

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
        return split_path(self.task, self.data_dir, self.split)


def read_labelled(
    job: EvaluationJob, labels: Sequence[str], tell: Callable[[object], None]
) -> list[Example] | list[Question]:
    """Reads the examples of the split, which must have labels.

    Args:
      job: what is asked for, with a local folder of data.
      labels: of the model.
      tell: is called with what a person should know of the rows.

    Raises:
      InputError: as `examples.read_file`; or there are no labels, or
        others than the model's.
    """
    task, file = job.task, job.data_file()
    if task.labels is not None and set(task.labels) != set(labels):
        raise InputError(
            f"--model has the labels {', '.join(labels)} but task {task.name} has "
            f"{', '.join(task.labels)}: name a model that was fine-tuned on {task.name}."
        )
    read = read_file(task, job.data_dir, job.split, labels or None, job.skip_bad_rows)
    for sentence in (*read.bad_rows, *read.notes):
        tell(sentence)
    if any(example.truth is None for example in read.examples):
        raise InputError(f"{file} has no labels to compare with: choose another --split.")
    task.check_choices(file, read.examples, labels)
    return list(read.examples)
