"""A trained model in Python: `beambert.load`."""

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beambert import io
from beambert.errors import InputError, check_list
from beambert.process import loading
from beambert.trainer.loop.engine import check_tensorflow

if TYPE_CHECKING:
    from beambert.trainer.asking import AskedEncoder, Filled, TextScore
    from beambert.trainer.embedding.embedder import Embedder

# Rows that a fine-tuned model answers at once.
BATCH_SIZE = 64


class LoadedModel:
    """An encoder or a fine-tuned model.

    Each method loads what it needs at its first call, and raises InputError if the model has not
    the head that it needs.
    """

    def __init__(self, path: str):
        """Takes the path of the model; see `load`."""
        self.path = path

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the embeddings of texts, float32 [texts, hidden size].

        `embed` has other poolings, layers and lengths than those of the model's folder.
        """
        check_list(texts, "texts")
        return self._embedder.embed(texts)[0]

    def fill(self, texts: Sequence[str], top: int = 5) -> "list[Filled]":
        """Returns the `top` likeliest tokens at each [MASK] of texts, with probabilities."""
        from beambert.trainer.asking import fill

        return fill(self._asked, texts, top)

    def score(self, texts: Sequence[str]) -> "list[TextScore]":
        """Returns how likely the encoder considers texts: pseudo-log-likelihoods."""
        from beambert.trainer.asking import score

        return score(self._asked, texts)

    def predict(self, texts: Sequence[str | Mapping[str, str]]) -> list[dict[str, Any]]:
        """Returns the answer of a fine-tuned model to each text.

        Args:
          texts: texts; or mappings from column to text for a model that takes several.

        Returns:
          for each text its columns and `label` with `probabilities`, or `score`, `tags`, `answer`,
          as `beambert predict` writes them.

        Raises:
          InputError: the model is not a fine-tuned one, or a text is blank or lacks a column.
        """
        check_list(texts, "texts")
        from beambert.pipelines.prediction import InputRow, row_of

        handler, reading, loaded = self._answering
        rows = [row_of(text, reading) for text in texts]
        for row in rows:
            if not isinstance(row, InputRow):
                raise InputError(f"texts: {row['reason']}")
        batches = (rows[start : start + BATCH_SIZE] for start in range(0, len(rows), BATCH_SIZE))
        return [answer for batch in batches for answer in handler.run_inference(batch, loaded)]

    @functools.cached_property
    def _embedder(self) -> "Embedder":
        with loading():
            from beambert.trainer.embedding.embedder import open_embedder
        return open_embedder(self.path)

    @functools.cached_property
    def _asked(self) -> "AskedEncoder":
        with loading():
            from beambert.trainer.asking import open_encoder
        return open_encoder(self.path)

    @functools.cached_property
    def _answering(self) -> tuple[Any, Any, Any]:
        check_tensorflow("predict")
        with loading():
            from beambert.pipelines.prediction import SavedModelHandler, reading_of
            from beambert.pipelines.task_jobs import PredictionJob
            from beambert.pipelines.tasks.find_model import find_model
        found = find_model(self.path)
        reading = reading_of(PredictionJob(self.path), found)
        handler = SavedModelHandler(found, reading.kind)
        return handler, reading, handler.load_model()


def load(path: str) -> LoadedModel:
    """Opens a trained model.

    Args:
      path: folder of `beambert pretrain` or `finetune`, of Hugging Face or sentence-transformers,
        or the prefix of a TF1 checkpoint. `predict` needs a fine-tuned model of this package.

    Raises:
      InputError: there is no such folder or checkpoint.

    Example:
      >>> import beambert
      >>> model = beambert.load("encoder")
      >>> model.encode(["The river begins in the north."]).shape
      (1, 128)
    """
    if not any(io.exists(each) for each in (path, f"{path}.index")):
        raise InputError(f"{path}: no such folder or checkpoint; check the path")
    return LoadedModel(path)
