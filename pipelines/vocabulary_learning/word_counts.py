"""The Beam steps that count the words of documents and write vocab.txt.

A worker counts up to `MOST_WORDS` words before it sends them on. Words are sent in packed form, so
that a runner holds about 12 bytes for each. Only the most frequent words reach the last step.

Between these steps a worker sums the counts of one partition of the words, and holds its different
words in memory, with about 250 bytes for each. The number of partitions grows with the files, so
that a crawl of 2 TB with a billion different words has 130,000 of them in a partition. The size of
a pipeline's own documents is unknown, and a billion different words of those are a million in a
partition.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindows

from beambert.console import counted
from beambert.errors import InputError
from beambert.loading import loading
from beambert.pipelines.corpus.documents import Document, Reject, count_read
from beambert.pipelines.corpus.reading import (
    ReadOptions,
    check_rejects,
    counts_by_reason,
)
from beambert.pipelines.corpus.transforms import COUNTS, Part, RejectLists, read_documents
from beambert.pipelines.files.beam_files import delete_quietly, write_bytes
from beambert.pipelines.files.input_files import InputFile, check_unchanged
from beambert.pipelines.files.input_list import INPUTS_FILE, InputList
from beambert.pipelines.jobs.running import library_versions
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.pipelines.vocabulary_learning.extension import Extension, tokens_of, unknown_words
from beambert.pipelines.vocabulary_learning.job import WORDPIECE, VocabularyJob
from beambert.pipelines.vocabulary_learning.learning import (
    CorpusWords,
    check_coverage,
    learn_vocabulary,
)
from beambert.progress import ProgressTally

# Number of characters of text to split at a time. Longer texts are cut at white space.
PIECE_CHARACTERS = 1 << 20
# Number of characters of text whose stretches between spaces are counted before they are split.
BATCH_CHARACTERS = 16 << 20
# Number of words that a worker counts before it sends them on; they take about 150 MB.
MOST_WORDS = 1_000_000
# Number of partitions in which the counts of a small corpus are summed. A larger one has a
# partition for so many bytes of its files, which take 1 GB if one of ten words is nowhere else.
FEWEST_PARTITIONS = 64
BYTES_PER_PARTITION = 256 << 20
# Number of partitions for the documents of a pipeline, as for files of 256 GB.
PARTITIONS_OF_DOCUMENTS = 1024


def job_file(output: str) -> str:
    """Returns the path of the file with the parameters, inputs and counts of a vocabulary."""
    return output + ".json"


def rejects_file(output: str) -> str:
    """Returns the path of the file that lists the rejected documents of a vocabulary."""
    return f"{output}-rejects.jsonl"


def inputs_file(output: str) -> str:
    """Returns the path of the file that lists the inputs of a vocabulary, if they are many."""
    return f"{output}-{INPUTS_FILE}"


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

    Words never cross a space. So the stretches between spaces are counted first, in Python. Only
    the different ones, about a fifth, are normalized and split by TensorFlow.
    """

    def __init__(self, do_lower_case: bool, kind: str = WORDPIECE):
        """Builds the word splitter of a kind of tokenizer."""
        if kind == WORDPIECE:
            with loading():
                from beambert.pipelines.tokenizers.wordpiece import word_splitter

            self._split = word_splitter(do_lower_case)
        else:
            from beambert.pipelines.vocabulary_learning import subwords

            self._split = subwords.word_splitter(kind, do_lower_case)
        self._stretches: Counter[str] = Counter()
        self._characters = 0
        self._words: Counter[bytes] = Counter()

    def add(self, text: str) -> None:
        """Counts the words of a text."""
        for piece in cut_text(text):
            self._stretches.update(piece.replace("\n", " ").split(" "))
            self._characters += len(piece)
            if self._characters >= BATCH_CHARACTERS:
                self._split_stretches()

    def _split_stretches(self) -> None:
        # The counts are handled one binary digit at a time. All stretches whose count has the digit
        # are split together, and their words are weighted with the digit's value. So no word has to
        # be traced back to its stretch.
        digit, counts = 0, list(self._stretches.items())
        while counts:
            having = [stretch for stretch, count in counts if count & 1]
            counts = [(stretch, count >> 1) for stretch, count in counts if count > 1]
            for word, count in self._split_all(having).items():
                self._words[word] += count << digit
            digit += 1
        self._stretches.clear()
        self._characters = 0

    def _split_all(self, stretches: Sequence[str]) -> Counter[bytes]:
        """Returns the word counts of stretches, split about `PIECE_CHARACTERS` at a time."""
        words: Counter[bytes] = Counter()
        first, characters = 0, 0
        for end, stretch in enumerate(stretches, 1):
            characters += len(stretch)
            if characters >= PIECE_CHARACTERS or end == len(stretches):
                words.update(self._split(stretches[first:end]))
                first, characters = end, 0
        return words

    @property
    def is_full(self) -> bool:
        """Whether the counts should be taken before more texts are added."""
        return len(self._words) >= MOST_WORDS

    def take(self) -> Counter[bytes]:
        """Returns the counts so far and resets them."""
        self._split_stretches()
        words, self._words = self._words, Counter()
        return words


def partitions_of(inputs: Sequence[InputFile]) -> int:
    """Returns the number of partitions in which the counts of files are summed."""
    return max(FEWEST_PARTITIONS, sum(file.bytes for file in inputs) // BYTES_PER_PARTITION)


def pack_counts(words: Counter[bytes], partitions: int) -> Iterator[tuple[int, bytes]]:
    """Yields (partition, packed words and counts); a word always has the same partition."""
    packed: dict[int, list[bytes]] = {}
    for word, count in words.items():
        key = zlib.crc32(word) % partitions
        packed.setdefault(key, []).append(b"%b %d" % (word, count))
    for key, lines in packed.items():
        yield key, b"\n".join(lines)


def unpack_counts(packed: bytes) -> Iterator[tuple[str, int]]:
    """Yields the words and counts that `pack_counts` packed."""
    for line in packed.decode().split("\n"):
        word, count = line.split(" ")
        yield word, int(count)


def sum_partition(element: tuple[int, Iterable[bytes]], most: int) -> CorpusWords:
    """Returns the sum of a partition's packed counts, with the `most` most frequent words."""
    words: Counter[str] = Counter()
    for packed in element[1]:
        for word, count in unpack_counts(packed):
            words[word] += count
    return CorpusWords.of(words, most)


def count_uncovered(element: tuple[int, bytes], characters: Sequence[str]) -> int:
    """Returns the number of words with a character outside of `characters`, which become [UNK]."""
    alphabet = {piece[-1] for piece in characters}
    counts = unpack_counts(element[1])
    return sum(count for word, count in counts if not alphabet.issuperset(word))


def no_words(number: int, noun: str) -> str:
    """Returns the sentence about so many documents or files from which nothing can be learned."""
    return (
        f"--input: has no words in {counted(number, noun)}; check --format and that the files hold "
        "text"
    )


class CountWords(beam.DoFn):
    """Turns parts of files into (partition, packed counts), a bundle at a time.

    The side outputs are the counts of documents and the rejects.
    """

    def __init__(
        self,
        do_lower_case: bool,
        options: ReadOptions,
        partitions: int,
        kind: str = WORDPIECE,
    ):
        """Takes the options for cutting words and reading files.

        `partitions` is the number of partitions in which the counts are summed.
        """
        self._do_lower_case = do_lower_case
        self._partitions = partitions
        self._kind = kind
        self._options = options

    def setup(self) -> None:
        """Builds the word splitter, once in each worker."""
        self._words = WordCounter(self._do_lower_case, self._kind)
        self._progress = ProgressTally(self._options.progress_folder)

    def start_bundle(self) -> None:
        """Discards the counts that a failed bundle may have left."""
        self._words.take()

    def process(self, part: Part) -> Iterator[Any]:
        """Counts the words of one part, and yields the counts when there are enough."""
        counts: Counter[str] = Counter()
        rejects = RejectLists(part)
        for document in read_documents(part, self._options, self._progress):
            count_read(document, counts)
            self._progress.add(documents=1)
            if isinstance(document, Document):
                self._words.add(document.text)
                if self._words.is_full:
                    yield from pack_counts(self._words.take(), self._partitions)
            elif isinstance(document, Reject):
                yield from rejects.add(document)
        yield from rejects.rest()
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
        extension: Extension | None = None,
    ):
        """Takes what the vocabulary is made from.

        Args:
          job, inputs: the job and its files.
          about: values for the file beside vocab.txt.
          extension: the vocabulary to extend, if there is one.
        """
        self._extension = extension
        self._job = job
        self._inputs = inputs
        self._about = about

    def process(
        self,
        words: CorpusWords,
        characters: Sequence[str],
        uncovered: int,
        read: Counter[str],
        rejects: Sequence[str],
    ) -> Iterator[Vocabulary]:
        """Runs once, after all words are counted.

        Raises:
          InputError: an input was changed, too many documents were rejected, or there were no
            words.
        """
        yield self._write(words, characters, uncovered, read, rejects)

    def _write(
        self,
        words: CorpusWords,
        characters: Sequence[str],
        uncovered: int,
        read: Counter[str],
        rejects: Sequence[str],
    ) -> Vocabulary:
        job = self._job
        remedy = "wait until nothing writes to it, then give the same command again"
        check_unchanged(self._inputs.files(), job.patterns, remedy)
        self._list_rejects(rejects, read)
        if not words.distinct:
            raise InputError(no_words(read["read"], "document"))
        of_extension = {}
        if self._extension:
            counted = dict(words.most_frequent)
            vocabulary = self._extension.extended(counted)
            pieces = self._extension.vocabulary.tokens
            of_extension = {
                "new_tokens": len(vocabulary) - len(pieces),
                "counted_words": sum(counted.values()),
                "tokens_before": tokens_of(pieces, counted),
                "tokens_after": tokens_of(vocabulary.tokens, counted),
                "unknown_words": unknown_words(vocabulary.tokens, counted),
            }
        elif job.kind == WORDPIECE:
            if job.character_coverage is not None:
                check_coverage(words, characters, job.vocab_size, job.character_coverage)
            vocabulary = learn_vocabulary(words, characters, job.vocab_size, job.lower_cases)
        else:
            from beambert.pipelines.vocabulary_learning.subwords import learn_tokenizer

            vocabulary = learn_tokenizer(
                words, job.kind, job.vocab_size, job.lower_cases, job.character_coverage
            )
        skipped, rejected = _total(read, "dropped "), _total(read, "rejected ")
        counts = {
            "documents": read["read"] - skipped - rejected,
            "skipped": skipped,
            "rejected": rejected,
            "encodings": counts_by_reason(read, "encoding "),
            "cleaned": counts_by_reason(read, "cleaned "),
            "words": words.occurrences,
            "distinct_words": words.distinct,
            "words_with_rare_characters": uncovered,
            "tokens": len(vocabulary),
            "character_tokens": len(characters),
            "unused_tokens": sum(token.startswith("[unused") for token in vocabulary.tokens),
            **of_extension,
        }
        about = dict(self._about) | {
            "versions": library_versions(),
            "sha256": vocabulary.sha256,
            "counts": counts,
        }
        write_bytes(job_file(job.output), (json.dumps(about, indent=1) + "\n").encode())
        folder = FileSystems.split(job.output)[0]
        for name, data in vocabulary.files().items():
            if name != vocabulary.FILE:
                write_bytes(FileSystems.join(folder, name), data)
        write_bytes(job.output, vocabulary.serialize())
        return vocabulary

    def _list_rejects(self, rejects: Sequence[str], read: Counter[str]) -> None:
        """Writes the rejects beside the vocabulary, and fails the job if they are too many."""
        beside = rejects_file(self._job.output)
        if not rejects:
            delete_quietly([beside])  # an earlier job's that failed
            return
        write_bytes(beside, "".join(row + "\n" for row in rejects).encode())
        rejected = _total(read, "rejected ")
        listed = "all" if len(rejects) == rejected else f"the first {len(rejects):,}"
        remedy = f"mend them ({listed} are in {beside})"
        check_rejects(rejects, rejected, read["read"], self._job.max_reject_fraction, remedy)


def _total(read: Counter[str], prefix: str) -> int:
    """Returns the sum of the counts of all reasons, see `counts_by_reason`."""
    return sum(counts_by_reason(read, prefix).values())
