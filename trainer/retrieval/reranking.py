"""Ranks passages again by a model that compares their tokens with those of the query.

A cross-encoder (Nogueira and Cho 2019, arXiv 1901.04085) reads each passage together with the
query. It sees which words of the two belong together, and costs a pass through the network for each
pair. Late interaction (Khattab and Zaharia 2020, arXiv 2004.12832) reads each of them once.

Shape suffixes: Q tokens of a query, H components of a vector.
"""

import abc
import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from beambert.errors import InputError
from beambert.pipelines.model_inputs.interaction import InteractionFeatures
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.tasks.interaction import KEPT, max_sim
from beambert.pipelines.tasks.task import LATE_INTERACTION, RERANK
from beambert.trainer import model_folders
from beambert.trainer.models import task_model
from beambert.trainer.retrieval.searching import Hit

# Number of sequences that are read at once.
_SEQUENCES_AT_A_TIME = 32
# Lengths are multiples of this, so that there are few graphs.
_LENGTH_STEP = 32
# Number of passages whose vectors are kept for the next queries: 200 MB, if they have 200 tokens.
_PASSAGES_KEPT = 4096

Features = Mapping[str, tf.Tensor]


class Reranker(abc.ABC):
    """A model that says how relevant a passage is for a query."""

    @abc.abstractmethod
    def scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Returns the relevance of each text for a query, float32 [texts]."""

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
        if not texts:
            return np.zeros(0, np.float32)
        features = self._text_features(tf.constant([query] * len(texts)), tf.constant(texts))
        logits = np.array(self._batches.outputs(features))[:, 0]
        return tf.sigmoid(logits).numpy()


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
        if not texts:
            return np.zeros(0, np.float32)
        self._read([text for text in dict.fromkeys(texts) if text not in self._kept])
        documents = []
        for text in texts:
            self._kept.move_to_end(text)
            documents.append(self._kept[text])
        while len(self._kept) > _PASSAGES_KEPT:
            self._kept.popitem(last=False)
        features = self._text_features.queries(tf.constant([query]))
        [query_QH] = self._batches.outputs(self._text_features.expanded(features), is_cut=False)
        return max_sim(query_QH[None], documents)[0]

    def _read(self, texts: Sequence[str]) -> None:
        """Keeps the vectors of the tokens of texts that count."""
        if not texts:
            return
        features = self._text_features.documents(tf.constant(texts))
        counts = self._text_features.counting(features).numpy()
        for text, vectors, is_counted in zip(
            texts, self._batches.outputs(features), counts, strict=True
        ):
            self._kept[text] = vectors[is_counted[: len(vectors)]].astype(KEPT)


class _Batches:
    """Calls a model on batches of sequences of like length."""

    def __init__(self, model: keras.Model):
        self._model = model
        self._graphs: dict[int, Callable[..., tf.Tensor]] = {}

    def outputs(self, features: Features, is_cut: bool = True) -> list[np.ndarray]:
        """Returns what the model gives for each sequence.

        Args:
          features: int32 [n, L] each.
          is_cut: whether padding may be cut off the ends of sequences.
        """
        count, longest = features["input_ids"].shape
        lengths = features["input_mask"].numpy().sum(axis=1) if is_cut else np.full(count, longest)
        found: list[np.ndarray] = [np.zeros(0)] * count
        order = np.argsort(lengths, kind="stable")
        for start in range(0, count, _SEQUENCES_AT_A_TIME):
            some = order[start : start + _SEQUENCES_AT_A_TIME]
            length = -(-lengths[some].max() // _LENGTH_STEP) * _LENGTH_STEP
            batch = {
                name: tf.gather(feature, some)[:, :length] for name, feature in features.items()
            }
            for number, output in zip(some, self._graph_of(batch)(batch).numpy(), strict=True):
                found[number] = output
        return found

    def _graph_of(self, features: Features) -> Callable[..., tf.Tensor]:
        """Returns the graph for the length of a batch, which takes any number of sequences."""
        length = features["input_ids"].shape[1]
        if length not in self._graphs:
            of_batch = {name: tf.TensorSpec([None, length], tf.int32, name) for name in features}
            function = tf.function(self._model, autograph=False)
            self._graphs[length] = function.get_concrete_function(of_batch)
        return self._graphs[length]


_RERANKERS: Mapping[str, type[CrossEncoder | LateInteractionReranker]] = {
    RERANK: CrossEncoder,
    LATE_INTERACTION: LateInteractionReranker,
}


def open_reranker(path: str, flag: str = "--reranker") -> Reranker:
    """Opens a model folder.

    Raises:
      InputError: the model cannot be read, or was trained on another kind of task.
    """
    found = model_folders.open_model(path, flag)
    its_class = _RERANKERS.get(found.training["kind"])
    if its_class is None or not found.training["is_pair"]:
        raise InputError(
            f"{flag}={path}: was not trained to rank pairs of texts; give a model of `beambert "
            f"finetune --task={RERANK}` or {LATE_INTERACTION}"
        )
    return its_class(found)
