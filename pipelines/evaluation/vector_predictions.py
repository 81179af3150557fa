"""Makes records of the vectors of a SavedModel, and of what the vectors find; see `predictions`."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.evaluation.outcomes import Record
from beambert.pipelines.evaluation.predictions import Predictor, Row, encode_record
from beambert.pipelines.tasks.interaction import DOCUMENTS, KEPT, QUERIES, best_by_interaction
from beambert.pipelines.tasks.ranking import best_by_vectors, retrieval_scores
from beambert.pipelines.tasks.saved_models import Model, check_signature, load
from beambert.pipelines.tasks.task import Task
from beambert.saved_models import call, call_on_texts


class _VectorPredictor(Predictor):
    """Calls a model on each text of the rows by itself."""

    @staticmethod
    def check_model(task: Task, model: Model, example: Any) -> None:
        """Refuses a model that takes anything else than one text, or gives no embedding."""
        check_signature(model, task.kind, ["text"])

    def _vectors(self, rows: Sequence[Row]) -> Iterator[tuple[Row, np.ndarray]]:
        """Yields each row with the vectors of its texts, float32 [texts, H]."""
        model = self._shared.acquire(lambda: load(self._model))
        texts = [text for row in rows for text in row.example.sequences]
        # Texts of like length cost less together; equal ones are computed once.
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        found: dict[str, np.ndarray] = {}
        for start in range(0, len(distinct), len(rows)):
            some = distinct[start : start + len(rows)]
            outputs = call_on_texts(model, [{"text": text} for text in some])
            found |= dict(zip(some, outputs["embedding"], strict=True))
        for row in rows:
            yield row, np.stack([found[text] for text in row.example.sequences])


class CosinePredictor(_VectorPredictor):
    """Turns pairs into serialized tf.Examples with the cosines of their vectors."""

    def __call__(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns one serialized tf.Example for each row."""
        found = []
        for row, vectors in self._vectors(rows):
            score = vectors[0] @ vectors[1] / max(np.prod(np.linalg.norm(vectors, axis=1)), 1e-12)
            found.append(encode_record({**row.record, "score": [float(score)]}))
        return found


class _Ranker(Predictor):
    """Makes rankings of all texts when all vectors are known.

    Attributes:
      VECTORS: names of the features of a record that only the ranking needs.
    """

    FOLDER: ClassVar[str] = "vectors"
    VECTORS: ClassVar[tuple[str, ...]] = ("vectors",)

    def _best(self, text_ids: np.ndarray, records: Sequence[Record]) -> np.ndarray:
        """Returns the texts that each row's query finds, see `ranking.best_of`.

        Raises:
          InputError: a vector has a component that is no finite number.
        """
        raise NotImplementedError

    def _check(self, vectors: np.ndarray) -> None:
        if not np.isfinite(vectors).all():
            raise InputError(
                f"--model={self._model.path}: makes embeddings that are no finite numbers; train "
                "it again or take another model"
            )

    def completed(self, rows: Sequence[Row], records: Sequence[Record]) -> list[Record]:
        """Returns the records with what their queries find among the texts of all rows.

        Raises:
          InputError: a vector has a component that is no finite number.
        """
        text_ids = np.array([record["text_ids"] for record in records], np.int64)
        ranked = self._best(text_ids, records)
        scores = retrieval_scores(text_ids, ranked.tolist())
        texts = {
            number: text
            for row, ids in zip(rows, text_ids.tolist(), strict=True)
            for number, text in zip(ids, row.example.sequences, strict=True)
        }
        found = []
        for number, record in enumerate(records):
            kept = {name: values for name, values in record.items() if name not in self.VECTORS}
            kept |= {name: [float(values[number])] for name, values in scores.items()}
            kept["found"] = [texts[int(ranked[number, 0])].encode()]
            found.append(kept)
        return found


class RankingPredictor(_VectorPredictor, _Ranker):
    """Turns rows into serialized tf.Examples with vectors; `completed` makes rankings of all."""

    def __call__(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns one serialized tf.Example for each row."""
        return [
            encode_record({**row.record, "vectors": vectors.ravel().tolist()})
            for row, vectors in self._vectors(rows)
        ]

    def _best(self, text_ids: np.ndarray, records: Sequence[Record]) -> np.ndarray:
        vectors = np.array([record["vectors"] for record in records], np.float32)
        self._check(vectors)
        return best_by_vectors(text_ids, vectors.reshape(*text_ids.shape, -1))


class InteractionPredictor(_Ranker):
    """Turns rows into serialized tf.Examples with the vectors of all tokens that count."""

    VECTORS = ("query", "documents", "tokens")

    def __call__(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns one serialized tf.Example for each row."""
        model = self._shared.acquire(lambda: load(self._model))
        queries = call(model, {"text": [row.example.text for row in rows]}, QUERIES)["embeddings"]
        found = self._documents(model, rows)
        records = []
        for row, query in zip(rows, queries, strict=True):
            documents = [found[text] for text in row.example.sequences[1:]]
            made = {
                "query": [query.astype(KEPT).tobytes()],
                "documents": [document.tobytes() for document in documents],
                "tokens": [query.shape[0], *map(len, documents)],
            }
            records.append(encode_record({**row.record, **made}))
        return records

    @staticmethod
    def _documents(model: Any, rows: Sequence[Row]) -> dict[str, np.ndarray]:
        """Returns text -> the vectors of its tokens that count, float16 [tokens, H]."""
        distinct = list(dict.fromkeys(text for row in rows for text in row.example.sequences[1:]))
        found: dict[str, np.ndarray] = {}
        for start in range(0, len(distinct), len(rows)):
            some = distinct[start : start + len(rows)]
            outputs = call(model, {"text": some}, DOCUMENTS)
            for text, vectors, counts in zip(
                some, outputs["embeddings"], outputs["counts"], strict=True
            ):
                found[text] = vectors[counts > 0].astype(KEPT)
        return found

    def _best(self, text_ids: np.ndarray, records: Sequence[Record]) -> np.ndarray:
        tokens = np.array([record["tokens"] for record in records])

        def matrices(kept: Sequence[bytes], lengths: Sequence[int]) -> list[np.ndarray]:
            flat = np.frombuffer(b"".join(kept), KEPT)
            self._check(flat)
            width = len(flat) // sum(lengths)
            return np.split(flat.reshape(-1, width), np.cumsum(lengths)[:-1])

        queries = matrices([record["query"][0] for record in records], tokens[:, 0])
        of_rows = [one for record in records for one in record["documents"]]
        documents = matrices(of_rows, tokens[:, 1:].ravel())
        return best_by_interaction(text_ids, np.stack(queries), documents)
