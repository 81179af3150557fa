"""The settings of indexes and of searches; importing them loads nothing heavy."""

import dataclasses

from beambert.config import check_settings, setting
from beambert.errors import InputError
from beambert.io import check_folder
from beambert.trainer.weights.given_path import check_weights

# Passages are found by these.
VECTORS, WORDS, BOTH = "vectors", "words", "both"
WAYS = (VECTORS, WORDS, BOTH)
# Number of passages that are found, and of those that are ranked again. More of these cost more
# passes through the network for a query (Nogueira and Cho 2019, arXiv 1901.04085, read 1,000).
TOP, CANDIDATES = 10, 100


def way_of(by: str | None, model: str | None) -> str:
    """Returns what passages are found by; without a wish, by both if there is a model.

    Args:
      by: one of `WAYS`, or None.
      model: folder of the model that makes the vectors of queries, or None.

    Raises:
      InputError: the two do not go together.
    """
    way = by or (BOTH if model else WORDS)
    if way == WORDS and model:
        raise InputError(f"--model={model}: is not needed by --by={WORDS}; leave it out")
    if way != WORDS and not model:
        raise InputError(f"--by={way}: needs --model; name the model that made --index")
    return way


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """In which index passages are found, and how."""

    index: str = setting(metavar="DIR", help="folder that `beambert index` finished")
    model: str | None = setting(None, metavar="DIR", help="model that made the embeddings")
    by: str | None = setting(
        None,
        choices=WAYS,
        help="what passages are found by (default: both with --model, or else words)",
    )
    reranker: str | None = setting(
        None,
        metavar="DIR",
        help="model of --task=rerank or late_interaction that compares the tokens of the query "
        "with those of the best passages, and ranks them again",
    )
    prefix: str | None = setting(
        None, help="prefix of each query (default: the prefix of the indexed documents)"
    )

    def __post_init__(self) -> None:
        """Checks the values."""
        check_settings(self)
        way_of(self.by, self.model)

    def check_paths(self) -> None:
        """Raises InputError unless the index and the model exist; TensorFlow is not needed."""
        check_folder(self.index, f"--index={self.index}")
        if self.model:
            check_weights(self.model, "--model")
