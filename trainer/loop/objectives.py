"""Losses and metrics, as sums and weights that add up over replicas and batches."""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

# A tensor of the engine.
Tensor = Any
Features = Mapping[str, Tensor]
Sums = dict[str, Tensor]


class Objective(abc.ABC):
    """Losses and metrics of a model.

    Attributes:
      losses: names of the metrics whose means add up to the loss.
      weight_of: metric -> name of the weight that divides its sum.
      factors: metric -> factor of its mean in the loss, for those that are not 1.
      fixed_variables: variables of other models that it computes with.
      counts: names of weights that `sums` returns, since they follow from the model's answers; no
        loss can have such a weight.
    """

    losses: tuple[str, ...]
    weight_of: dict[str, str]
    factors: Mapping[str, float] = {}
    counts: tuple[str, ...] = ()
    fixed_variables: Sequence[keras.Variable] = ()

    @abc.abstractmethod
    def weights(self, features: Features) -> Sums:
        """Returns the weights that divide the sums and follow from the features alone."""

    @abc.abstractmethod
    def sums(self, model: keras.Model, features: Features, dropout_seed: Tensor | None) -> Sums:
        """Returns the sum of every metric over a replica's batch, and the `counts`."""

    def factor(self, loss: str) -> float:
        """Returns the factor of a loss's mean in the whole loss."""
        return self.factors.get(loss, 1.0)

    def derived(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns further metrics of an evaluation, computed from the means."""
        return {}

    def answers(self) -> Sequence[Callable[[keras.Model, Features], tuple[Sums, Sums]]]:
        """Returns functions that compute a batch's sums, and the outputs of its rows, for each way.

        Only objectives whose evaluations score the outputs have any.
        """

        def answers_of(sums_of: Any, model: keras.Model, features: Features) -> tuple[Sums, Sums]:
            return sums_of(model, features, None), {}

        return [functools.partial(answers_of, sums_of) for sums_of in self.ways()]

    def ways(self) -> Sequence[Callable[[keras.Model, Features, Tensor | None], Sums]]:
        """Returns functions that compute a batch's sums at different costs.

        The first function can compute every batch.
        """
        return [self.sums]

    def way(self, features: Features) -> Tensor | None:
        """Returns the index of a batch's cheapest one of the `ways`, int32; None for the first."""
        return None


def means(totals: Mapping[str, float], objective: Objective) -> dict[str, float]:
    """Returns each metric's mean, and the sum of the losses' means, by their factors, as `loss`."""
    values = {
        name: float(totals[name]) / max(float(totals[weight]), 1.0)
        for name, weight in objective.weight_of.items()
    }
    losses = (objective.factor(name) * values[name] for name in objective.losses)
    return {"loss": sum(losses)} | values


def example_weights(features: Features) -> Tensor:
    """Returns 1 for every real row and 0 for rows that fill up the batch, float32 [rows]."""
    if "example_weights" in features:
        return features["example_weights"]
    return ops.ones([ops.shape(features["input_ids"])[0]], "float32")


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the cross-entropy [...] of logits [..., C] and labels [...], in nats."""
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def is_correct(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns 1 where the largest of logits [..., C] is the label's, else 0, float32 [...].

    Of equal ones the first counts, as for argmax, which takes XLA on processors three times as
    long: 5 % of a step of tiny.
    """
    labels = labels[..., None]
    of_label = ops.take_along_axis(logits, labels, axis=-1)
    is_later = ops.arange(ops.shape(logits)[-1], dtype="int32") >= labels
    is_below = ops.logical_or(logits < of_label, ops.logical_and(logits == of_label, is_later))
    return ops.cast(ops.all(is_below, axis=-1), "float32")
