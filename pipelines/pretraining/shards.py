"""The Beam step that makes the instances of shards and writes their record files."""

import dataclasses
import functools
import io
import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics

from beambert.console import ProgressTally
from beambert.folders import check_claimed
from beambert.io import open_atomically
from beambert.pipelines.pretraining.documents import CompactDocuments
from beambert.pipelines.pretraining.instances import (
    SOURCE,
    DocumentCounts,
    InstanceCounts,
    build_instances,
    check_size,
    count_sources,
    count_text,
    order_documents,
    pair_documents,
)
from beambert.pipelines.pretraining.layout import Layout, Received, RecordsFolder, Shuffle
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.pretraining.mixture import (
    Amount,
    SourceRecords,
    SourceSizes,
    pair_sources,
)
from beambert.pipelines.pretraining.plan import Plan
from beambert.pipelines.records.statistics import (
    RecordStatistics,
    count_records,
)
from beambert.pipelines.running import add_counts
from beambert.pipelines.text.preparation import KEEP
from beambert.process import free_bytes, loading

# The counts of written shards, which add up to those of their folders. Pure.


@dataclasses.dataclass(frozen=True)
class FolderCounts:
    """The counts of a folder's shards.

    Attributes:
      documents: counts of the documents, see `instances.DocumentCounts`.
      instances: counts of the instances, see `instances.InstanceCounts`.
      sources: for each source, its number of documents and of tokens.
      statistics: statistics of the records.
      files: name, number of instances, bytes and SHA-256 of each file.
      source_records: for each source of --source, the counts of its records; none without it.
    """

    documents: Mapping[str, int]
    instances: Mapping[str, int]
    sources: Sequence[tuple[int, int]]
    statistics: RecordStatistics
    files: Sequence[tuple[str, int, int, str]]
    source_records: Sequence[SourceRecords] = ()

    @classmethod
    def total(cls, parts: Sequence["FolderCounts"]) -> "FolderCounts":
        """Returns the counts of all shards of at least one part."""
        by_source = zip(*(part.sources for part in parts), strict=True)
        return cls(
            add_counts(part.documents for part in parts),
            add_counts(part.instances for part in parts),
            [tuple(map(sum, zip(*of_parts, strict=True))) for of_parts in by_source],
            functools.reduce(operator.add, (part.statistics for part in parts)),
            [file for part in parts for file in part.files],
            [
                sum(of_parts, SourceRecords())
                for of_parts in zip(*(part.source_records for part in parts), strict=True)
            ],
        )


@dataclasses.dataclass(frozen=True)
class ShardCounts:
    """The counts of some shards.

    Attributes:
      documents: counts of the documents of both splits, each shard counted once.
      folders: path of a folder -> counts of these shards' files in it.
    """

    documents: Mapping[str, int]
    folders: Mapping[str, FolderCounts]


def add_shards(parts: Iterable[ShardCounts]) -> ShardCounts:
    """Returns the counts of all shards of some parts."""
    parts = list(parts)
    by_folder: dict[str, list[FolderCounts]] = {}
    for part in parts:
        for path, counts in part.folders.items():
            by_folder.setdefault(path, []).append(counts)
    documents: Counter[str] = add_counts(part.documents for part in parts)
    return ShardCounts(documents, {p: FolderCounts.total(each) for p, each in by_folder.items()})


# Measures the sources of a corpus, on which the number of passes over each depends.


def measure_sources(
    element: tuple[int, Iterable[bytes]], layout: Layout, ids: TokenIds, shuffle: Shuffle
) -> Iterator[SourceSizes]:
    """Yields the sizes of the sources in each training shard of (group, values).

    A size is the number of tokens that one pass over the source gives the records. The first pass
    is paired, or packed, for it and written by nobody, which is much cheaper than masking and
    writing it. Equal documents are left out before, as in the records.
    """
    sources = len(layout.sources)
    once = [Amount(passes=1)] * sources
    for key, received in shuffle.receive(*element).items():
        if key < layout.num_shards:
            documents = documents_of(received, layout, ids, DocumentCounts())
            text = np.bincount(documents.sources, documents.document_tokens(), minlength=sources)
            of_lengths = [
                pair_sources(documents, parameters, key, InstanceCounts(), once)[1]
                for parameters in layout.lengths
            ]
            records = [[each.record_tokens for each in found] for found in of_lengths]
            yield SourceSizes(text.astype(np.int64), np.array(records, np.int64))


def add_sizes(parts: Sequence[SourceSizes]) -> SourceSizes:
    """Returns the sum of sizes; of none, sizes without a shape."""
    none = np.zeros((), np.int64)
    return sum(parts, SourceSizes(none, none))


class WriteShards(beam.DoFn):
    """Writes the record files of the shards of each (group, values)."""

    def __init__(self, plan: Plan, ids: TokenIds, shuffle: Shuffle, progress_folder: str | None):
        """Takes of the plan what it needs, since a tokenizer may be large.

        Args:
          plan: plan of the job.
          ids: ids of the vocabulary.
          shuffle: the shuffle.
          progress_folder: folder of a `ProgressDisplay`, or None.
        """
        self._layout = plan.layout
        # The job of each folder, which must still be its job when a shard is written there.
        self._claims = {folder.path: plan.identity(folder) for folder in plan.layout.folders()}
        self._ids = ids
        self._sources = max(1, len(plan.sources.names))
        self._shuffle = shuffle
        self._progress_folder = progress_folder
        self._instances = Metrics.counter("beambert", "instances")
        # A shard that is much larger than the mean has a document with very many copies.
        self._tokens = Metrics.distribution("beambert", "tokens_in_shard")

    def setup(self) -> None:
        """Loads the encoder and creates the worker's `ProgressTally`."""
        with loading():
            import beambert.pipelines.records.reading  # noqa: F401  (its import prints)

        self._progress = ProgressTally(self._progress_folder)

    def process(
        self, element: tuple[int, Iterable[bytes]], sizes: SourceSizes | None = None
    ) -> Iterator[ShardCounts]:
        """Builds and writes each shard of a group in every folder of its split.

        `sizes` has the sizes of the sources, see `measure_sources`.

        Raises:
          InputError: one of the folders isn't the job's any more.
        """
        # A look at a claim takes four requests to object storage, and there may be many folders.
        files = itertools.chain(*map(self._layout.files_of, self._shuffle.shards_of(element[0])))
        for folder in dict.fromkeys(folder.path for folder, _ in files):
            check_claimed(folder, self._claims[folder])
        received = self._shuffle.receive(*element)
        for key in list(received):
            yield self._write_shard(key, received.pop(key), sizes)

    def _write_shard(self, key: int, received: Received, sizes: SourceSizes | None) -> ShardCounts:
        """Builds one shard and writes it in every folder of its split."""
        counts = DocumentCounts()
        documents = documents_of(received, self._layout, self._ids, counts)
        self._tokens.update(len(documents.tokens))
        folders = {}
        for folder, name in self._layout.files_of(key):
            mine, of_mine = documents, counts
            if folder.source is not None:
                mine, of_mine = documents.of_source(folder.source), DocumentCounts()
                count_text(mine, self._ids, of_mine)
            amounts = self._amounts(folder, sizes)
            made, statistics, entry, records = self._write(documents, key, folder, name, amounts)
            folders[folder.path] = FolderCounts(
                dataclasses.asdict(of_mine),
                dataclasses.asdict(made),
                count_sources(mine, self._sources),
                statistics,
                [entry],
                records,
            )
        self._progress.add(shards=1)
        self._progress.flush()
        return ShardCounts(dataclasses.asdict(counts), folders)

    def _amounts(self, folder: RecordsFolder, sizes: SourceSizes | None) -> list[Amount] | None:
        """Returns how much of each source of --source a folder has; None without that flag."""
        mixture = self._layout.job.mixture
        if mixture is None:
            return None
        dupe_factor = folder.parameters.dupe_factor
        if folder.source is not None:
            return [Amount(dupe_factor * (n == folder.source)) for n in range(self._sources)]
        of_length = self._layout.lengths.index(folder.parameters)
        return mixture.amounts(sizes, of_length, dupe_factor)

    def _write(
        self,
        documents: CompactDocuments,
        key: int,
        folder: RecordsFolder,
        name: str,
        amounts: Sequence[Amount] | None,
    ) -> tuple[
        InstanceCounts, RecordStatistics, tuple[str, int, int, str], Sequence[SourceRecords]
    ]:
        """Writes one file, of which nothing is left after an error.

        Returns:
          the counts of its instances, the statistics of its records, its entry in
          `FolderCounts.files`, and the counts of each source.
        """
        from beambert.pipelines.records.encoding import RecordWriter, encode_examples
        from beambert.pipelines.records.reading import CHECKED_RECORDS, check_encoded, read_batches

        parameters = folder.parameters
        counts = InstanceCounts()
        records: Sequence[SourceRecords] = ()
        if amounts is None:
            pairs = pair_documents(documents, parameters, key, counts)
        else:
            pairs, records = pair_sources(documents, parameters, key, counts, amounts)
        lengths = (parameters.max_seq_length, parameters.max_predictions_per_seq)
        statistics, written = RecordStatistics.empty(*lengths), 0
        with open_atomically(f"{folder.path}/{name}") as file:
            writer = RecordWriter(file, self._layout.job.compression)
            batches = build_instances(
                documents.tokens,
                pairs,
                self._ids,
                parameters,
                key,
                counts,
                documents.begins_word,
            )
            for number, rows in enumerate(batches):
                examples, made = encode_examples(rows), len(rows["input_ids"])
                writer.write(examples)
                written += made
                statistics += count_records(rows, self._ids)
                if number == 0:
                    encoded = io.BufferedReader(io.BytesIO(examples))
                    check_encoded(rows, next(read_batches(encoded, CHECKED_RECORDS)), self._ids)
                self._instances.inc(made)
                self._progress.add(instances=made)
            writer.finish()
        return counts, statistics, (name, written, writer.bytes, writer.sha256), records


def documents_of(
    received: Received, layout: Layout, ids: TokenIds, counts: DocumentCounts
) -> CompactDocuments:
    """Returns the documents that a shard has received, see `instances.order_documents`.

    Args:
      received: the documents, and the hashes of those to leave out.
      layout: layout of the job.
      ids: ids of the vocabulary.
      counts: counts that are filled in here.

    Raises:
      InputError: the shard is too large for its offsets, or for the memory.
    """
    parts = [*map(CompactDocuments.unpack, received.packed)]
    check_size(parts, free_bytes())
    documents = CompactDocuments.concatenate([CompactDocuments.empty(), *parts])
    marked = b"".join(received.marks)
    return order_documents(
        documents,
        ids,
        counts,
        drop_duplicates=layout.job.duplicates != KEEP,
        near_duplicates=np.frombuffer(marked, documents.hashes.dtype),
        by_source=bool(layout.sources) or layout.lengths[0].random_next == SOURCE,
    )
