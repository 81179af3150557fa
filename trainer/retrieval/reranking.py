"""Ranks passages again by a model that reads each of them together with the query.

Such a cross-encoder (Nogueira and Cho 2019, arXiv 1901.04085) sees which words of the two belong
together, and costs a pass through the network for each pair.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.task import RERANK
from beambert.trainer import model_folders
from beambert.trainer.retrieval.searching import Hit
from beambert.trainer.task_models import task_model

# Number of pairs that are read at once.
_PAIRS_AT_A_TIME = 32
# Lengths are multiples of this, so that there are few graphs.
_LENGTH_STEP = 32


class Reranker:
    """A model of `--task=rerank`."""

    def __init__(self, path: str, flag: str = "--reranker"):
        """Opens a model folder.

        Raises:
          InputError: the model cannot be read, or was trained on another kind of task.
        """
        found = model_folders.open_model(path, flag)
        if found.training["kind"] != RERANK or not found.training["is_pair"]:
            raise InputError(
                f"{flag}={path}: was not trained to rank pairs of texts; give a model of `beambert "
                f"finetune --task={RERANK}`"
            )
        length = found.training["max_seq_length"]
        self._text_features = TextFeatures(found.vocabulary, found.do_lower_case, length)
        self._model = task_model(found)
        self._graphs: dict[int, Callable[..., tf.Tensor]] = {}

    def scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Returns the relevance of each text for a query, from 0 to 1, float32 [texts]."""
        if not texts:
            return np.zeros(0, np.float32)
        features = self._text_features(tf.constant([query] * len(texts)), tf.constant(texts))
        lengths = features["input_mask"].numpy().sum(axis=1)
        found = np.empty(len(texts), np.float32)
        order = np.argsort(lengths, kind="stable")
        for start in range(0, len(order), _PAIRS_AT_A_TIME):
            some = order[start : start + _PAIRS_AT_A_TIME]
            longest = -(-lengths[some].max() // _LENGTH_STEP) * _LENGTH_STEP
            batch = {name: tf.gather(of, some)[:, :longest] for name, of in features.items()}
            found[some] = tf.sigmoid(self._graph_of(batch)(batch)[:, 0]).numpy()
        return found

    def _graph_of(self, features: Mapping[str, tf.Tensor]) -> Callable[..., tf.Tensor]:
        """Returns the graph for the length of a batch, which takes any number of passages."""
        length = features["input_ids"].shape[1]
        if length not in self._graphs:
            of_batch = {name: tf.TensorSpec([None, length], tf.int32, name) for name in features}
            function = tf.function(self._model, autograph=False)
            self._graphs[length] = function.get_concrete_function(of_batch)
        return self._graphs[length]

    def rerank(self, query: str, hits: Sequence[Hit], count: int) -> list[Hit]:
        """Returns the most relevant hits, the best first, with their relevance as scores.

        Of equal ones the order stays.

        Args:
          query: the query.
          hits: the candidates, the best first.
          count: number of hits to return.
        """
        scores = self.scores(query, [hit.text for hit in hits])
        order = np.argsort(-scores, kind="stable")[:count]
        return [dataclasses.replace(hits[i], score=float(scores[i])) for i in order.tolist()]
