"""Distillation: besides masked LM, a student learns what a teacher answers."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import keras
from keras import ops

from beambert.errors import InputError
from beambert.model.config import EncoderConfig
from beambert.model.objectives import MLM
from beambert.model.pretrainer import BertPretrainer
from beambert.model.shapes import variable_shapes
from beambert.model.unpadding import Packing
from beambert.trainer.loop.engine import Engine
from beambert.trainer.loop.objectives import Features, Objective, Sums, Tensor
from beambert.trainer.loop.steps import dtype_policy
from beambert.trainer.pretraining.objective import MaskedLMObjective, predicted
from beambert.trainer.weights.initial import InitialWeights

# The losses, those of DistilBERT (Sanh et al. 2019, arXiv 1910.01108, section 3). No gradient
# reaches the teacher.
#
# Shape suffixes: H hidden size, K predictions, V vocabulary size; R rows for tokens.


def soft_target_losses(student_KV, teacher_KV, temperature: float):
    """Returns T² times the divergence of the softened distributions, in nats, float32 [K].

    It is the loss of the soft targets without the entropy of the teacher, which teaches nothing: 0
    where both agree. T² keeps the size of its gradients (Hinton et al. 2015, arXiv
    1503.02531, section 2).

    Args:
      student_KV, teacher_KV: float32 logits.
      temperature: T.
    """
    targets_KV, learned_KV = (
        ops.log_softmax(logits_KV / temperature) for logits_KV in (teacher_KV, student_KV)
    )
    targets_KV = ops.stop_gradient(targets_KV)
    divergence_K = ops.sum(ops.exp(targets_KV) * (targets_KV - learned_KV), axis=-1)
    return temperature**2 * divergence_K


def cosine_losses(student_RH, teacher_RH):
    """Returns 1 minus the cosine of the angle between hidden states, float32 [R]."""
    student_RH, teacher_RH = (
        ops.normalize(ops.cast(x_RH, "float32"), epsilon=1e-8)
        for x_RH in (student_RH, ops.stop_gradient(teacher_RH))
    )
    return 1.0 - ops.sum(student_RH * teacher_RH, axis=-1)


# `--temperature` and the weights of the three losses in the training of DistilBERT
# (examples/research_projects/distillation of transformers 4: train.py, README.md).
TEMPERATURE = 2.0
_OF_MASKED_LM = 2.0
_FACTORS = {"distillation_loss": 5.0, "cosine_loss": 1.0}
_HEAD = "cls/predictions/"
FLAG = "--distill_from"


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A teacher, checked against its student.

    Attributes:
      weights: its weights.
      student: configuration of the student.
    """

    weights: InitialWeights
    student: EncoderConfig

    @classmethod
    def of(
        cls, weights: InitialWeights, student: EncoderConfig, length: int, segments: int
    ) -> "Teacher":
        """Returns the teacher for a student.

        Args:
          weights: weights of the teacher, of the student's vocabulary.
          student: configuration of the student.
          length: tokens of the longest sequence.
          segments: number of segments of a sequence.

        Raises:
          InputError: it does not predict masked tokens, or its positions, segments or vocabulary
            do not fit those of the student.
        """
        theirs = weights.config
        head = [path for path in variable_shapes(theirs) if path.startswith(_HEAD)]
        given = f"{FLAG}={weights.path}"
        if set(head) - weights.read().keys():
            raise InputError(
                f"{given}: has no masked-LM head, whose answers a student learns; choose another "
                "teacher"
            )
        there = theirs.longest_sequence
        positions = min(weights.trained_positions or there, there)
        if positions < length:
            raise InputError(
                f"{given}: it has {positions} trained positions, but the max_seq_length of the "
                f"records is {length}; choose another teacher, or make shorter records"
            )
        if theirs.segments is not None and theirs.segments < segments:
            raise InputError(
                f"{given}: its type_vocab_size is {theirs.segments}, but the records have "
                f"{segments} segments; choose another teacher"
            )
        if theirs.vocab_size != student.vocab_size:
            raise InputError(
                f"{given}: its vocab_size is {theirs.vocab_size}, but the student's is "
                f"{student.vocab_size}; give --model a bert_config.json with that of the teacher"
            )
        return cls(weights, student)

    @property
    def config(self) -> EncoderConfig:
        """Its configuration."""
        return self.weights.config

    @property
    def has_states(self) -> bool:
        """Whether its hidden states are as wide as the student's, which then learns them too."""
        return self.config.hidden_size == self.student.hidden_size

    def objective(
        self, own: MaskedLMObjective, engine: Engine, dtype: str
    ) -> "DistillationObjective":
        """Returns the objective of the student.

        Args:
          own: what it learns without a teacher.
          engine: engine of the training.
          dtype: number format of matrix products.
        """
        with engine.scope(), dtype_policy(dtype):
            model = BertPretrainer(self.config, objective=MLM)
            self.weights.load_into(model, FLAG)
        return DistillationObjective(own, model, self.has_states)


class DistillationObjective(Objective):
    """A student's own losses, and those of its teacher's distribution and hidden states.

    The losses are those of DistilBERT (Sanh et al. 2019, arXiv 1910.01108, section 3). The
    distribution is compared at the predicted positions, as with `--restrict_ce_to_mask` of its
    training script, since only these are computed here. The student's predictions about pairs,
    which DistilBERT leaves out, weigh as much as its masked LM, as in BERT.

    The teacher computes without dropout, and no gradient reaches it. It is not part of the model,
    so neither checkpoints nor the model folder have it.
    """

    def __init__(self, own: MaskedLMObjective, teacher: BertPretrainer, has_states: bool):
        """Takes the student's own objective, and its teacher.

        Args:
          own: what the student learns without a teacher.
          teacher: the teacher.
          has_states: whether the hidden states, which are equally wide, are learned too.
        """
        self._own, self._teacher, self._has_states = own, teacher, has_states
        weight_of = {"distillation_loss": "predictions"}
        if has_states:
            weight_of["cosine_loss"] = "tokens"
        self.fixed_variables = teacher.variables
        self.losses = (*own.losses, *weight_of)
        self.weight_of = own.weight_of | weight_of
        self.factors = dict.fromkeys(own.losses, _OF_MASKED_LM) | _FACTORS

    def weights(self, features: Features) -> Sums:
        """Returns the weights of the student's objective, and the number of tokens."""
        tokens = ops.sum(ops.cast(features["input_mask"], "float32"))
        return {**self._own.weights(features), "tokens": tokens}

    def sums(self, model: keras.Model, features: Features, dropout_seed: Tensor | None) -> Sums:
        """Returns the sums of all losses, in nats, and of the own metrics."""
        outputs = model(features, dropout_seed=dropout_seed)
        return self._sums(outputs, self._teacher(features), features, features["input_mask"])

    def derived(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns what the own objective does."""
        return self._own.derived(metrics)

    def ways(self) -> Sequence[Callable[[keras.Model, Features, Tensor | None], Sums]]:
        """Returns `sums`, and a function that computes the same without padding."""
        return [self.sums, self._packed_sums]

    def way(self, features: Features) -> Tensor | None:
        """Returns what the own objective does."""
        return self._own.way(features)

    def _packed_sums(
        self, model: keras.Model, features: Features, dropout_seed: Tensor | None
    ) -> Sums:
        capacity = self._own.capacity(features)
        outputs = model.packed_logits(features, capacity, dropout_seed)
        shown = self._teacher.packed_logits(features, capacity)
        mask = features["input_mask"]
        rows = Packing.of(mask, capacity.tokens).positions_C
        return self._sums(outputs, shown, features, ops.take(ops.reshape(mask, [-1]), rows))

    def _sums(self, outputs: Sums, shown: Sums, features: Features, is_token: Tensor) -> Sums:
        """Returns the sums of all losses.

        Args:
          outputs: what the student has computed.
          shown: what the teacher has.
          features: the batch.
          is_token: 1 for each row of the hidden states that is of a token.
        """
        sums = self._own.sums_of(outputs, features)
        _, weights = predicted(features, outputs)
        losses = soft_target_losses(
            outputs["masked_lm_logits"], shown["masked_lm_logits"], TEMPERATURE
        )
        sums["distillation_loss"] = ops.sum(weights * losses)
        if self._has_states:
            losses = cosine_losses(outputs["hidden_states"], shown["hidden_states"])
            is_token = ops.cast(ops.reshape(is_token, [-1]), "float32")
            sums["cosine_loss"] = ops.sum(is_token * losses)
        return sums
