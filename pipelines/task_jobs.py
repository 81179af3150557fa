"""The parameters of the jobs that predict and evaluate."""

import dataclasses
import pathlib
from typing import Any

from beambert.config import Settings, check_settings, refuse_given, setting
from beambert.flags import TRUST_MODEL
from beambert.pipelines.corpus.encodings import encoding_setting
from beambert.pipelines.evaluation.measures import (
    MOST_VALUES,
    MOST_VALUES_IF_NAMED,
    Threshold,
    check_thresholds,
    metric_names,
)
from beambert.pipelines.tasks.flags import split_names
from beambert.pipelines.tasks.reading import split_path
from beambert.pipelines.tasks.task import DEV, Task

# What a text of a plain text file is.
LINE, FILE = "line", "file"


def _model() -> Any:
    return setting(metavar="DIR", help="folder that `beambert finetune` finished")


def _trust_model() -> Any:
    return setting(False, help=TRUST_MODEL)


def _slices(text: str) -> tuple[str, ...]:
    return () if text == "none" else split_names(text)


@dataclasses.dataclass(frozen=True)
class EvaluationJob:
    """The parameters of an evaluation. Each folder may be local or on gs://.

    Attributes:
      task: declaration of the task.
      data_dir: folder of the task's files.
      thresholds: thresholds that the model must all reach to be blessed; none stands for the task's
        first metric, which must be better than the best constant answer's.
      skip_bad_rows: whether to leave out and list rows that cannot be used.
    """

    task: Task
    data_dir: str
    model: str = _model()
    output: str = setting(metavar="DIR", help="folder to make")
    split: str = setting(DEV, help="split to evaluate on: dev, train or test")
    thresholds: tuple[Threshold, ...] = ()
    baseline: str | None = setting(
        None,
        help="earlier evaluation of another model on the same file; the new model must not be "
        "worse by the task's first metric",
    )
    min_change: float | None = setting(
        None, help="least improvement over the baseline (default: 0)"
    )
    skip_bad_rows: bool = False
    slices: tuple[str, ...] | None = setting(
        None,
        parse=_slices,
        metavar="A,B,…",
        help="slices to score: length, label, prediction, names of columns with 2 to "
        f"{MOST_VALUES_IF_NAMED} values, or none (default: length, label, prediction and each "
        f"column with 2 to {MOST_VALUES} values)",
    )
    trust_model: bool = _trust_model()

    def __post_init__(self) -> None:
        """Checks the values, and sets the default threshold."""
        check_settings(self)
        if not self.baseline:
            refuse_given(self, ("min_change",), "needs --baseline")
        if not self.thresholds:
            object.__setattr__(self, "thresholds", (Threshold(self.task.metrics[0]),))
        check_thresholds(self.thresholds, metric_names(self.task))

    def data_file(self) -> pathlib.Path:
        """Returns the file of the split.

        Raises:
          InputError: there is none.
        """
        return split_path(self.task, self.data_dir, self.split)


@dataclasses.dataclass(frozen=True)
class PredictionJob(Settings):
    """The texts to answer and the model.

    In a pipeline that provides the texts and takes the answers, `input` and `output` are empty.
    """

    model: str = _model()
    input: tuple[str, ...] = setting((), metavar="GLOB", help="files to read")
    output: str = setting("", metavar="DIR", help="folder to make")
    text_columns: tuple[str, ...] | None = setting(
        None,
        parse=split_names,
        metavar="A,B",
        help="columns of the texts in tables (default: those that the model was trained on)",
    )
    encoding: str = encoding_setting()
    unit: str = setting(
        LINE,
        choices=(LINE, FILE),
        help="text of a plain text file that gets an answer: each line, or the whole file",
    )
    trust_model: bool = _trust_model()
