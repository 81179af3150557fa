"""Sparse vectors: a weight for each token of the vocabulary, by which texts find each other."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from beambert.pipelines.tasks.metrics import best_of
from beambert.pipelines.tasks.saved_models import Model
from beambert.pipelines.tasks.task import SPARSE, Record, Row, check_finite
from beambert.pipelines.tasks.vectors import RankingOutcomes, RetrievalTask, text_ids_of

if TYPE_CHECKING:
    import scipy.sparse

# Weight of the FLOPS loss: between the two of sentence-transformers' SpladeLoss, 5e-5 for queries
# and 3e-5 for documents.
DEFAULT_FLOPS_WEIGHT = 4e-5
# Number of greatest weights of a text that are kept; a trained model has some hundred above 0.
MOST_TOKENS = 512
_QUERIES_AT_A_TIME = 256


def best_by_tokens(
    text_ids_NS: NDArray[np.int64], tokens_NSK: NDArray[np.integer], weights_NSK: NDArray[Any]
) -> NDArray[np.int64]:
    """Returns the texts with the greatest products for each row's query, int64 [N, at most DEPTH].

    Args:
      text_ids_NS: see `metrics.best_of`.
      tokens_NSK: different tokens of each text.
      weights_NSK: their weights; 0 for those that count for nothing.
    """
    import scipy.sparse

    size = int(tokens_NSK.max(initial=0)) + 1

    def matrix(place: slice) -> "scipy.sparse.csr_matrix":
        kept = tokens_NSK.shape[-1]
        tokens, weights = (each[:, place].ravel() for each in (tokens_NSK, weights_NSK))
        rows = np.repeat(np.arange(len(tokens) // kept), kept)
        shape = len(tokens) // kept, size
        return scipy.sparse.csr_matrix((weights.astype(np.float32), (rows, tokens)), shape)

    queries, documents = matrix(slice(1)), matrix(slice(1, None))

    def products(some: slice, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return (queries[some] @ documents[places].T).toarray()

    return best_of(text_ids_NS, products, _QUERIES_AT_A_TIME)


@dataclasses.dataclass(frozen=True)
class Sparse(RetrievalTask):
    """A task that asks for a weight of each token, by which a text finds the one that answers it.

    The vector of a text is the greatest log(1 + relu(logit)) of each token of the vocabulary over
    the text (Formal et al. 2021, SPLADE v2, arXiv 2109.10086, equation 6).

    Attributes:
      flops_weight: weight of the loss that keeps most weights at 0.
    """

    kind: ClassVar[str] = SPARSE
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.sparse:SparseObjective"
    # The paper's loss divides the products by nothing (equation 2).
    temperature: float = 1.0
    flops_weight: float = DEFAULT_FLOPS_WEIGHT

    POOLS = False
    LEARNING_FLAGS = frozenset({"temperature", "flops_weight"})
    OUTPUTS = ("tokens", "weights")
    VECTORS = ("tokens", "weights")

    def learning_settings(self) -> dict[str, Any]:
        """Returns how the vectors are learnt."""
        return super().learning_settings() | {"flops_weight": self.flops_weight}

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> RankingOutcomes:
        """Returns the outcomes of `tokens` and `weights`, [examples, texts, K]."""
        text_ids = text_ids_of(examples)
        ranked = best_by_tokens(text_ids, outputs["tokens"], outputs["weights"])
        return RankingOutcomes.of_ranking(text_ids, ranked.tolist())

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the ids of the tokens with a weight above 0, and their weights."""
        counts = outputs["weights"][i] > 0
        return {name: outputs[name][i][counts].tolist() for name in ("tokens", "weights")}

    def predict(self, model: Model, loaded: Any, rows: Sequence[Row]) -> list[Record]:
        """Returns the vectors; `completed` makes rankings of all."""
        found = {name: self._vectors(loaded, rows, name) for name in self.OUTPUTS}
        return [
            {name: values[number].ravel().tolist() for name, values in found.items()}
            for number in range(len(rows))
        ]

    def _best(self, model: Model, text_ids: np.ndarray, records: Sequence[Record]) -> np.ndarray:
        tokens, weights = (
            np.array([record[name] for record in records]).reshape(*text_ids.shape, -1)
            for name in self.OUTPUTS
        )
        check_finite(weights, "weights", model)
        return best_by_tokens(text_ids, tokens, weights)
