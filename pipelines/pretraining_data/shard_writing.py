"""The Beam step that makes the instances of shards and writes their record files."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics

from beambert.console import ProgressTally
from beambert.folders import check_claimed
from beambert.pipelines.instances.building import (
    DocumentCounts,
    InstanceCounts,
    build_instances,
    check_size,
    commonest_document,
    count_sources,
    count_text,
    order_documents,
    pair_documents,
)
from beambert.pipelines.instances.by_source import SourceRecords, pair_sources
from beambert.pipelines.instances.compact_documents import CompactDocuments
from beambert.pipelines.instances.masking import TokenIds
from beambert.pipelines.instances.mixture import Amount, Mixture, SourceSizes
from beambert.pipelines.instances.parameters import REFERENCE, SOURCE
from beambert.pipelines.metrics import StageClock
from beambert.pipelines.pretraining_data.layout import Layout, RecordsFolder
from beambert.pipelines.pretraining_data.shard_counts import FolderCounts, ShardCounts
from beambert.pipelines.pretraining_data.shard_files import ShardFile, open_shard_file
from beambert.pipelines.pretraining_data.shuffle import Received, Shuffle
from beambert.pipelines.records.statistics import VocabularyIds, count_records, restore_ids
from beambert.pipelines.text.preparation import KEEP
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.process import free_bytes, loading


class WriteShards(beam.DoFn):
    """Writes the record files of the shards of each (group, values)."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        layout: Layout,
        shuffle: Shuffle,
        duplicates: str,
        sources: int,
        progress_folder: str | None,
        claims: Mapping[str, Mapping[str, Any]],
        mixture: Mixture | None = None,
    ):
        """Takes the settings.

        `sources` is the number of sources, and `claims` has the job of each folder, which must
        still be its own when a shard is written there. `mixture` says how the sources of --source
        are mixed.
        """
        self._claims = claims
        self._mixture = mixture
        is_reference = layout.lengths[0].pairs == REFERENCE
        self._ids = TokenIds.of(vocabulary, is_reference)
        self._vocabulary_ids = VocabularyIds.of(vocabulary)
        self._layout = layout
        self._shuffle = shuffle
        self._duplicates = duplicates
        self._sources = sources
        self._progress_folder = progress_folder
        self._instances = Metrics.counter("beambert", "instances")
        # A shard that is much larger than the mean has a document with very many copies.
        self._tokens = Metrics.distribution("beambert", "tokens_in_shard")

    def setup(self) -> None:
        """Loads the encoder and creates the worker's `ProgressTally`."""
        with loading():
            import beambert.pipelines.records.reading  # noqa: F401  (its import prints)

        self._progress = ProgressTally(self._progress_folder)
        self._clock = StageClock()

    def process(
        self, element: tuple[int, Iterable[bytes]], sizes: SourceSizes | None = None
    ) -> Iterator[ShardCounts]:
        """Builds and writes each shard of a group in every folder of its split.

        `sizes` has the sizes of the sources, see `source_sizes.MeasureSources`.

        Raises:
          InputError: one of the folders isn't the job's any more.
        """
        # A look at a claim takes four requests to object storage, and there may be many folders.
        files = itertools.chain(*map(self._layout.files_of, self._shuffle.shards_of(element[0])))
        for folder in dict.fromkeys(folder.path for folder, _ in files):
            check_claimed(folder, self._claims[folder])
        self._clock.start()
        received = self._shuffle.receive(*element)
        for key in list(received):
            yield self._write_shard(key, received.pop(key), sizes)

    def _write_shard(self, key: int, received: Received, sizes: SourceSizes | None) -> ShardCounts:
        """Builds one shard and writes it in every folder of its split."""
        counts = DocumentCounts()
        parts = [*map(CompactDocuments.unpack, received.packed)]
        documents = documents_of(
            parts, self._layout, self._ids, counts, self._duplicates, received.marks
        )
        self._clock.lap("shuffle")
        self._tokens.update(len(documents.tokens))
        folders = {}
        for folder, name in self._layout.files_of(key):
            mine, of_mine = documents, counts
            if folder.source is not None:
                mine, of_mine = documents.of_source(folder.source), DocumentCounts()
                count_text(mine, self._ids, of_mine)
            amounts = self._amounts(folder, sizes)
            made, file, records = self._write(documents, key, folder, name, amounts)
            folders[folder.path] = FolderCounts(
                dataclasses.asdict(of_mine),
                dataclasses.asdict(made),
                count_sources(mine, self._sources),
                commonest_document([mine]),
                file.statistics,
                [file.entry],
                records,
            )
        self._progress.add(shards=1)
        self._progress.flush()
        return ShardCounts(dataclasses.asdict(counts), folders)

    def _amounts(self, folder: RecordsFolder, sizes: SourceSizes | None) -> list[Amount] | None:
        """Returns how much of each source of --source a folder has; None without that flag."""
        if self._mixture is None:
            return None
        dupe_factor = folder.parameters.dupe_factor
        if folder.source is not None:
            return [Amount(dupe_factor * (n == folder.source)) for n in range(self._sources)]
        of_length = self._layout.lengths.index(folder.parameters)
        return self._mixture.amounts(sizes, of_length, dupe_factor)

    def _write(
        self,
        documents: CompactDocuments,
        key: int,
        folder: RecordsFolder,
        name: str,
        amounts: Sequence[Amount] | None,
    ) -> tuple[InstanceCounts, ShardFile, Sequence[SourceRecords]]:
        """Writes one file; returns the counts of its instances, the file, and sources' counts."""
        from beambert.pipelines.records.encoding import encode_examples
        from beambert.pipelines.records.reading import check_encoded

        parameters = folder.parameters
        counts, lap = InstanceCounts(), self._clock.lap
        records: Sequence[SourceRecords] = ()
        if amounts is None:
            pairs = pair_documents(documents, parameters, key, counts)
        else:
            pairs, records = pair_sources(documents, parameters, key, counts, amounts)
        lap("pairs")
        with open_shard_file(folder, name, self._layout.compression) as file:
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
                lap("masks")
                examples = encode_examples(rows)
                lap("encode")
                file.write(examples)
                lap("write")
                file.statistics += count_records(rows, restore_ids(rows), self._vocabulary_ids)
                if number == 0:
                    check_encoded(rows, examples.to_pylist(), self._vocabulary_ids)
                lap("statistics")
                self._instances.inc(len(examples))
                self._progress.add(instances=len(examples))
        lap("write")
        return counts, file, records


def documents_of(
    parts: Sequence[CompactDocuments],
    layout: Layout,
    ids: TokenIds,
    counts: DocumentCounts,
    duplicates: str = KEEP,
    marks: Sequence[bytes] = (),
) -> CompactDocuments:
    """Returns the documents that a shard has received, see `building.order_documents`.

    Args:
      parts: the documents, in any order.
      layout: layout of the job.
      ids: ids of the vocabulary.
      counts: counts that are filled in here.
      duplicates: value of --duplicates.
      marks: hashes of the documents to leave out, see `shuffle.Received`.

    Raises:
      InputError: the shard is too large for its offsets, or for the memory.
    """
    check_size(parts, free_bytes())
    documents = CompactDocuments.concatenate([CompactDocuments.empty(), *parts])
    marked = b"".join(marks)
    return order_documents(
        documents,
        ids,
        counts,
        drop_duplicates=duplicates != KEEP,
        near_duplicates=np.frombuffer(marked, documents.hashes.dtype),
        by_source=bool(layout.sources) or layout.lengths[0].random_next == SOURCE,
    )
