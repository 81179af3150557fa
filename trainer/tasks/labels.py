"""Classification, with one label or several, choice, regression and reranking."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from beambert.model.classifier import BertClassifier, Head
from beambert.model.config import EncoderConfig
from beambert.model.families.family import MULTIPLE_CHOICE
from beambert.pipelines.tasks.multi_label import THRESHOLD
from beambert.pipelines.tasks.saved_models import ID_INPUTS
from beambert.trainer.loop.objectives import (
    Features,
    Sums,
    Tensor,
    cross_entropy,
    example_weights,
    is_correct,
)
from beambert.trainer.tasks.base import TaskData, TaskObjective

if TYPE_CHECKING:
    import tensorflow as tf

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


class ChoiceData(TaskData):
    """Texts with several endings, one of which is right."""

    HAS_SEGMENTS = True


class ChoiceObjective(ClassificationObjective):
    """Softmax over the scores of an example's choices (Devlin et al. 2019, section 4.4)."""

    DATA = ChoiceData
    HUGGING_FACE_CLASS = MULTIPLE_CHOICE
    HUGGING_FACE_CONFIG = {}
    NAMES_LABELS = False
    HUB_TASK = "multiple-choice"

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns a classifier with one logit, the score of an ending."""
        return BertClassifier(config, 1, seed, head)

    def logits(self, model: keras.Model, features: Features, dropout_seed: Tensor | None) -> Tensor:
        """Returns the logits of the choices, float32 [B, N]."""
        _, choices, length = features["input_ids"].shape
        flat = {name: ops.reshape(features[name], [-1, length]) for name in ID_INPUTS}
        return ops.reshape(model(flat, dropout_seed=dropout_seed), [-1, choices])

    @classmethod
    def signatures(cls, graph: "TaskGraph") -> dict[str, Any]:
        """Returns a function of texts and `choices`, or of ids."""
        import tensorflow as tf

        from beambert.trainer.tasks.graph import traced

        def choose(*texts: Tensor, choices: Tensor) -> dict[str, Tensor]:
            if len(texts) > 1:  # text_b begins every ending, as in `ChoiceExample.endings`
                choices = texts[1][:, None] + " " + choices
            count = tf.shape(choices)[1]
            first = tf.repeat(texts[0], count)
            logits = graph.model(graph.text_features(first, tf.reshape(choices, [-1])))
            return likeliest(graph, tf.reshape(logits, [-1, count]))

        def choose_ids(*ids: Tensor) -> dict[str, Tensor]:
            count, length = tf.shape(ids[0])[1], graph.text_features.longest
            features = graph.text_features(*(tf.reshape(each, [-1, length]) for each in ids))
            return likeliest(graph, tf.reshape(graph.model(features), [-1, count]))

        if graph.takes_ids:
            return {"serving_default": traced(choose_ids, *graph.inputs)}
        choices: Mapping[str, Any] = {
            "choices": tf.TensorSpec([None, None], tf.string, name="choices")
        }
        return {"serving_default": traced(choose, *graph.inputs, **choices)}

    @classmethod
    def id_specs(cls, longest: int) -> "list[tf.TensorSpec]":
        """Returns the inputs of a graph that takes ids, with a row for each ending."""
        import tensorflow as tf

        return [tf.TensorSpec([None, None, longest], tf.int32, name=name) for name in ID_INPUTS]


# The name that transformers gives to a single output; text-embeddings-inference needs it written.
_ONE_LABEL = {"num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}


class RegressionObjective(TaskObjective):
    """The squared error of one number per example."""

    HUGGING_FACE_CONFIG = {"problem_type": "regression"} | _ONE_LABEL
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
    HUGGING_FACE_CONFIG = _ONE_LABEL
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
