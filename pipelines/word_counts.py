"""The Beam wiring of the vocabulary: files -> words and their counts -> vocab.txt."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam

from pipelines.console import ProgressTally, quiet_stderr
from pipelines.documents import Document, Reject
from pipelines.errors import InputError
from pipelines.files import InputFile, write_bytes
from pipelines.jobs import library_versions
from pipelines.records import Vocabulary
from pipelines.transforms import (
    COUNTS,
    REJECTS,
    ReadOptions,
    check_rejects,
    read_batches,
    reject_row,
)


def job_file(output: str) -> str:
    """Returns the file that says what a vocabulary was learned from."""
    return output + ".json"


class CountWords(beam.DoFn):
    """InputFile -> (word, count); counts and rejects as side outputs."""

    def __init__(self, do_lower_case: bool, options: ReadOptions):
        """Takes how words are normalized and files read."""
        self._do_lower_case = do_lower_case
        self._options = options

    def setup(self) -> None:
        """Builds the word splitter, once a worker."""
        with quiet_stderr():
            from pipelines.tokenization import word_splitter

        self._split = word_splitter(self._do_lower_case)
        self._progress = ProgressTally(self._options.progress_folder)

    def process(self, file: InputFile) -> Iterator[Any]:
        """Counts the words of one file."""
        words: Counter[bytes] = Counter()
        documents = 0
        for batch in read_batches(file, self._options, self._progress):
            documents += len(batch)
            lines = []
            for document in batch:
                if isinstance(document, Reject):
                    yield beam.pvalue.TaggedOutput(REJECTS, reject_row(file, document))
                elif isinstance(document, Document):
                    lines += document.text.split("\n")
            words.update(self._split(lines))
        for word, count in words.items():
            yield word.decode(), count
        yield beam.pvalue.TaggedOutput(COUNTS, documents)


def uncovered(word_counts: Mapping[str, int], vocabulary: Vocabulary) -> int:
    """Returns how often words occur that have a character the vocabulary lacks: always [UNK]."""
    characters = {token.removeprefix("##") for token in vocabulary.tokens}
    return sum(count for word, count in word_counts.items() if not characters.issuperset(word))


class LearnVocabulary(beam.DoFn):
    """All word counts -> vocab.txt, and beside it what it was learned from."""

    def __init__(
        self, output: str, vocab_size: int, max_reject_fraction: float, job: dict[str, Any]
    ):
        """Takes what is known before the work."""
        self._output = output
        self._vocab_size = vocab_size
        self._max_reject_fraction = max_reject_fraction
        self._job = job

    def process(
        self,
        _: None,
        totals: Iterable[tuple[str, int]],
        read: Iterable[int],
        rejects: Iterable[str],
    ) -> None:
        """Runs once, when every word is counted.

        Raises:
          InputError: too much was rejected, or there was nothing to learn from.
        """
        from pipelines.vocabulary import learn_vocabulary

        documents, rejected, words = sum(read), sorted(rejects), dict(totals)
        if rejected:
            check_rejects(rejected, documents, self._max_reject_fraction, "this is the first")
        if not words:
            raise InputError(
                f"--input: no words in {documents} documents; check --format and that the files "
                "hold text"
            )
        vocabulary = learn_vocabulary(words, self._vocab_size)
        counts = {
            "documents": documents,
            "rejected": len(rejected),
            "words": sum(words.values()),
            "distinct_words": len(words),
            "words_with_rare_characters": uncovered(words, vocabulary),
            "tokens": len(vocabulary),
            "unused_tokens": sum(token.startswith("[unused") for token in vocabulary.tokens),
        }
        about = self._job | {
            "versions": library_versions(),
            "sha256": vocabulary.sha256,
            "counts": counts,
        }
        write_bytes(job_file(self._output), (json.dumps(about, indent=1) + "\n").encode())
        write_bytes(self._output, vocabulary.serialize())
