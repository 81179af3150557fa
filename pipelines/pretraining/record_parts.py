"""The parts of the data job that turn tokens into records, for custom pipelines."""

import dataclasses
import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindows

from beambert.errors import InputError
from beambert.pipelines.metrics import total_of
from beambert.pipelines.pretraining.documents import HASH_BYTES, CompactDocuments, divide
from beambert.pipelines.pretraining.finishing import check_shards, finish_folder, records_info
from beambert.pipelines.pretraining.instances import (
    REFERENCE,
    DocumentCounts,
    InstanceCounts,
    InstanceParameters,
    build_instances,
    pair_documents,
    rows_at_a_time,
)
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.layout import Layout, RecordsFolder
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.pretraining.plan import Plan, make_plan
from beambert.pipelines.pretraining.shards import (
    FolderCounts,
    ShardCounts,
    add_shards,
    documents_of,
    open_shard_file,
)
from beambert.pipelines.pretraining.text_parts import InstanceRow, TokenizedRow, count
from beambert.pipelines.records.contract import NONE, feature_shapes
from beambert.pipelines.records.figures import total
from beambert.pipelines.records.statistics import FAULTS, FEATURES, VocabularyIds
from beambert.pipelines.running import check_reachable_from, check_visible, take_output
from beambert.process import loading
from beambert.storage import absolute

# The fields of a job that these parts follow. The parts for text have parameters of their own.
FOLLOWED = {
    *InstanceParameters.__dataclass_fields__,
    *(
        "vocab_file",
        "tokenizer",
        "output",
        "do_lower_case",
        "num_shards",
        "eval_fraction",
        "compression",
    ),
}
_OF_LENGTHS = {"max_seq_length", "max_predictions_per_seq"}
# Number of instances that are encoded at a time.
_BATCH_INSTANCES = 1024
# The parameters of each `MakeBertInstances` of a pipeline.
_MADE: weakref.WeakKeyDictionary[beam.Pipeline, list[Mapping[str, Any]]] = (
    weakref.WeakKeyDictionary()
)
# An element for each shard, so that those without an instance get their files, too.
_NOTHING = (0, 0, b"")


@beam.typehints.with_input_types(TokenizedRow)
@beam.typehints.with_output_types(InstanceRow)
class MakeBertInstances(beam.PTransform):
    """Makes the instances of tokenized documents: pairs of segments, or packed text, with masks.

    They depend on the documents and the job alone, and equal those of `CreatePretrainingData`.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import (
      ...     MakeBertInstances, PretrainingDataJob, SentencesRow, Tokenize
      ... )
      >>> texts = [["The river begins.", "It ends in the city."], ["A house.", "A song."]]
      >>> job = PretrainingDataJob(
      ...     vocab_file="vocab.txt",
      ...     output="records",
      ...     max_seq_length=(32,),
      ...     num_shards=1,
      ...     dupe_factor=1,
      ... )
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     instances = (
      ...         pipeline
      ...         | beam.Create([SentencesRow(text) for text in texts])
      ...         | Tokenize("vocab.txt")
      ...         | MakeBertInstances(job)
      ...         | beam.Map(lambda row: print(row.shard, row.place, len(row.input_ids)))
      ...     )
      0 0 32
      0 1 32
    """

    def __init__(self, job: PretrainingDataJob):
        """Reads the vocabulary.

        Args:
          job: the parameters. Of the text and its shuffle it says nothing: other parts read, split
            and deduplicate.

        Raises:
          InputError: the vocabulary cannot be used, or the job has what this part doesn't follow.
        """
        super().__init__()
        self._plan = _plan_of(job)

    def expand(self, documents: beam.PCollection[TokenizedRow]) -> beam.PCollection[InstanceRow]:
        """Adds the steps."""
        _MADE.setdefault(documents.pipeline, []).append(_deciding(self._plan))
        return (
            documents
            # A shard is of all documents, whatever window they are in.
            | "Window" >> beam.WindowInto(GlobalWindows())
            | "Pack" >> beam.FlatMap(_pack, self._plan.layout).with_output_types(tuple[int, bytes])
            | beam.GroupByKey()
            | "Build" >> beam.ParDo(BuildInstances(self._plan)).with_output_types(InstanceRow)
        )


class BuildInstances(beam.DoFn):
    """Turns (shard, packed documents) into the instances of the shard, in their order."""

    def __init__(self, plan: Plan):
        """Takes of the plan what it needs: a tokenizer may be large, and a job may not."""
        vocabulary = plan.vocabulary
        self._layout, self._name = plan.layout, vocabulary.name
        self._ids = TokenIds.of(vocabulary, plan.layout.lengths[0].pairs == REFERENCE)

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[InstanceRow]:
        """Yields the instances of every length."""
        shard, packed = element
        # Documents of one hash lie in the order of their bytes.
        parts = [CompactDocuments.unpack(data) for data in sorted(packed)]
        highest, size = max(part.tokens.max() for part in parts), len(self._ids.is_fixed)
        if highest >= size:
            raise InputError(
                f"{self._name}: has {size:,} tokens, but a document has the id "
                f"{highest}; give Tokenize and MakeBertInstances the same vocabulary"
            )
        documents = documents_of(parts, self._layout, self._ids, DocumentCounts())
        for folder, _ in self._layout.files_of(shard):
            counts, places = InstanceCounts(), itertools.count()
            pairs = pair_documents(documents, folder.parameters, shard, counts)
            for rows in build_instances(
                documents.tokens, pairs, self._ids, folder.parameters, shard, counts
            ):
                columns = [rows[name].tolist() for name in FEATURES if name in rows]
                for features in zip(*columns, strict=True):
                    yield InstanceRow(shard, next(places), *features)
            count({"instances": counts.instances})


@beam.typehints.with_input_types(InstanceRow)
@beam.typehints.with_output_types(str)
class WriteRecords(beam.PTransform):
    """Writes instances to finished records folders, and returns their absolute paths.

    The folders have the files of a folder that `CreatePretrainingData` makes. A file gets its name
    when it is complete, and the marker is written last. A worker holds the records of a shard in
    memory.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import (
      ...     MakeBertInstances, PretrainingDataJob, SentencesRow, Tokenize, WriteRecords
      ... )
      >>> texts = [["The river begins.", "It ends in the city."], ["A house.", "A song."]]
      >>> job = PretrainingDataJob(
      ...     vocab_file="vocab.txt", output="records", max_seq_length=(32,), num_shards=1
      ... )
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     folders = (
      ...         pipeline
      ...         | beam.Create([SentencesRow(text) for text in texts])
      ...         | Tokenize("vocab.txt")
      ...         | MakeBertInstances(job)
      ...         | WriteRecords(job)
      ...         | beam.Map(lambda path: print(path.rpartition("/")[2]))
      ...     )
      records
    """

    def __init__(self, job: PretrainingDataJob):
        """Reads the vocabulary.

        Args:
          job: the job of `MakeBertInstances`.

        Raises:
          InputError: the vocabulary cannot be used, or the job has what this part doesn't follow.
        """
        super().__init__()
        self._plan = _plan_of(job)

    def expand(self, instances: beam.PCollection[InstanceRow]) -> beam.PCollection[str]:
        """Claims the output folder and adds the steps.

        Raises:
          InputError: the output folder is finished already, or holds something else, or another
            transform of the pipeline writes there.
        """
        plan, pipeline = self._plan, instances.pipeline
        check_reachable_from(pipeline, output=plan.job.output)
        take_output(pipeline, plan.job.output)
        _check_same_job(pipeline, plan)
        plan.claim_new_folders(pipeline.options)
        every_shard = [(shard, _NOTHING) for shard in range(plan.layout.total_shards)]
        examples = (
            instances
            | "Window" >> beam.WindowInto(GlobalWindows())
            | "Batch"
            >> beam.BatchElements(min_batch_size=_BATCH_INSTANCES, max_batch_size=_BATCH_INSTANCES)
            | "Encode"
            >> beam.FlatMap(_encode_rows).with_output_types(tuple[int, tuple[int, int, bytes]])
        )
        written = (
            [examples, pipeline | "Shards" >> beam.Create(every_shard)]
            | beam.Flatten()
            | beam.GroupByKey()
            | "Write" >> beam.ParDo(WriteInstances(plan)).with_output_types(ShardCounts)
        )
        return (
            pipeline
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.FlatMap(
                _finish, total_of(written, "SumShards", add_shards), plan
            ).with_output_types(str)
        )


class WriteInstances(beam.DoFn):
    """Writes the files of (shard, encoded instances) and counts what is in them."""

    def __init__(self, plan: Plan):
        """Takes of the plan what it needs."""
        self._layout, self._ids = plan.layout, VocabularyIds.of(plan.vocabulary)

    def setup(self) -> None:
        """Loads the decoder.

        Raises:
          InputError: the worker doesn't see the output folder.
        """
        check_visible(self._layout.folders()[0].path)
        with loading():
            import beambert.pipelines.records.reading  # noqa: F401  (its import prints)

    def process(
        self, element: tuple[int, Iterable[tuple[int, int, bytes]]]
    ) -> Iterator[ShardCounts]:
        """Writes a file in every folder of the shard's split."""
        shard, values = element
        examples: dict[int, list[bytes]] = {}
        for length, _, example in sorted(values):
            if example:
                examples.setdefault(length, []).append(example)
        layout = self._layout
        if shard >= layout.total_shards:
            raise InputError(
                f"--num_shards={layout.num_shards}: there is an instance of shard {shard}; give "
                "MakeBertInstances and WriteRecords the same job"
            )
        if others := examples.keys() - {one_length.max_seq_length for one_length in layout.lengths}:
            raise InputError(
                f"--max_seq_length: there is an instance of length {min(others)}; give "
                "MakeBertInstances and WriteRecords the same job"
            )
        folders = {}
        for folder, name in layout.files_of(shard):
            mine = examples.get(folder.parameters.max_seq_length, [])
            folders[folder.path] = self._write(mine, folder, name)
        yield ShardCounts({}, folders)

    def _write(self, examples: Sequence[bytes], folder: RecordsFolder, name: str) -> FolderCounts:
        from beambert.pipelines.records.reading import RecordFeatures, count_batch

        lengths = (folder.parameters.max_seq_length, folder.parameters.max_predictions_per_seq)
        has_label = folder.parameters.pairs != NONE
        names = feature_shapes(*lengths, has_label)
        features = RecordFeatures({name: name for name in names}, *lengths)
        with open_shard_file(folder, name, self._layout.job.compression) as file:
            together = rows_at_a_time(lengths[0])
            for first in range(0, len(examples), together):
                some = list(examples[first : first + together])
                file.statistics += count_batch(some, features, self._ids)
                file.write(some)
            if file.statistics.faults:
                fault, number = next(iter(file.statistics.faults.items()))
                raise InputError(
                    f"{FileSystems.join(folder.path, name)}: {number:,} of its instances "
                    f"{FAULTS[fault]}; check the steps between MakeBertInstances and WriteRecords"
                )
        statistics = file.statistics
        of_pairs = {
            "is_next": statistics.instances - statistics.random_next,
            "random_next": statistics.random_next,
        }
        counts = {
            "instances": statistics.instances,
            **(of_pairs if has_label else {}),
            "filled_tokens": total(statistics.filled),
            **({"predictions": total(statistics.predictions)} if features.has_masks else {}),
        }
        return FolderCounts({}, counts, [], (0, 0), statistics, [file.entry])


def _check_same_job(pipeline: beam.Pipeline, plan: Plan) -> None:
    """Refuses to write what other parameters made, which info.json would tell as this job's.

    Raises:
      InputError: no `MakeBertInstances` of the pipeline has the parameters.
    """
    mine, made = _deciding(plan), _MADE.get(pipeline, [])
    if made and mine not in made:
        name = next(name for name, value in mine.items() if made[-1].get(name) != value)
        raise InputError(
            f"--{name}={mine[name]}: is {made[-1].get(name)} for the instances; give "
            "MakeBertInstances and WriteRecords the same job"
        )


def _deciding(plan: Plan) -> dict[str, Any]:
    """Returns the parameters that decide the instances of a shard; lengths have their own check."""
    parameters = plan.parameters_of(plan.layout.folders()[0])
    names = {*InstanceParameters.__dataclass_fields__, "eval_fraction"} - _OF_LENGTHS
    return {name: value for name, value in parameters.items() if name in names}


def _plan_of(job: PretrainingDataJob) -> Plan:
    """Returns the plan of a job that says nothing of the text.

    Raises:
      InputError: it does, or the vocabulary cannot be used, or the number of shards is missing.
    """
    for field in dataclasses.fields(job):
        value = getattr(job, field.name)
        if field.name not in FOLLOWED and value != field.default:
            raise InputError(
                f"--{field.name}={value}: has no effect on MakeBertInstances and WriteRecords; "
                "leave it out, and give it to the part that it is for"
            )
    plan = make_plan(dataclasses.replace(job, output=absolute(job.output)), (), ())
    parameters = {n: v for n, v in plan.parameters.items() if n in FOLLOWED}
    return dataclasses.replace(plan, parameters=parameters)


def _pack(row: TokenizedRow, layout: Layout) -> Iterator[tuple[int, bytes]]:
    """Yields the shards of a document's pieces, and the pieces.

    Raises:
      InputError: the hash or an id is none.
    """
    try:
        sentences = [ids for ids in row.token_ids if ids]
        lengths = np.array([len(ids) for ids in sentences], np.uint32)
        is_bad = len(row.hash) != HASH_BYTES or any(min(ids) < 0 for ids in sentences)
    except TypeError as error:
        raise InputError(
            f"{row.path or 'a document'}: its `token_ids` aren't a list of lists of numbers, one "
            "for each sentence; check the steps before MakeBertInstances"
        ) from error
    if not sentences:
        return
    if is_bad:
        raise InputError(
            f"{row.path or 'a document'}: its row has a hash that isn't of {HASH_BYTES} bytes, "
            "or a negative id; check the steps before MakeBertInstances"
        )
    tokens = np.concatenate([np.array(ids, np.uint32) for ids in sentences])
    if tokens.max() < 1 << 16:
        tokens = tokens.astype(np.uint16)
    document = CompactDocuments(
        np.frombuffer(row.hash, f"V{HASH_BYTES}"),
        np.array([row.source], np.uint32),
        np.zeros(1, np.uint32),
        np.array([len(lengths)], np.uint32),
        lengths,
        tokens,
    )
    pieces, is_eval = divide(document, layout.job.eval_fraction, layout.segment_tokens)
    yield from pieces.pack_by_key(layout.keys(pieces.hashes, is_eval))


def _encode_rows(rows: Sequence[InstanceRow]) -> Iterator[tuple[int, tuple[int, int, bytes]]]:
    """Yields shard and (length, place, record) of each instance of a batch."""
    from beambert.pipelines.records.encoding import encode_examples

    by_lengths: dict[tuple[int, ...], list[InstanceRow]] = {}
    for row in rows:
        lengths = tuple(len(getattr(row, name)) for name in FEATURES)
        by_lengths.setdefault(lengths, []).append(row)
    for lengths, same in by_lengths.items():
        names = [name for name, length in zip(FEATURES, lengths, strict=True) if length]
        columns = {name: np.array([getattr(row, name) for row in same]) for name in names}
        for row, example in zip(same, encode_examples(columns).to_pylist(), strict=True):
            yield row.shard, (len(row.input_ids), row.place, example)


def _finish(_: None, shards: ShardCounts, plan: Plan) -> list[str]:
    """Completes the folders and returns their paths; it runs once, after all shards."""
    check_shards(shards, plan.layout)
    folders = plan.layout.folders()
    for folder in folders:
        if not shards.folders[folder.path].instances["instances"]:
            raise InputError(
                f"--output={folder.path}: there is no instance for it; check the steps before "
                "WriteRecords and give them more text"
            )
    for folder in reversed(folders):  # The held-out folders stand inside the others.
        mine = shards.folders[folder.path]
        info = records_info(plan, folder, mine, dict(mine.instances))
        finish_folder(plan, folder, info, mine.statistics)
    return [folder.path for folder in folders]
