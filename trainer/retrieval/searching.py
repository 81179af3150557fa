"""Searches an index: by vectors, by words, or by both."""

import dataclasses
import json
import os
from typing import Any

import numpy as np
import pyarrow as pa

from beambert import storage
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.trainer.embedding.embedder import Embedder, with_settings
from beambert.trainer.embedding.finished_folders import is_embeddings
from beambert.trainer.retrieval.bm25 import FILES as WORDS_FILES
from beambert.trainer.retrieval.bm25 import Bm25, open_bm25, words_of
from beambert.trainer.retrieval.indexing import INDEX_FILE, PASSAGES_FILE
from beambert.trainer.retrieval.rankings import FUSED_DEPTH, Ranking, fused
from beambert.trainer.retrieval.settings import BOTH, VECTORS, WORDS
from beambert.trainer.retrieval.vectors import Vectors, open_vectors


@dataclasses.dataclass(frozen=True)
class Hit:
    """A passage that was found.

    Attributes:
      score: its score, by which the hits are ranked.
      file, line, id: place of its text, see `TextRow`.
      start: first character of the passage in its text, counted from 0.
      text: the passage; "" if the index keeps no texts.
    """

    score: float
    file: str
    line: int
    id: str
    start: int
    text: str


@dataclasses.dataclass(frozen=True)
class Index:
    """An index whose files are mapped into memory.

    Attributes:
      name: the index as messages name it.
      info: content of its `index.json`.
      passages: the rows of the passages.
      vectors: their vectors.
      bm25: their words; None if the texts aren't kept.
    """

    name: str
    info: dict[str, Any]
    passages: pa.Table
    vectors: Vectors
    bm25: Bm25 | None

    def rank(self, query: str, vector_H: np.ndarray | None, way: str, count: int) -> list[Hit]:
        """Returns the best passages for a query, the best first.

        By words, what has none of the query's words isn't found.

        Args:
          query: the query.
          vector_H: embedding of the query; None if it is searched by words alone.
          way: what passages are found by, one of `settings.WAYS`.
          count: number of passages.
        """
        depth = max(count, FUSED_DEPTH) if way == BOTH else count
        rankings = []
        if way in (VECTORS, BOTH):
            unit_H = vector_H / max(float(np.linalg.norm(vector_H)), 1e-12)
            rankings.append(self.vectors.search(unit_H, depth))
        if way in (WORDS, BOTH):
            rankings.append(self.bm25.search(words_of(query), depth))
        return self._hits(fused(rankings, count) if way == BOTH else rankings[0])

    def _hits(self, ranking: Ranking) -> list[Hit]:
        found = []
        for number, score in zip(
            ranking.numbers_K.tolist(), ranking.scores_K.tolist(), strict=True
        ):
            # `take` would copy all passages into memory.
            row = self.passages.slice(number, 1).to_pylist()[0]
            place = row["file"], row["line"], row.get("id", ""), row["start"]
            found.append(Hit(score, *place, row.get("text", "")))
        return found


def open_index(folder: str, flag: str = "--index") -> Index:
    """Opens a folder that `beambert index` finished.

    Raises:
      InputError: there is none on this machine, it is damaged, or usearch isn't installed.
    """
    folder = folder.rstrip("/")
    name = f"{flag}={folder}"
    if not all(os.path.exists(f"{folder}/{file}") for file in (MARKER_FILE, INDEX_FILE)):
        if is_embeddings(folder):
            raise InputError(
                f"{name}: is a folder of `beambert embed`; make an index of it with `beambert "
                f"index --embeddings={folder} --output=DIR`"
            )
        raise InputError(
            f"{name}: not a finished folder of `beambert index` on this machine; check the path, "
            "or give its command again"
        )
    try:
        about = json.loads(storage.read_bytes(f"{folder}/{INDEX_FILE}"))
        for file, size in about["files"].items():
            if os.path.getsize(f"{folder}/{file}") != size:
                raise InputError(f"{folder}/{file}: was cut off or changed; make the index again")
        passages = pa.ipc.open_file(pa.memory_map(f"{folder}/{PASSAGES_FILE}")).read_all()
        vectors = open_vectors(folder, about["method"])
        has_words = WORDS_FILES[0] in about["files"]
        bm25 = open_bm25(folder, passages.num_rows) if has_words else None
    except (pa.ArrowException, OSError, ValueError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{name}: cannot be read ({str(error).splitlines()[0]}); make it again"
        ) from error
    return Index(name, about, passages, vectors, bm25)


def query_embedder(index: Index, embedder: Embedder, prefix: str | None = None) -> Embedder:
    """Returns the embedder of queries: the index's pooling and length, with another prefix.

    Args:
      index: the index.
      embedder: the model as its folder describes it.
      prefix: what is put before each query (default: as before the texts).

    Raises:
      InputError: the index was made by another model.
    """
    made_by = index.info["embeddings"][0]  # The others were made alike.
    for name, sha256 in (
        ("model_sha256", embedder.sha256),
        ("tokenizer_sha256", embedder.vocabulary.sha256),
    ):
        if made_by.get(name) != sha256:
            raise InputError(
                f"--model={embedder.path}: is not the model that made --index, so their vectors "
                "cannot be compared; give that model, or embed the texts again"
            )
    settings = made_by["settings"]
    pooling = settings["pooling"]
    return with_settings(
        embedder,
        pooling["mode"],
        pooling["last_layers"],
        pooling["is_normalized"],
        settings["prefix"] if prefix is None else prefix,
        settings["max_seq_length"],
    )
