"""The job that makes features: its parameters, its plan and its shards. It does not need Beam."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.errors import InputError
from beambert.flags import check_minimum
from beambert.job_fields import settle_fields
from beambert.pipelines.records.contract import shard_name
from beambert.pipelines.tasks.examples import Example
from beambert.pipelines.tasks.splits import TaskSplits, present_splits, read_splits
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import SHORTEST_LENGTH, TRAIN, Task
from beambert.pipelines.tasks.vector_kinds import VectorTask
from beambert.pipelines.tokenizers.vocabulary import Vocabulary

# Number of examples in a record file, which is the unit of work of a worker.
EXAMPLES_A_SHARD = 8192


@dataclasses.dataclass(frozen=True)
class FeaturesJob:
    """The features to make.

    Attributes:
      task: declaration of the task.
      data_dir: folder of the task's files.
      vocab_file: the encoder's vocabulary; None beside `tokenizer`.
      output: features folder to make.
      do_lower_case: whether text is lower-cased and loses its accents (default: True); None beside
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


@dataclasses.dataclass(frozen=True)
class Shard:
    """The examples of a record file.

    Attributes:
      split: split of the task.
      name: name of the file in the features folder.
      first_row: number of the first example in its split.
      examples: the examples, at least one.
    """

    split: str
    name: str
    first_row: int
    examples: Sequence[Example] | Sequence[Question]


@dataclasses.dataclass(frozen=True)
class FeaturesPlan:
    """All that decides the features of a job, known after its files are read.

    Attributes:
      task: declaration of the task.
      labels: labels in index order.
      vocabulary: vocabulary of the ids.
      do_lower_case: whether text is lower-cased and loses its accents.
      max_seq_length: greatest number of tokens in a sequence.
      output: the features folder.
      data_sha256: split -> SHA-256 of its file.
      counts: split -> number of examples `read` and `used`, `left_out` by reason, and `labels` by
        name.
      choices: number of sequences of an example.
      unlabelled: splits without labels.
      versions: versions of the libraries.
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
        """Returns all that decides the features."""
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
        """Returns the values by which two jobs with the same output folder are the same job."""
        return self.made_from() | {"versions": dict(self.versions)}


def read_inputs(task: Task, data_dir: str, skip_bad_rows: bool) -> TaskSplits:
    """Reads train, dev and the other splits whose files exist.

    Raises:
      InputError: a file cannot be read, or the splits do not fit together.
    """
    read = read_splits(task, data_dir, present_splits(task, data_dir), skip_bad_rows)
    # Columns that become no feature are dropped, as they may be most of a row.
    examples = {
        split: [dataclasses.replace(each, columns={}) if each.columns else each for each in found]
        for split, found in read.examples.items()
    }
    return dataclasses.replace(read, examples=examples)


def count_labels(task: Task, examples: Sequence[Any]) -> dict[str, int]:
    """Returns label -> number of examples, or of words in a tagging task; empty for numbers."""
    names = (name for example in examples for name in task.label_names(example))
    return dict(sorted(collections.Counter(names).items()))


def make_plan(
    job: FeaturesJob, inputs: TaskSplits, vocabulary: Vocabulary, versions: Mapping[str, str]
) -> FeaturesPlan:
    """Returns the plan of a job for the examples that were read."""
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
        task.sequences(first[TRAIN]),
        tuple(split for split, each in first.items() if each.truth is None),
        versions,
    )


def make_shards(inputs: TaskSplits) -> list[Shard]:
    """Divides the examples into shards; the division depends only on the examples."""
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
