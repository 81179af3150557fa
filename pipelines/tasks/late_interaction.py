"""Late interaction: a vector for each token, by which texts find each other."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.tasks.metrics import best_of
from beambert.pipelines.tasks.saved_models import Model, check_signature
from beambert.pipelines.tasks.table_task import tokens_of
from beambert.pipelines.tasks.task import (
    LATE_INTERACTION,
    Example,
    Record,
    Row,
    TaskFeatures,
    check_finite,
)
from beambert.pipelines.tasks.vectors import (
    RankingOutcomes,
    RetrievalTask,
    VectorExample,
    text_ids_of,
)
from beambert.saved_models import call

if TYPE_CHECKING:
    from beambert.pipelines.tasks.texts import InteractionFeatures, TextFeatures

# Vectors are kept in 16 bits, as ColBERT keeps them (section 3.4 of the paper).
KEPT = np.float16
# Further signatures of a SavedModel, for the vectors of queries and for those of documents.
QUERIES, DOCUMENTS = "queries", "documents"
# Number of tokens of a query in late interaction (Khattab and Zaharia 2020, arXiv 2004.12832,
# section 4.1).
DEFAULT_QUERY_LENGTH = 32
# Numbers of queries and of tokens of documents whose cosines are computed at once: some megabytes.
_QUERIES_AT_A_TIME, _TOKENS_AT_A_TIME = 16, 1 << 13


def max_sim(
    queries_NQH: NDArray[np.floating], documents: Sequence[NDArray[np.floating]]
) -> NDArray[np.float32]:
    """Returns the score of each document for each query, float32 [N, D].

    Args:
      queries_NQH: vectors of the tokens of queries, of length 1.
      documents: vectors of the tokens of each document that count, of length 1, [tokens, H]; at
        least one of each.
    """
    scores = np.empty((len(queries_NQH), len(documents)), np.float32)
    flat = queries_NQH.reshape(-1, queries_NQH.shape[-1]).astype(np.float32)
    for some in _in_parts([len(document) for document in documents]):
        tokens_TH = np.concatenate(documents[some]).astype(np.float32)
        starts = np.cumsum([0, *(len(document) for document in documents[some][:-1])])
        greatest = np.maximum.reduceat(flat @ tokens_TH.T, starts, axis=1)
        shape = (len(queries_NQH), queries_NQH.shape[1], -1)
        scores[:, some] = greatest.reshape(shape).sum(axis=1)
    return scores


def _in_parts(lengths: Sequence[int]) -> Iterator[slice]:
    """Yields slices of the documents with about as many tokens as are computed at once."""
    parts = np.cumsum(lengths) // _TOKENS_AT_A_TIME
    start = 0
    for _, group in itertools.groupby(parts.tolist()):
        end = start + len(list(group))
        yield slice(start, end)
        start = end


def best_by_interaction(
    text_ids_NS: NDArray[np.int64],
    queries_NQH: NDArray[np.floating],
    documents: Sequence[NDArray[np.floating]],
) -> NDArray[np.int64]:
    """Returns the texts with the greatest scores for each row's query, int64 [N, at most DEPTH].

    Args:
      text_ids_NS: see `metrics.best_of`.
      queries_NQH: vectors of the tokens of the queries.
      documents: vectors of the tokens of all other texts, see `max_sim`, row by row.
    """

    def scores_of(some: slice, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return max_sim(queries_NQH[some], [documents[place] for place in places.tolist()])

    return best_of(text_ids_NS, scores_of, _QUERIES_AT_A_TIME)


@dataclasses.dataclass(frozen=True)
class LateInteraction(RetrievalTask):
    """A task that asks for vectors of tokens by which a text finds the one that answers it.

    The score of a document is the sum over the tokens of the query of the greatest cosine with any
    token of the document (Khattab and Zaharia 2020, ColBERT, arXiv 2004.12832, section 3.3).

    Attributes:
      query_length: number of tokens of every query; [MASK] fills up the shorter ones.
    """

    kind: ClassVar[str] = LATE_INTERACTION
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.late_interaction:InteractionObjective"
    text_b_is_optional: bool = False
    # The paper's loss divides the scores by nothing (section 3.3).
    temperature: float = 1.0
    query_length: int = DEFAULT_QUERY_LENGTH

    POOLS = False
    LEARNING_FLAGS = frozenset({"temperature", "query_length"})
    OUTPUTS = ("score",)
    VECTORS = ("query", "documents", "tokens")

    def learning_settings(self) -> dict[str, Any]:
        """Returns how the vectors are learnt."""
        return super().learning_settings() | {"query_length": self.query_length}

    def is_pair(self, example: VectorExample) -> bool:
        """Returns True: the model scores a query with a document."""
        return True

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> RankingOutcomes:
        """Returns the outcomes of the vectors of tokens.

        Args:
          examples: the examples.
          labels: not used.
          outputs: `queries` [examples, Q, H], `documents` [examples, texts - 1, L, H], and
            `counts`, whether each token of a document counts.
        """
        text_ids = text_ids_of(examples)
        documents = [
            vectors[counts]
            for of_row, counts_of_row in zip(outputs["documents"], outputs["counts"], strict=True)
            for vectors, counts in zip(of_row, counts_of_row, strict=True)
        ]
        best = best_by_interaction(text_ids, outputs["queries"], documents)
        return RankingOutcomes.of_ranking(text_ids, best.tolist())

    @classmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: "TextFeatures"
    ) -> TaskFeatures:
        """See `Task.features`; queries come without what expands them."""
        columns = list(zip(*(example.sequences for example in examples), strict=True))
        count = len(columns)
        return TaskFeatures(*tokens_of(text_features, columns), cls._targets(examples), {}, count)

    @classmethod
    def count_cut(
        cls,
        examples: Sequence[Example],
        labels: Sequence[str],
        text_features: "InteractionFeatures",
        features: TaskFeatures,
    ) -> int:
        """See `Task.count_cut`; queries have less room than documents."""
        room = np.full(features.choices, text_features.max_seq_length)
        room[0] = text_features.query_length
        full = np.flatnonzero((features.lengths.reshape(-1, len(room)) >= room).any(axis=1))
        if not len(full):
            return 0
        some = [examples[index] for index in full]
        found = cls.features(some, labels, text_features.with_more_room())
        return int((found.lengths.reshape(-1, len(room)) > room).sum())

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the score of a document for a query."""
        return {"score": float(outputs["score"][i])}

    def check_model(self, model: Model, example: Any) -> None:
        """Refuses a model that takes anything else than a query and a document."""
        check_signature(model, self.OUTPUTS, example.texts())

    def predict(self, model: Model, loaded: Any, rows: Sequence[Row]) -> list[Record]:
        """Returns the vectors of all tokens that count; `completed` makes rankings of all."""
        queries = call(loaded, {"text": [row.example.text for row in rows]}, QUERIES)["embeddings"]
        found = self._documents(loaded, rows)
        records = []
        for row, query in zip(rows, queries, strict=True):
            documents = [found[text] for text in row.example.sequences[1:]]
            records.append(
                {
                    "query": [query.astype(KEPT).tobytes()],
                    "documents": [document.tobytes() for document in documents],
                    "tokens": [query.shape[0], *map(len, documents)],
                }
            )
        return records

    @staticmethod
    def _documents(loaded: Any, rows: Sequence[Row]) -> dict[str, np.ndarray]:
        """Returns text -> the vectors of its tokens that count, float16 [tokens, H]."""
        distinct = list(dict.fromkeys(text for row in rows for text in row.example.sequences[1:]))
        found: dict[str, np.ndarray] = {}
        for start in range(0, len(distinct), len(rows)):
            some = distinct[start : start + len(rows)]
            outputs = call(loaded, {"text": some}, DOCUMENTS)
            for text, vectors, counts in zip(
                some, outputs["embeddings"], outputs["counts"], strict=True
            ):
                found[text] = vectors[counts > 0].astype(KEPT)
        return found

    def _best(self, model: Model, text_ids: np.ndarray, records: Sequence[Record]) -> np.ndarray:
        tokens = np.array([record["tokens"] for record in records])

        def matrices(kept: Sequence[bytes], lengths: Sequence[int]) -> list[np.ndarray]:
            flat = np.frombuffer(b"".join(kept), KEPT)
            check_finite(flat, "embeddings", model)
            width = len(flat) // sum(lengths)
            return np.split(flat.reshape(-1, width), np.cumsum(lengths)[:-1])

        queries = matrices([record["query"][0] for record in records], tokens[:, 0])
        of_rows = [one for record in records for one in record["documents"]]
        documents = matrices(of_rows, tokens[:, 1:].ravel())
        return best_by_interaction(text_ids, np.stack(queries), documents)
