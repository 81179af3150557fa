"""The parts of the data job, for custom pipelines that have steps of their own between them.

What they compute is what `CreatePretrainingData` computes. The counters of the namespace beambert
have the numbers of documents and the reasons of those that were dropped.
"""

import dataclasses
import itertools
import json
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindows

from beambert.config import as_tuple, check_settings
from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines.corpus.base import FilePart
from beambert.pipelines.corpus.documents import Document, Reject, count_read, language_of
from beambert.pipelines.corpus.encodings import parse_encodings
from beambert.pipelines.corpus.reading import ReadOptions, reject_row
from beambert.pipelines.corpus.transforms import REJECTS, add_parts, read_documents
from beambert.pipelines.input_files import InputList, match_inputs
from beambert.pipelines.metrics import total_of
from beambert.pipelines.pretraining.documents import (
    HASH_BYTES,
    CompactDocuments,
    divide,
    document_hash,
)
from beambert.pipelines.pretraining.finishing import check_shards, finish_folder, records_info
from beambert.pipelines.pretraining.inputs import Sources
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
from beambert.pipelines.pretraining.tokenizing import BATCH_CHARACTERS, DocumentTokenizer
from beambert.pipelines.records.contract import NONE, feature_shapes
from beambert.pipelines.records.figures import total
from beambert.pipelines.records.statistics import FAULTS, FEATURES, VocabularyIds
from beambert.pipelines.running import (
    check_beginning,
    check_reachable_from,
    check_visible,
    take_output,
)
from beambert.pipelines.text.preparation import TextOptions, TextSettings, prepare_documents
from beambert.pipelines.text.sentences import SplitText
from beambert.pipelines.tokenizers.folders import read_given
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.process import loading
from beambert.ragged import starts_of
from beambert.storage import absolute, read_bytes

# The fields of a job that `MakeBertInstances` and `WriteRecords` follow. The parts for text have
# parameters of their own.
FOLLOWED = {
    *InstanceParameters.__dataclass_fields__,
    *("vocab_file", "tokenizer", "output", "do_lower_case"),
    *("num_shards", "eval_fraction", "compression"),
}
# Number of instances that are encoded at a time.
_BATCH_INSTANCES = 1024
# The parameters of each `MakeBertInstances` of a pipeline.
_MADE: weakref.WeakKeyDictionary[beam.Pipeline, list[Any]] = weakref.WeakKeyDictionary()
# An element for each shard, so that those without an instance get their files, too.
_NOTHING = (0, 0, b"")

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
      InputError: they aren't a list of strings.
    """
    sentences = row.sentences
    is_list = isinstance(sentences, Sequence) and not isinstance(sentences, str)
    # Behind a coder a string is the list of its letters.
    is_list = is_list and not (" " in sentences and max(map(len, sentences)) == 1)
    if not is_list or not all(isinstance(each, str) for each in sentences):
        raise InputError(
            f"{row.path or 'a document'}: its `sentences` aren't a list of strings, one for each "
            "sentence; check the step before"
        )
    return sentences


def _characters_of(row: SentencesRow) -> int:
    return sum(map(len, _sentences_of(row)))


def _with_hash(row: SentencesRow) -> tuple[bytes, SentencesRow]:
    return document_hash(_sentences_of(row)), row


def _first_row(rows: Iterable[SentencesRow]) -> SentencesRow:
    return min(rows, key=lambda row: (row.source, row.path, list(row.unspaced)))


@beam.typehints.with_input_types(TokenizedRow)
@beam.typehints.with_output_types(InstanceRow)
class MakeBertInstances(beam.PTransform):
    """Makes the instances of tokenized documents: pairs of segments, or packed text, with masks.

    They depend on the documents and the job alone, and equal those of `CreatePretrainingData`. See
    the example of `WriteRecords`.
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
        made = _MADE.get(pipeline, [])
        if made and _deciding(plan) not in made:  # info.json would name the wrong parameters.
            raise InputError(
                f"--output={plan.job.output}: the instances are of another job; give "
                "MakeBertInstances and WriteRecords the same one"
            )
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
        lengths = {one_length.max_seq_length for one_length in layout.lengths}
        if shard >= layout.total_shards or not lengths.issuperset(examples):
            raise InputError(
                f"--output={layout.job.output}: there is an instance of shard {shard} and of the "
                f"lengths {sorted(examples)}; give MakeBertInstances and WriteRecords the same job"
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


def _deciding(plan: Plan) -> list[dict[str, Any]]:
    """Returns the parameters of each folder that decide its instances."""
    found = map(plan.parameters_of, plan.layout.folders())
    return [{n: v for n, v in each.items() if n != "compression"} for each in found]


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
      InputError: the hash or the ids have another form.
    """
    try:
        sentences = [ids for ids in row.token_ids if ids]
        lengths = np.array([len(ids) for ids in sentences], np.uint32)
        is_bad = len(row.hash) != HASH_BYTES or any(min(ids) < 0 for ids in sentences)
    except TypeError:
        is_bad = True
    if is_bad:
        raise InputError(
            f"{row.path or 'a document'}: its `hash` isn't of {HASH_BYTES} bytes, or its "
            "`token_ids` aren't a list of ids for each sentence; check the steps before "
            "MakeBertInstances"
        )
    if not sentences:
        return
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
