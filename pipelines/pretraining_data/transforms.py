"""The Beam steps that tokenize documents, and find those that are near duplicates."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from beambert.console import ProgressTally
from beambert.pipelines.corpus.base import coverage
from beambert.pipelines.corpus.documents import Document, Reject, count_read
from beambert.pipelines.corpus.reading import ReadOptions
from beambert.pipelines.corpus.transforms import COUNTS, Part, RejectLists, read_documents
from beambert.pipelines.instances.compact_documents import CompactDocuments
from beambert.pipelines.metrics import StageClock
from beambert.pipelines.pretraining_data.division import divide
from beambert.pipelines.pretraining_data.evaluation_texts import (
    OVERLAP,
    EvaluationTexts,
    overlap_row,
)
from beambert.pipelines.pretraining_data.layout import Layout
from beambert.pipelines.pretraining_data.near_duplicates import (
    NearDuplicateSettings,
    distinct_rows,
    near_duplicates,
    rows_by_bucket,
    rows_of_documents,
)
from beambert.pipelines.pretraining_data.shuffle import Shuffle
from beambert.pipelines.pretraining_data.sources import Sources
from beambert.pipelines.running import check_visible
from beambert.pipelines.text.preparation import KEEP, NEAR, TextOptions, prepare_documents
from beambert.pipelines.text.sentences import SplitText
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.process import loading

# Number of characters to split and tokenize at a time. At this size the overhead of a call of
# TensorFlow doesn't matter.
BATCH_CHARACTERS = 1 << 20
BANDS = "bands"
OVERLAPS = "overlaps"


def near_duplicate_settings(layout: Layout) -> NearDuplicateSettings:
    """Returns the settings of a job."""
    return NearDuplicateSettings(by_source=bool(layout.sources))


class TokenizeParts(beam.DoFn):
    """Turns parts of files into elements of tokenized documents for the shuffle.

    The side outputs are counts, rejects, elements of band rows, and lists of documents that share
    passages with evaluation files. Documents are collected over all parts of a bundle, so that
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

    def process(self, part: Part) -> Iterator[Any]:
        """Reads one part, and yields elements when there is enough to pass on."""
        self._clock.start()
        rejects = RejectLists(part)
        path = "" if isinstance(part, str) else part.file.path
        number = self._sources.number_of(path) if path else 0
        for document in read_documents(part, self._read_options, self._progress):
            count_read(document, self._counts)
            self._progress.add(documents=1)
            if isinstance(document, Reject):
                yield from rejects.add(document)
            elif isinstance(document, Document):
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
        if not isinstance(part, str):
            self._counts["coverage"] += coverage(part)
        self._clock.lap("read")

    def finish_bundle(self) -> Iterator[Any]:
        """Yields the remaining elements and the counts."""
        self._clock.start()
        self._tokenize()
        self._documents_read.inc(self._counts["read"])
        self._progress.flush()
        outputs = [*self._send(), beam.pvalue.TaggedOutput(COUNTS, self._counts)]
        yield from map(_in_global_window, outputs)

    def _tokenize(self) -> None:
        """Splits and tokenizes the collected documents; drops filtered and empty ones."""
        self._clock.lap("read")
        options = self._text_options
        prepared: list[SplitText] = []
        sources: list[int] = []
        for number, documents in self._documents.items():
            if self._evaluation:
                self._drop_overlaps(documents, self._paths.pop(number, []), self._evaluation)
            prepared += prepare_documents(documents, options, self._counts)
            sources += [number] * (len(prepared) - len(sources))
        if options.duplicates == NEAR:
            settings = near_duplicate_settings(self._layout)
            self._bands.append(rows_of_documents(prepared, sources, settings))
        self._characters = 0
        self._clock.lap("split")
        if not prepared:
            return
        compact = self._tokenizer.tokenize(prepared, sources)
        self._counts["dropped no_tokens"] += len(prepared) - len(compact.hashes)
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
        documents[:] = [
            one_document for number, one_document in enumerate(documents) if number not in found
        ]

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
            documents, is_eval = divide(documents, layout.eval_fraction, layout.stretch_tokens)
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
