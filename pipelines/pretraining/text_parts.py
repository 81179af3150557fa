"""The parts of the data job that turn files into tokens, for custom pipelines.

A pipeline may have steps of its own between them. What they compute is what `CreatePretrainingData`
computes. The counters of the namespace beambert have the numbers of documents and the reasons of
those that were dropped.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics

from beambert.config import check_settings
from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.flags import as_tuple
from beambert.pipelines.corpus.base import FilePart
from beambert.pipelines.corpus.documents import (
    Document,
    Reject,
    count_read,
    language_of,
)
from beambert.pipelines.corpus.encodings import parse_encodings
from beambert.pipelines.corpus.reading import ReadOptions, reject_row
from beambert.pipelines.corpus.transforms import REJECTS, add_parts, read_documents
from beambert.pipelines.input_files import InputList, match_inputs
from beambert.pipelines.pretraining.documents import document_hash
from beambert.pipelines.pretraining.inputs import Sources
from beambert.pipelines.pretraining.tokenizing import BATCH_CHARACTERS
from beambert.pipelines.running import check_beginning, check_reachable_from
from beambert.pipelines.text.preparation import TextOptions, TextSettings, prepare_documents
from beambert.pipelines.text.sentences import SplitText
from beambert.pipelines.tokenizers.folders import read_given
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.process import loading
from beambert.ragged import starts_of
from beambert.storage import read_bytes

# The rows between the parts are named tuples with Beam schemas and deterministic coders.


class DocumentRow(NamedTuple):
    """The text of a document.

    Attributes:
      text: paragraphs (or, if `is_split`, sentences) separated by line feeds.
      path: path of the document's file; "" if there is none.
      source: number of the pattern that names the file, for `random_next="source"`.
      is_split: whether each line is one sentence already.
      language: code of the document's language, or a tag of BCP 47; "" for that of the job.
    """

    text: str
    path: str = ""
    source: int = 0
    is_split: bool = False
    language: str = ""


class RejectRow(NamedTuple):
    """A part of a file that cannot be read as a document.

    Attributes:
      path: path of the file.
      line: number of the part's first line in the file, from 1.
      reason: a word or two.
      detail: message that helps a person to fix it.
    """

    path: str
    line: int
    reason: str
    detail: str


class SentencesRow(NamedTuple):
    """The sentences of a document.

    Attributes:
      sentences: at least one sentence.
      path, source: see `DocumentRow`.
      unspaced: numbers of the sentences that no white space separates from the one before, counted
        from 0. Only tokenizers that mark words by spaces need them.
    """

    sentences: Sequence[str]
    path: str = ""
    source: int = 0
    unspaced: Sequence[int] = ()


class TokenizedRow(NamedTuple):
    """The tokens of a document.

    Attributes:
      hash: 16 bytes, see `documents.document_hash`. They decide the document's shard.
      token_ids: the ids of each sentence.
      path, source: see `DocumentRow`.
    """

    hash: bytes
    token_ids: Sequence[Sequence[int]]
    path: str = ""
    source: int = 0


class InstanceRow(NamedTuple):
    """An instance. Its features are those of the records, under their names.

    Attributes:
      shard: number of its shard, see `layout.Layout`.
      place: its place in the file, from 0.
      input_ids, input_mask, segment_ids: one number for each of `max_seq_length` positions.
      masked_lm_positions, masked_lm_ids, masked_lm_weights: one number for each of
        `max_predictions_per_seq` predictions; none with `masks="none"`.
      next_sentence_labels: one number, 0 if B follows A and 1 if B is random or, with
        `pairs="sop"`, if A follows B; with `pairs="copy"` 0 for a copy and 1 for another text; none
        where there are no pairs.
    """

    shard: int
    place: int
    input_ids: Sequence[int]
    input_mask: Sequence[int]
    segment_ids: Sequence[int]
    masked_lm_positions: Sequence[int] = ()
    masked_lm_ids: Sequence[int] = ()
    masked_lm_weights: Sequence[float] = ()
    next_sentence_labels: Sequence[int] = ()


for _kind in (DocumentRow, RejectRow, SentencesRow, TokenizedRow, InstanceRow):
    beam.coders.registry.register_row(_kind)


class ReadDocuments(beam.PTransform):
    """Begins a pipeline: reads files in every format of `beambert data`.

    The result has two outputs: `documents`, rows of `DocumentRow`, and `rejects`, a `RejectRow` for
    each document that cannot be read. The list of the files becomes a part of the pipeline.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import ReadDocuments
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     read = pipeline | ReadDocuments("texts.jsonl")
      ...     texts = read.documents | beam.Map(lambda row: print(row.text))
      ...     faults = read.rejects | beam.Map(lambda row: print(row.line, row.reason))
      The river begins in the north.
      2 no_text
    """

    def __init__(
        self,
        input: str | Sequence[str],
        *,
        format: str = "auto",
        text_column: str = "text",
        language_column: str = "",
        encoding: str = "utf-8",
    ):
        """Lists the files.

        Args:
          input: pattern of the files, or several.
          format, text_column, language_column, encoding: see `PretrainingDataJob`.

        Raises:
          InputError: a pattern matches nothing, or the encoding is not known.
        """
        super().__init__()
        patterns = as_tuple(input)
        self._patterns = patterns
        files = match_inputs(patterns)
        encodings = parse_encodings(encoding)
        self._files = InputList(tuple(files))
        self._sources = Sources.of(patterns)
        self._options = ReadOptions(format, text_column, None, encodings, language_column)

    # Beam takes no hint for several outputs; each has its own.
    def expand(self, begin: beam.pvalue.PBegin):
        """Adds the steps and returns a `DoOutputsTuple`.

        Raises:
          InputError: it is applied to the elements of another step, or workers don't see a file.
        """
        check_beginning(begin, "ReadDocuments")
        check_reachable_from(begin.pipeline, input=self._patterns)
        read = beam.FlatMap(_read_rows, self._options, self._sources)
        parts = add_parts(begin, self._files, self._options)
        rows = read.with_output_types(DocumentRow, rejects=RejectRow)
        return parts | "Read" >> rows.with_outputs(REJECTS, main="documents")


@beam.typehints.with_input_types(DocumentRow)
@beam.typehints.with_output_types(SentencesRow)
class SplitSentences(beam.PTransform):
    """Cleans and filters documents, and splits them into sentences.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import DocumentRow, SplitSentences
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     sentences = (
      ...         pipeline
      ...         | beam.Create(["The river begins in the north. It ends in the city.", " "])
      ...         | beam.Map(DocumentRow)
      ...         | SplitSentences()
      ...         | beam.Map(lambda row: print(*row.sentences, sep="|"))
      ...     )
      The river begins in the north.|It ends in the city.
    """

    def __init__(self, *, blocklist: str | Sequence[str] = (), **settings: Any):
        """Takes the settings.

        Args:
          blocklist: words and phrases; documents that hold one are dropped.
          **settings: fields of `TextSettings`; those of files and duplicates have no effect.

        Raises:
          InputError: a setting cannot be used. Workers raise it for a document whose language is
            none.
        """
        super().__init__()
        given = TextSettings(**settings)
        check_settings(given)
        given.check_text()
        self._options = TextOptions.of(given, as_tuple(blocklist), finds_unspaced=True)

    def expand(self, documents: beam.PCollection[DocumentRow]) -> beam.PCollection[SentencesRow]:
        """Adds the step."""
        return documents | beam.FlatMap(_split_row, self._options).with_output_types(SentencesRow)


@beam.typehints.with_input_types(SentencesRow)
@beam.typehints.with_output_types(SentencesRow)
class Deduplicate(beam.PTransform):
    """Keeps one of several documents with the same sentences, as `--duplicates=exact` does.

    The one of the first source and path is kept, on every runner; of documents in windows one in
    each. Sentences are the same also where one document has a space between them and the other has
    none.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import Deduplicate, SentencesRow
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     distinct = (
      ...         pipeline
      ...         | beam.Create([SentencesRow(["A song."], path) for path in ("b.txt", "a.txt")])
      ...         | Deduplicate()
      ...         | beam.Map(lambda row: print(row.path))
      ...     )
      a.txt
    """

    def expand(self, sentences: beam.PCollection[SentencesRow]) -> beam.PCollection[SentencesRow]:
        """Adds the steps."""
        return (
            sentences
            | "Hash" >> beam.Map(_with_hash).with_output_types(tuple[bytes, SentencesRow])
            | "First" >> beam.CombinePerKey(_first_row)
            | "Row" >> beam.Values().with_output_types(SentencesRow)
        )


@beam.typehints.with_input_types(SentencesRow)
@beam.typehints.with_output_types(TokenizedRow)
class Tokenize(beam.PTransform):
    """Turns sentences into ids of a vocabulary or tokenizer; drops documents without a token.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import SentencesRow, Tokenize
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     tokenized = (
      ...         pipeline
      ...         | beam.Create([SentencesRow(["The river.", "The city."])])
      ...         | Tokenize("vocab.txt")
      ...         | beam.Map(lambda row: print(len(row.token_ids), "sentences"))
      ...     )
      2 sentences
    """

    def __init__(
        self,
        vocab_file: str | None = None,
        *,
        do_lower_case: bool | None = None,
        tokenizer: str | None = None,
    ):
        """Reads the vocabulary or the tokenizer.

        Args:
          vocab_file: path of a WordPiece vocabulary, one token a line.
          do_lower_case: True for an uncased vocabulary (default), False for a cased one.
          tokenizer: path of a tokenizer.json, or of its folder, in the place of a vocabulary.

        Raises:
          InputError: the vocabulary or the tokenizer cannot be used.
        """
        super().__init__()
        self._vocabulary, self._do_lower_case = read_given(
            vocab_file, tokenizer, do_lower_case, read_bytes, FileSystems.exists
        )

    def expand(self, sentences: beam.PCollection[SentencesRow]) -> beam.PCollection[TokenizedRow]:
        """Adds the steps."""
        batches = beam.BatchElements(
            min_batch_size=BATCH_CHARACTERS,
            max_batch_size=BATCH_CHARACTERS,
            element_size_fn=_characters_of,
        )
        return (
            sentences
            | "Batch" >> batches
            | "Cut"
            >> beam.ParDo(TokenizeRows(self._vocabulary, self._do_lower_case)).with_output_types(
                TokenizedRow
            )
        )


class TokenizeRows(beam.DoFn):
    """Turns batches of sentences into rows of tokens."""

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool):
        """Takes the settings. The tokenizer is built in each worker."""
        self._vocabulary = vocabulary
        self._do_lower_case = do_lower_case

    def setup(self) -> None:
        """Builds the tokenizer."""
        with loading():
            from beambert.pipelines.pretraining.tokenizing import DocumentTokenizer

        options = TextOptions(do_lower_case=self._do_lower_case)
        self._tokenizer = DocumentTokenizer(self._vocabulary, options)

    def process(self, rows: Sequence[SentencesRow]) -> Iterator[TokenizedRow]:
        """Yields the tokens of each document of a batch."""
        given, rows = rows, [row for row in rows if row.sentences]
        count({"dropped empty": len(given) - len(rows)})
        if not rows:
            return
        # The number of the row stands for the source, since rows without a token are left out.
        marks_spaces = self._vocabulary.marks_spaces
        documents = [
            SplitText(list(row.sentences), row.unspaced if marks_spaces else ()) for row in rows
        ]
        compact = self._tokenizer.tokenize(documents, range(len(rows)))
        count({"dropped no_tokens": len(rows) - len(compact.hashes)})
        cut = np.split(compact.tokens, starts_of(compact.sentence_lengths)[1:])
        first = 0
        for number, hash_, sentence_count in zip(
            compact.sources, compact.hashes, compact.document_sentences, strict=True
        ):
            ids = [each.tolist() for each in cut[first : first + sentence_count]]
            first += sentence_count
            yield TokenizedRow(hash_.tobytes(), ids, rows[number].path, rows[number].source)


def count(counts: Mapping[str, int]) -> None:
    """Adds counts to the counters of those names."""
    for name, number in counts.items():
        if number:
            Metrics.counter("beambert", name).inc(number)


def _read_rows(
    part: FilePart, options: ReadOptions, sources: Sources
) -> Iterator[DocumentRow | beam.pvalue.TaggedOutput[Literal["rejects"], RejectRow]]:
    path, counts = part.file.path, Counter()
    source = sources.number_of(path)
    for document in read_documents(part, options, ProgressTally(None)):
        count_read(document, counts)
        if isinstance(document, Reject):
            row = json.loads(reject_row(part, document))
            yield beam.pvalue.TaggedOutput(REJECTS, RejectRow(row.pop("file"), **row))
        elif isinstance(document, Document):
            yield DocumentRow(document.text, path, source, document.is_split, document.language)
    counts["documents"] = counts.pop("read", 0)
    count(counts)


def _split_row(row: DocumentRow, options: TextOptions) -> Iterator[SentencesRow]:
    counts: Counter[str] = Counter()
    language = language_of(row.language)
    if row.language and not language:
        raise InputError(
            f"--language_column: a document has the language {row.language!r}, which is none; name "
            "it by its code, such as en, zh-Hant or tha"
        )
    document = Document(row.text, row.is_split, language=language)
    for sentences, unspaced in prepare_documents([document], options, counts):
        yield SentencesRow(sentences, row.path, row.source, unspaced)
    count(counts)


def _sentences_of(row: SentencesRow) -> Sequence[str]:
    """Returns the sentences of a document.

    Raises:
      InputError: they aren't a list of texts.
    """
    sentences, found = row.sentences, ""
    if isinstance(sentences, str) or not isinstance(sentences, Sequence):
        found = f"of the type {type(sentences).__name__}"
    elif others := {type(each).__name__ for each in sentences if not isinstance(each, str)}:
        found = f"a list with the type {min(others)}"
    elif " " in sentences and max(map(len, sentences)) == 1:
        found = "single letters"  # So one text passes for a list behind a coder.
    if found:
        raise InputError(
            f"{row.path or 'a document'}: its `sentences` are {found}; give a list of texts, one "
            "for each sentence, in the step before"
        )
    return sentences


def _characters_of(row: SentencesRow) -> int:
    return sum(map(len, _sentences_of(row)))


def _with_hash(row: SentencesRow) -> tuple[bytes, SentencesRow]:
    return document_hash(_sentences_of(row)), row


def _first_row(rows: Iterable[SentencesRow]) -> SentencesRow:
    return min(rows, key=lambda row: (row.source, row.path, list(row.unspaced)))
