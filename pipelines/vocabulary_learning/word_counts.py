"""The Beam steps of the vocabulary: documents -> words and their counts -> vocab.txt.

Memory is bounded by design, for any corpus on any runner: a worker counts up to `MOST_WORDS` words
before it sends them on; words travel packed, so that a runner holds about 12 bytes for each; and
only the most frequent ones reach the last step.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.reading import ReadOptions, check_rejects, reject_row
from beambert.pipelines.corpus.transforms import COUNTS, REJECTS, Source, read_source
from beambert.pipelines.jobs.files import write_bytes
from beambert.pipelines.jobs.running import library_versions
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.shared.progress import ProgressTally
from beambert.pipelines.vocabulary_learning.job import VocabularyJob
from beambert.pipelines.vocabulary_learning.learning import CorpusWords, learn_vocabulary
from beambert.pipelines.wordpiece.vocabulary import Vocabulary

# Characters of text that are taken apart at a time. Longer lines are cut at white space.
PIECE_CHARACTERS = 1 << 20
# Characters of text whose stretches between spaces are counted before they are split into words.
BATCH_CHARACTERS = 16 << 20
# Words that a worker counts before it sends them on: about 150 MB.
MOST_WORDS = 1_000_000
# Parts that the words are summed in.
PARTITIONS = 64


def job_file(output: str) -> str:
    """Returns the file that says what a vocabulary was learned from."""
    return output + ".json"


def cut_text(text: str, size: int = PIECE_CHARACTERS) -> Iterator[str]:
    """Cuts text into pieces of up to `size` characters, at white space wherever there is any."""
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

    Words never cross a space. So the stretches between spaces are counted first, in Python, and
    only the different ones (every fifth) are normalized and split by TensorFlow.
    """

    def __init__(self, do_lower_case: bool):
        """Builds the word splitter."""
        with loading():
            from beambert.pipelines.wordpiece.tokenization import word_splitter

        self._split = word_splitter(do_lower_case)
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
        # One binary digit of the counts at a time: the words of all stretches that have it occur
        # as often as it stands for, so that nobody has to know which word came from which stretch.
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
        """Counts the words of stretches, about `PIECE_CHARACTERS` at a time."""
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
        """Whether the counts should be taken before more is added."""
        return len(self._words) >= MOST_WORDS

    def take(self) -> Counter[bytes]:
        """Returns the counts so far and starts again."""
        self._split_stretches()
        words, self._words = self._words, Counter()
        return words


def pack_counts(words: Counter[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yields (partition, its words and counts); a word's partition is always the same."""
    partitions: dict[int, list[bytes]] = {}
    for word, count in words.items():
        key = zlib.crc32(word) % PARTITIONS
        partitions.setdefault(key, []).append(b"%b %d" % (word, count))
    for key, lines in partitions.items():
        yield key, b"\n".join(lines)


def unpack_counts(packed: bytes) -> Iterator[tuple[str, int]]:
    """Reads what `pack_counts` gave."""
    for line in packed.decode().split("\n"):
        word, count = line.split(" ")
        yield word, int(count)


def sum_partition(element: tuple[int, Iterable[bytes]], most: int) -> CorpusWords:
    """Sums up the packed counts of a partition, keeping the `most` frequent words."""
    words: Counter[str] = Counter()
    for packed in element[1]:
        for word, count in unpack_counts(packed):
            words[word] += count
    return CorpusWords.of(words, most)


def count_uncovered(element: tuple[int, bytes], characters: Sequence[str]) -> int:
    """Returns how often words occur that have none of these characters' tokens: always [UNK]."""
    alphabet = {piece[-1] for piece in characters}
    counts = unpack_counts(element[1])
    return sum(count for word, count in counts if not alphabet.issuperset(word))


class CountWords(beam.DoFn):
    """Source -> (partition, packed counts), over all of a bundle; counts and rejects."""

    def __init__(self, do_lower_case: bool, options: ReadOptions):
        """Takes how words are normalized and files read."""
        self._do_lower_case = do_lower_case
        self._options = options

    def setup(self) -> None:
        """Builds the word splitter, once a worker."""
        self._words = WordCounter(self._do_lower_case)
        self._progress = ProgressTally(self._options.progress_folder)

    def start_bundle(self) -> None:
        """Forgets what a bundle that failed has left."""
        self._words.take()

    def process(self, source: Source) -> Iterator[Any]:
        """Counts the words of one source."""
        counts: Counter[str] = Counter()
        for document in read_source(source, self._options, self._progress):
            counts["documents"] += 1
            self._progress.add(documents=1)
            if isinstance(document, Document):
                self._words.add(document.text)
                if self._words.is_full:
                    yield from pack_counts(self._words.take())
            elif isinstance(document, Skip):
                counts["skipped"] += 1
            elif isinstance(document, Reject):
                counts["rejected"] += 1
                yield beam.pvalue.TaggedOutput(REJECTS, reject_row(source, document))
        yield beam.pvalue.TaggedOutput(COUNTS, counts)

    def finish_bundle(self) -> Iterator[Any]:
        """Sends on what was counted."""
        self._progress.flush()
        for packed in pack_counts(self._words.take()):
            yield GlobalWindows.windowed_value(packed)


class WriteVocabulary(beam.DoFn):
    """All words -> vocab.txt, and beside it what it was learned from; gives the vocabulary."""

    def __init__(self, job: VocabularyJob, about: Mapping[str, Any]):
        """Takes what is known before the work; `about` goes into the file beside vocab.txt."""
        self._job = job
        self._about = about

    def process(
        self,
        words: CorpusWords,
        characters: Sequence[str],
        uncovered: int,
        read: Iterable[Counter[str]],
        rejects: Iterable[str],
    ) -> Iterator[Vocabulary]:
        """Runs once, when every word is counted.

        Raises:
          InputError: too much was rejected, or there was nothing to learn from.
        """
        job = self._job
        read_counts = sum(read, Counter({"documents": 0}))
        documents, rejected = read_counts["documents"], sorted(rejects)
        if rejected:
            check_rejects(rejected, documents, job.max_reject_fraction, "mend them")
        if not words.distinct:
            raise InputError(
                f"--input: no words in {documents} documents; check --format and that the files "
                "hold text"
            )
        vocabulary = learn_vocabulary(words, characters, job.vocab_size, job.do_lower_case)
        counts = {
            "documents": documents,
            "skipped": read_counts["skipped"],
            "rejected": read_counts["rejected"],
            "words": words.occurrences,
            "distinct_words": words.distinct,
            "words_with_rare_characters": uncovered,
            "tokens": len(vocabulary),
            "character_tokens": len(characters),
            "unused_tokens": sum(token.startswith("[unused") for token in vocabulary.tokens),
        }
        about = dict(self._about) | {
            "versions": library_versions(),
            "sha256": vocabulary.sha256,
            "counts": counts,
        }
        write_bytes(job_file(job.output), (json.dumps(about, indent=1) + "\n").encode())
        write_bytes(job.output, vocabulary.serialize())
        yield vocabulary
