"""The parameters of the jobs that make features, predict and evaluate."""

import dataclasses
import pathlib

from beambert.errors import InputError
from beambert.flags import check_minimum, settle_fields
from beambert.pipelines.evaluation.blessing import Threshold
from beambert.pipelines.tasks.reading import split_path
from beambert.pipelines.tasks.task import DEV, SHORTEST_LENGTH, Task
from beambert.pipelines.tasks.vectors import VectorTask

# What a text of a plain text file is.
LINE, FILE = "line", "file"


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
      trust_model: whether the model's graph may do anything, see `saved_models.check_graph`.
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


@dataclasses.dataclass(frozen=True)
class PredictionJob:
    """The texts to answer and the model.

    Attributes:
      model: folder that `beambert finetune` finished.
      input: patterns of the files to read; empty if a pipeline provides the texts.
      output: folder to make; empty if a pipeline takes the answers.
      text_columns: columns of the texts in tables; None for those that the model was trained on.
      encoding: encodings of the files, see `corpus.encodings.parse_encodings`.
      unit: `LINE` if each line of a plain text file is a text, `FILE` if the whole file is one.
      trust_model: whether the model's graph may do anything, see `saved_models.check_graph`.
    """

    model: str
    input: tuple[str, ...] = ()
    output: str = ""
    text_columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    unit: str = LINE
    trust_model: bool = False

    def __post_init__(self) -> None:
        """Takes single values and paths."""
        settle_fields(self)


@dataclasses.dataclass(frozen=True)
class FeaturesJob:
    """The features to make.

    Attributes:
      task: declaration of the task.
      data_dir: folder of the task's files.
      vocab_file: the encoder's vocabulary; None with `tokenizer`.
      output: features folder to make.
      do_lower_case: whether text is lower-cased and loses its accents (default: True); None with
        `tokenizer`, which has its own rules.
      max_seq_length: greatest number of tokens in a sequence; None for the default of the kind.
      skip_bad_rows: whether to leave out rows that cannot be used instead of stopping.
      tokenizer: the encoder's tokenizer.json, or its folder; None for word pieces.

    Raises:
      InputError: `max_seq_length` is too small, or the task learns vectors of texts.
    """

    task: Task
    data_dir: str
    vocab_file: str | None
    output: str
    do_lower_case: bool | None = None
    max_seq_length: int | None = None
    skip_bad_rows: bool = False
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        """Checks the values."""
        settle_fields(self)
        if isinstance(self.task, VectorTask):
            raise InputError(
                f"--task={self.task.name}: has no features that are made ahead; give its files to "
                "`beambert finetune`"
            )
        check_minimum(self, SHORTEST_LENGTH, "max_seq_length")

    @property
    def length(self) -> int:
        """Greatest number of tokens in a sequence."""
        return self.max_seq_length or self.task.default_length()
