"""The objectives of pre-training.

They are masked LM, alone or with one of the predictions about pairs, and replaced token detection.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import keras
from keras import ops

from beambert.model.objectives import PAIR_TASKS, RTD
from beambert.model.unpadding import Capacity
from beambert.pipelines.records.contract import LABEL_FEATURE
from beambert.trainer.loop.objectives import (
    Features,
    Objective,
    Sums,
    Tensor,
    cross_entropy,
    example_weights,
    is_correct,
)


class MaskedLMObjective(Objective):
    """The mean loss of masked LM (RoBERTa; Liu et al. 2019, arXiv 1907.11692, section 4.2)."""

    losses = ("masked_lm_loss",)
    weight_of = {"masked_lm_loss": "predictions", "masked_lm_accuracy": "predictions"}

    def __init__(self, capacities: Mapping[tuple[int, int], Capacity] | None = None):
        """Takes the numbers of rows for the shapes of batches whose padding is left out.

        Args:
          capacities: (sequences, length) -> numbers of rows.
        """
        self._capacities = capacities or {}

    def weights(self, features: Features) -> Sums:
        """Returns the number of predictions."""
        return {"predictions": ops.sum(features["masked_lm_weights"])}

    def sums(self, model: keras.Model, features: Features, dropout_seed: Tensor | None) -> Sums:
        """Returns the sums of the losses, in nats, and the numbers of correct predictions."""
        return self.sums_of(model(features, dropout_seed=dropout_seed), features)

    def sums_of(self, logits: Sums, features: Features) -> Sums:
        """Returns what `sums` does, of logits that are computed already."""
        token_logits, (tokens, weights) = logits["masked_lm_logits"], predicted(features, logits)
        return {
            "masked_lm_loss": ops.sum(weights * cross_entropy(token_logits, tokens)),
            "masked_lm_accuracy": ops.sum(weights * is_correct(token_logits, tokens)),
        }

    def derived(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns the perplexity: the exponential of the mean loss in nats."""
        return {"masked_lm_perplexity": perplexity(metrics["masked_lm_loss"])}

    def ways(self) -> Sequence[Callable[[keras.Model, Features, Tensor | None], Sums]]:
        """Returns `sums`, and a function that computes the same without padding."""
        return [self.sums, self._packed_sums]

    def way(self, features: Features) -> Tensor | None:
        """Returns 1 if there are enough rows for the batch's tokens and predictions, else 0.

        Returns None if batches of this length are always computed with their padding.
        """
        capacity = self.capacity(features)
        if capacity is None:
            return None
        tokens = ops.sum(features["input_mask"])
        predictions = ops.sum(ops.cast(features["masked_lm_weights"] != 0, "int32"))
        fits = ops.logical_and(tokens <= capacity.tokens, predictions <= capacity.predictions)
        return ops.cast(fits, "int32")

    def capacity(self, features: Features) -> Capacity | None:
        """Returns the numbers of rows for a batch; None if all of its padding is computed."""
        return self._capacities.get(tuple(features["input_ids"].shape))

    def _packed_sums(
        self, model: keras.Model, features: Features, dropout_seed: Tensor | None
    ) -> Sums:
        capacity = self.capacity(features)
        return self.sums_of(model.packed_logits(features, capacity, dropout_seed), features)


class PretrainingObjective(MaskedLMObjective):
    """The sum of the mean losses of masked LM and of a prediction about pairs.

    With next sentence prediction it is that of the original run_pretraining.py.
    """

    def __init__(
        self,
        capacities: Mapping[tuple[int, int], Capacity] | None = None,
        pair_task: str = "next_sentence",
    ):
        """Takes the rows as `MaskedLMObjective` does.

        Args:
          capacities: (sequences, length) -> numbers of rows.
          pair_task: a value of `PAIR_TASKS`, after which the metrics are named.
        """
        super().__init__(capacities)
        self._loss, self._accuracy = f"{pair_task}_loss", f"{pair_task}_accuracy"
        self._logits = f"{pair_task}_logits"
        self.losses = (*super().losses, self._loss)
        self.weight_of = super().weight_of | dict.fromkeys((self._loss, self._accuracy), "examples")

    def weights(self, features: Features) -> Sums:
        """Returns the number of predictions and of examples."""
        return super().weights(features) | {"examples": ops.sum(example_weights(features))}

    def sums_of(self, logits: Sums, features: Features) -> Sums:
        """Returns the sums of both losses, and the numbers of correct predictions."""
        label_logits, labels = logits[self._logits], features[LABEL_FEATURE][:, 0]
        rows = example_weights(features)
        return super().sums_of(logits, features) | {
            self._loss: ops.sum(rows * cross_entropy(label_logits, labels)),
            self._accuracy: ops.sum(rows * is_correct(label_logits, labels)),
        }


class ReplacedTokenObjective(MaskedLMObjective):
    """The mean losses of masked LM by the generator and of replaced token detection.

    The sum is that of Clark et al. 2020 (arXiv 2003.10555, section 2). In contrast to BERT, the
    generator reads [MASK] at every chosen position.
    """

    losses = ("masked_lm_loss", "replaced_token_loss")
    weight_of = {
        **MaskedLMObjective.weight_of,
        "replaced_token_loss": "tokens",
        "replaced_token_accuracy": "tokens",
        "replaced_token_precision": "called_replaced",
        "replaced_token_recall": "replaced",
    }
    # λ of section 2, disc_weight in configure_pretraining.py of the original.
    factors = {"replaced_token_loss": 50.0}
    counts = ("called_replaced", "replaced")

    def __init__(self, mask_id: int, capacities: Mapping[tuple[int, int], Capacity] | None = None):
        """Takes the id of [MASK], and the rows as `MaskedLMObjective` does."""
        super().__init__(capacities)
        self._mask_id = mask_id

    def weights(self, features: Features) -> Sums:
        """Returns the number of predictions and of tokens."""
        tokens = ops.sum(ops.cast(features["input_mask"], "float32"))
        return super().weights(features) | {"tokens": tokens}

    def sums(self, model: keras.Model, features: Features, dropout_seed: Tensor | None) -> Sums:
        """Returns the sums of the losses, in nats, of correct predictions, and the `counts`."""
        return self._sums_of(model, features, dropout_seed, None)

    def _packed_sums(
        self, model: keras.Model, features: Features, dropout_seed: Tensor | None
    ) -> Sums:
        capacity = self.capacity(features)
        return self._sums_of(model, features, dropout_seed, capacity)

    def _sums_of(
        self,
        model: keras.Model,
        features: Features,
        dropout_seed: Tensor | None,
        capacity: Capacity | None,
    ) -> Sums:
        hidden = {**features, "input_ids": with_masks(features, self._mask_id)}
        logits = model(hidden, dropout_seed=dropout_seed, capacity=capacity)
        is_token, is_replaced = (
            ops.cast(logits[name], "float32") for name in ("is_token", "is_replaced")
        )
        scores = logits["replaced_token_logits"]
        losses = ops.binary_crossentropy(is_replaced, scores, from_logits=True)
        is_called = ops.cast(scores > 0, "float32")
        found = ops.sum(is_token * is_called * is_replaced)
        return self.sums_of(logits, features) | {
            "replaced_token_loss": ops.sum(is_token * losses),
            "replaced_token_accuracy": ops.sum(
                is_token * ops.cast(is_called == is_replaced, "float32")
            ),
            "replaced_token_precision": found,
            "replaced_token_recall": found,
            "called_replaced": ops.sum(is_token * is_called),
            "replaced": ops.sum(is_token * is_replaced),
        }


def perplexity(loss: float) -> float:
    """Returns the exponential of a mean loss in nats."""
    # float64 overflows above e**709, which must not end a training that diverges.
    return math.inf if loss > 709 else math.exp(loss)


def predicted(features: Features, logits: Sums) -> tuple[Tensor, Tensor]:
    """Returns the tokens and the weights of the predictions whose logits a model has computed."""
    tokens, weights = features["masked_lm_ids"], features["masked_lm_weights"]
    if "prediction_slots" not in logits:
        return tokens, weights
    return tuple(
        ops.take(ops.reshape(each, [-1]), logits["prediction_slots"]) for each in (tokens, weights)
    )


def with_masks(features: Features, mask_id: int) -> Tensor:
    """Returns `input_ids` with [MASK] at every chosen position, int32 [B, L].

    BERT's records have the token itself or a random one at a fifth of them.
    """
    positions_L = ops.arange(features["input_ids"].shape[1], dtype="int32")
    is_there_BPL = features["masked_lm_positions"][..., None] == positions_L
    is_used_BP1 = features["masked_lm_weights"][..., None] > 0
    is_chosen_BL = ops.any(ops.logical_and(is_there_BPL, is_used_BP1), axis=1)
    return ops.where(is_chosen_BL, mask_id, features["input_ids"])


def make_objective(
    name: str, capacities: Mapping[tuple[int, int], Capacity], mask_id: int
) -> MaskedLMObjective:
    """Returns an objective by its name.

    Args:
      name: one of `model.objectives.OBJECTIVES`.
      capacities: (sequences, length) -> numbers of rows, for the shapes of batches whose padding is
        left out.
      mask_id: id of [MASK].
    """
    if name == RTD:
        return ReplacedTokenObjective(mask_id, capacities)
    if name in PAIR_TASKS:
        return PretrainingObjective(capacities, PAIR_TASKS[name])
    return MaskedLMObjective(capacities)
