"""An index of embeddings and words: vectors that are all compared, and BM25."""

import bisect
import collections
import contextlib
import dataclasses
import itertools
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beambert import folders, io
from beambert.console import counted, show_progress
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.io import is_local
from beambert.trainer.embedding.writing import EmbeddingsFolder, open_embeddings

# The constant of reciprocal rank fusion (Cormack et al. 2009, section 2), and the number of ranks
# of each ranking that are fused.
RANK_CONSTANT, FUSED_DEPTH = 60, 1000


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Passages, the best first; of equal scores the one with the smaller number comes first.

    Attributes:
      numbers_K: numbers of the passages, int64.
      scores_K: their scores.
    """

    numbers_K: np.ndarray
    scores_K: np.ndarray


def ranked(numbers_K: np.ndarray, scores_K: np.ndarray) -> Ranking:
    """Returns the ranking of passages by their scores."""
    order = np.lexsort((numbers_K, -scores_K))
    return Ranking(numbers_K[order].astype(np.int64), scores_K[order])


def best_of(scores_N: np.ndarray, count: int) -> Ranking:
    """Returns the ranking of the greatest scores.

    Args:
      scores_N: the score of each passage.
      count: number of passages.
    """
    least = np.partition(scores_N, -count)[-count] if 0 < count < len(scores_N) else -np.inf
    numbers = np.flatnonzero(scores_N >= least)
    found = ranked(numbers, scores_N[numbers])
    return Ranking(found.numbers_K[:count], found.scores_K[:count])


def fused(rankings: Sequence[Ranking], count: int) -> Ranking:
    """Returns the best passages of several rankings by the sums of their reciprocal ranks."""
    numbers = np.concatenate([ranking.numbers_K for ranking in rankings])
    shares = [
        1 / (RANK_CONSTANT + 1 + np.arange(len(one_ranking.numbers_K))) for one_ranking in rankings
    ]
    found, places = np.unique(numbers, return_inverse=True)
    best = best_of(np.bincount(places, np.concatenate(shares), len(found)), count)
    return Ranking(found[best.numbers_K], best.scores_K)


# Lucene's default values.
K1, B = 1.2, 0.75
# The files of an index: the words, sorted, and for each of them its documents and their scores.
WORDS_FILE, STARTS_FILE = "words.arrow", "word_starts.npy"
DOCUMENTS_FILE, SCORES_FILE = "word_documents.npy", "word_scores.npy"
WORDS_FILES = (WORDS_FILE, STARTS_FILE, DOCUMENTS_FILE, SCORES_FILE)


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
        """Writes the `WORDS_FILES` of the index to a folder of this machine."""
        table = pa.table({"word": self._words})
        with new_table(f"{folder}/{WORDS_FILE}", table.schema) as writer:
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


def new_table(path: str, schema: pa.Schema) -> pa.RecordBatchFileWriter:
    """Begins a table in a file of Arrow, which would take "~" for the home folder."""
    return pa.ipc.new_file(io.absolute(path), schema)


def open_table(path: str) -> pa.Table:
    """Opens a table of a file of Arrow, which stays on disk."""
    return pa.ipc.open_file(pa.memory_map(io.absolute(path))).read_all()


def open_bm25(folder: str, count: int) -> Bm25:
    """Opens the files that `Bm25.save` wrote; they stay on disk.

    Args:
      folder: folder of this machine.
      count: number of documents.
    """
    words = open_table(f"{folder}/{WORDS_FILE}")["word"]
    starts, documents_P, scores_P = (
        np.load(f"{folder}/{name}", mmap_mode="r") for name in WORDS_FILES[1:]
    )
    return Bm25(count, words.combine_chunks(), starts, documents_P, scores_P)


# What is in the folder, the passages without their vectors, and these, scaled to the length 1.
INDEX_FILE, PASSAGES_FILE, VECTORS_FILE = "index.json", "passages.arrow", "vectors.npy"


def make_index(embeddings: Sequence[str], output: str) -> None:
    """Makes an index of folders of embeddings, which `searching.open_index` opens.

    Args:
      embeddings: folders that `beambert embed` finished, made alike from different files.
      output: folder of this machine to make.

    Raises:
      InputError: the output is elsewhere, a folder cannot be used, or a vector has no direction.
    """
    if not is_local(output):
        raise InputError(
            f"--output={output}: must be on this machine, whose memory the index is mapped "
            "into; name a folder here"
        )
    output = output.rstrip("/")
    found = _open_alike(embeddings)
    count = sum(each.info["texts"] for each in found)
    identity = {"embeddings": [each.info for each in found]}
    with folders.claimed(output, identity) as folder:
        if folder.is_finished:
            check_files(output, folder.read_json(INDEX_FILE))
            print(f"{output}: already finished by the same command, nothing to do")
            return
        with io.translate_errors(output, "written"):
            _write(found, output)
        files = (PASSAGES_FILE, VECTORS_FILE, *WORDS_FILES)
        sums = {name: io.sha256_of(f"{output}/{name}") for name in files}
        folder.write_json(INDEX_FILE, identity | {"passages": count, "files": sums})
    print(f"{output}: vectors and words of {counted(count, 'passage')}")


def check_files(folder: str, about: Mapping[str, Any]) -> None:
    """Refuses an index with a file that is not as it was written.

    Args:
      folder: folder of the index.
      about: content of its `INDEX_FILE`.

    Raises:
      InputError: there is such a file, or `about` is not that of a finished index.
    """
    damaged = ""
    try:
        marker = io.parse_object(io.read_bytes(f"{folder}/{MARKER_FILE}"))
        if marker["embeddings"] != about["embeddings"]:
            damaged = INDEX_FILE
        for name, sha256 in about["files"].items():
            if not os.path.isfile(f"{folder}/{name}") or io.sha256_of(f"{folder}/{name}") != sha256:
                damaged = name
    except (ValueError, KeyError, TypeError, AttributeError):
        damaged = INDEX_FILE
    if damaged:
        raise InputError(
            f"{folder}/{damaged}: is damaged or was changed; delete {folder} and make the index "
            "again"
        )


def _open_alike(embeddings: Sequence[str]) -> list[EmbeddingsFolder]:
    """Opens folders of embeddings.

    Raises:
      InputError: one cannot be used, comes twice, or was made otherwise than the first.
    """
    found: list[EmbeddingsFolder] = []
    for folder in embeddings:
        found.append(open_embeddings(folder))
        first, last = found[0], found[-1]
        if any(each.path == last.path for each in found[:-1]):
            raise InputError(f"{last.name}: comes twice; name it once")
        difference = folders.describe_difference(_making(first), _making(last))
        if difference:
            raise InputError(
                f"{last.name}: was made otherwise than {first.path} ({difference}); embed its "
                "files in the same way"
            )
    return found


def _making(found: EmbeddingsFolder) -> dict[str, Any]:
    """Returns what embeddings of one index must have in common."""
    names = ("model_sha256", "tokenizer_sha256", "settings", "width")
    has_ids = bool(found.info.get("reading", {}).get("id_column"))
    return {name: found.info.get(name) for name in names} | {"has an --id_column": has_ids}


def _write(found: Sequence[EmbeddingsFolder], output: str) -> None:
    """Writes the files of an index."""
    count, about = sum(each.info["texts"] for each in found), found[0].info
    report = show_progress("passages")
    with contextlib.ExitStack() as stack:
        # A full disk is an exception of a file that is written, and a signal of one that is mapped.
        vectors = stack.enter_context(open(f"{output}/{VECTORS_FILE}", "wb"))
        header = {"descr": "<f4", "fortran_order": False, "shape": (count, about["width"])}
        np.lib.format.write_array_header_1_0(vectors, header)

        def words() -> Iterator[list[str]]:
            """Writes the passages and their vectors; yields the words of each passage."""
            passages, done = None, 0
            for table, vectors_NH in itertools.chain.from_iterable(each.parts() for each in found):
                if passages is None:
                    file = f"{output}/{PASSAGES_FILE}"
                    passages = stack.enter_context(new_table(file, table.schema))
                passages.write_table(table)
                vectors.write(units(vectors_NH, table).astype("<f4").tobytes())
                done += len(vectors_NH)
                report(done, count)
                yield from map(words_of, table["text"].to_pylist())

        bm25 = bm25_of(words())
    bm25.save(output)


def units(vectors_NH: np.ndarray, rows: pa.Table) -> np.ndarray:
    """Returns vectors scaled to the length 1, so that products are cosines; float32.

    Args:
      vectors_NH: the vectors.
      rows: their rows, for messages.

    Raises:
      InputError: a vector has no direction.
    """
    lengths_N1 = np.linalg.norm(vectors_NH, axis=1, keepdims=True)
    is_bad = ~(np.isfinite(lengths_N1) & (lengths_N1 > 0))[:, 0]
    if is_bad.any():
        row: dict[str, Any] = rows.slice(int(is_bad.argmax()), 1).to_pylist()[0]
        raise InputError(
            f"{row['file']}, line {row['line']:,}: has an embedding that is zero or no finite "
            "number; embed the files again"
        )
    return vectors_NH / lengths_N1
