"""Okapi BM25 as Lucene computes it: how well documents match a query by their words.

The score of a word is its idf, ln(1 + (N - n + 0.5) / (n + 0.5)), times f / (f + k1 (1 - b + b l)):
N documents, n of them with the word, f occurrences in the document, l its length divided by the
mean (Robertson and Zaragoza 2009, section 3.4; Kamphuis et al. 2020 for Lucene's idf). It is
computed once for each word of each document, as BM25S does (Lù 2024, arXiv 2407.03618); a query
adds what its words have.

Shape suffixes: N documents, W words, P pairs of a word and a document that has it.
"""

import bisect
import collections
import re
from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from beambert.trainer.retrieval.rankings import Ranking, best_of

# Lucene's default values.
K1, B = 1.2, 0.75
# The files of an index: the words, sorted, and for each of them its documents and their scores.
WORDS_FILE, STARTS_FILE = "words.arrow", "word_starts.npy"
DOCUMENTS_FILE, SCORES_FILE = "word_documents.npy", "word_scores.npy"
FILES = (WORDS_FILE, STARTS_FILE, DOCUMENTS_FILE, SCORES_FILE)


def words_of(text: str) -> list[str]:
    """Returns the words of a text in lower case: runs of letters, digits and underscores."""
    return re.findall(r"\w+", text.lower())


class Bm25:
    """An index of documents by their words, whose arrays may lie in mapped files."""

    def __init__(
        self,
        count: int,
        words: pa.StringArray,
        starts: np.ndarray,
        documents_P: np.ndarray,
        scores_P: np.ndarray,
    ):
        """Takes the index as `bm25_of` makes it.

        Args:
          count: number of documents, N.
          words: the words, sorted.
          starts: places where the pairs of each word begin, and those of the last end, int64
            [W + 1].
          documents_P: number of each pair's document, int32.
          scores_P: score of each pair, float32.
        """
        self.count = count
        self._words, self._starts = words, starts
        self._documents_P, self._scores_P = documents_P, scores_P

    def scores(self, query: Sequence[str]) -> np.ndarray:
        """Returns the score of each document, float32 [N].

        Args:
          query: words of the query; one that comes twice counts twice.
        """
        found = np.zeros(self.count, np.float32)
        for word, times in collections.Counter(query).items():
            place = bisect.bisect_left(
                range(len(self._words)), word, key=lambda at: self._words[at].as_py()
            )
            if place < len(self._words) and self._words[place].as_py() == word:
                pairs = slice(self._starts[place], self._starts[place + 1])
                found[self._documents_P[pairs]] += times * self._scores_P[pairs]
        return found

    def search(self, query: Sequence[str], count: int) -> Ranking:
        """Returns the best documents that have a word of the query, at most `count`."""
        best = best_of(self.scores(query), count)
        has_any = best.scores_K > 0
        return Ranking(best.numbers_K[has_any], best.scores_K[has_any])

    def save(self, folder: str) -> None:
        """Writes the `FILES` of the index to a folder of this machine."""
        table = pa.table({"word": self._words})
        with pa.ipc.new_file(f"{folder}/{WORDS_FILE}", table.schema) as writer:
            writer.write_table(table)
        np.save(f"{folder}/{STARTS_FILE}", self._starts)
        np.save(f"{folder}/{DOCUMENTS_FILE}", self._documents_P)
        np.save(f"{folder}/{SCORES_FILE}", self._scores_P)


def bm25_of(documents: Iterable[Sequence[str]]) -> Bm25:
    """Counts the words of documents; returns their index."""
    numbers: dict[str, int] = {}  # word -> its number, by its first occurrence
    words, in_documents, times, lengths = array("i"), array("i"), array("i"), array("i")
    for document, content in enumerate(documents):
        lengths.append(len(content))
        for word, count in collections.Counter(content).items():
            words.append(numbers.setdefault(word, len(numbers)))
            in_documents.append(document)
            times.append(count)
    ordered = sorted(numbers)
    place_of = np.empty(len(ordered), np.int32)
    place_of[[numbers[word] for word in ordered]] = np.arange(len(ordered), dtype=np.int32)
    places = place_of[np.asarray(words, np.int32)]
    order = np.argsort(places, kind="stable")
    documents_P = np.asarray(in_documents, np.int32)[order]
    times_P = np.asarray(times, np.int32)[order].astype(np.float32)
    counts_W = np.bincount(places, minlength=len(ordered))
    idf_W = np.log(1 + (len(lengths) - counts_W + 0.5) / (counts_W + 0.5))
    lengths_N = np.asarray(lengths, np.int32)
    mean = max(lengths_N.mean() if len(lengths_N) else 0.0, 1e-9)
    norms_N = (K1 * (1 - B + B * lengths_N / mean)).astype(np.float32)
    scores_P = np.repeat(idf_W.astype(np.float32), counts_W)
    scores_P *= times_P / (times_P + norms_N[documents_P])
    starts = np.concatenate([[0], np.cumsum(counts_W)]).astype(np.int64)
    return Bm25(len(lengths), pa.array(ordered, pa.string()), starts, documents_P, scores_P)


def open_bm25(folder: str, count: int) -> Bm25:
    """Opens the files that `Bm25.save` wrote; they stay on disk.

    Args:
      folder: folder of this machine.
      count: number of documents.
    """
    words = pa.ipc.open_file(pa.memory_map(f"{folder}/{WORDS_FILE}")).read_all()["word"]
    starts, documents_P, scores_P = (
        np.load(f"{folder}/{name}", mmap_mode="r") for name in FILES[1:]
    )
    return Bm25(count, words.combine_chunks(), starts, documents_P, scores_P)
