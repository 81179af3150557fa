"""Regression and reranking."""

from typing import TYPE_CHECKING

import keras
from keras import ops

from beambert.model.classifier import BertClassifier, Head
from beambert.model.config import EncoderConfig
from beambert.trainer.loop.objectives import Features, Sums, Tensor, example_weights
from beambert.trainer.tasks.base import TaskObjective

if TYPE_CHECKING:
    from beambert.trainer.tasks.graph import TaskGraph


class RegressionObjective(TaskObjective):
    """The squared error of one number per example."""

    HUGGING_FACE_CONFIG = {"problem_type": "regression", "num_labels": 1}
    losses = ("mean_squared_error",)
    weight_of = {"mean_squared_error": "examples"}

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns a classifier with one logit, the number."""
        return BertClassifier(config, 1, seed, head)

    def logits(self, model: keras.Model, features: Features, dropout_seed: Tensor | None) -> Tensor:
        """Returns the scores, float32 [B]."""
        return model(features, dropout_seed=dropout_seed)[:, 0]

    def sums_of(self, logits: Tensor, features: Features) -> Sums:
        """Returns the sum of the squared errors."""
        errors = ops.square(logits - features["label_ids"])
        return {"mean_squared_error": ops.sum(example_weights(features) * errors)}

    def outputs_of(self, logits: Tensor) -> dict[str, Tensor]:
        """Returns `scores` float32 [B]."""
        return {"scores": logits}

    @classmethod
    def answer(cls, graph: "TaskGraph", *texts: Tensor) -> dict[str, Tensor]:
        """Returns the `score`, float32 [n]."""
        return {"score": graph.logits(*texts)[:, 0]}


class RelevanceObjective(RegressionObjective):
    """A sigmoid of one number per pair, whose target is the relevance (BCE of cross-encoders)."""

    # CrossEncoder of sentence-transformers takes the sigmoid of a single label.
    HUGGING_FACE_CONFIG = {"num_labels": 1}
    HUB_TASK = "text-ranking"
    NOT_FOR_SENTENCES = (
        "reads pairs of texts, for which sentence-transformers has its CrossEncoder; export it "
        "with --to=huggingface, whose folder that class loads"
    )
    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples"}

    def sums_of(self, logits: Tensor, features: Features) -> Sums:
        """Returns the sum of the losses, in nats."""
        losses = ops.binary_crossentropy(features["label_ids"], logits, from_logits=True)
        return {"cross_entropy": ops.sum(example_weights(features) * losses)}

    def outputs_of(self, logits: Tensor) -> dict[str, Tensor]:
        """Returns `scores` float32 [B], from 0 to 1."""
        return {"scores": ops.sigmoid(logits)}

    @classmethod
    def answer(cls, graph: "TaskGraph", *texts: Tensor) -> dict[str, Tensor]:
        """Returns the `score`, float32 [n], from 0 to 1."""
        return {"score": ops.sigmoid(graph.logits(*texts)[:, 0])}
