"""Classification, with one label or several, regression and reranking."""

from typing import TYPE_CHECKING

import keras
from keras import ops

from beambert.model.classifier import BertClassifier, Head
from beambert.model.config import EncoderConfig
from beambert.pipelines.tasks.multi_label import THRESHOLD
from beambert.trainer.loop.objectives import (
    Features,
    Sums,
    Tensor,
    cross_entropy,
    example_weights,
    is_correct,
)
from beambert.trainer.tasks.base import TaskObjective

if TYPE_CHECKING:
    from beambert.trainer.tasks.graph import TaskGraph


def loss_weights(features: Features) -> Tensor | float:
    """Returns the weight of each target in the loss, see `class_weights`; 1 if there are none.

    Only training batches have them, so that held-out losses can be compared.
    """
    return features.get("loss_weights", 1.0)


class ClassificationObjective(TaskObjective):
    """Softmax over a task's labels (run_classifier.py)."""

    # Without it `transformers` takes a single label for a regression.
    HUGGING_FACE_CONFIG = {"problem_type": "single_label_classification"}
    NAMES_LABELS = True
    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples", "accuracy": "examples"}

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns a classifier with a logit for each label."""
        return BertClassifier(config, num_labels, seed, head)

    def sums_of(self, logits: Tensor, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of correct answers."""
        rows, labels = example_weights(features), features["label_ids"]
        losses = cross_entropy(logits, labels)
        return {
            "cross_entropy": ops.sum(rows * loss_weights(features) * losses),
            "accuracy": ops.sum(rows * is_correct(logits, labels)),
        }

    def outputs_of(self, logits: Tensor) -> dict[str, Tensor]:
        """Returns `probabilities` float32 [B, C]."""
        return {"probabilities": ops.softmax(logits)}

    @classmethod
    def answer(cls, graph: "TaskGraph", *texts: Tensor) -> dict[str, Tensor]:
        """Returns the likeliest `label`, and `probabilities`."""
        return likeliest(graph, graph.logits(*texts))


def likeliest(graph: "TaskGraph", logits: Tensor) -> dict[str, Tensor]:
    """Returns the likeliest `label`, string [n], and `probabilities`, float32 [n, C]."""
    import tensorflow as tf

    return {
        "label": tf.gather(graph.labels, tf.argmax(logits, axis=-1)),
        "probabilities": ops.softmax(logits),
    }


class MultiLabelObjective(ClassificationObjective):
    """A sigmoid for each label; the loss of an example is the mean over the labels.

    That is `transformers`' loss for `multi_label_classification`.
    """

    HUGGING_FACE_CONFIG = {"problem_type": "multi_label_classification"}
    weight_of = {"cross_entropy": "examples", "label_accuracy": "examples"}

    def sums_of(self, logits: Tensor, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of the right labels' share."""
        rows, labels = example_weights(features), features["label_ids"]
        losses = ops.binary_crossentropy(labels, logits, from_logits=True)
        losses = losses * loss_weights(features)
        is_right = ops.cast((logits > 0) == (labels > 0), "float32")
        return {
            "cross_entropy": ops.sum(rows * ops.mean(losses, axis=1)),
            "label_accuracy": ops.sum(rows * ops.mean(is_right, axis=1)),
        }

    def outputs_of(self, logits: Tensor) -> dict[str, Tensor]:
        """Returns `probabilities` float32 [B, C]."""
        return {"probabilities": ops.sigmoid(logits)}

    @classmethod
    def answer(cls, graph: "TaskGraph", *texts: Tensor) -> dict[str, Tensor]:
        """Returns the `labels` that apply, filled up with "", and all `probabilities`."""
        import tensorflow as tf

        probabilities = tf.sigmoid(graph.logits(*texts))
        names = tf.broadcast_to(graph.labels, tf.shape(probabilities))
        applying = tf.ragged.boolean_mask(names, probabilities > THRESHOLD)
        return {"labels": applying.to_tensor(""), "probabilities": probabilities}


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
