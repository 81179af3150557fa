"""Distillation: besides masked LM, a student learns what a teacher answers or how it attends."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from beambert.errors import InputError
from beambert.model.config import EncoderConfig
from beambert.model.distillation import (
    cosine_losses,
    relation_heads,
    relation_losses,
    soft_target_losses,
)
from beambert.model.encoder import Encoder
from beambert.model.families.table import family_of
from beambert.model.flops import forward_flops, relation_flops
from beambert.model.objectives import MLM
from beambert.model.pretrainer import BertPretrainer
from beambert.model.shapes import variable_shapes
from beambert.model.unpadding import Capacity, Packing
from beambert.trainer.loop.objectives import Features, Objective, Sums
from beambert.trainer.loop.steps import dtype_policy
from beambert.trainer.pretraining.objective import MaskedLMObjective, predicted
from beambert.trainer.weights.initial import InitialWeights

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
      has_head: whether it has a masked-LM head.
    """

    weights: InitialWeights
    student: EncoderConfig
    has_head: bool

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
          InputError: its positions, segments or vocabulary do not fit those of the student.
        """
        theirs = weights.config
        head = [path for path in variable_shapes(theirs) if path.startswith(_HEAD)]
        has_head = not set(head) - weights.read().keys()
        given = f"{FLAG}={weights.path}"
        if theirs.is_decoder:
            raise InputError(
                f"{given}: reads from left to right, so it does not predict masked tokens; choose "
                "another teacher"
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
        if has_head and theirs.vocab_size != student.vocab_size:
            raise InputError(
                f"{given}: its vocab_size is {theirs.vocab_size}, but the student's is "
                f"{student.vocab_size}; give --model a bert_config.json with that of the teacher"
            )
        return cls(weights, student, has_head)

    @property
    def config(self) -> EncoderConfig:
        """Its configuration."""
        return self.weights.config

    @property
    def relation_heads(self) -> int:
        """Number of heads in which its relations are compared with the student's."""
        return relation_heads(self.student.hidden_size, self.config.hidden_size)

    def description(self) -> str:
        """Returns what it teaches, for a person."""
        lessons = f"the relations in its last layer, in {self.relation_heads} heads"
        if self.has_head:
            has_states = self.config.hidden_size == self.student.hidden_size
            lessons = "its masked-LM distribution" + (" and hidden states" if has_states else "")
        return f"teacher {self.weights.path}: {lessons}"

    def flops(
        self, sequences: int, length: int, predictions: int, capacity: Capacity | None
    ) -> float:
        """Returns the operations that it adds to an update; see `flops.training_flops`."""
        if self.has_head:
            return forward_flops(self.config, sequences, length, predictions, capacity)
        rows = Capacity(capacity.tokens, 0) if capacity else None
        relations = relation_flops(self.student, self.config, sequences, length)
        return forward_flops(self.config, sequences, length, 0, rows) + relations

    def model(self, strategy: tf.distribute.Strategy, dtype: str) -> keras.Model:
        """Returns the model: a `BertPretrainer` if there is a head, else an `Encoder`."""
        with strategy.scope(), dtype_policy(dtype):
            if self.has_head:
                model = BertPretrainer(self.config, objective=MLM)
            else:
                model = family_of(self.config).encoder(self.config, has_pooler=False)
            self.weights.load_into(model, FLAG)
        return model

    def objective(
        self, own: MaskedLMObjective, strategy: tf.distribute.Strategy, dtype: str
    ) -> "DistillationObjective":
        """Returns the objective of the student.

        Args:
          own: what it learns without a teacher.
          strategy: strategy of the devices.
          dtype: number format of matrix products.
        """
        model = self.model(strategy, dtype)
        if self.has_head:
            return AnswersObjective(own, model, self.student)
        return RelationsObjective(own, model)


class DistillationObjective(Objective):
    """A student's own losses, and those of what its teacher shows it.

    Subclasses compute the latter. The teacher computes without dropout, and no gradient reaches it.
    It is not part of the model, so neither checkpoints nor the model folder have it.
    """

    def __init__(
        self, own: MaskedLMObjective, weight_of: Mapping[str, str], factors: Mapping[str, float]
    ):
        """Takes what the student learns without a teacher, and describes the teacher's losses.

        Args:
          own: objective of the student.
          weight_of: the teacher's losses, and the weight that divides each sum.
          factors: factors of all losses that are not 1.
        """
        self._own = own
        self.losses = (*own.losses, *weight_of)
        self.weight_of = {**own.weight_of, **weight_of}
        self.factors = factors

    def _taught(
        self, model: keras.Model, outputs: Sums, features: Features, capacity: Capacity | None
    ) -> Sums:
        """Returns the sums of the teacher's losses.

        Args:
          model: the student.
          outputs: what it has computed, with the outputs of its last two layers.
          features: the batch.
          capacity: numbers of rows; None if padding has rows.
        """
        raise NotImplementedError

    def weights(self, features: Features) -> Sums:
        """Returns the weights of the student's objective, and the number of tokens."""
        tokens = tf.reduce_sum(tf.cast(features["input_mask"], tf.float32))
        return {**self._own.weights(features), "tokens": tokens}

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sums of all losses, in nats, and of the own metrics."""
        return self._sums(model, features, dropout_seed, None)

    def derived(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns what the own objective does."""
        return self._own.derived(metrics)

    def ways(self) -> Sequence[Callable[[keras.Model, Features, tf.Tensor | None], Sums]]:
        """Returns `sums`, and a function that computes the same without padding."""
        return [self.sums, self._packed_sums]

    def way(self, features: Features) -> tf.Tensor | None:
        """Returns what the own objective does."""
        return self._own.way(features)

    def _packed_sums(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> Sums:
        return self._sums(model, features, dropout_seed, self._own.capacity(features))

    def _sums(
        self,
        model: keras.Model,
        features: Features,
        dropout_seed: tf.Tensor | None,
        capacity: Capacity | None,
    ) -> Sums:
        outputs = _outputs(model, features, dropout_seed, capacity)
        own = self._own.sums_of(outputs, features)
        return own | self._taught(model, outputs, features, capacity)


class AnswersObjective(DistillationObjective):
    """The teacher's distribution over the vocabulary, and its hidden states where widths are equal.

    The losses are those of DistilBERT (Sanh et al. 2019, arXiv 1910.01108, section 3). The
    distribution is compared at the predicted positions, as with `--restrict_ce_to_mask` of its
    training script, since only these are computed here. The student's predictions about pairs,
    which DistilBERT leaves out, weigh as much as its masked LM, as in BERT.
    """

    def __init__(self, own: MaskedLMObjective, teacher: BertPretrainer, student: EncoderConfig):
        """Takes the own objective, the teacher, and the student's configuration."""
        self._teacher = teacher
        self._has_states = teacher.config.hidden_size == student.hidden_size
        weight_of = {"distillation_loss": "predictions"}
        if self._has_states:
            weight_of["cosine_loss"] = "tokens"
        own_factors = dict.fromkeys(own.losses, _OF_MASKED_LM)
        super().__init__(own, weight_of, own_factors | _FACTORS)

    def _taught(
        self, model: keras.Model, outputs: Sums, features: Features, capacity: Capacity | None
    ) -> Sums:
        shown = _outputs(self._teacher, features, None, capacity)
        _, weights = predicted(features, outputs)
        losses = soft_target_losses(
            outputs["masked_lm_logits"], shown["masked_lm_logits"], TEMPERATURE
        )
        sums = {"distillation_loss": tf.reduce_sum(weights * losses)}
        if self._has_states:
            width = self._teacher.config.hidden_size
            is_token = tf.reshape(features["input_mask"], [-1])
            if packing := _packing(features, capacity):
                is_token = tf.gather(is_token, packing.positions_C)
            losses = cosine_losses(
                *(each["hidden_states"][:, -width:] for each in (outputs, shown))
            )
            sums["cosine_loss"] = tf.reduce_sum(tf.cast(is_token, tf.float32) * losses)
        return sums


class RelationsObjective(DistillationObjective):
    """The relations of queries, keys and values in the teacher's last layer.

    They are those of MiniLMv2 (Wang et al. 2020, arXiv 2012.15828), for a teacher that has no
    masked-LM head. The paper's student learns nothing else; here it also learns masked LM, since
    the teacher cannot teach that.
    """

    def __init__(self, own: MaskedLMObjective, teacher: Encoder):
        """Takes the own objective and the teacher."""
        super().__init__(own, {"distillation_loss": "tokens"}, {})
        self._teacher = teacher

    def _taught(
        self, model: keras.Model, outputs: Sums, features: Features, capacity: Capacity | None
    ) -> Sums:
        packing, mask = _packing(features, capacity), features["input_mask"]
        inputs = features["input_ids"], mask, features["segment_ids"]
        shown = self._teacher.encode(*inputs, packing=packing, last_layers=2)
        states = outputs["hidden_states"]
        losses = relation_losses(model.encoder, states, self._teacher, shown, mask, packing)
        return {"distillation_loss": tf.reduce_sum(tf.cast(mask, tf.float32) * losses)}


def _outputs(
    model: BertPretrainer,
    features: Features,
    dropout_seed: tf.Tensor | None,
    capacity: Capacity | None,
) -> Sums:
    """Returns a model's logits and the outputs of its last two layers."""
    if capacity:
        return model.packed_logits(features, capacity, dropout_seed, last_layers=2)
    return model(features, dropout_seed=dropout_seed, last_layers=2)


def _packing(features: Features, capacity: Capacity | None) -> Packing | None:
    return Packing.of(features["input_mask"], capacity.tokens) if capacity else None
