"""The parameters of an evaluation, and how its examples are read."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

from beambert.errors import InputError
from beambert.job_fields import settle_fields
from beambert.pipelines.evaluation.blessing import Threshold
from beambert.pipelines.tasks.examples import Example, read_file
from beambert.pipelines.tasks.files import split_path
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import DEV, Task


@dataclasses.dataclass(frozen=True)
class EvaluationJob:
    """The parameters of an evaluation. Each folder may be local or on gs://.

    Attributes:
      task: declaration of the task.
      data_dir: folder of the task's files.
      model: folder of the model, see `saved_models.find_model`.
      output: folder that does not exist, is empty, or holds an earlier evaluation.
      split: split of the task to evaluate on.
      thresholds: thresholds that the model must all reach to be blessed; none stands for the task's
        first metric, which must be better than the best constant answer's.
      baseline: folder of an earlier evaluation on the same file, or None.
      min_change: least improvement of the task's first metric over the baseline.
      skip_bad_rows: whether to leave out and list rows that cannot be used.
      slices: names of the slicings to score; None for all.
      trust_model: whether the model's graph may do anything, see `storage.known_graphs`.
    """

    task: Task
    data_dir: str
    model: str
    output: str
    split: str = DEV
    thresholds: tuple[Threshold, ...] = ()
    baseline: str | None = None
    min_change: float = 0.0
    skip_bad_rows: bool = False
    slices: tuple[str, ...] | None = None
    trust_model: bool = False

    def __post_init__(self) -> None:
        """Sets the default threshold."""
        settle_fields(self)
        if not self.thresholds:
            object.__setattr__(self, "thresholds", (Threshold(self.task.metrics[0]),))

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
      job: the evaluation, with a local folder of data.
      labels: labels of the model.
      tell: function that is called with each row that is left out and each note on the file.

    Raises:
      InputError: `examples.read_file` refuses the file, it has no labels, or the task has other
        labels than the model.
    """
    task, file = job.task, job.data_file()
    if task.labels is not None and set(task.labels) != set(labels):
        raise InputError(
            f"--model: has the labels {', '.join(labels)} but task {task.name} has "
            f"{', '.join(task.labels)}; name a model that was fine-tuned on {task.name}"
        )
    read = read_file(task, job.data_dir, job.split, labels or None, job.skip_bad_rows)
    for sentence in (*read.bad_rows, *read.notes):
        tell(sentence)
    if any(example.truth is None for example in read.examples):
        raise InputError(f"{file}: has no labels to compare with; choose another --split")
    task.check_choices(file, read.examples, labels)
    return list(read.examples)
