"""Search by vectors, words or both, and reranking."""

import abc
import collections
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import pyarrow as pa

from beambert import io
from beambert.errors import InputError, check_list
from beambert.folders import MARKER_FILE
from beambert.pipelines.tasks.late_interaction import KEPT, max_sim
from beambert.pipelines.tasks.saved_models import ID_INPUTS
from beambert.pipelines.tasks.task import LATE_INTERACTION, RERANK
from beambert.pipelines.tasks.texts import InteractionFeatures, TextFeatures
from beambert.trainer import model_folders
from beambert.trainer.embedding.embedder import Embedder, open_embedder, with_settings
from beambert.trainer.embedding.writing import is_embeddings
from beambert.trainer.loop.engine import make_engine
from beambert.trainer.models import task_model
from beambert.trainer.retrieval.indexing import (
    FUSED_DEPTH,
    INDEX_FILE,
    PASSAGES_FILE,
    VECTORS_FILE,
    Bm25,
    Ranking,
    best_of,
    check_files,
    fused,
    open_bm25,
    open_table,
    words_of,
)
from beambert.trainer.retrieval.settings import BOTH, CANDIDATES, TOP, VECTORS, WORDS, way_of


@dataclasses.dataclass(frozen=True)
class Hit:
    """A passage that was found.

    Attributes:
      score: its score, by which the hits are ranked.
      file, line, id: place of its text, see `TextRow`.
      start: first character of the passage in its text, counted from 0.
      text: the passage.
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
      info: content of its `index.json`.
      passages: the rows of the passages.
      units_NH: their vectors, of length 1, float32.
      bm25: their words.
    """

    info: dict[str, Any]
    passages: pa.Table
    units_NH: np.ndarray
    bm25: Bm25

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
            rankings.append(best_of(self.units_NH @ unit_H, depth))
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
            found.append(Hit(score, *place, row["text"]))
        return found


def open_index(folder: str) -> Index:
    """Opens a folder that `beambert index` finished.

    Raises:
      InputError: there is none on this machine, it is damaged.
    """
    folder = folder.rstrip("/")
    name = f"--index={folder}"
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
    about = io.read_object(f"{folder}/{INDEX_FILE}", remedy="make the index again")
    check_files(folder, about)
    passages = open_table(f"{folder}/{PASSAGES_FILE}")
    units_NH = np.load(f"{folder}/{VECTORS_FILE}", mmap_mode="r")
    return Index(about, passages, units_NH, open_bm25(folder, passages.num_rows))


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
        pooling["is_normalized"],
        settings["prefix"] if prefix is None else prefix,
        settings["max_seq_length"],
    )


# Number of sequences that are read at once.
_SEQUENCES_AT_A_TIME = 32
# Lengths are multiples of this, so that there are few graphs.
_LENGTH_STEP = 32
# Number of passages whose vectors are kept for the next queries: 200 MB, if they have 200 tokens.
_PASSAGES_KEPT = 4096


class Reranker(abc.ABC):
    """A model that says how relevant a passage is for a query."""

    @abc.abstractmethod
    def scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Returns the relevance of each of one text or more for a query, float32 [texts]."""

    def rerank(self, query: str, hits: Sequence[Hit], count: int) -> list[Hit]:
        """Returns the most relevant hits, the best first, with their relevance as scores.

        Of equal ones the order stays.

        Args:
          query: the query.
          hits: the candidates, the best first.
          count: number of hits to return.
        """
        if not hits:
            return []
        scores = self.scores(query, [hit.text for hit in hits])
        order = np.argsort(-scores, kind="stable")[:count]
        return [dataclasses.replace(hits[i], score=float(scores[i])) for i in order.tolist()]


class CrossEncoder(Reranker):
    """A model of `--task=rerank`, whose scores are from 0 to 1."""

    def __init__(self, found: model_folders.ModelFolder):
        """Takes a model folder.

        Raises:
          InputError: the model cannot be read.
        """
        length = found.training["max_seq_length"]
        self._text_features = TextFeatures(found.vocabulary, found.do_lower_case, length)
        self._batches = _Batches(task_model(found))

    def scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Returns the relevance of each text for a query, from 0 to 1, float32 [texts]."""
        features = self._text_features([query] * len(texts), texts)
        logits = np.array(self._batches.outputs(features))[:, 0]
        return 1 / (1 + np.exp(-logits))


class LateInteractionReranker(Reranker):
    """A model of `--task=late_interaction`, whose scores are sums of cosines."""

    def __init__(self, found: model_folders.ModelFolder):
        """Takes a model folder.

        Raises:
          InputError: the model cannot be read.
        """
        training = found.training
        self._text_features = InteractionFeatures(
            found.vocabulary,
            found.do_lower_case,
            training["max_seq_length"],
            training["query_length"],
        )
        self._batches = _Batches(task_model(found))
        # Text -> the vectors of its tokens; the one that was needed last comes last.
        self._kept: collections.OrderedDict[str, np.ndarray] = collections.OrderedDict()

    def scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Returns the score of each text for a query, float32 [texts]."""
        self._read([text for text in dict.fromkeys(texts) if text not in self._kept])
        documents = []
        for text in texts:
            self._kept.move_to_end(text)
            documents.append(self._kept[text])
        while len(self._kept) > _PASSAGES_KEPT:
            self._kept.popitem(last=False)
        features = self._text_features.queries([query])
        [query_QH] = self._batches.outputs(self._text_features.expanded(features), is_cut=False)
        return max_sim(query_QH[None], documents)[0]

    def _read(self, texts: Sequence[str]) -> None:
        """Keeps the vectors of the tokens of texts that count."""
        if not texts:
            return
        features = self._text_features.documents(texts)
        counts = self._text_features.counting(features)
        for text, vectors, is_counted in zip(
            texts, self._batches.outputs(features), counts, strict=True
        ):
            self._kept[text] = vectors[is_counted[: len(vectors)]].astype(KEPT)


class _Batches:
    """Calls a model on batches of sequences of like length."""

    def __init__(self, model: keras.Model):
        def call(*arrays: Any) -> Any:
            return model(dict(zip(ID_INPUTS, arrays, strict=True)))

        self._call = make_engine().function(call, model)

    def outputs(self, features: Mapping[str, np.ndarray], is_cut: bool = True) -> list[np.ndarray]:
        """Returns what the model gives for each sequence.

        Args:
          features: int32 [n, L] each.
          is_cut: whether padding may be cut off the ends of sequences.
        """
        count, longest = features["input_ids"].shape
        lengths = features["input_mask"].sum(axis=1) if is_cut else np.full(count, longest)
        found: list[np.ndarray] = [np.zeros(0)] * count
        order = np.argsort(lengths, kind="stable")
        for start in range(0, count, _SEQUENCES_AT_A_TIME):
            some = order[start : start + _SEQUENCES_AT_A_TIME]
            length = -(-lengths[some].max() // _LENGTH_STEP) * _LENGTH_STEP
            outputs = self._call(*(features[name][some, :length] for name in ID_INPUTS))
            for number, output in zip(some, outputs, strict=True):
                found[number] = output
        return found


_RERANKERS: Mapping[str, type[CrossEncoder | LateInteractionReranker]] = {
    RERANK: CrossEncoder,
    LATE_INTERACTION: LateInteractionReranker,
}


def open_reranker(path: str) -> Reranker:
    """Opens a model folder.

    Raises:
      InputError: the model cannot be read, or was trained on another kind of task.
    """
    found = model_folders.open_model(path, "--reranker")
    its_class = _RERANKERS.get(found.training["kind"])
    if its_class is None or not found.training["is_pair"]:
        raise InputError(
            f"--reranker={path}: was not trained to rank pairs of texts; give a model of `beambert "
            f"finetune --task={RERANK}` or {LATE_INTERACTION}"
        )
    return its_class(found)


class Searcher:
    """Finds the passages of an index that answer queries; its models are loaded once.

    Attributes:
      index: the index.
    """

    def __init__(
        self,
        index: str,
        model: str | None = None,
        *,
        by: str | None = None,
        reranker: str | None = None,
        prefix: str | None = None,
    ):
        """Opens the index and the models.

        Args:
          index: folder that `beambert index` finished.
          model: model that made its vectors; None to search by words alone.
          by: what passages are found by, `vectors`, `words` or `both` (default: both with a model,
            or else words).
          reranker: model of `--task=rerank` or `late_interaction` that ranks the best passages
            again; None for none.
          prefix: what is put before each query (default: what was put before the texts).

        Raises:
          InputError: one of them cannot be used.
        """
        self._way = way_of(by, model)
        self.index = open_index(index)
        self._reranker = open_reranker(reranker) if reranker else None
        opened = open_embedder(model) if model else None
        self._embedder = query_embedder(self.index, opened, prefix) if opened else None

    def search(self, queries: Sequence[str], top: int = TOP) -> list[list[Hit]]:
        """Returns the best passages for each query, the best first.

        Args:
          queries: the queries.
          top: number of passages for each.

        Raises:
          InputError: no passage is asked for, or the queries are no list.
        """
        check_list(queries, "queries")
        if top < 1:
            raise InputError(f"--top={top}: must be at least 1")
        vectors: Sequence[np.ndarray | None] = [None] * len(queries)
        if self._embedder:
            vectors = list(self._embedder.embed(queries)[0])
        count = max(CANDIDATES, top) if self._reranker else top
        found = [
            self.index.rank(query, vector_H, self._way, count)
            for query, vector_H in zip(queries, vectors, strict=True)
        ]
        if not self._reranker:
            return found
        pairs = zip(queries, found, strict=True)
        return [self._reranker.rerank(query, hits, top) for query, hits in pairs]

    def cut(self, queries: Sequence[str]) -> tuple[int, int]:
        """Returns how many queries are longer than the model reads, and its number of tokens.

        The vectors of such queries stand for their beginnings. Words are found by whole queries.
        """
        if not self._embedder:
            return 0, 0
        return self._embedder.token_ids(queries)[1], self._embedder.settings.max_seq_length
