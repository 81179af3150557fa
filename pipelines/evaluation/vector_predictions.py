"""Makes records of the vectors of a SavedModel, and of what the vectors find; see `predictions`."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from beambert.pipelines.evaluation.outcomes import Record
from beambert.pipelines.evaluation.predictions import Predictor, Row, encode_record
from beambert.pipelines.prediction.saved_models import Model, check_signature, load
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.tensorflow_models import call_on_texts
from beambert.pipelines.tasks.ranking import best_by_vectors, retrieval_scores
from beambert.pipelines.tasks.task import Task


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


class RankingPredictor(_VectorPredictor):
    """Turns rows into serialized tf.Examples with vectors; `completed` makes rankings of all."""

    FOLDER: ClassVar[str] = "vectors"

    def __call__(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns one serialized tf.Example for each row."""
        return [
            encode_record({**row.record, "vectors": vectors.ravel().tolist()})
            for row, vectors in self._vectors(rows)
        ]

    def completed(self, rows: Sequence[Row], records: Sequence[Record]) -> list[Record]:
        """Returns the records with what their queries find among the texts of all rows.

        Raises:
          InputError: a vector has a component that is no finite number.
        """
        text_ids = np.array([record["text_ids"] for record in records], np.int64)
        vectors = np.array([record["vectors"] for record in records], np.float32)
        if not np.isfinite(vectors).all():
            raise InputError(
                f"--model={self._model.path}: makes embeddings that are no finite numbers; train "
                "it again or take another model"
            )
        vectors = vectors.reshape(*text_ids.shape, -1)
        ranked = best_by_vectors(text_ids, vectors)
        scores = retrieval_scores(text_ids, ranked.tolist())
        texts = {
            number: text
            for row, ids in zip(rows, text_ids.tolist(), strict=True)
            for number, text in zip(ids, row.example.sequences, strict=True)
        }
        found = []
        for number, record in enumerate(records):
            kept = {name: values for name, values in record.items() if name != "vectors"}
            kept |= {name: [float(values[number])] for name, values in scores.items()}
            kept["found"] = [texts[int(ranked[number, 0])].encode()]
            found.append(kept)
        return found
