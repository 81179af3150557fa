"""Okapi BM25 as Lucene computes it: how well documents match a query by their words.

The score of a word is its idf, ln(1 + (N - n + 0.5) / (n + 0.5)), times f / (f + k1 (1 - b + b l)):
N documents, n of them with the word, f occurrences in the document, l its length divided by the
mean (Robertson and Zaragoza 2009, section 3.4; Kamphuis et al. 2020 for Lucene's idf).
"""

import collections
import re
from collections.abc import Sequence

import numpy as np

# Lucene's default values.
K1, B = 1.2, 0.75


def words_of(text: str) -> list[str]:
    """Returns the words of a text in lower case: runs of letters, digits and underscores."""
    return re.findall(r"\w+", text.lower())


class Bm25:
    """An index of documents by their words, in memory."""

    def __init__(self, documents: Sequence[Sequence[str]]):
        """Counts the words of the documents."""
        self.count = len(documents)
        lengths = np.array([len(words) for words in documents], np.float64)
        self._norms = K1 * (1 - B + B * lengths / max(lengths.mean() if self.count else 0, 1e-9))
        postings: dict[str, tuple[list[int], list[int]]] = {}
        for number, words in enumerate(documents):
            for word, times in collections.Counter(words).items():
                numbers, counts = postings.setdefault(word, ([], []))
                numbers.append(number)
                counts.append(times)
        self._postings = {
            word: (np.array(numbers, np.int64), np.array(counts, np.float64))
            for word, (numbers, counts) in postings.items()
        }

    def scores(self, query: Sequence[str]) -> np.ndarray:
        """Returns the score of each document, float64 [documents].

        Args:
          query: words of the query; one that comes twice counts twice.
        """
        found = np.zeros(self.count)
        for word, times in collections.Counter(query).items():
            if word not in self._postings:
                continue
            numbers, counts = self._postings[word]
            idf = np.log(1 + (self.count - len(numbers) + 0.5) / (len(numbers) + 0.5))
            found[numbers] += times * idf * counts / (counts + self._norms[numbers])
        return found
