"""What a features job makes of which examples. No Beam."""

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.records.contract import shard_name
from beambert.pipelines.shared.flags import check_minimum
from beambert.pipelines.tasks.declarations import (
    CHOICE,
    DEFAULT_LENGTH,
    DEFAULT_SPAN_LENGTH,
    REGRESSION,
    SHORTEST_LENGTH,
    SPAN,
    TAGGING,
    TRAIN,
    Task,
)
from beambert.pipelines.tasks.examples import Example
from beambert.pipelines.tasks.files import split_path
from beambert.pipelines.tasks.splits import files_sha256, present_splits, read_splits
from beambert.pipelines.tasks.squad import Question, read_questions
from beambert.pipelines.wordpiece.vocabulary import Vocabulary

# Examples of a record file: the unit of work of a worker.
EXAMPLES_A_SHARD = 8192
NO_ANSWER_REASON = "has no answer that is in its context"


@dataclasses.dataclass(frozen=True)
class FeaturesJob:
    """Features to make.

    Attributes:
      task: its declaration.
      data_dir: folder of the task's files.
      vocab_file: the encoder's vocabulary.
      output: features folder to make.
      do_lower_case: how text is normalized.
      max_seq_length: most tokens of a sequence; None for the default of the task's kind.
      skip_bad_rows: leaves out rows that can't be used.

    Raises:
      InputError: a value that can't work.
    """

    task: Task
    data_dir: str
    vocab_file: str
    output: str
    do_lower_case: bool = True
    max_seq_length: int | None = None
    skip_bad_rows: bool = False

    def __post_init__(self) -> None:
        """Checks the values."""
        check_minimum(self, SHORTEST_LENGTH, "max_seq_length")

    @property
    def length(self) -> int:
        """Most tokens of a sequence."""
        default = DEFAULT_SPAN_LENGTH if self.task.kind == SPAN else DEFAULT_LENGTH
        return self.max_seq_length or default


@dataclasses.dataclass(frozen=True)
class Shard:
    """The examples of a record file.

    Attributes:
      split: of the task.
      name: of the file, in the features folder.
      first_row: number of the first example in the split.
      examples: at least one.
    """

    split: str
    name: str
    first_row: int
    examples: Sequence[Example] | Sequence[Question]


@dataclasses.dataclass(frozen=True)
class FeaturesPlan:
    """What is to be made of what was read.

    Attributes:
      task: its declaration.
      labels: in index order.
      vocabulary: of the ids.
      do_lower_case: how text is normalized.
      max_seq_length: most tokens of a sequence.
      output: the features folder.
      data_sha256: hash of each split's file.
      counts: of each split, the examples `read`, `used` and `left_out` by reason, and the `labels`.
      choices: sequences of an example.
      unlabelled: splits without labels.
      versions: of the libraries.
    """

    task: Task
    labels: tuple[str, ...]
    vocabulary: Vocabulary
    do_lower_case: bool
    max_seq_length: int
    output: str
    data_sha256: Mapping[str, str]
    counts: Mapping[str, Mapping[str, Any]]
    choices: int
    unlabelled: tuple[str, ...]
    versions: Mapping[str, str]

    def made_from(self) -> dict[str, Any]:
        """Returns what decides the features."""
        from beambert.pipelines.features.contract import made_from  # it imports TensorFlow

        return made_from(
            self.task,
            self.labels,
            self.vocabulary,
            self.do_lower_case,
            self.max_seq_length,
            self.data_sha256,
        )

    def identity(self) -> dict[str, Any]:
        """Returns what makes two jobs that write to a folder the same."""
        return self.made_from() | {"versions": dict(self.versions)}


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What was read of a task.

    Attributes:
      labels: in index order; empty where there are none.
      files: path of each split.
      examples: of each split, those that are used.
      left_out: of each split, reason -> examples.
      sentences: to tell the user, on rows and answers that can't be used.
    """

    labels: tuple[str, ...]
    files: Mapping[str, pathlib.Path]
    examples: Mapping[str, Sequence[Any]]
    left_out: Mapping[str, Mapping[str, int]]
    sentences: Sequence[str]

    def sha256(self) -> dict[str, str]:
        """Returns the hash of each split's file."""
        return files_sha256(self.files)


def read_inputs(task: Task, data_dir: str, skip_bad_rows: bool) -> Inputs:
    """Reads train, dev and the other splits whose files are there.

    Raises:
      InputError: they can't be read, or don't go together.
    """
    splits = present_splits(task, data_dir)
    if task.kind == SPAN:
        return _read_questions(task, data_dir, splits)
    read = read_splits(task, data_dir, splits, skip_bad_rows)
    return Inputs(
        read.labels,
        read.files,
        {
            # Columns that no feature is made of may be most of a row.
            split: [dataclasses.replace(example, columns={}) for example in examples]
            for split, examples in read.examples.items()
        },
        {
            split: dict(sorted(collections.Counter(row.reason for row in rows).items()))
            for split, rows in read.left_out.items()
        },
        [str(row) for rows in read.left_out.values() for row in rows],
    )


def _read_questions(task: Task, data_dir: str, splits: Sequence[str]) -> Inputs:
    files = {split: split_path(task, data_dir, split) for split in splits}
    read = {split: read_questions(path, task.allows_no_answer) for split, path in files.items()}
    # Every question of the others is asked; an answer that can't be found can't be learnt.
    return Inputs(
        (),
        files,
        {
            split: file.learnable() if split == TRAIN else list(file.questions)
            for split, file in read.items()
        },
        {
            split: {NO_ANSWER_REASON: len(file.rejected)}
            if split == TRAIN and file.rejected
            else {}
            for split, file in read.items()
        },
        [sentence for file in read.values() for sentence in file.notes()],
    )


def count_labels(task: Task, examples: Sequence[Any]) -> dict[str, int]:
    """Returns how many examples, words of a tagging task, have each label; of numbers none."""
    if task.kind == REGRESSION:
        return {}
    if task.kind == SPAN:
        labels = ["impossible" if of.is_impossible else "answerable" for of in examples]
    elif task.kind == TAGGING:
        labels = [tag for of in examples for tag in of.tags or ()]
    else:
        labels = [of.label for of in examples if of.label is not None]
    return dict(sorted(collections.Counter(labels).items()))


def make_plan(
    job: FeaturesJob, inputs: Inputs, vocabulary: Vocabulary, versions: Mapping[str, str]
) -> FeaturesPlan:
    """Returns what a job makes of what was read."""
    task = job.task
    counts = {
        split: {
            "read": len(examples) + sum(inputs.left_out[split].values()),
            "used": len(examples),
            "left_out": inputs.left_out[split],
            "labels": count_labels(task, examples),
        }
        for split, examples in inputs.examples.items()
    }
    first = {split: examples[0] for split, examples in inputs.examples.items()}
    return FeaturesPlan(
        task,
        inputs.labels,
        vocabulary,
        job.do_lower_case,
        job.length,
        job.output,
        inputs.sha256(),
        counts,
        len(first[TRAIN].choices) if task.kind == CHOICE else 1,
        tuple(split for split, of in first.items() if not _has_label(task, of)),
        versions,
    )


def _has_label(task: Task, example: Any) -> bool:
    if task.kind == SPAN:
        return True
    return (example.tags if task.kind == TAGGING else example.label) is not None


def make_shards(inputs: Inputs) -> list[Shard]:
    """Divides the examples; how depends on nothing but them."""
    shards = []
    for split, examples in inputs.examples.items():
        starts = range(0, len(examples), EXAMPLES_A_SHARD)
        shards += [
            Shard(
                split,
                f"{split}/{shard_name(number, len(starts))}",
                start,
                examples[start : start + EXAMPLES_A_SHARD],
            )
            for number, start in enumerate(starts)
        ]
    return shards
