"""Finding the vectors that have the greatest cosines with one.

Either all are compared, or a graph of neighbours leads to them: hierarchical navigable small worlds
(HNSW, Malkov and Yashunin 2018, arXiv 1603.09320), which finds most of them much sooner. Both lie
in a file that is mapped into memory, of which a search reads what it needs.

Shape suffixes: N vectors, H components, Q queries.
"""

import abc
import os
from typing import Any

import numpy as np

from beambert import storage
from beambert.errors import InputError
from beambert.trainer.retrieval.rankings import Ranking, best_of, ranked
from beambert.trainer.retrieval.settings import EXACT, HNSW

# Neighbours of a vector in the graph, and candidates that are kept while one is added, the paper's
# M and efConstruction. Its figures 5 to 7 have M from 5 to 48 and efConstruction of at least 100.
CONNECTIVITY, EXPANSION_ADD = 16, 128
# Candidates that are kept while a query is answered, the paper's ef.
EXPANSION_SEARCH = 128
# The graph has vectors of 16-bit numbers. Their cosines have an error of some 1e-4.
_SCALAR = "f16"
# A graph is saved whenever it has got so many more, which at most are lost by a command that is
# killed, and the file that it is saved to.
SAVED_VECTORS, _PARTIAL_FILE = 1 << 18, "partial.usearch"
# Depth and number of queries of a measurement of the recall.
RECALL_DEPTH, _RECALL_QUERIES = 10, 100


class Vectors(abc.ABC):
    """Vectors of length 1 on disk."""

    FILE: str

    @abc.abstractmethod
    def search(self, unit_H: np.ndarray, count: int) -> Ranking:
        """Returns the vectors with the greatest cosines, at most `count`, float32.

        Args:
          unit_H: vector of length 1, float32.
          count: number of vectors.
        """


class ExactVectors(Vectors):
    """Vectors that are all compared."""

    FILE = "vectors.npy"

    def __init__(self, units_NH: np.ndarray):
        """Takes the vectors, float32."""
        self._units_NH = units_NH

    def search(self, unit_H: np.ndarray, count: int) -> Ranking:
        """Returns the vectors with the greatest cosines; see `Vectors`."""
        return best_of(self._units_NH @ unit_H, count)


class HnswVectors(Vectors):
    """Vectors in a graph of neighbours, by the library usearch."""

    FILE = "vectors.usearch"

    def __init__(self, graph: Any):
        """Takes an index of usearch whose keys are the numbers of the vectors."""
        self._graph = graph

    def search(self, unit_H: np.ndarray, count: int) -> Ranking:
        """Returns the vectors that are found; see `Vectors`."""
        found = self._graph.search(unit_H, min(count, len(self._graph)), threads=1)
        return ranked(found.keys.astype(np.int64), 1 - found.distances)

    def recall(self, seed: int = 0) -> float:
        """Returns the mean share of the ten nearest others that vectors of the graph find."""
        graph, depth = self._graph, min(RECALL_DEPTH, len(self._graph) - 1)
        if depth < 1:
            return 1.0
        count = min(_RECALL_QUERIES, len(graph))
        keys = np.random.default_rng(seed).choice(len(graph), count, replace=False)
        units_QH = np.stack(graph.get(keys.astype(np.uint64), np.float32))
        # Each vector finds itself, and then the others. Equally near ones are equally good.
        found, right = (graph.search(units_QH, depth + 1, exact=is_all) for is_all in (False, True))
        is_right = found.distances <= right.distances[:, -1:] + 1e-6
        return float(((is_right.sum(axis=1) - 1) / depth).mean())


class VectorWriter(abc.ABC):
    """Writes vectors to a folder of this machine."""

    @abc.abstractmethod
    def add(self, units_NH: np.ndarray) -> None:
        """Takes the next vectors, float32, of length 1."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Writes what is left."""


class ExactWriter(VectorWriter):
    """Writes the file of `ExactVectors`."""

    def __init__(self, folder: str, count: int, width: int):
        """Makes the file for `count` vectors of `width` components."""
        # A full disk is an exception of a file that is written, and a signal of one that is mapped.
        self._file = open(f"{folder}/{ExactVectors.FILE}", "wb")  # noqa: SIM115
        header = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def add(self, units_NH: np.ndarray) -> None:
        """Writes the next vectors."""
        self._file.write(units_NH.astype("<f4").tobytes())

    def finish(self) -> None:
        """Closes the file."""
        self._file.close()


class HnswWriter(VectorWriter):
    """Writes the file of `HnswVectors`; the graph is in memory until then.

    It is saved now and then, and a writer for the same folder goes on from there. All processors
    take part, so two graphs of the same vectors differ a little.
    """

    def __init__(self, folder: str, count: int, width: int):
        """Makes a graph for `count` vectors of `width` components, or goes on with one."""
        self._path, self._partial = f"{folder}/{HnswVectors.FILE}", f"{folder}/{_PARTIAL_FILE}"
        expansions = {"expansion_add": EXPANSION_ADD, "expansion_search": EXPANSION_SEARCH}
        index = usearch_index().Index
        if os.path.exists(self._partial):
            self.graph = index.restore(self._partial, **expansions)
        else:
            self.graph = index(
                ndim=width, metric="cos", dtype=_SCALAR, connectivity=CONNECTIVITY, **expansions
            )
        self._seen, self._saved = 0, len(self.graph)

    def add(self, units_NH: np.ndarray) -> None:
        """Adds the next vectors to the graph, if it has not got them yet."""
        new_NH = units_NH[max(len(self.graph) - self._seen, 0) :]
        start = len(self.graph)
        if len(new_NH):
            self.graph.add(np.arange(start, start + len(new_NH), dtype=np.uint64), new_NH)
        self._seen += len(units_NH)
        if len(self.graph) - self._saved >= SAVED_VECTORS:
            self._save(self._partial)
            self._saved = len(self.graph)

    def finish(self) -> None:
        """Writes the graph."""
        self._save(self._path)
        if os.path.exists(self._partial):
            os.unlink(self._partial)

    def _save(self, path: str) -> None:
        """Writes the graph completely or not at all."""
        temporary = storage.temporary_name(path)
        try:
            self.graph.save(temporary)
        except RuntimeError as error:
            raise storage.refusal(path, "written", str(error)) from error
        # usearch doesn't notice if the last bytes of its buffer find no room.
        if os.path.getsize(temporary) != self.graph.serialized_length:
            raise storage.refusal(path, "written", "it was cut off; the disk may be full")
        os.replace(temporary, path)


def usearch_index() -> Any:
    """Returns the module `usearch.index`.

    Raises:
      InputError: it is not installed.
    """
    try:
        import usearch.index
    except ImportError as error:
        raise InputError(
            f"--method={HNSW}: needs the package usearch; install it with `pip install "
            f"'beambert[index]'`, or make the index with --method={EXACT}"
        ) from error
    return usearch.index


def open_vectors(folder: str, method: str) -> Vectors:
    """Opens the file of vectors in a folder of this machine; it stays on disk.

    Args:
      folder: path of the folder.
      method: one of `METHODS`.

    Raises:
      InputError: usearch is needed and not installed.
    """
    if method == EXACT:
        return ExactVectors(np.load(f"{folder}/{ExactVectors.FILE}", mmap_mode="r"))
    graph = usearch_index().Index.restore(
        f"{folder}/{HnswVectors.FILE}", view=True, expansion_search=EXPANSION_SEARCH
    )
    return HnswVectors(graph)
