"""The first Beam step of the data job: reads parts of files, splits and tokenizes documents."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from beambert.console import ProgressTally
from beambert.pipelines.corpus.base import FilePart, coverage
from beambert.pipelines.corpus.documents import Document, Reject, count_read
from beambert.pipelines.corpus.transforms import COUNTS, Part, output_of, read_documents
from beambert.pipelines.pretraining.documents import CompactDocuments, compact_documents, divide
from beambert.pipelines.pretraining.layout import TOKENS_AT_A_TIME, Shuffle
from beambert.pipelines.pretraining.plan import Plan
from beambert.pipelines.records.contract import OVERLAP
from beambert.pipelines.running import check_visible
from beambert.pipelines.text.preparation import KEEP, NEAR, TextOptions, prepare_documents
from beambert.pipelines.text.sentences import (
    BEGINS,
    BY_VOCABULARY,
    NO_SEGMENTER,
    SplitText,
    mark_words,
)
from beambert.pipelines.tokenizers.encoding import (
    make_corpus_tokenizer,
    make_offset_tokenizer,
    part_lengths,
    running_texts,
    tokenize_documents,
)
from beambert.pipelines.tokenizers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from beambert.pipelines.pretraining.evaluation_texts import EvaluationTexts
    from beambert.pipelines.tokenizers.word_pieces import OffsetPieces


class DocumentTokenizer:
    """The tokenizer of a job."""

    def __init__(self, vocabulary: Vocabulary, options: TextOptions):
        """Builds the tokenizer."""
        self._vocabulary = vocabulary
        self._segmenter = options.segmenter
        finds_words = options.segmenter != NO_SEGMENTER
        make = make_offset_tokenizer if finds_words else make_corpus_tokenizer
        self._tokenizer = make(vocabulary, options.do_lower_case)

    def tokenize(
        self, documents: Sequence[SplitText], sources: Sequence[int] | None = None
    ) -> CompactDocuments:
        """Returns documents as tokens, without those that have none.

        Args:
          documents: at least one document in sentences.
          sources: number of the --input of each document; None if they have the same one.
        """
        vocabulary, begins_word = self._vocabulary, None
        space_before = vocabulary.space_before
        if self._segmenter == NO_SEGMENTER:
            tokens, lengths = tokenize_documents(self._tokenizer, documents, space_before)
        else:
            texts = running_texts(documents, space_before)
            pieces = self._tokenizer.tokenize_batch(list(map("".join, texts)))
            tokens, lengths = pieces.ids, sentence_lengths(pieces, texts)
            is_continuation = vocabulary.is_continuation[tokens]
            begins_word = word_starts(pieces, texts, self._segmenter, is_continuation)
        sentences, unspaced = zip(*documents, strict=True)
        size = len(vocabulary)
        return compact_documents(sentences, tokens, lengths, size, sources, begins_word, unspaced)


def sentence_lengths(pieces: "OffsetPieces", texts: Sequence[Sequence[str]]) -> np.ndarray:
    """Returns the number of tokens of each sentence, int64, see `word_starts`."""
    starts = np.split(pieces.starts, np.cumsum(pieces.lengths)[:-1])
    lengths = [
        length
        for sentences, of_text in zip(texts, starts, strict=True)
        for length in part_lengths(sentences, of_text)
    ]
    return np.array(lengths, np.int64)


def word_starts(
    pieces: "OffsetPieces",
    texts: Sequence[Sequence[str]],
    segmenter: str,
    is_continuation: np.ndarray,
) -> np.ndarray:
    """Returns whether each token begins a word, bool [tokens].

    In scripts without spaces a token begins a word where a word of the segmenter begins. One that
    reaches over the end of a word joins it with the next one. In other scripts the vocabulary
    tells.

    Args:
      pieces: tokens of the texts.
      texts: the texts, each in its sentences, see `running_texts`.
      segmenter: name of the segmenter, see `mark_words`.
      is_continuation: bool [tokens], what the vocabulary says.
    """
    codes = mark_words([text for one_text in texts for text in one_text], segmenter)
    characters = np.array([sum(map(len, one_text)) for one_text in texts], np.int64)
    firsts = np.repeat(np.cumsum(characters) - characters, pieces.lengths)
    places = firsts + pieces.starts
    code = codes[places]
    # Tokens of one character, such as its bytes, are of one word.
    begins = (code == BEGINS) & (np.diff(places, prepend=-1) != 0)
    return np.where(code == BY_VOCABULARY, ~is_continuation, begins)


# Number of characters to split and tokenize at a time. At this size the overhead of a call doesn't
# matter.
BATCH_CHARACTERS = 1 << 20
# A row of near duplicates counts as so many tokens, which take two bytes each.
_TOKENS_PER_ROW = 42
# Part of the name of a count, before a list in JSON: the numbers of documents that were lost and of
# all with text, of characters that cleaning removed and of all, the file, and its part's start.
LOST = "lost "
BANDS = "bands"
OVERLAPS = "overlaps"


class TokenizeParts(beam.DoFn):
    """Turns parts of files into elements of tokenized documents for the shuffle.

    The side outputs are counts, rejects, elements of band rows, and lists of documents that share
    passages with evaluation files. Documents are collected over all parts of a bundle, so that
    many small files cost no more than a few large ones.
    """

    def __init__(self, plan: Plan, shuffle: Shuffle, progress_folder: str | None):
        """Takes the plan of the job, the shuffle, and the folder of a `ProgressDisplay` or None."""
        self._plan = plan.for_workers()
        self._text_options = plan.text_options
        self._read_options = plan.read_options(progress_folder)
        self._shuffle = shuffle
        self._documents_read = Metrics.counter("beambert", "documents")

    def setup(self) -> None:
        """Builds the tokenizer, once in each worker.

        Raises:
          InputError: the worker doesn't see the output folder.
        """
        check_visible(self._plan.layout.folders()[0].path)
        self._tokenizer = DocumentTokenizer(self._plan.vocabulary, self._text_options)
        self._progress = ProgressTally(self._read_options.progress_folder)

    def start_bundle(self) -> None:
        """Resets the collected documents and counts."""
        self._counts: Counter[str] = Counter()
        # Number of the source, path and first byte of each part, and its documents.
        self._documents: dict[tuple[int, str, int], list[Document]] = {}
        self._losses: dict[tuple[int, str, int], Counter[str]] = {}
        self._overlaps: list[str] = []
        self._characters = 0
        self._tokenized: list[CompactDocuments] = []
        self._bands: list[np.ndarray] = []

    def process(self, part: Part) -> Iterator[Any]:
        """Reads one part, and yields elements when there is enough to pass on."""
        is_file = isinstance(part, FilePart)
        path = part.file.path if is_file else getattr(part, "path", "")
        number = self._plan.sources.number_of(path) if is_file else 0
        key = number, path, part.start if is_file else 0
        losses = self._losses.setdefault(key, Counter())
        for document in read_documents(part, self._read_options, self._progress):
            count_read(document, self._counts)
            self._progress.add(documents=1)
            if isinstance(document, Reject):
                losses["read"] += 1
                yield output_of(part, document)
            elif isinstance(document, Document) and not (document.text or document.removed):
                self._counts["dropped empty"] += 1  # as most pages of a wiki are
            elif isinstance(document, Document):
                self._counts["with_replacement_characters"] += "\ufffd" in document.text
                self._documents.setdefault(key, []).append(document)
                losses["read"] += bool(document.text.strip())
                losses["characters"] += len(document.text) + document.removed
                losses["removed"] += document.removed
                self._characters += len(document.text)
                del document
                if self._characters >= BATCH_CHARACTERS:
                    self._tokenize()
                    # Band rows take more memory than the tokens of short documents.
                    tokens = sum(len(batch.tokens) for batch in self._tokenized)
                    tokens += sum(map(len, self._bands)) * _TOKENS_PER_ROW
                    if tokens >= TOKENS_AT_A_TIME[self._shuffle.way]:
                        yield from self._send()
        if is_file:
            self._counts["coverage"] += coverage(part)

    def finish_bundle(self) -> Iterator[Any]:
        """Yields the remaining elements and the counts."""
        self._tokenize()
        self._documents_read.inc(self._counts["read"])
        self._progress.flush()
        rows = [
            [n["read"] - n["kept"], n["read"], n["removed"], n["characters"], *key[1:]]
            for key, n in self._losses.items()
            if key[1]
        ]
        # A file's only document is lost for a reason that is counted.
        rows = [row for row in rows if 2 * row[0] > row[1] > 1 or 2 * row[2] > row[3]]
        if rows:  # There may be a million, and the summary names one.
            self._counts[LOST + json.dumps(max(rows))] = 1
        outputs = [*self._send(), beam.pvalue.TaggedOutput(COUNTS, self._counts)]
        yield from map(_in_global_window, outputs)

    def _tokenize(self) -> None:
        """Splits and tokenizes the collected documents; drops filtered and empty ones."""
        options = self._text_options
        prepared: list[SplitText] = []
        sources: list[int] = []
        for key, documents in self._documents.items():
            if self._plan.evaluation:
                self._drop_overlaps(documents, key[1], self._plan.evaluation)
            found = prepare_documents(documents, options, self._counts)
            self._losses[key]["kept"] += len(found)
            prepared += found
            sources += [key[0]] * len(found)
        self._documents = {}
        if options.duplicates == NEAR:
            from beambert.pipelines.pretraining.duplicates import rows_of_documents

            # Only those of --source are in an order.
            of_bands = sources if self._plan.layout.sources else [0] * len(sources)
            self._bands.append(rows_of_documents(prepared, of_bands))
        self._characters = 0
        if not prepared:
            return
        compact = self._tokenizer.tokenize(prepared, sources)
        self._counts["dropped no_tokens"] += len(prepared) - len(compact.hashes)
        self._tokenized.append(compact)

    def _drop_overlaps(
        self, documents: list[Document], path: str, evaluation: "EvaluationTexts"
    ) -> None:
        """Takes documents that share a passage with evaluation files out of a list."""
        from beambert.pipelines.pretraining.evaluation_texts import overlap_row

        found = evaluation.find([document.text for document in documents])
        self._counts["dropped " + OVERLAP] += len(found)
        for number, match in found.items():
            text = documents[number].text
            self._overlaps.append(overlap_row(path, text, match, evaluation))
        documents[:] = [
            one_document for number, one_document in enumerate(documents) if number not in found
        ]

    def _send(self) -> Iterator[Any]:
        """Yields the elements of the tokenized documents, of the band rows and of the overlaps."""
        layout = self._plan.layout
        if self._tokenized:
            documents = CompactDocuments.concatenate(self._tokenized)
            self._tokenized = []
            if self._text_options.duplicates != KEEP:
                # A document with very many copies would make its shard large.
                read, documents = documents, documents.without_copies()
                self._counts["dropped duplicates"] += len(read.hashes) - len(documents.hashes)
            documents, is_eval = divide(documents, layout.job.eval_fraction, layout.segment_tokens)
            items = documents.pack_by_key(layout.keys(documents.hashes, is_eval))
            yield from self._shuffle.send(items)
        if self._bands:
            from beambert.pipelines.pretraining.duplicates import distinct_rows, rows_by_bucket

            rows = distinct_rows(np.concatenate(self._bands))
            self._bands = []
            for element in self._shuffle.send(rows_by_bucket(rows, layout.total_shards)):
                yield beam.pvalue.TaggedOutput(BANDS, element)
        if self._overlaps:
            yield beam.pvalue.TaggedOutput(OVERLAPS, self._overlaps)
            self._overlaps = []


def _in_global_window(output: Any) -> Any:
    """Returns an output of `finish_bundle` with a window, as Beam requires."""
    if isinstance(output, beam.pvalue.TaggedOutput):
        return beam.pvalue.TaggedOutput(output.tag, _in_global_window(output.value))
    return WindowedValue(output, GlobalWindow().max_timestamp(), [GlobalWindow()])
