"""Texts whose vectors are learnt, as the training needs them, and the scores of vectors on dev."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.tasks.feature_folder import TaskFeatureFiles
from beambert.pipelines.tasks.interaction import best_by_interaction
from beambert.pipelines.tasks.metrics import scores
from beambert.pipelines.tasks.ranking import (
    best_by_vectors,
    commonest,
    retrieval_scores,
    text_id,
)
from beambert.pipelines.tasks.task import DEV, TRAIN, Task
from beambert.pipelines.tasks.vector_kinds import COSINE, TSDAE
from beambert.trainer.finetuning.batches import LENGTH_MULTIPLE
from beambert.trainer.finetuning.data import ExampleData


class VectorData(ExampleData):
    """Texts that must find others."""

    # Each text is a sequence by itself.
    is_pair = False

    def __init__(
        self, task: Task, data_dir: str, tell: Callable[[str], None], skip_bad_rows: bool = False
    ):
        """Reads the splits train and dev; see `TaskData`. It says so if train has no pairs."""
        super().__init__(task, data_dir, tell, skip_bad_rows)
        if self.is_single:
            how = (
                "a decoder writes each again from the vector of some of its words (TSDAE)"
                if self.denoises
                else "each learns to find itself under another dropout (SimCSE)"
            )
            tell(f"{self._read.files[TRAIN]}: has single texts; {how}")

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes the features of both splits."""
        super().tokenize(text_features, made)
        self.text_features = text_features

    @property
    def denoises(self) -> bool:
        """Whether a decoder writes the texts of train again."""
        return getattr(self.task, "single_texts", None) == TSDAE

    @property
    def is_single(self) -> bool:
        """Whether train has single texts."""
        return self._examples[TRAIN][0].text_b is None

    @property
    def has_scores(self) -> bool:
        """Whether the pairs of train have scores."""
        return self._examples[TRAIN][0].label is not None

    @property
    def longest_first(self) -> int:
        """Greatest number of tokens of the first text of any example, rounded up."""
        lengths = [
            feature.lengths.reshape(-1, feature.choices)[:, 0].max()
            for feature in self._features.values()
        ]
        return int(-(-max(lengths) // LENGTH_MULTIPLE) * LENGTH_MULTIPLE)

    @property
    def cached(self) -> int:
        """Number of texts that are encoded at a time with a cache of gradients; 0 without one."""
        return self.task.gradient_cache_batch_size

    def check_batch(self, size: int, parts: int) -> None:
        """Refuses batches whose examples have nothing to be compared with."""
        by_itself = self.denoises or (self.has_scores and self.task.loss == COSINE)
        if size // parts > 1 or by_itself or self._examples[TRAIN][0].negatives:
            return
        by = "" if parts == 1 else f" in each of {parts} parts"
        raise InputError(
            f"--train_batch_size={size}: leaves one example{by}, which has no other to be compared "
            f"with; give at least {2 * parts}"
        )

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's vectors for dev, and those of their parts."""
        vectors = outputs["vectors"]
        found = self._scores(vectors)
        for dim in self.task.matryoshka_dims:
            at_dim = self._scores(vectors[..., :dim])
            found |= {f"{name}_of_{dim}_dims": at_dim[name] for name in self.task.metrics}
        return found

    def _scores(self, vectors_NSH: np.ndarray) -> dict[str, float]:
        text_ids = self._text_ids()
        return self._means(text_ids, best_by_vectors(text_ids, vectors_NSH).tolist())

    def _text_ids(self) -> np.ndarray:
        ids = [[text_id(text) for text in example.sequences] for example in self._examples[DEV]]
        return np.array(ids, np.int64)

    def _means(self, text_ids: np.ndarray, ranked: Sequence[Sequence[int]]) -> dict[str, float]:
        of_rows = retrieval_scores(text_ids, ranked)
        return {name: float(of_rows[name].mean()) for name in self.task.metrics}

    @property
    def without_model(self) -> str:
        """What is predicted for the baseline, in words."""
        return "the texts that most queries must find"

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for the texts that most queries must find, in the same order."""
        text_ids = self._text_ids()
        return self._means(text_ids, [commonest(text_ids)] * len(text_ids))


class InteractionData(VectorData):
    """Queries that must find documents by the vectors of their tokens."""

    # The model scores a query with a document, which have no segments in common.
    is_pair = True
    has_segments = False

    @property
    def _room(self) -> str:
        return f"{super()._room} and --query_length={self.task.query_length}"

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the task's metrics of a model's vectors for dev."""
        text_ids = self._text_ids()
        documents = [
            vectors[counts]
            for of_row, counts_of_row in zip(outputs["documents"], outputs["counts"], strict=True)
            for vectors, counts in zip(of_row, counts_of_row, strict=True)
        ]
        best = best_by_interaction(text_ids, outputs["queries"], documents)
        return self._means(text_ids, best.tolist())


class ScoredVectorData(VectorData):
    """Pairs with scores that their cosines must follow."""

    def _scores(self, vectors_NSH: np.ndarray) -> dict[str, float]:
        lengths = np.linalg.norm(vectors_NSH, axis=-1, keepdims=True)
        units = vectors_NSH / np.maximum(lengths, 1e-12)
        return self._compared((units[:, 0] * units[:, 1]).sum(axis=-1).tolist())

    @property
    def without_model(self) -> str:
        """What is predicted for the baseline, in words."""
        return "the same cosine for all"

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for a constant cosine, which are 0."""
        return self._compared([0.0] * self.counts[DEV])

    def _compared(self, found: list[float]) -> dict[str, float]:
        numbers = [float(example.label) for example in self._examples[DEV]]
        return scores(self.task.metrics, numbers, found)
