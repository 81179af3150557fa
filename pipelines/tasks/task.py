"""What every task has, whatever it asks for. The standard library alone."""

import abc
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from beambert.pipelines.tasks.tables import BadRow

# What a task asks for: a label of a text or a pair; a number; one of several endings; a label of
# every word; an answer's place in a text.
CLASSIFICATION, REGRESSION, CHOICE, TAGGING, SPAN = (
    "classification",
    "regression",
    "choice",
    "tagging",
    "span",
)
TRAIN, DEV, TEST = "train", "dev", "test"
# Default length of the inputs where no pre-training says another, run_classifier.py's; and always
# of a question with a part of its context, run_squad.py's.
DEFAULT_LENGTH, DEFAULT_SPAN_LENGTH = 128, 384
# No shorter sequence has room for a text.
SHORTEST_LENGTH = 8


@dataclasses.dataclass(frozen=True)
class ExampleFile:
    """What a file of a task holds.

    Attributes:
      examples: the examples that can be used, in the order of the file.
      bad_rows: the rows that can't be used.
      notes: a sentence on everything else that is amiss.
      unlearnable: reason -> number of the examples that were left out as nothing can be learned
        from them.
    """

    examples: Sequence[Any]
    bad_rows: Sequence[BadRow] = ()
    notes: Sequence[str] = ()
    unlearnable: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC):
    """Where a task keeps its examples, and how its answers are judged.

    Each kind of task is a class of `kinds`.

    Attributes:
      name: what `--task=` takes.
      kind: the name of its kind, a key of `kinds.KINDS`.
      files: split -> file. A name without an ending stands for that name with any of the endings
        of its kind.
      text_columns: the column of the text and, for a pair, of the second text; of a choice, what
        its endings begin with.
      label_column: the column of the label; of a choice, the index of the right ending.
      labels: the labels in index order, or None to take those of the train split, sorted.
      choice_columns: the columns of the endings; one that ends in `*` stands for all that begin
        like it.
      text_b_is_optional: the second text column counts only where the file has it.
      headerless_columns: names of the columns of train and dev where those files have no header
        line; the test file always has one.
      metrics: names of `pipelines.tasks.metrics`; the first is what a sweep and a threshold go by.
      positive_label: the label that precision and recall are of, where F1 is a metric.
      allows_no_answer: whether a question may have none, which then is what "" answers.
      title: the name of the leaderboard's files, for the tasks of GLUE.
    """

    # Endings that a file may have, where a task doesn't declare one.
    ENDINGS: ClassVar[tuple[str, ...]]
    # Flags that can say something of a task of one's own.
    COLUMN_FLAGS: ClassVar[frozenset[str]] = frozenset()
    # Whether answers are labels, which a model keeps in labels.txt.
    HAS_LABELS: ClassVar[bool] = True

    name: str
    kind: str = dataclasses.field(default="", init=False)
    files: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {TRAIN: "train.tsv", DEV: "dev.tsv", TEST: "test.tsv"}
    )
    text_columns: tuple[str, ...] = ("sentence",)
    label_column: str = "label"
    labels: tuple[str, ...] | None = None
    choice_columns: tuple[str, ...] = ()
    text_b_is_optional: bool = False
    headerless_columns: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    positive_label: str | None = None
    allows_no_answer: bool = False
    title: str | None = None

    @abc.abstractmethod
    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads all examples of a file.

        Args:
          path: the file.
          is_labelled: whether every row must have a label.
          labels: the labels that rows may have; None for any.

        Raises:
          InputError: the file can't be read.
        """

    def read_to_learn(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the examples of a file that something can be learned from, as `read` does."""
        return self.read(path, is_labelled, labels)

    def check_file(  # noqa: B027  (most kinds refuse nothing)
        self, path: pathlib.Path, examples: Sequence[Any]
    ) -> None:
        """Refuses a file whose examples don't go together.

        Raises:
          InputError: naming the file.
        """

    def check_split(  # noqa: B027
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses a split that doesn't go with the first example of train.

        Raises:
          InputError: naming the file.
        """

    def check_choices(  # noqa: B027
        self, path: pathlib.Path, examples: Sequence[Any], labels: Sequence[str]
    ) -> None:
        """Refuses examples that a model of these labels can't choose from.

        Raises:
          InputError: naming the file and `--model`.
        """

    def find_labels(self, path: pathlib.Path, train: Sequence[Any]) -> tuple[str, ...]:
        """Returns the labels in index order, as the examples of train have them.

        Raises:
          InputError: there are too few, or they make no sense.
        """
        return ()

    def label_names(self, example: Any) -> Iterable[str]:
        """Returns the names that are counted of an example's truth; none of a number."""
        return ()

    def sequences(self, example: Any) -> int:
        """Returns how many sequences of tokens an example becomes."""
        return 1

    def default_length(self, trained_length: int | None = None) -> int:
        """Returns the length of the inputs where none is asked for.

        Args:
          trained_length: the greatest of the pre-training, where that is known.
        """
        return trained_length or DEFAULT_LENGTH
