"""The Beam job that makes the features of a task's examples, and writes them as records."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
from apache_beam.io.filesystems import FileSystems

from beambert import folders, locks, storage
from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.folders import finish_output
from beambert.model_files import LABELS_FILE
from beambert.pipelines.input_files import StoredValue, store_values
from beambert.pipelines.records.contract import INFO_FILE, shard_name
from beambert.pipelines.running import (
    check_beginning,
    check_reachable,
    check_reachable_from,
    describe_examples,
    library_versions,
    on_this_machine,
    path_for_workers,
    run_job,
    take_output,
    works_here,
)
from beambert.pipelines.task_jobs import FeaturesJob
from beambert.pipelines.tasks.declarations import KINDS
from beambert.pipelines.tasks.feature_folder import (
    FLAGS_OF,
    LOST_TOKENS,
    ROW,
    SEQUENCE_LENGTHS,
    TOKEN_FEATURES,
    FeaturesInfo,
    made_from,
)
from beambert.pipelines.tasks.reading import TaskSplits, present_splits, read_splits
from beambert.pipelines.tasks.task import NO_LABEL, TRAIN, Example, Task, TaskFeatures
from beambert.pipelines.tokenizers.folders import read_given
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.process import loading
from beambert.storage import TEMPORARY_PREFIX, delete_prefixed, open_atomically, write_bytes

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from tensorflow_metadata.proto.v0 import schema_pb2

# Number of examples in a record file, which is the unit of work of a worker.
EXAMPLES_A_SHARD = 8192
# File in the output folder from which workers read the examples. The last step deletes it.
EXAMPLES_FILE = f"{storage.TEMPORARY_PREFIX}examples"


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
    examples: Sequence[Example]


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
        given = self.labels, self.vocabulary, self.do_lower_case, self.max_seq_length
        return made_from(self.task, *given, self.data_sha256)

    def identity(self) -> dict[str, Any]:
        """Returns the values by which two jobs with the same output folder are the same job."""
        return self.made_from() | {"versions": dict(self.versions)}


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


def encode_features(kind: str, features: TaskFeatures, rows: np.ndarray) -> list[bytes]:
    """Returns a record for each example, see `contract`; the bytes are always the same.

    Args:
      kind: kind of the task.
      features: features of some examples.
      rows: int64 [examples], numbers of the examples in their split.
    """
    lengths = features.lengths.reshape(-1, features.choices)
    totals = lengths.sum(axis=1)
    ones = np.ones_like(totals)
    columns = {
        ROW: _lists(rows, ones),
        "input_ids": _lists(features.input_ids, totals),
        "segment_ids": _lists(features.segment_ids, totals),
    }
    if KINDS[kind].HAS_CHOICES:
        columns[SEQUENCE_LENGTHS] = _lists(features.lengths, ones * features.choices)
    columns |= {
        name: _lists(values.ravel(), ones * (values.size // max(len(values), 1)))
        for name, values in features.targets.items()
    }
    columns |= {name: _lists(values, totals) for name, values in features.token_targets.items()}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    from tfx_bsl.coders import example_coder

    encoded = example_coder.RecordBatchToExamplesEncoder().encode(batch)
    # The features of a tf.Example are a map, whose order differs from call to call.
    return [
        tf.train.Example.FromString(record).SerializeToString(deterministic=True)
        for record in encoded
    ]


def _lists(values: np.ndarray, lengths: Sequence[int] | np.ndarray) -> pa.LargeListArray:
    """Returns an Arrow array of lists: the values, cut into parts of the given lengths."""
    is_float = np.issubdtype(values.dtype, np.floating)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    values = values.astype(np.float32 if is_float else np.int64)
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), pa.array(values))


def features_schema(
    kind: str,
    labels: int,
    choices: int,
    vocab_size: int,
    max_seq_length: int,
    splits: Sequence[str],
    unlabelled: Sequence[str],
) -> "schema_pb2.Schema":
    """Returns the schema of the records.

    Args:
      kind: kind of the task.
      labels: number of labels.
      choices: number of sequences of an example.
      vocab_size: number of tokens in the vocabulary.
      max_seq_length: greatest number of tokens in a sequence.
      splits: names of all splits, which become the environments of the schema.
      unlabelled: names of the splits without targets.

    Returns:
      A schema with the type, the range of values and, if it is fixed, the shape of each feature.
    """
    from tensorflow_metadata.proto.v0 import schema_pb2

    inputs = KINDS[kind]
    schema = schema_pb2.Schema()
    schema.default_environment.extend(splits)

    def add(name: str, size: int | None, lowest: int = 0, highest: int | None = None) -> None:
        feature = schema.feature.add(name=name, type=schema_pb2.INT)
        feature.presence.min_fraction = 1.0
        feature.int_domain.min = lowest
        if highest is not None:
            feature.int_domain.max = highest
        if size:
            feature.shape.dim.add(size=size)
        else:
            feature.value_count.min = 1
        if name in (*inputs.TARGETS, *inputs.TOKEN_TARGETS):
            feature.not_in_environment.extend(unlabelled)

    add(ROW, 1)
    for name, highest in zip(TOKEN_FEATURES, (vocab_size - 1, 1), strict=True):
        add(name, None, highest=highest)
    if inputs.HAS_CHOICES:
        add(SEQUENCE_LENGTHS, choices, 1, max_seq_length)
    for name, dtype in inputs.TARGETS.items():
        size = labels if inputs.HAS_TARGET_PER_LABEL else 1
        add(name, size, highest=inputs.greatest_target(labels, max_seq_length))
        if dtype is np.float32:
            schema.feature[-1].type = schema_pb2.FLOAT
            schema.feature[-1].ClearField("int_domain")
    for name in inputs.TOKEN_TARGETS:
        add(name, None, NO_LABEL, labels - 1)
    return schema


@dataclasses.dataclass(frozen=True)
class ShardReport:
    """The counts of a finished shard.

    Attributes:
      split: split of the task.
      file: entry of the record file in info.json.
      examples: number of examples that have a record.
      counts: name -> count; the counts of the shards add up.
    """

    split: str
    file: Mapping[str, Any]
    examples: int
    counts: Mapping[str, int]


class WriteFeatures(beam.DoFn):
    """Writes the record file of each shard and yields a report."""

    def __init__(self, plan: FeaturesPlan, progress_folder: str | None):
        """Takes the plan, and the folder of a `ProgressDisplay`, if there is one."""
        self._plan = plan
        self._progress_folder = progress_folder

    def setup(self) -> None:
        """Loads the tokenizer and the encoder, and opens the worker's tally."""
        with loading():
            import tfx_bsl.coders.example_coder  # noqa: F401  (the import prints)

            plan = self._plan
            self._tokenizer = plan.task.make_tokenizer(
                plan.vocabulary, plan.do_lower_case, plan.max_seq_length
            )
        self._progress = ProgressTally(self._progress_folder)

    def process(self, shard: Shard) -> Iterator[ShardReport]:
        """Makes, encodes and writes the features of one shard."""
        from beambert.pipelines.records.encoding import RecordWriter

        made = self._plan.task.make(shard.examples, self._plan.labels, self._tokenizer)
        features, rows = made.features, made.owners + shard.first_row
        records = encode_features(self._plan.task.kind, features, rows)
        with open_atomically(FileSystems.join(self._plan.output, shard.name)) as file:
            writer = RecordWriter(file)
            writer.write(records)
            writer.finish()
        self._progress.add(examples=len(shard.examples))
        self._progress.flush()
        entry = {"name": shard.name, "records": len(records)}
        entry |= {"bytes": writer.bytes, "sha256": writer.sha256}
        counts = {
            "sequences": len(features.lengths),
            "tokens": len(features.input_ids),
            LOST_TOKENS: made.lost_tokens,
            **made.counts,
        }
        yield ShardReport(shard.split, entry, len(set(rows.tolist())), counts)


class FinishFeatures(beam.DoFn):
    """Writes the folder's small files and, last, its marker; yields the folder."""

    def __init__(self, plan: FeaturesPlan):
        """Takes the plan."""
        self._plan = plan

    def process(self, _: None, reports: Iterable[ShardReport]) -> Iterator[str]:
        """Runs once, after every shard is written."""
        from beambert.pipelines.records.contract import SCHEMA_FILE, serialize_schema

        plan, reports = self._plan, list(reports)
        splits = {}
        for split, counts in plan.counts.items():
            mine = sorted((r for r in reports if r.split == split), key=lambda r: r.file["name"])
            sums = {name: sum(r.counts[name] for r in mine) for name in mine[0].counts}
            if sum(r.examples for r in mine) != counts["used"]:
                raise RuntimeError(f"{counts['used']} examples of {split}, but {mine}")
            splits[split] = {**counts, **sums, "files": [dict(r.file) for r in mine]}
        schema = features_schema(
            plan.task.kind,
            len(plan.labels),
            plan.choices,
            len(plan.vocabulary),
            plan.max_seq_length,
            tuple(splits),
            plan.unlabelled,
        )
        info = FeaturesInfo(plan.made_from(), splits, plan.versions)
        for name, data in (
            (SCHEMA_FILE, serialize_schema(schema)),
            *plan.vocabulary.files().items(),
            (LABELS_FILE, "".join(f"{label}\n" for label in plan.labels).encode()),
            (INFO_FILE, info.to_json().encode()),
        ):
            write_bytes(FileSystems.join(plan.output, name), data)
        for split in splits:
            delete_prefixed(FileSystems.join(plan.output, split), TEMPORARY_PREFIX)
        finish_output(plan.output, plan.identity())
        yield plan.output


@beam.typehints.with_output_types(str)
class CreateTaskFeatures(beam.PTransform):
    """Makes the features of a task, at the beginning of a pipeline, and yields their folder.

    Example:
      >>> import apache_beam as beam
      >>> from beambert.pipelines.tasks.declarations import find_task
      >>> from beambert import CreateTaskFeatures, FeaturesJob
      >>> job = FeaturesJob(find_task("sst-2"), "SST-2", "vocab.txt", "features")
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     folder = (
      ...         pipeline
      ...         | CreateTaskFeatures(job)
      ...         | beam.Map(lambda path: print(path.rpartition("/")[2]))
      ...     )
      features
    """

    def __init__(
        self,
        job: FeaturesJob,
        progress_folder: str | None = None,
        planned: tuple[FeaturesPlan, TaskSplits] | None = None,
    ):
        """Reads the task's files and the vocabulary.

        Args:
          job: the features to make.
          progress_folder: folder of a `ProgressDisplay`, if there is one.
          planned: result of `plan_features` for the job, if it was called before.

        Raises:
          InputError: a file cannot be used.
        """
        super().__init__()
        self._plan, self._inputs = planned or plan_features(job)
        self._progress_folder = progress_folder

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        """Claims the output and adds the steps.

        Raises:
          InputError: the output folder is finished already, or holds something else, or workers
            don't see it, or another transform of the pipeline writes there, or this one is applied
            to the elements of another step.
        """
        check_beginning(begin, "CreateTaskFeatures")
        plan = self._plan
        check_reachable_from(begin.pipeline, output=plan.output)
        take_output(begin.pipeline, plan.output)
        if folders.claim_output(plan.output, plan.identity(), FLAGS_OF):
            raise InputError(
                f"--output={plan.output}: is finished already; choose another folder or delete it"
            )
        path = FileSystems.join(plan.output, EXAMPLES_FILE)
        reports = (
            begin
            | "Shards" >> beam.Create(store_values(path, make_shards(self._inputs)))
            | "Spread" >> beam.Reshuffle()
            | "Examples" >> beam.Map(StoredValue.read)
            | "Write" >> beam.ParDo(WriteFeatures(plan, self._progress_folder))
        )
        return (
            begin
            | "Once" >> beam.Create([None])
            | "Finish" >> beam.ParDo(FinishFeatures(plan), beam.pvalue.AsIter(reports))
        )


def plan_features(job: FeaturesJob) -> tuple[FeaturesPlan, TaskSplits]:
    """Reads the files of a job's task; returns the plan and the examples.

    Raises:
      InputError: a file cannot be used, or the splits do not fit together.
    """
    task = job.task
    vocabulary, do_lower_case = read_given(
        job.vocab_file, job.tokenizer, job.do_lower_case, storage.read_bytes, FileSystems.exists
    )
    splits = present_splits(task, job.data_dir)
    inputs = read_splits(task, job.data_dir, splits, job.skip_bad_rows)
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
    plan = FeaturesPlan(
        task,
        inputs.labels,
        vocabulary,
        do_lower_case,
        job.length,
        storage.absolute(job.output),
        inputs.sha256(),
        counts,
        task.sequences(first[TRAIN]),
        tuple(split for split, each in first.items() if each.truth is None),
        library_versions(),
    )
    # Columns that become no feature are dropped, as they may be most of a row.
    examples = {
        split: [dataclasses.replace(each, columns={}) if each.columns else each for each in found]
        for split, found in inputs.examples.items()
    }
    return plan, dataclasses.replace(inputs, examples=examples)


def count_labels(task: Task, examples: Sequence[Any]) -> dict[str, int]:
    """Returns label -> number of examples, or of words in a tagging task; empty for numbers."""
    names = (name for example in examples for name in task.label_names(example))
    return dict(sorted(collections.Counter(names).items()))


@on_this_machine
def create_task_features(job: FeaturesJob, options: "PipelineOptions | None" = None) -> None:
    """Makes the features folder, unless it is finished already, and prints a summary.

    Raises:
      InputError: the folder holds something else, or a file cannot be used.
    """
    check_reachable(options, output=job.output)
    job = dataclasses.replace(job, output=path_for_workers(job.output, options))
    plan, inputs = plan_features(job)
    with locks.folders_held([plan.output], "--output"):
        if folders.claim_output(plan.output, plan.identity(), FLAGS_OF):
            print(f"{plan.output}: already finished by the same command, nothing to do")
        else:
            _run(plan, inputs, job, options)
    print(summarize(plan.output))


def _run(
    plan: FeaturesPlan, inputs: TaskSplits, job: FeaturesJob, options: "PipelineOptions"
) -> None:
    for sentence in inputs.notes:
        print(sentence)
    if works_here(options):
        with loading():  # its import prints, so it happens here
            import tfx_bsl.coders.example_coder  # noqa: F401
    try:
        run_job(
            lambda pipeline, folder: pipeline | CreateTaskFeatures(job, folder, (plan, inputs)),
            options,
            describe_examples(sum(len(example) for example in inputs.examples.values())),
            sum(path.stat().st_size for path in inputs.files.values()) / 1e6,
            "MB",
        )
    except BaseException:
        storage.delete_quietly([FileSystems.join(plan.output, EXAMPLES_FILE)])
        raise


def summarize(output: str) -> str:
    """Returns a summary of a finished features folder: examples, sequences and tokens by split."""
    path = f"{output}/{INFO_FILE}"
    info = FeaturesInfo.from_json(storage.read_bytes(path, "--output").decode(), path)
    lines = [output]
    for split, counts in info.splits.items():
        lines.append(
            f"  {split}: {counts['used']:,} of {counts['read']:,} examples, "
            f"{counts['sequences']:,} sequences, "
            f"{counts['tokens'] / counts['sequences']:.1f} tokens each; "
            f"{counts[LOST_TOKENS]:,} sequences lost tokens"
        )
    return "\n".join(lines)
