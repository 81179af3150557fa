"""The Beam steps that tokenize documents, group them by shard, and write record files."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from beambert.pipelines.corpus.coverage import coverage
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.reading import ReadOptions
from beambert.pipelines.corpus.transforms import COUNTS, RejectLists, Source, read_source
from beambert.pipelines.files.beam_files import check_claimed, open_atomically
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
from beambert.pipelines.instances.compact_documents import (
    CompactDocuments,
    document_hash,
)
from beambert.pipelines.instances.masking import TokenIds
from beambert.pipelines.instances.mixture import Amount, Mixture, SourceSizes
from beambert.pipelines.instances.parameters import REFERENCE, SOURCE
from beambert.pipelines.jobs.clock import StageClock
from beambert.pipelines.jobs.permanent_errors import told
from beambert.pipelines.jobs.running import check_visible
from beambert.pipelines.pretraining_data.division import divide
from beambert.pipelines.pretraining_data.evaluation_texts import (
    OVERLAP,
    EvaluationTexts,
    overlap_row,
)
from beambert.pipelines.pretraining_data.layout import Layout, RecordsFolder
from beambert.pipelines.pretraining_data.near_duplicates import (
    NearDuplicateSettings,
    band_rows,
    distinct_rows,
    near_duplicates,
    rows_by_bucket,
)
from beambert.pipelines.pretraining_data.shard_counts import FolderCounts, ShardCounts
from beambert.pipelines.pretraining_data.shuffle import Received, Shuffle
from beambert.pipelines.pretraining_data.sources import Sources
from beambert.pipelines.records.statistics import (
    RecordStatistics,
    VocabularyIds,
    count_records,
    restore_ids,
)
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.shared.progress import ProgressTally
from beambert.pipelines.text.preparation import KEEP, NEAR, TextOptions, prepare_documents
from beambert.pipelines.wordpiece.vocabulary import Vocabulary

# Number of characters to split and tokenize at a time. At this size the overhead of a call of
# TensorFlow doesn't matter.
BATCH_CHARACTERS = 1 << 20
BANDS = "bands"
OVERLAPS = "overlaps"


def near_duplicate_settings(layout: Layout) -> NearDuplicateSettings:
    """Returns the settings of a job."""
    return NearDuplicateSettings(by_source=bool(layout.sources))


class TokenizeSources(beam.DoFn):
    """Turns sources into elements of tokenized documents for the shuffle.

    The side outputs are counts, rejects, elements of band rows, and lists of documents that share
    passages with evaluation files. Documents are collected over all sources of a bundle, so that
    many small files cost no more than a few large ones.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        read_options: ReadOptions,
        text_options: TextOptions,
        layout: Layout,
        shuffle: Shuffle,
        sources: Sources,
        evaluation: EvaluationTexts | None = None,
        error_path: str = "",
    ):
        """Takes the settings.

        The tokenizer is built later, in each worker.
        """
        self._vocabulary = vocabulary
        self._read_options = read_options
        self._text_options = text_options
        self._layout = layout
        self._shuffle = shuffle
        self._sources = sources
        self._evaluation = evaluation
        self._error_path = error_path
        self._documents_read = Metrics.counter("beambert", "documents")

    def setup(self) -> None:
        """Builds the tokenizer, once in each worker.

        Raises:
          InputError: the worker doesn't see the output folder.
        """
        check_visible(self._layout.folders()[0].path)
        with loading():
            from beambert.pipelines.pretraining_data.tokenizing import DocumentTokenizer

        self._tokenizer = DocumentTokenizer(self._vocabulary, self._text_options)
        self._progress = ProgressTally(self._read_options.progress_folder)
        self._clock = StageClock()

    def start_bundle(self) -> None:
        """Resets the collected documents and counts."""
        self._counts: Counter[str] = Counter()
        self._documents: dict[int, list[Document]] = {}
        self._paths: dict[int, list[str]] = {}
        self._overlaps: list[str] = []
        self._characters = 0
        self._tokenized: list[CompactDocuments] = []
        self._bands: list[np.ndarray] = []

    def process(self, source: Source) -> Iterator[Any]:
        """Reads one source, and yields elements when there is enough to pass on."""
        with told(self._error_path):
            yield from self._read(source)

    def _read(self, source: Source) -> Iterator[Any]:
        self._clock.start()
        rejects = RejectLists(source)
        path = "" if isinstance(source, str) else source.file.path
        number = self._sources.number_of(path) if path else 0
        for document in read_source(source, self._read_options, self._progress):
            self._counts["read"] += 1
            self._progress.add(documents=1)
            if isinstance(document, Reject):
                self._counts["rejected " + document.reason] += 1
                yield from rejects.add(document)
            elif isinstance(document, Skip):
                self._counts["dropped " + document.reason] += 1
            else:
                self._counts["encoding " + document.encoding] += 1
                for reason, count in document.cleaned.items():
                    self._counts["cleaned " + reason] += count
                self._counts["with_replacement_characters"] += "\ufffd" in document.text
                self._documents.setdefault(number, []).append(document)
                if self._evaluation:
                    self._paths.setdefault(number, []).append(path)
                self._characters += len(document.text)
                del document
                if self._characters >= BATCH_CHARACTERS:
                    self._tokenize()
                    tokens = sum(len(batch.tokens) for batch in self._tokenized)
                    if tokens >= self._shuffle.tokens_at_a_time:
                        yield from self._send()
        yield from rejects.rest()
        if not isinstance(source, str):
            self._counts["coverage"] += coverage(source)
        self._clock.lap("read")

    def finish_bundle(self) -> Iterator[Any]:
        """Yields the remaining elements and the counts."""
        self._clock.start()
        with told(self._error_path):
            self._tokenize()
            self._documents_read.inc(self._counts["read"])
            self._progress.flush()
            outputs = [*self._send(), beam.pvalue.TaggedOutput(COUNTS, self._counts)]
        yield from map(_in_global_window, outputs)

    def _tokenize(self) -> None:
        """Splits and tokenizes the collected documents; drops filtered and empty ones."""
        self._clock.lap("read")
        options = self._text_options
        sentences: list[list[str]] = []
        sources: list[int] = []
        for number, documents in self._documents.items():
            if self._evaluation:
                self._drop_overlaps(documents, self._paths.pop(number, []), self._evaluation)
            sentences += prepare_documents(documents, options, self._counts)
            sources += [number] * (len(sentences) - len(sources))
        if options.duplicates == NEAR:
            settings = near_duplicate_settings(self._layout)
            self._bands += [
                band_rows(document_hash(of), of, settings, source)
                for of, source in zip(sentences, sources, strict=True)
            ]
        self._characters = 0
        self._clock.lap("split")
        if not sentences:
            return
        compact = self._tokenizer.tokenize(sentences, sources)
        self._counts["dropped no_tokens"] += len(sentences) - len(compact.hashes)
        self._tokenized.append(compact)
        self._clock.lap("tokenize")

    def _drop_overlaps(
        self, documents: list[Document], paths: Sequence[str], evaluation: EvaluationTexts
    ) -> None:
        """Takes documents that share a passage with evaluation files out of a list."""
        found = evaluation.find([document.text for document in documents])
        self._counts["dropped " + OVERLAP] += len(found)
        for number, match in found.items():
            text = documents[number].text
            self._overlaps.append(overlap_row(paths[number], text, match, evaluation))
        documents[:] = [of for number, of in enumerate(documents) if number not in found]

    def _send(self) -> Iterator[Any]:
        """Yields the elements of the tokenized documents, of the band rows and of the overlaps."""
        layout = self._layout
        if self._tokenized:
            documents = CompactDocuments.concatenate(self._tokenized)
            self._tokenized = []
            if self._text_options.duplicates != KEEP:
                # A document with very many copies would make its shard large.
                read, documents = documents, documents.without_copies()
                self._counts["dropped duplicates"] += len(read.hashes) - len(documents.hashes)
            documents, is_eval = divide(documents, layout.eval_fraction)
            items = documents.pack_by_key(layout.keys(documents.hashes, is_eval))
            yield from self._shuffle.send(items)
        if self._bands:
            rows = distinct_rows(np.concatenate(self._bands))
            self._bands = []
            for element in self._shuffle.send(rows_by_bucket(rows, layout.total_shards)):
                yield beam.pvalue.TaggedOutput(BANDS, element)
        if self._overlaps:
            yield beam.pvalue.TaggedOutput(OVERLAPS, self._overlaps)
            self._overlaps = []
        self._clock.lap("shuffle")


def _in_global_window(output: Any) -> Any:
    """Returns an output of `finish_bundle` with a window, as Beam requires."""
    if isinstance(output, beam.pvalue.TaggedOutput):
        return beam.pvalue.TaggedOutput(output.tag, _in_global_window(output.value))
    return WindowedValue(output, GlobalWindow().max_timestamp(), [GlobalWindow()])


class FindNearDuplicates(beam.DoFn):
    """Turns (group, values of band rows) into elements that mark documents to drop."""

    def __init__(self, layout: Layout, shuffle: Shuffle):
        """Takes the layout, which assigns documents to shards, and the shuffle."""
        self._layout = layout
        self._shuffle = shuffle

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        """Compares the documents of each bucket of one group."""
        for received in self._shuffle.receive(*element).values():
            settings = near_duplicate_settings(self._layout)
            rows = np.frombuffer(b"".join(received.packed), settings.row_type)
            hashes = near_duplicates(rows, settings)
            # The pieces of a divided document are in a shard of each split.
            for is_eval in (False, True) if self._layout.eval_fraction else (False,):
                keys = self._layout.keys(hashes, is_eval)
                for key in np.unique(keys):
                    yield self._shuffle.mark(int(key), hashes[keys == key].tobytes())


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
        error_path: str = "",
        claims: Mapping[str, Mapping[str, Any]] | None = None,
        mixture: Mixture | None = None,
    ):
        """Takes the settings.

        `sources` is the number of sources, and `claims` has the job of each folder that must still
        be its own when a shard is written. `mixture` says how the sources of --source are mixed.
        """
        self._claims = claims or {}
        self._mixture = mixture
        is_reference = layout.lengths[0].pairs == REFERENCE
        self._ids = TokenIds.of(vocabulary, is_reference)
        self._vocabulary_ids = VocabularyIds.of(vocabulary)
        self._layout = layout
        self._shuffle = shuffle
        self._duplicates = duplicates
        self._sources = sources
        self._progress_folder = progress_folder
        self._error_path = error_path
        self._instances = Metrics.counter("beambert", "instances")
        # A shard that is much larger than the mean has a document with very many copies.
        self._tokens = Metrics.distribution("beambert", "tokens_in_shard")

    def setup(self) -> None:
        """Loads the encoder and creates the worker's `ProgressTally`."""
        with loading():
            import beambert.pipelines.records.decoding  # noqa: F401  (its import prints)

        self._progress = ProgressTally(self._progress_folder)
        self._clock = StageClock()

    def process(
        self, element: tuple[int, Iterable[bytes]], sizes: SourceSizes | None = None
    ) -> Iterator[ShardCounts]:
        """Builds and writes each shard of a group in every folder of its split.

        `sizes` has the sizes of the sources, see `source_sizes.MeasureSources`.
        """
        for folder, job in self._claims.items():
            check_claimed(folder, job)
        self._clock.start()
        with told(self._error_path):
            received = self._shuffle.receive(*element)
            for key in list(received):
                yield self._write_shard(key, received.pop(key), sizes)

    def _write_shard(self, key: int, received: Received, sizes: SourceSizes | None) -> ShardCounts:
        """Builds one shard and writes it in every folder of its split."""
        counts = DocumentCounts()
        documents = documents_of(received, self._layout, self._ids, self._duplicates, counts)
        self._clock.lap("shuffle")
        self._tokens.update(len(documents.tokens))
        folders = {}
        for folder, name in self._layout.files_of(key):
            mine, of_mine = documents, counts
            if folder.source is not None:
                mine, of_mine = documents.of_source(folder.source), DocumentCounts()
                count_text(mine, self._ids, of_mine)
            amounts = self._amounts(folder, sizes)
            made, statistics, file, records = self._write(documents, key, folder, name, amounts)
            folders[folder.path] = FolderCounts(
                dataclasses.asdict(of_mine),
                dataclasses.asdict(made),
                count_sources(mine, self._sources),
                commonest_document([mine]),
                statistics,
                [file],
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
    ) -> tuple[
        InstanceCounts, RecordStatistics, tuple[str, int, int, str], Sequence[SourceRecords]
    ]:
        """Writes one file; returns its counts, statistics, entry and sources' counts."""
        from beambert.pipelines.records.decoding import check_encoded
        from beambert.pipelines.records.encoding import RecordWriter, encode_examples

        parameters = folder.parameters
        counts, lap = InstanceCounts(), self._clock.lap
        lengths = (parameters.max_seq_length, parameters.max_predictions_per_seq)
        statistics = RecordStatistics.empty(*lengths)
        records: Sequence[SourceRecords] = ()
        if amounts is None:
            pairs = pair_documents(documents, parameters, key, counts)
        else:
            pairs, records = pair_sources(documents, parameters, key, counts, amounts)
        lap("pairs")
        with open_atomically(FileSystems.join(folder.path, name)) as file:
            writer = RecordWriter(file, self._layout.compression)
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
                writer.write(examples)
                lap("write")
                statistics += count_records(rows, restore_ids(rows), self._vocabulary_ids)
                if number == 0:
                    check_encoded(rows, examples.to_pylist(), self._vocabulary_ids)
                lap("statistics")
                self._instances.inc(len(examples))
                self._progress.add(instances=len(examples))
            writer.finish()
        lap("write")
        return counts, statistics, (name, counts.instances, writer.bytes, writer.sha256), records


def documents_of(
    received: Received, layout: Layout, ids: TokenIds, duplicates: str, counts: DocumentCounts
) -> CompactDocuments:
    """Returns the documents that a shard has received, see `building.order_documents`.

    Args:
      received: what the shard has received.
      layout: layout of the job.
      ids: ids of the vocabulary.
      duplicates: value of --duplicates.
      counts: counts that are filled in here.
    """
    parts = [CompactDocuments.empty(), *map(CompactDocuments.unpack, received.packed)]
    check_size(parts)
    documents = CompactDocuments.concatenate(parts)
    marked = b"".join(received.marks)
    return order_documents(
        documents,
        ids,
        counts,
        drop_duplicates=duplicates != KEEP,
        near_duplicates=np.frombuffer(marked, documents.hashes.dtype),
        by_source=bool(layout.sources) or layout.lengths[0].random_next == SOURCE,
    )
