"""Answers of a fine-tuned model to typed text, and the tokens that mattered."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beambert.explore.embeddings import compose
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.prediction.answers import ANSWERS
from beambert.pipelines.prediction.saved_models import Model
from beambert.pipelines.tasks.task import CLASSIFICATION, MULTI_LABEL, REGRESSION, RERANK

# Kinds whose models give one vector of logits for a text, so that a label has one gradient.
EXPLAINED = (CLASSIFICATION, MULTI_LABEL, REGRESSION, RERANK)


@dataclasses.dataclass(frozen=True)
class Attribution:
    """How much each token moved the logit of a label.

    Attributes:
      ids: int32 [tokens], [CLS] and [SEP] included.
      scores: float32 [tokens], gradient times input; positive where the token speaks for the label.
      label: index of the label.
    """

    ids: np.ndarray
    scores: np.ndarray
    label: int


def ask(
    loaded: Any, model: Model, texts: Sequence[str], endings: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the answer of a SavedModel to one text, or to a pair, in plain types.

    Args:
      loaded: the SavedModel.
      model: its labels and training.
      texts: one text, or the two of a pair; of a question and its context the question first.
      endings: the endings of a choice, as many as it has labels.
    """
    of_kind = ANSWERS[model.training["kind"]]
    example = of_kind.example(texts, endings)
    given = {name: tf.constant([text]) for name, text in example.texts().items()}
    outputs = loaded.signatures["serving_default"](**given)
    arrays = {name: value.numpy() for name, value in outputs.items()}
    return of_kind.answer(model.labels, example, arrays, 0)


class Explainer:
    """Finds the tokens that mattered for the answer of a classifier."""

    def __init__(self, model: keras.Model, features: TextFeatures):
        """Takes the classifier and the conversion of texts to its inputs."""
        self._model = model
        self._features = features
        # One graph takes a thirtieth of the time of its thousand operations one by one.
        self._graph = tf.function(self._explain, autograph=False)

    def attribute(self, texts: Sequence[str], label: int | None = None) -> Attribution:
        """Returns gradient times input for each token (Denil et al. 2014, arXiv 1412.6815).

        The input is the sum of the three embeddings. A position's embedding is added to one token
        only, so the gradient of its row is the gradient of that token's sum.

        Args:
          texts: one text, or the two of a pair.
          label: index of the label; None for the likeliest.
        """
        wanted = tf.constant(-1 if label is None else label)
        outputs = self._graph(wanted, *(tf.constant([text]) for text in texts))
        ids, segments, gradient, chosen = (output.numpy() for output in outputs)
        total = compose(self._model.encoder, ids, segments).total
        return Attribution(ids, (gradient * total).sum(axis=1), int(chosen))

    def _explain(self, wanted: tf.Tensor, *texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the ids and segments [tokens], the gradient [tokens, H] and the label's index."""
        inputs = self._features(*texts)
        length = tf.reduce_sum(inputs["input_mask"])
        positions = self._model.encoder.embeddings.position_embeddings
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(positions.value)
            logits = self._model(inputs)[0]
            chosen = tf.where(wanted < 0, tf.argmax(logits, output_type=tf.int32), wanted)
            logit = logits[chosen]
        ids, segments = (inputs[name][0, :length] for name in ("input_ids", "segment_ids"))
        gradient = tf.convert_to_tensor(tape.gradient(logit, positions.value))[:length]
        return ids, segments, gradient, chosen
