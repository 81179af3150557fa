"""The Beam transform that learns a vocabulary from documents, and its steps.

A worker counts up to `MOST_WORDS` words before it sends them on. Words are sent in packed form, so
that a runner holds about 12 bytes for each. Only the most frequent words reach the last step.

Between these steps a worker sums the counts of one partition of the words, and holds its distinct
words in memory, with about 250 bytes for each. The number of partitions grows with the files, so
that a crawl of 2 TB with a billion distinct words has 130,000 of them in a partition. The size of a
pipeline's own documents is unknown, and a billion distinct words of those are a million in a
partition.
"""

import dataclasses
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from beambert import io
from beambert.console import ProgressTally, counted
from beambert.errors import InputError
from beambert.io import absolute, delete_quietly, read_bytes, write_bytes
from beambert.pipelines.corpus.documents import Document, Reject, count_read
from beambert.pipelines.corpus.reading import (
    ReadOptions,
    counts_by_reason,
    first_rejects,
    total_of_reasons,
    write_rejects,
)
from beambert.pipelines.corpus.transforms import (
    COUNTS,
    REJECTS,
    DocumentRow,
    Part,
    add_parts,
    output_of,
    read_documents,
)
from beambert.pipelines.input_files import (
    INPUTS_FILE,
    InputFile,
    InputList,
    check_unchanged,
    match_inputs,
    write_list,
)
from beambert.pipelines.running import (
    add_counts,
    check_reachable_from,
    library_versions,
    take_output,
    total_of,
)
from beambert.pipelines.tokenizers.folders import read_folder
from beambert.pipelines.tokenizers.vocabulary import (
    TokenizerVocabulary,
    Vocabulary,
)
from beambert.pipelines.tokenizers.word_pieces import is_plain
from beambert.pipelines.vocabulary_learning.job import WORDPIECE, VocabularyJob
from beambert.pipelines.vocabulary_learning.learning import (
    CorpusWords,
    character_counts,
    check_coverage,
    choose_characters,
    extend_vocabulary,
    learn_tokenizer,
    learn_vocabulary,
    splitter_of,
    tokens_of,
    unknown_words,
    words_needed,
)

# Number of characters of text to split at a time. Longer texts are cut at white space.
PIECE_CHARACTERS = 1 << 20
# Number of distinct strings between spaces that are counted before they are split; they take about
# 80 MB.
MOST_STRINGS = 500_000
# Number of words that a worker counts before it sends them on; they take about 150 MB.
MOST_WORDS = 1_000_000
# Number of partitions in which the counts of a small corpus are summed. A larger one has a
# partition for so many bytes of its files, which take 1 GB if one of ten words is nowhere else.
FEWEST_PARTITIONS = 64
BYTES_PER_PARTITION = 256 << 20
# Number of partitions for the documents of a pipeline, as for files of 256 GB.
PARTITIONS_OF_DOCUMENTS = 1024
_PARAMETERS = ("vocab_size", "do_lower_case", "format", "text_column", "encoding", "layout")


def about_job(
    job: VocabularyJob, inputs: Sequence[InputFile], old: Vocabulary | None = None
) -> dict[str, Any]:
    """Returns the values that decide the output; two jobs with the same values are the same."""
    parameters = {name: getattr(job, name) for name in _PARAMETERS}
    parameters["do_lower_case"] = job.lower_cases
    if job.kind != WORDPIECE:
        parameters["kind"] = job.kind
    if job.character_coverage is not None:
        parameters["character_coverage"] = job.character_coverage
    if old:
        del parameters["vocab_size"]
        parameters |= {"extend": old.sha256, "add": job.add}
    listed = InputList.of(inputs, inputs_file(job.output))
    return {"parameters": parameters, "inputs": listed.to_json()}


def job_file(output: str) -> str:
    """Returns the path of the file with the parameters, inputs and counts of a vocabulary."""
    return output + ".json"


def rejects_file(output: str) -> str:
    """Returns the path of the file that lists the rejected documents of a vocabulary."""
    return f"{output}-rejects.jsonl"


def inputs_file(output: str) -> str:
    """Returns the path of the file that lists the inputs of a vocabulary, if they are many."""
    return f"{output}-{INPUTS_FILE}"


def read_old(job: VocabularyJob) -> Vocabulary | None:
    """Returns the vocabulary that a job extends; None if it learns a new one.

    Raises:
      InputError: the vocabulary cannot be read, is none of word pieces, or is of the other case.
    """
    if job.extend is None:
        return None
    flag, path = "--extend", job.extend.rstrip("/")
    if path.endswith(".txt"):
        vocabulary = Vocabulary.parse(read_bytes(path, flag), f"{flag}={path}")
    else:
        vocabulary, _ = read_folder(path, flag)
    if isinstance(vocabulary, TokenizerVocabulary):
        raise InputError(
            f"{flag}={path}: is another kind of tokenizer than WordPiece, which alone can be "
            "extended; learn a new one with --kind"
        )
    vocabulary.check_case(job.lower_cases)
    return vocabulary


@beam.typehints.with_input_types(beam.typehints.Union[str, DocumentRow])
@beam.typehints.with_output_types(Vocabulary)
class LearnVocabulary(beam.PTransform):
    """Learns a vocabulary or a tokenizer, writes it, and returns it as its only element.

    The input is the texts of documents. At the beginning of a pipeline, the transform reads the
    files of the job instead.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import LearnVocabulary, VocabularyJob
      >>> texts = ["A river in the north.", "The north of the city."]
      >>> job = VocabularyJob(output="vocab.txt", vocab_size=130)
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     sizes = (
      ...         pipeline
      ...         | beam.Create(texts)
      ...         | LearnVocabulary(job)
      ...         | beam.Map(lambda vocabulary: print(len(vocabulary), "tokens"))
      ...     )
      130 tokens
    """

    def __init__(
        self,
        job: VocabularyJob,
        progress_folder: str | None = None,
        inputs: Sequence[InputFile] | None = None,
        old: Vocabulary | None = None,
    ):
        """Lists the files to read.

        Args:
          job: the vocabulary to learn.
          progress_folder: folder of a `ProgressDisplay`, or None.
          inputs: files that match the patterns of the job, if they are listed already.
          old: result of `read_old` for the job, if it exists already.

        Raises:
          InputError: a pattern matches no file, or the encoding is not known.
        """
        super().__init__()
        if inputs is None:
            job = dataclasses.replace(job, output=absolute(job.output))
            inputs = match_inputs(job.patterns)
        self._job, self._inputs = job, inputs
        self._options = job.read_options(progress_folder)
        self._old = old or read_old(job)

    # Beam takes no union as a hint, but it takes the beginning of a pipeline for any collection.
    def expand(
        self, documents: beam.PCollection[str | DocumentRow]
    ) -> beam.PCollection[Vocabulary]:
        """Adds the steps to the pipeline.

        Raises:
          InputError: the output file exists already, or another transform of the pipeline makes it.
        """
        reads_files = isinstance(documents, beam.pvalue.PBegin)
        check_reachable_from(
            documents.pipeline,
            input=self._job.patterns if reads_files else (),
            output=self._job.output,
        )
        if io.exists(self._job.output):
            raise InputError(f"--output={self._job.output}: exists already; choose another")
        take_output(documents.pipeline, self._job.output)
        job, old = self._job, self._old
        most = words_needed(len(old) + job.add if old else job.vocab_size)
        options = self._options
        inputs = InputList.of(self._inputs, inputs_file(job.output))
        if inputs.path:
            write_list(inputs.path, self._inputs)
        partitions = PARTITIONS_OF_DOCUMENTS
        if reads_files:
            total_bytes = sum(file.bytes for file in self._inputs)
            partitions = max(FEWEST_PARTITIONS, total_bytes // BYTES_PER_PARTITION)
        counted = add_parts(documents, inputs, options) | "CountWords" >> beam.ParDo(
            CountWords(job, options, partitions)
        ).with_outputs(COUNTS, REJECTS, main="words")
        words = (
            counted.words
            | "Partition" >> beam.GroupByKey()
            | "SumPartition" >> beam.Map(sum_partition, most)
            | "Sum" >> beam.CombineGlobally(CorpusWords.merge, most)
        )
        return words | "Learn" >> beam.ParDo(
            WriteVocabulary(job, inputs, about_job(job, self._inputs, old), old),
            total_of(counted[COUNTS], "SumCounts", add_counts),
            total_of(counted[REJECTS], "FirstRejects", first_rejects),
        )


def cut_text(text: str, size: int = PIECE_CHARACTERS) -> Iterator[str]:
    """Yields pieces of up to `size` characters, cut at white space where possible."""
    start = 0
    while len(text) - start > size:
        end = start + size
        space = max(text.rfind(" ", start + 1, end), text.rfind("\n", start + 1, end))
        end = space if space > 0 else end
        yield text[start:end]
        start = end
    yield text[start:]


class WordCounter:
    """Counts the words of texts.

    No word contains a space. So the strings between spaces are counted first, and only the distinct
    ones are split.
    """

    def __init__(self, do_lower_case: bool, kind: str = WORDPIECE):
        """Chooses the word splitter of a kind of tokenizer."""
        self._split = splitter_of(kind, do_lower_case)
        self._strings: Counter[str] = Counter()
        self._words: dict[str, int] = {}

    def add(self, text: str) -> None:
        """Counts the words of a text, see `cut_text`."""
        self._strings.update(text.replace("\n", " ").split(" "))
        if len(self._strings) >= MOST_STRINGS:
            self._split_strings()

    def _split_strings(self) -> None:
        groups: dict[tuple[int, bool], list[str]] = {}
        for string, count in self._strings.items():
            groups.setdefault((count, is_plain(string)), []).append(string)
        self._strings.clear()
        words = self._words
        for (count, _), strings in groups.items():
            for word in self._split(strings):
                words[word] = words.get(word, 0) + count

    @property
    def is_full(self) -> bool:
        """Whether the counts should be taken before more texts are added."""
        return len(self._words) >= MOST_WORDS

    def take(self) -> dict[str, int]:
        """Returns the counts so far, and resets them."""
        self._split_strings()
        words, self._words = self._words, {}
        return words


def pack_counts(words: Mapping[str, int], partitions: int) -> Iterator[tuple[int, bytes]]:
    """Yields (partition, packed words and counts); a word always has the same partition.

    Compressed, they take half the memory where a runner groups them.
    """
    packed: dict[int, dict[int, list[str]]] = {}
    for word, count in words.items():
        by_count = packed.setdefault(zlib.crc32(word.encode()) % partitions, {})
        by_count.setdefault(count, []).append(word)
    for key, by_count in packed.items():
        lines = (f"{count} {' '.join(of_count)}" for count, of_count in by_count.items())
        yield key, zlib.compress("\n".join(lines).encode(), 1)


def unpack_counts(packed: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yields the counts that `pack_counts` packed, and the words of each."""
    for line in zlib.decompress(packed).decode().split("\n"):
        count, *words = line.split(" ")
        yield int(count), words


def sum_partition(element: tuple[int, Iterable[bytes]], most: int) -> CorpusWords:
    """Returns the sum of a partition's packed counts, with the `most` most frequent words."""
    sums: dict[str, int] = {}
    for packed in element[1]:
        for count, words in unpack_counts(packed):
            for word in words:
                sums[word] = sums.get(word, 0) + count
    return CorpusWords.of(sums, most)


def no_words(number: int, noun: str) -> str:
    """Returns the error message about documents or files from which nothing can be learned."""
    return (
        f"--input: has no words in {counted(number, noun)}; check --format and that the files hold "
        "text"
    )


class CountWords(beam.DoFn):
    """Turns parts of files into (partition, packed counts), a bundle at a time.

    The side outputs are the counts of documents and the rejects.
    """

    def __init__(self, job: VocabularyJob, options: ReadOptions, partitions: int):
        """Takes the job, the options for reading files, and the number of partitions."""
        self._job = job
        self._partitions = partitions
        self._options = options

    def setup(self) -> None:
        """Builds the word splitter, once in each worker."""
        self._words = WordCounter(self._job.lower_cases, self._job.kind)
        self._progress = ProgressTally(self._options.progress_folder)

    def start_bundle(self) -> None:
        """Discards the counts that a failed bundle may have left."""
        self._words.take()

    def process(self, part: Part) -> Iterator[Any]:
        """Counts the words of one part, and yields the counts when there are enough."""
        counts: Counter[str] = Counter()
        for document in read_documents(part, self._options, self._progress):
            count_read(document, counts)
            self._progress.add(documents=1)
            if isinstance(document, Document):
                for piece in cut_text(document.text):
                    self._words.add(piece)
                    if self._words.is_full:
                        yield from pack_counts(self._words.take(), self._partitions)
            elif isinstance(document, Reject):
                yield output_of(part, document)
        yield beam.pvalue.TaggedOutput(COUNTS, counts)

    def finish_bundle(self) -> Iterator[Any]:
        """Yields the remaining counts."""
        self._progress.flush()
        for packed in pack_counts(self._words.take(), self._partitions):
            yield GlobalWindows.windowed_value(packed)


class WriteVocabulary(beam.DoFn):
    """Learns the vocabulary from all word counts, writes it and its job file, and returns it."""

    def __init__(
        self,
        job: VocabularyJob,
        inputs: InputList,
        about: Mapping[str, Any],
        old: Vocabulary | None,
    ):
        """Stores what the vocabulary is made from.

        Args:
          job, inputs: the job and its files.
          about: values for the file next to vocab.txt.
          old: the vocabulary to extend, if there is one.
        """
        self._job = job
        self._inputs = inputs
        self._about = about
        self._old = old

    def process(
        self, words: CorpusWords, read: Counter[str], rejects: Sequence[str]
    ) -> Iterator[Vocabulary]:
        """Runs once, after all words are counted.

        Raises:
          InputError: an input was changed, too many documents were rejected, or there were no
            words.
        """
        job = self._job
        remedy = "wait until nothing writes to it, then give the same command again"
        check_unchanged(self._inputs.files(), job.patterns, remedy)
        failed = rejects_file(job.output)
        if not rejects:
            delete_quietly([failed])  # an earlier job's that failed
        write_rejects(rejects, read, job.max_reject_fraction, failed, failed)
        if not words.distinct:
            raise InputError(no_words(read["read"], "document"))
        characters, more = [], {}
        if self._old:
            counted = dict(words.most_frequent)
            vocabulary = extend_vocabulary(self._old, counted, job.add)
            more = {
                "new_tokens": job.add,
                "counted_words": sum(counted.values()),
                "tokens_before": tokens_of(self._old.tokens, counted),
                "tokens_after": tokens_of(vocabulary.tokens, counted),
                "unknown_words": unknown_words(vocabulary.tokens, counted),
            }
        elif job.kind == WORDPIECE:
            coverage, size = job.character_coverage, job.vocab_size
            characters = choose_characters(words, size, job.lower_cases, coverage)
            if coverage is not None:
                check_coverage(words, characters, size, coverage)
            vocabulary = learn_vocabulary(words, characters, size, job.lower_cases)
            alphabet, all_characters = {piece[-1] for piece in characters}, character_counts(words)
            more = {
                "characters": all_characters.total(),
                "rare_characters": sum(n for c, n in all_characters.items() if c not in alphabet),
            }
        else:
            vocabulary = learn_tokenizer(
                words, job.kind, job.vocab_size, job.lower_cases, job.character_coverage
            )
        skipped, rejected = (total_of_reasons(read, each) for each in ("dropped ", "rejected "))
        counts = {
            "documents": read["read"] - skipped - rejected,
            "skipped": skipped,
            "rejected": rejected,
            "encodings": counts_by_reason(read, "encoding "),
            "cleaned": counts_by_reason(read, "cleaned "),
            "words": words.occurrences,
            "distinct_words": words.distinct,
            "tokens": len(vocabulary),
            "character_tokens": len(characters),
            "unused_tokens": sum(token.startswith("[unused") for token in vocabulary.tokens),
            **more,
        }
        about = dict(self._about) | {
            "versions": library_versions(["tokenizers"]),
            "sha256": vocabulary.sha256,
            "counts": counts,
        }
        write_bytes(job_file(job.output), (json.dumps(about, indent=1) + "\n").encode())
        folder = os.path.dirname(job.output)
        for name, data in vocabulary.files().items():
            if name != vocabulary.FILE:
                write_bytes(os.path.join(folder, name), data)
        write_bytes(job.output, vocabulary.serialize())
        yield vocabulary
