"""Embedding and similarity, and their losses."""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from beambert.errors import InputError
from beambert.model.classifier import Head
from beambert.model.config import EncoderConfig
from beambert.model.families.family import ENCODER
from beambert.model.sentence_encoder import Pooling, SentenceEncoder, unit
from beambert.pipelines.tasks.saved_models import ID_INPUTS
from beambert.pipelines.tasks.task import TRAIN
from beambert.pipelines.tasks.vectors import COSINE, VectorTask
from beambert.trainer.finetuning.batches import LENGTH_MULTIPLE
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
    from beambert.trainer.tasks.graph import TaskGraph

# A text that does not count has this logit.
_NEVER = -1e9


def in_batch(
    vectors_BSH: Tensor, text_ids_BS: Tensor, weights_B: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Returns each example's loss of telling its answer from all others of the batch, float32 [B].

    It is InfoNCE (van den Oord et al. 2018, arXiv 1807.03748), the cross-entropy over the cosines
    divided by the temperature; sentence-transformers calls it MultipleNegativesRankingLoss.

    Args:
      vectors_BSH: vectors of the query, of the text that it must find, and of hard negatives.
      text_ids_BS, weights_B: see `contrast`.
      temperature: what the cosines are divided by.

    Returns:
      what `contrast` returns.
    """
    queries_BH = unit(vectors_BSH[:, 0])
    found_CH = unit(by_place(vectors_BSH[:, 1:]))
    logits_BC = ops.matmul(queries_BH, ops.transpose(found_CH)) / temperature
    return contrast(logits_BC, text_ids_BS, weights_B)


def contrast(logits_BC: Tensor, text_ids_BS: Tensor, weights_B: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the cross-entropy of finding the right text of each example among those of the batch.

    What an example must find is its second text. All second texts of the batch and all further
    ones, the hard negatives, can be found. A text that is equal to the right one or to the query,
    or that an equal query must find, is no negative.

    Args:
      logits_BC: logits of the texts that can be found: the right texts of all examples come first,
        then the first negatives of all, and so on.
      text_ids_BS: int64, equal for equal texts.
      weights_B: 0 for rows that fill up the batch, whose texts cannot be found.

    Returns:
      the losses, in nats, and whether the right text has the greatest logit, float32 [B] each.
    """
    rows, texts = ops.shape(logits_BC)[0], text_ids_BS.shape[1]
    own_B = ops.arange(rows, dtype="int32")
    ids_C = by_place(text_ids_BS[:, 1:, None])[:, 0]
    query_B1, right_B1 = text_ids_BS[:, :1], text_ids_BS[:, 1:2]
    # Number of equal queries, the row's own among them, that a text is right for.
    is_equal_query_BB = ops.cast(text_ids_BS[:, 0] == query_B1, "float32")
    answers_BC = ops.matmul(is_equal_query_BB, ops.cast(ids_C == right_B1, "float32"))
    is_filling = ops.tile(weights_B == 0, [texts - 1])
    drops = (answers_BC > 0) | (ids_C == query_B1) | is_filling
    is_own = own_B[:, None] == ops.arange(rows * (texts - 1), dtype="int32")
    logits_BC = ops.where(drops & ~is_own, _NEVER, logits_BC)
    losses = cross_entropy(logits_BC, own_B)
    return losses, is_correct(logits_BC, own_B)


def by_place(values: Tensor) -> Tensor:
    """Returns values [B, S, H] of one place after the other, [S * B, H]."""
    return ops.reshape(ops.transpose(values, [1, 0, 2]), [-1, values.shape[-1]])


def cosines(vectors_BSH: Tensor) -> Tensor:
    """Returns the cosine of the two texts of each pair, float32 [B]."""
    return ops.sum(unit(vectors_BSH[:, 0]) * unit(vectors_BSH[:, 1]), axis=-1)


def cosent(cosines_B: Tensor, scores_B: Tensor, weights_B: Tensor, temperature: float) -> Tensor:
    """Returns CoSENT's loss of a batch (Su 2022, https://kexue.fm/archives/8847), a number.

    It is log(1 + sum of exp((a - b) / temperature)) over all pairs of a cosine a and a cosine b,
    where the score of a is less than that of b.
    """
    differences_BB = (cosines_B[:, None] - cosines_B[None]) / temperature
    counts = (scores_B[:, None] < scores_B[None]) & (weights_B[:, None] > 0) & (weights_B[None] > 0)
    logits = ops.reshape(ops.where(counts, differences_BB, _NEVER), [-1])
    return ops.logsumexp(ops.concatenate([ops.zeros([1]), logits], 0))


def at_dims(loss: Callable[[Tensor], Tensor], vectors: Tensor, dims: Sequence[int]) -> Tensor:
    """Returns the loss of whole vectors [..., H], and that of their first components for each dim.

    That is Matryoshka representation learning (Kusupati et al. 2022, arXiv 2205.13147) with equal
    weights, as in sentence-transformers, where the dims must list H themselves. H counts once.
    """
    widths = dict.fromkeys([vectors.shape[-1], *dims])
    return functools.reduce(ops.add, [loss(vectors[..., :width]) for width in widths])


# The seed of the first texts differs by this from that of the others; no other seed steps so far.
_FIRST_SEED_STRIDE = 7_368_787 * 257


def first_seed(dropout_seed: Tensor | None) -> Tensor | None:
    """Returns the seed of dropout for the first texts, if these are encoded by themselves."""
    more = np.array([_FIRST_SEED_STRIDE, 0], np.int32)
    return None if dropout_seed is None else dropout_seed + more


class VectorData(TaskData):
    """Texts that must find others."""

    def problems(self) -> list[str]:
        """Returns also that train has no pairs."""
        single = (
            f"{self._read.files[TRAIN]}: has single texts; each learns to find itself under "
            "another dropout (SimCSE)"
        )
        return [*super().problems(), *([single] if self.is_single else [])]

    @property
    def is_single(self) -> bool:
        """Whether train has single texts."""
        return self.examples[TRAIN][0].text_b is None

    @property
    def has_scores(self) -> bool:
        """Whether the pairs of train have scores."""
        return self.examples[TRAIN][0].label is not None

    @property
    def longest_first(self) -> int:
        """Greatest number of tokens of the first text of any example, rounded up."""
        lengths = [
            feature.lengths.reshape(-1, feature.choices)[:, 0].max()
            for feature in self._features.values()
        ]
        return int(-(-max(lengths) // LENGTH_MULTIPLE) * LENGTH_MULTIPLE)

    def check_job(self, job: Any, config: EncoderConfig) -> None:
        """Refuses settings that vectors of texts cannot be learnt with."""
        task = self.task
        if job.freeze_encoder:
            raise InputError(
                f"--freeze_encoder=True: {task.name} trains the encoder itself, and no head on top "
                "of it; leave the flag out"
            )
        dims = task.matryoshka_dims
        if dims and max(dims) > config.hidden_size:
            raise InputError(
                f"--matryoshka_dims={','.join(map(str, dims))}: the encoder's vectors have only "
                f"{config.hidden_size} components; give numbers up to that"
            )
        if self.is_single and config.with_dropout(0.0) == config:
            raise InputError(
                f"--init={job.init}: has no dropout, under which a single text could learn to find "
                f"itself (SimCSE); add a column {task.text_columns[1]!r} to train, or give an "
                "encoder that was pre-trained with --dropout"
            )

    def check_batch(self, size: int, parts: int) -> None:
        """Refuses batches whose examples have nothing to be compared with."""
        by_itself = self.has_scores and self.task.loss == COSINE
        if size // parts > 1 or by_itself or self.examples[TRAIN][0].negatives:
            return
        by = "" if parts == 1 else f" in each of {parts} parts"
        raise InputError(
            f"--train_batch_size={size}: leaves one example{by}, which has no other to be compared "
            f"with; give at least {2 * parts}"
        )

    def results(self, outputs: Mapping[str, Any]) -> dict[str, float]:
        """Returns the task's metrics of a model's vectors for dev, and those of their parts."""
        found = super().results(outputs)
        for dim in self.task.matryoshka_dims:
            at_dim = super().results({"vectors": outputs["vectors"][..., :dim]})
            found |= {f"{name}_of_{dim}_dims": at_dim[name] for name in self.task.metrics}
        return found


# The first texts are encoded by themselves if their greatest length is less than this share of that
# of all texts; else one call of the encoder is cheaper to compile.
_MUCH_SHORTER = 0.75


class VectorObjective(TaskObjective):
    """The in-batch loss of texts that must find others.

    The features are int32 [B, S, L], for S texts of an example. Those of single texts, int32
    [B, L], are encoded twice: each must find itself under another dropout (SimCSE).
    """

    DATA = VectorData
    ONNX_OUTPUT = "embedding"
    # Bare encoders: their variables have the names that they have in any class.
    HUGGING_FACE_CLASS = ENCODER
    HUB_TASK = "sentence-similarity"
    IS_ENCODER = True
    NOT_FOR_SENTENCES = ""
    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples", "in_batch_accuracy": "examples"}

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns an encoder of texts."""
        # The losses compare cosines, so that the length of a vector has no meaning.
        return SentenceEncoder(config, seed, Pooling(head.pooling, is_normalized=True))

    def __init__(self, lengths: Sequence[int], task: VectorTask, longest_first: int):
        """Takes the lengths, see `TaskObjective`, the task, and the first texts' longest length."""
        super().__init__(lengths)
        self._task = task
        self._longest_first = longest_first

    @classmethod
    def of_data(cls, data: VectorData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective of the task's loss, or the in-batch loss without scores."""
        of_loss: type[VectorObjective] = cls
        if data.has_scores:
            of_loss = CosineObjective if data.task.loss == COSINE else CosentObjective
        return of_loss(lengths, data.task, data.longest_first)

    def logits(self, model: keras.Model, features: Features, dropout_seed: Tensor | None) -> Tensor:
        """Returns the vectors, float32 [B, S, H]."""
        given = {name: features[name] for name in ID_INPUTS}
        if len(given["input_ids"].shape) == 2:
            given = {name: ops.stack([value, value], axis=1) for name, value in given.items()}
        _, texts, length = given["input_ids"].shape
        if self._longest_first >= _MUCH_SHORTER * length:
            return self._encoded(model, given, dropout_seed)
        first = {name: value[:, :1, : self._longest_first] for name, value in given.items()}
        others = {name: value[:, 1:] for name, value in given.items()}
        found = [
            self._encoded(model, first, first_seed(dropout_seed)),
            self._encoded(model, others, dropout_seed),
        ]
        return ops.concatenate(found, axis=1)

    def _encoded(
        self, model: keras.Model, features: Features, dropout_seed: Tensor | None
    ) -> Tensor:
        _, texts, length = features["input_ids"].shape
        flat = {name: ops.reshape(value, [-1, length]) for name, value in features.items()}
        vectors = model(flat, dropout_seed=dropout_seed)
        return ops.reshape(vectors, [-1, texts, *vectors.shape[1:]])

    def sums_of(self, logits: Tensor, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of the texts that are found."""
        rows = example_weights(features)
        ids = features["text_ids"]
        ids = ops.concatenate([ids, ids], axis=1) if ids.shape[1] == 1 else ids

        def loss(vectors: Tensor) -> Tensor:
            return in_batch(vectors, ids, rows, self._task.temperature)[0]

        _, is_found = in_batch(logits, ids, rows, self._task.temperature)
        return {
            "cross_entropy": ops.sum(rows * at_dims(loss, logits, self._task.matryoshka_dims)),
            "in_batch_accuracy": ops.sum(rows * is_found),
        }

    def outputs_of(self, logits: Tensor) -> dict[str, Tensor]:
        """Returns `vectors` float32 [B, S, H]."""
        return {"vectors": logits}

    @classmethod
    def answer(cls, graph: "TaskGraph", *texts: Tensor) -> dict[str, Tensor]:
        """Returns the `embedding` of each text, float32 [n, H]."""
        return {"embedding": graph.model(graph.text_features(*texts))}


class _ScoreObjective(VectorObjective, abc.ABC):
    """A loss of the cosines of pairs with scores."""

    def sums_of(self, logits: Tensor, features: Features) -> Sums:
        """Returns the sum of the losses."""
        rows, scores = example_weights(features), features["label_ids"]

        def loss(vectors: Tensor) -> Tensor:
            return self._loss(cosines(vectors), scores, rows)

        return {self.losses[0]: at_dims(loss, logits, self._task.matryoshka_dims)}

    @abc.abstractmethod
    def _loss(self, found: Tensor, scores: Tensor, rows: Tensor) -> Tensor:
        """Returns the sum of the losses over the examples."""


class CosentObjective(_ScoreObjective):
    """The loss of the order of the cosines; that of a batch counts for each of its examples."""

    losses = ("cosent",)
    weight_of = {"cosent": "examples"}

    def _loss(self, found: Tensor, scores: Tensor, rows: Tensor) -> Tensor:
        return ops.sum(rows) * cosent(found, scores, rows, self._task.temperature)


class CosineObjective(_ScoreObjective):
    """The squared error of the cosines."""

    losses = ("mean_squared_error",)
    weight_of = {"mean_squared_error": "examples"}

    def _loss(self, found: Tensor, scores: Tensor, rows: Tensor) -> Tensor:
        return ops.sum(rows * ops.square(found - scores))
