"""Searches a folder of embeddings: by vectors, by words, or by both.

Shape suffixes: N passages, H width of an embedding.
"""

import dataclasses
import functools
import glob
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import MARKER_FILE
from beambert.trainer.embedding.embedder import Embedder, with_settings
from beambert.trainer.embedding.job import INFO_FILE
from beambert.trainer.retrieval.bm25 import Bm25, words_of

VECTORS, WORDS, BOTH = "vectors", "words", "both"
WAYS = (VECTORS, WORDS, BOTH)
# The constant of reciprocal rank fusion (Cormack et al. 2009, section 2), and the number of ranks
# of each list that are fused.
RANK_CONSTANT, FUSED_DEPTH = 60, 1000


@dataclasses.dataclass(frozen=True)
class Hit:
    """A passage that was found.

    Attributes:
      score: its score, by which the hits are ranked.
      file, line, id: place of its text, see `TextRow`.
      start: first character of the passage in its text, counted from 0.
      text: the passage; "" if the folder keeps no texts.
    """

    score: float
    file: str
    line: int
    id: str
    start: int
    text: str


class Index:
    """The passages of a folder that `beambert embed` made, in memory."""

    def __init__(self, table: pa.Table, info: dict[str, Any]):
        """Scales the vectors to the length 1, so that products are cosines.

        Args:
          table: the rows of the folder.
          info: content of its `_info.json`.
        """
        self.info = info
        flat = table["embedding"].combine_chunks().flatten().to_numpy()
        vectors_NH = flat.reshape(table.num_rows, info["width"])
        lengths_N1 = np.linalg.norm(vectors_NH, axis=1, keepdims=True)
        self.vectors_NH = vectors_NH / np.maximum(lengths_N1, 1e-12)
        self._table = table.drop_columns(["embedding"])

    @property
    def has_text(self) -> bool:
        """Whether the texts are kept, which the search by words needs."""
        return "text" in self._table.column_names

    @functools.cached_property
    def bm25(self) -> Bm25:
        """The index by words, which is made when it is first used."""
        return Bm25([words_of(text) for text in self._table["text"].to_pylist()])

    def hit(self, number: int, score: float) -> Hit:
        """Returns a passage as a hit."""
        row = self._table.slice(number, 1).to_pylist()[0]
        return Hit(
            float(score),
            row["file"],
            row["line"],
            row.get("id", ""),
            row["start"],
            row.get("text", ""),
        )

    def rank(self, query: str, vector_H: np.ndarray | None, way: str, count: int) -> list[Hit]:
        """Returns the best passages for a query, the best first.

        Args:
          query: the query.
          vector_H: embedding of the query; None if it is searched by words alone.
          way: one of `WAYS`.
          count: number of passages.
        """
        lists = []
        if way in (VECTORS, BOTH):
            lists.append(self.vectors_NH @ (vector_H / max(float(np.linalg.norm(vector_H)), 1e-12)))
        if way in (WORDS, BOTH):
            lists.append(self.bm25.scores(words_of(query)))
        scores = lists[0] if len(lists) == 1 else fused(lists)
        best = best_of(scores, count)
        # By words, what has none of the query's words isn't found.
        return [
            self.hit(number, scores[number]) for number in best if way == VECTORS or scores[number]
        ]


def best_of(scores: np.ndarray, count: int) -> list[int]:
    """Returns the numbers of the greatest scores, the greatest first; of equal ones the first."""
    return np.argsort(-scores, kind="stable")[:count].tolist()


def fused(lists: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the sum of the reciprocal ranks of each passage in several lists of scores [N]."""
    total = np.zeros(len(lists[0]))
    for scores in lists:
        order = np.array(best_of(scores, FUSED_DEPTH), np.int64)
        order = order[scores[order] != 0]
        total[order] += 1 / (RANK_CONSTANT + np.arange(1, len(order) + 1))
    return total


def open_index(folder: str, flag: str = "--index") -> Index:
    """Opens a folder that `beambert embed` finished.

    Raises:
      InputError: there is none.
    """
    folder = folder.rstrip("/")
    if not os.path.exists(f"{folder}/{MARKER_FILE}") or not os.path.exists(f"{folder}/{INFO_FILE}"):
        raise InputError(
            f"{flag}={folder}: not a finished folder of `beambert embed`; check the path, or give "
            "its command again, which continues it"
        )
    with open(f"{folder}/{INFO_FILE}", encoding="utf-8") as file:
        info = json.load(file)
    try:
        table = pa.concat_tables(
            pq.read_table(path)
            for path in sorted(glob.glob(f"{glob.escape(folder)}/part-*.parquet"))
        )
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{flag}={folder}: cannot be read ({str(error).splitlines()[0]}); make it again"
        ) from error
    return Index(table, info)


def query_embedder(index: Index, embedder: Embedder, prefix: str | None = None) -> Embedder:
    """Returns the embedder of queries: the index's pooling and length, with another prefix.

    Args:
      index: the index.
      embedder: the model as its folder describes it.
      prefix: what is put before each query (default: as before the texts).

    Raises:
      InputError: the index was made by another model.
    """
    for name, sha256 in (
        ("model_sha256", embedder.sha256),
        ("tokenizer_sha256", embedder.vocabulary.sha256),
    ):
        if index.info[name] != sha256:
            raise InputError(
                f"--model={embedder.path}: is not the model that made --index, so their vectors "
                "cannot be compared; give that model, or embed the texts again"
            )
    settings = index.info["settings"]
    pooling = settings["pooling"]
    return with_settings(
        embedder,
        pooling["mode"],
        pooling["last_layers"],
        pooling["is_normalized"],
        settings["prefix"] if prefix is None else prefix,
        settings["max_seq_length"],
    )
