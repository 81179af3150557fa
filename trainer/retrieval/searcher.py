"""An index together with the models that its queries need."""

from collections.abc import Sequence

import numpy as np

from beambert.errors import InputError, check_list
from beambert.trainer.embedding.embedder import open_embedder
from beambert.trainer.retrieval.reranking import open_reranker
from beambert.trainer.retrieval.searching import Hit, open_index, query_embedder
from beambert.trainer.retrieval.settings import CANDIDATES, TOP, VECTORS, way_of

_NO_TEXTS = "needs the texts, which --index was made without (--keep_text)"


class Searcher:
    """Finds the passages of an index that answer queries; its models are loaded once."""

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
            or else words; vectors where the index has no words).
          reranker: model of `--task=rerank` or `late_interaction` that ranks the best passages
            again; None for none.
          prefix: what is put before each query (default: what was put before the texts).

        Raises:
          InputError: one of them cannot be used.
        """
        self._way = way_of(by, model)
        self._index = open_index(index)
        if self._index.bm25 is None:
            self._way = _way_without_words(self._way, by, model)
            if reranker:
                raise InputError(f"--reranker={reranker}: {_NO_TEXTS}; leave it out")
        self._reranker = open_reranker(reranker) if reranker else None
        opened = open_embedder(model) if model else None
        self._embedder = query_embedder(self._index, opened, prefix) if opened else None

    def search(
        self, queries: Sequence[str], top: int = TOP, candidates: int = CANDIDATES
    ) -> list[list[Hit]]:
        """Returns the best passages for each query, the best first.

        Args:
          queries: the queries.
          top: number of passages for each.
          candidates: number of passages that are ranked again.

        Raises:
          InputError: no passage is asked for, or the queries are no list.
        """
        check_list(queries, "queries")
        if top < 1:
            raise InputError(f"--top={top}: must be at least 1")
        vectors: Sequence[np.ndarray | None] = [None] * len(queries)
        if self._embedder:
            vectors = list(self._embedder.embed(queries)[0])
        count = max(candidates, top) if self._reranker else top
        found = [
            self._index.rank(query, vector_H, self._way, count)
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


def _way_without_words(way: str, by: str | None, model: str | None) -> str:
    """Returns what passages of an index without words are found by, which is their vectors.

    Args:
      way: what `way_of` says.
      by: the wish, or None.
      model: model that makes the vectors of queries, or None.

    Raises:
      InputError: words are wished for, or there is no model.
    """
    if way != VECTORS and by:
        raise InputError(f"--by={by}: {_NO_TEXTS}; give --by={VECTORS}")
    if not model:
        raise InputError(
            "--index: was made without the texts (--keep_text), so that it has no words; name the "
            "model that made its vectors with --model"
        )
    return VECTORS
