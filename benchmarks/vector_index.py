"""How fast is an index of a million vectors, and how many of the nearest ones does it find?

    python -m benchmarks.vector_index --output=million --passages=1000000
    python -m benchmarks.vector_index --output=million --passages=1000000 --like=embeddings

Vectors and queries are drawn. With --like, a folder of `beambert embed`, each is one of its vectors
plus the difference of another one and its nearest, times a number between 0 and 1. So they have the
directions, the clusters and the distances of real ones. Without it they lie around random centres
in a space of 32 dimensions, as vectors of texts have few directions in which most of them differ.
The words of the passages are drawn by Zipf's law. The index is made by `beambert index`, and one
thread searches one query after the other. The right answer is that of a comparison with all vectors
at full precision. The folder is kept; the same command goes on with one that is not finished, and
measures a finished one again.
"""

import json
import os
import resource
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beambert.folders import MARKER_FILE
from benchmarks import measuring

# Number of random centres, the dimensions of the space that they lie in, and the share of their
# length that a vector lies from its centre.
_CENTRES, _DIMENSIONS, _SPREAD = 10_000, 32, 0.7
# Number of words in the vocabulary of the passages.
_WORDS = 50_000
_DRAWN_AT_A_TIME = 8192
_DEPTH = 10
# Number of queries that are searched first, which read the index from the disk.
_FIRST_QUERIES = 100


class Drawn:
    """A distribution of vectors."""

    def __init__(self, width: int, like: str | None):
        """Reads the folder `like`, or draws centres of `width` components."""
        self._moves = None
        generator = np.random.default_rng(0)
        if not like:
            self._centres = generator.normal(size=(_CENTRES, _DIMENSIONS)).astype(np.float32)
            self._directions = generator.normal(size=(_DIMENSIONS, width)).astype(np.float32)
            return
        from beambert.trainer.embedding.writing import open_embeddings

        found = np.concatenate([each for _, each in open_embeddings(like, "--like").parts()])
        self._centres = found / np.linalg.norm(found, axis=1, keepdims=True)
        moves = []
        for start in range(0, len(found), 1024):
            some = self._centres[start : start + 1024]
            cosines = some @ self._centres.T
            cosines[np.arange(len(some)), start + np.arange(len(some))] = -1
            moves.append(some - self._centres[cosines.argmax(axis=1)])
        self._moves = np.concatenate(moves)

    def draw(self, count: int, seed: int) -> np.ndarray:
        """Returns vectors of length 1, float32 [count, width]."""
        generator = np.random.default_rng(seed)
        found = self._centres[generator.integers(0, len(self._centres), count)]
        if self._moves is None:
            found = found + _SPREAD * generator.normal(size=found.shape).astype(np.float32)
            found = found @ self._directions
        else:
            shares = generator.random((count, 1), np.float32)
            found = found + shares * self._moves[generator.integers(0, len(self._moves), count)]
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def draw_texts(count: int, words: int, seed: int) -> list[str]:
    """Returns texts of so many words each, whose ranks follow Zipf's law."""
    generator = np.random.default_rng(seed)
    ranks = np.exp(generator.random((count, words)) * np.log(_WORDS)).astype(np.int64)
    return [" ".join(f"w{rank}" for rank in row) for row in ranks.tolist()]


def parts(count: int) -> Iterator[tuple[int, int]]:
    """Yields the number of each part of the passages and its size."""
    for number, start in enumerate(range(0, count, _DRAWN_AT_A_TIME)):
        yield number, min(_DRAWN_AT_A_TIME, count - start)


def write_embeddings(folder: str, drawn: Drawn, passages: int, words: int) -> None:
    """Writes a folder as `beambert embed` leaves it."""
    import pyarrow.parquet as pq

    from beambert.trainer.embedding.writing import INFO_FILE, PART, TextRow, table_of

    os.makedirs(folder, exist_ok=True)
    about: dict[str, Any] = {"reading": {"id_column": ""}, "keeps_text": True}
    for number, size in parts(passages):
        vectors, texts = drawn.draw(size, number + 1), draw_texts(size, words, number + 1)
        # The line of a passage is its number.
        numbers = range(number * _DRAWN_AT_A_TIME, number * _DRAWN_AT_A_TIME + size)
        rows = [
            TextRow("drawn.txt", line, "", 0, text)
            for line, text in zip(numbers, texts, strict=True)
        ]
        table = table_of(rows, vectors, has_ids=False, keeps_text=True)
        pq.write_table(table, f"{folder}/{PART.format(number)}")
    about |= {"texts": passages, "width": vectors.shape[1], "cut": 0}
    for name, content in ((INFO_FILE, about), (MARKER_FILE, {})):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            json.dump(content, file)


def nearest(drawn: Drawn, passages: int, queries: np.ndarray) -> np.ndarray:
    """Returns the numbers of the ten nearest of all vectors, int64 [queries, 10], in any order."""
    cosines = np.full((len(queries), 0), 0, np.float32)
    numbers = np.full((len(queries), 0), 0, np.int64)
    for number, size in parts(passages):
        here = np.arange(size) + number * _DRAWN_AT_A_TIME
        cosines = np.concatenate([cosines, queries @ drawn.draw(size, number + 1).T], axis=1)
        numbers = np.concatenate([numbers, np.tile(here, (len(queries), 1))], axis=1)
        best = np.argpartition(-cosines, min(_DEPTH, cosines.shape[1]) - 1, axis=1)[:, :_DEPTH]
        cosines, numbers = (np.take_along_axis(each, best, axis=1) for each in (cosines, numbers))
    return numbers


def timed(search: Any, queries: Sequence[Any]) -> tuple[list[Any], dict[str, float]]:
    """Searches each query; returns what is found, and milliseconds of all queries but the first.

    p50 and p99 are of the clock. Where other jobs run next to it, those of the processor say more.
    """
    found, seconds = [], []
    for query in queries:
        started = time.perf_counter(), time.process_time()
        found.append(search(query))
        seconds.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    later = 1e3 * np.array(seconds[min(_FIRST_QUERIES, len(queries) // 2) :])
    names = (f"p{share}{each}" for share in (50, 99) for each in ("", "_of_processor"))
    milliseconds = np.percentile(later, (50, 99), axis=0).ravel().tolist()
    return found, dict(
        zip(names, (round(millisecond, 2) for millisecond in milliseconds), strict=True)
    )


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: a flag cannot be used, or usearch is not installed.
    """
    parser = measuring.flag_parser("vector_index", __doc__)
    add = parser.add_argument
    add("--output", required=True, metavar="DIR", help="folder to make")
    add("--passages", type=int, required=True, metavar="N", help="number of passages")
    add("--like", metavar="DIR", help="folder of embeddings that vectors are drawn like")
    add("--width", type=int, default=384, help="components without --like (default: %(default)s)")
    add("--words", type=int, default=50, help="words of a passage (default: %(default)s)")
    add("--queries", type=int, default=1000, help="number of queries (default: %(default)s)")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))

    from beambert.trainer.retrieval.searching import open_index

    drawn, index = Drawn(flags.width, flags.like), f"{flags.output}/index"
    embedded, is_new = f"{flags.output}/embeddings", not os.path.exists(index)
    if not os.path.exists(f"{embedded}/{MARKER_FILE}"):
        write_embeddings(embedded, drawn, flags.passages, flags.words)
    started = time.monotonic()
    measuring.beambert("index", f"--embeddings={embedded}", "--method=hnsw", f"--output={index}")
    seconds, used = {}, resource.getrusage(resource.RUSAGE_CHILDREN)
    if is_new:
        seconds["made"] = round(time.monotonic() - started, 1)
        seconds["made_of_processor"] = round(used.ru_utime + used.ru_stime, 1)
    started = time.monotonic()
    opened = open_index(index)
    seconds["opened"] = round(time.monotonic() - started, 3)

    vectors = drawn.draw(flags.queries, 0)
    texts = draw_texts(flags.queries, 8, 0)
    found, by_vectors = timed(lambda vector: opened.rank("", vector, "vectors", _DEPTH), vectors)
    _, by_words = timed(lambda text: opened.rank(text, None, "words", _DEPTH), texts)
    pairs = list(zip(texts, vectors, strict=True))
    _, by_both = timed(lambda pair: opened.rank(*pair, "both", _DEPTH), pairs)
    right = nearest(drawn, flags.passages, vectors)
    shares = [
        len({hit.line for hit in hits} & set(each)) / len(each)
        for hits, each in zip(found, right.tolist(), strict=True)
    ]
    sizes = {each.name: each.stat().st_size for each in os.scandir(index)}
    result = {
        "passages": flags.passages,
        "width": vectors.shape[1],
        "vectors": "as those of --like" if flags.like else "around random centres",
        "seconds": seconds,
        **({"peak_bytes": used.ru_maxrss * 1024} if is_new else {}),
        "bytes": {name: sizes[name] for name in sorted(sizes) if not name.startswith("_")},
        "recall_at_10": round(float(np.mean(shares)), 4),
        "milliseconds": {"vectors": by_vectors, "words": by_words, "both": by_both},
    }
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
