"""Objectives whose models make vectors, their losses, and the gradient cache."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from beambert.model.denoising import DenoisingAutoencoder
from beambert.pipelines.tasks.late_interaction import KEPT, LateInteraction
from beambert.pipelines.tasks.task import ID_INPUTS
from beambert.pipelines.tasks.texts import InteractionFeatures
from beambert.pipelines.tasks.vectors import COSINE, VectorTask
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.finetuning.data import InteractionData, VectorData
from beambert.trainer.finetuning.objective_base import TaskObjective
from beambert.trainer.loop.objectives import (
    Features,
    Sums,
    cross_entropy,
    example_weights,
    is_correct,
)

# Least length by which a vector is divided, as in torch.nn.functional.normalize.
_LEAST_LENGTH = 1e-12
# A text that does not count has this logit.
_NEVER = -1e9
# The cosine of a token that does not count.
_LESS_THAN_COSINES = -2.0


def unit(vectors: tf.Tensor) -> tf.Tensor:
    """Returns vectors [..., H] with the length 1."""
    return vectors * tf.math.rsqrt(
        tf.maximum(tf.reduce_sum(tf.square(vectors), axis=-1, keepdims=True), _LEAST_LENGTH**2)
    )


def in_batch(
    vectors_BSH: tf.Tensor, text_ids_BS: tf.Tensor, weights_B: tf.Tensor, temperature: float
) -> tuple[tf.Tensor, tf.Tensor]:
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
    found_CH = unit(_by_place(vectors_BSH[:, 1:]))
    logits_BC = tf.matmul(queries_BH, found_CH, transpose_b=True) / temperature
    return contrast(logits_BC, text_ids_BS, weights_B)


def contrast(
    logits_BC: tf.Tensor, text_ids_BS: tf.Tensor, weights_B: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
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
    rows, texts = tf.shape(logits_BC)[0], text_ids_BS.shape[1]
    ids_C = _by_place(text_ids_BS[:, 1:, None])[:, 0]
    query_B1, right_B1 = text_ids_BS[:, :1], text_ids_BS[:, 1:2]
    # Number of equal queries, the row's own among them, that a text is right for.
    is_equal_query_BB = tf.cast(text_ids_BS[:, 0] == query_B1, tf.float32)
    answers_BC = tf.matmul(is_equal_query_BB, tf.cast(ids_C == right_B1, tf.float32))
    is_filling = tf.tile(weights_B == 0, [texts - 1])
    drops = (answers_BC > 0) | (ids_C == query_B1) | is_filling
    is_own = tf.eye(rows, rows * (texts - 1), dtype=tf.bool)
    logits_BC = tf.where(drops & ~is_own, _NEVER, logits_BC)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(rows), logits_BC)
    best = tf.argmax(logits_BC, axis=1, output_type=tf.int32)
    return losses, tf.cast(best == tf.range(rows), tf.float32)


def _by_place(values: tf.Tensor) -> tf.Tensor:
    """Returns values [B, S, H] of one place after the other, [S * B, H]."""
    return tf.reshape(tf.transpose(values, [1, 0, 2]), [-1, values.shape[-1]])


def max_sim(queries_BQH: tf.Tensor, documents_CLH: tf.Tensor, counts_CL: tf.Tensor) -> tf.Tensor:
    """Returns the score of each document for each query by late interaction, float32 [B, C].

    It is the sum over the tokens of the query of the greatest cosine with any token of the document
    (Khattab and Zaharia 2020, ColBERT, arXiv 2004.12832, section 3.3).

    Args:
      queries_BQH: vectors of the tokens of queries, of length 1.
      documents_CLH: vectors of the tokens of documents, of length 1.
      counts_CL: whether a token of a document counts, bool.
    """
    _, tokens, width = queries_BQH.shape
    length = documents_CLH.shape[1]
    flat = tf.reshape(queries_BQH, [-1, width]), tf.reshape(documents_CLH, [-1, width])
    shape = [-1, tokens, tf.shape(documents_CLH)[0], length]
    cosines_BQCL = tf.reshape(tf.matmul(*flat, transpose_b=True), shape)
    cosines_BQCL = tf.where(counts_CL, cosines_BQCL, _LESS_THAN_COSINES)
    return tf.reduce_sum(tf.reduce_max(cosines_BQCL, axis=-1), axis=1)


def cosines(vectors_BSH: tf.Tensor) -> tf.Tensor:
    """Returns the cosine of the two texts of each pair, float32 [B]."""
    return tf.reduce_sum(unit(vectors_BSH[:, 0]) * unit(vectors_BSH[:, 1]), axis=-1)


def cosent(
    cosines_B: tf.Tensor, scores_B: tf.Tensor, weights_B: tf.Tensor, temperature: float
) -> tf.Tensor:
    """Returns CoSENT's loss of a batch (Su 2022, https://kexue.fm/archives/8847), a number.

    It is log(1 + sum of exp((a - b) / temperature)) over all pairs of a cosine a and a cosine b,
    where the score of a is less than that of b.
    """
    differences_BB = (cosines_B[:, None] - cosines_B[None]) / temperature
    counts = (scores_B[:, None] < scores_B[None]) & (weights_B[:, None] > 0) & (weights_B[None] > 0)
    logits = tf.reshape(tf.where(counts, differences_BB, _NEVER), [-1])
    return tf.reduce_logsumexp(tf.concat([[0.0], logits], 0))


def at_dims(
    loss: Callable[[tf.Tensor], tf.Tensor], vectors: tf.Tensor, dims: Sequence[int]
) -> tf.Tensor:
    """Returns the loss of whole vectors [..., H], and that of their first components for each dim.

    That is Matryoshka representation learning (Kusupati et al. 2022, arXiv 2205.13147) with equal
    weights, as in sentence-transformers, where the dims must list H themselves. H counts once.
    """
    widths = dict.fromkeys([vectors.shape[-1], *dims])
    return tf.add_n([loss(vectors[..., :width]) for width in widths])


Encode = Callable[[Mapping[str, tf.Tensor], tf.Tensor | None], tf.Tensor]
# The seeds of the parts of a batch differ by this prime, by which no other seed steps.
_PART_SEED_STRIDE = 7_368_787


def encode_in_parts(
    encode: Encode, features: Mapping[str, tf.Tensor], dropout_seed: tf.Tensor | None, size: int
) -> tf.Tensor:
    """Returns the vectors of a batch, float32 [n, …], with the memory for `size` texts.

    Dropout has another seed in each part, and the same one when a part is encoded again.

    Args:
      encode: function from the features of some texts and a seed of dropout to their vectors.
      features: names -> int32 [n, L] with a static n.
      dropout_seed: int32 [2]; None switches dropout off.
      size: greatest number of texts that are encoded at a time; 0 for all.
    """
    rows = next(iter(features.values())).shape[0]
    if not size or rows is None or rows <= size:
        return encode(features, dropout_seed)
    parts = -(-rows // size)
    # The last part is filled up with the first texts again, whose vectors are left out.
    order = (np.arange(parts * size) % rows).reshape(parts, size)
    names = list(features)

    def encode_part(number: tf.Tensor, divided: tuple[tf.Tensor, ...]) -> tf.Tensor:
        some = {name: each[number] for name, each in zip(names, divided, strict=True)}
        return encode(some, part_seed(dropout_seed, number))

    @tf.custom_gradient
    def encode_parts(*divided: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        vectors = tf.map_fn(
            lambda number: encode_part(number, divided),
            tf.range(parts),
            fn_output_signature=tf.float32,
            parallel_iterations=1,
        )

        def gradient(upstream: tf.Tensor, variables: list[tf.Variable]) -> tuple[Any, Any]:
            def add_part(number: tf.Tensor, totals: list[tf.Tensor]) -> tuple[Any, Any]:
                with tf.GradientTape() as tape:
                    again = encode_part(number, divided)
                more = tape.gradient(again, variables, upstream[number], "zero")
                added = [t + tf.convert_to_tensor(m) for t, m in zip(totals, more, strict=True)]
                return number + 1, added

            nothing = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
            _, totals = tf.while_loop(
                lambda number, _: number < parts,
                add_part,
                (0, nothing),
                parallel_iterations=1,
                maximum_iterations=parts,
            )
            return [None] * len(divided), totals

        return vectors, gradient

    vectors = encode_parts(*(tf.gather(features[name], order) for name in names))
    return tf.reshape(vectors, [parts * size, *vectors.shape[2:]])[:rows]


def part_seed(dropout_seed: tf.Tensor | None, number: tf.Tensor | int) -> tf.Tensor | None:
    """Returns the seed of dropout for a part of a batch."""
    if dropout_seed is None:
        return None
    return dropout_seed + tf.stack([_PART_SEED_STRIDE * (number + 1), 0])


# The first texts are encoded by themselves if their greatest length is less than this share of that
# of all texts; else one call of the encoder is cheaper to compile.
_MUCH_SHORTER = 0.75
# The part number of the first texts, apart from the numbers of parts of a batch.
FIRST_TEXTS = 1 << 8


class VectorObjective(TaskObjective):
    """The in-batch loss of texts that must find others.

    The features are int32 [B, S, L], for S texts of an example. Those of single texts, int32
    [B, L], are encoded twice: each must find itself under another dropout (SimCSE).
    """

    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples", "in_batch_accuracy": "examples"}

    def __init__(self, lengths: Sequence[int], task: VectorTask, longest_first: int):
        """Takes the lengths, see `TaskObjective`, the task, and the first texts' longest length."""
        super().__init__(lengths)
        self._task = task
        self._longest_first = longest_first

    @classmethod
    def of_data(cls, data: VectorData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective of the task's loss, or the in-batch loss without scores."""
        of_loss: type[VectorObjective] = VectorObjective
        if data.has_scores:
            of_loss = CosineObjective if data.task.loss == COSINE else CosentObjective
        return of_loss(lengths, data.task, data.longest_first)

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the vectors, float32 [B, S, H]."""
        given = {name: features[name] for name in ID_INPUTS}
        if given["input_ids"].shape.rank == 2:
            given = {name: tf.stack([value, value], axis=1) for name, value in given.items()}
        _, texts, length = given["input_ids"].shape
        if self._longest_first >= _MUCH_SHORTER * length:
            return self._encoded(model, given, dropout_seed)
        first = {name: value[:, :1, : self._longest_first] for name, value in given.items()}
        others = {name: value[:, 1:] for name, value in given.items()}
        found = [
            self._encoded(model, first, part_seed(dropout_seed, FIRST_TEXTS)),
            self._encoded(model, others, dropout_seed),
        ]
        return tf.concat(found, axis=1)

    def _encoded(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        _, texts, length = features["input_ids"].shape
        flat = {name: tf.reshape(value, [-1, length]) for name, value in features.items()}

        def encode(some: Features, seed: tf.Tensor | None) -> tf.Tensor:
            return model(some, dropout_seed=seed)

        size = self._task.gradient_cache_batch_size
        vectors = encode_in_parts(encode, flat, dropout_seed, size)
        return tf.reshape(vectors, [-1, texts, *vectors.shape[1:]])

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of the texts that are found."""
        rows = example_weights(features)
        ids = features["text_ids"]
        ids = tf.concat([ids, ids], axis=1) if ids.shape[1] == 1 else ids

        def loss(vectors: tf.Tensor) -> tf.Tensor:
            return in_batch(vectors, ids, rows, self._task.temperature)[0]

        _, is_found = in_batch(logits, ids, rows, self._task.temperature)
        return {
            "cross_entropy": tf.reduce_sum(rows * at_dims(loss, logits, self._dims)),
            "in_batch_accuracy": tf.reduce_sum(rows * is_found),
        }

    @property
    def _dims(self) -> Sequence[int]:
        return self._task.matryoshka_dims

    def outputs_of(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `vectors` float32 [B, S, H]."""
        return {"vectors": logits}


class _ScoreObjective(VectorObjective, abc.ABC):
    """A loss of the cosines of pairs with scores."""

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the sum of the losses."""
        rows, scores = example_weights(features), features["label_ids"]

        def loss(vectors: tf.Tensor) -> tf.Tensor:
            return self._loss(cosines(vectors), scores, rows)

        return {self.losses[0]: at_dims(loss, logits, self._dims)}

    @abc.abstractmethod
    def _loss(self, found: tf.Tensor, scores: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns the sum of the losses over the examples."""


class CosentObjective(_ScoreObjective):
    """The loss of the order of the cosines; that of a batch counts for each of its examples."""

    losses = ("cosent",)
    weight_of = {"cosent": "examples"}

    def _loss(self, found: tf.Tensor, scores: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(rows) * cosent(found, scores, rows, self._task.temperature)


class CosineObjective(_ScoreObjective):
    """The squared error of the cosines."""

    losses = ("mean_squared_error",)
    weight_of = {"mean_squared_error": "examples"}

    def _loss(self, found: tf.Tensor, scores: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(rows * tf.math.squared_difference(found, scores))


# Share of the words that are deleted: the best of those that the paper tried.
DELETED = 0.6


def with_deletions(
    features: Features, is_continuation_V: np.ndarray, drawn_BL: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns texts without some of their words; of each text at least one word stays.

    Args:
      features: `input_ids`, `input_mask` and `segment_ids` of single texts, int32 [B, L].
      is_continuation_V: whether each token continues a word, which is deleted as a whole.
      drawn_BL: uniform numbers from 0 to 1, float32; the n-th one decides about the n-th word.
    """
    ids, mask = features["input_ids"], features["input_mask"]
    places, lengths = tf.range(ids.shape[1])[None], tf.reduce_sum(mask, axis=1, keepdims=True)
    is_frame = (places == 0) | (places == lengths - 1)  # [CLS] and [SEP]
    is_text = (mask > 0) & ~is_frame
    begins = ~tf.gather(tf.constant(is_continuation_V), ids) | is_frame
    words = tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1
    drawn = tf.where(is_text, tf.gather(drawn_BL, words, batch_dims=1), -1.0)
    stays = (drawn >= DELETED) | (drawn == tf.reduce_max(drawn, axis=1, keepdims=True))
    stays = (stays & is_text) | (is_frame & (mask > 0))
    # The tokens that stay move to the front, in their order.
    order = tf.argsort(tf.cast(~stays, tf.int32), axis=1, stable=True)
    count = tf.reduce_sum(tf.cast(stays, tf.int32), axis=1, keepdims=True)
    left = tf.cast(places < count, tf.int32)
    return {
        "input_ids": tf.gather(ids, order, batch_dims=1) * left,
        "input_mask": left,
        "segment_ids": tf.zeros_like(ids),
    }


class DenoisingObjective(VectorObjective):
    """The cross-entropy of the tokens of texts; on dev, of pairs, the in-batch loss.

    A prediction is a token in training, and an example on dev.
    """

    weight_of = {"cross_entropy": "predictions", "accuracy": "predictions"}

    def __init__(
        self, lengths: Sequence[int], task: VectorTask, longest_first: int, vocabulary: Vocabulary
    ):
        """Takes what `VectorObjective` takes, and the vocabulary of the ids."""
        super().__init__(lengths, task, longest_first)
        self._is_continuation = vocabulary.is_continuation

    def trained(self, model: keras.Model) -> keras.Model:
        """Returns the autoencoder around a sentence encoder."""
        return DenoisingAutoencoder(model)

    def kept(self, trained: keras.Model) -> keras.Model:
        """Returns the sentence encoder."""
        return trained.sentence_encoder

    def weights(self, features: Features) -> Sums:
        """Returns the number of predictions."""
        if features["input_ids"].shape.rank == 2:
            counts = tf.cast(features["input_mask"][:, 1:], tf.float32)
            return {"predictions": tf.reduce_sum(counts)}
        return {"predictions": super().weights(features)["examples"]}

    def sums(self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None) -> Sums:
        """Returns the sums over the predictions of the loss (nats) and of the right ones."""
        if features["input_ids"].shape.rank == 3:
            return super().sums(model, features, dropout_seed)
        texts = {name: features[name] for name in ID_INPUTS}
        drawn = tf.random.stateless_uniform(texts["input_ids"].shape, dropout_seed)
        noisy = with_deletions(texts, self._is_continuation, drawn)
        logits = model.logits(noisy, texts, dropout_seed)[:, :-1]
        labels = texts["input_ids"][:, 1:]
        counts = tf.cast(texts["input_mask"][:, 1:], tf.float32)
        return {
            "cross_entropy": tf.reduce_sum(counts * cross_entropy(logits, labels)),
            "accuracy": tf.reduce_sum(counts * is_correct(logits, labels)),
        }

    def sums_of(self, logits: tf.Tensor, features: Features) -> Sums:
        """Returns the in-batch loss of pairs, and the texts that are found."""
        found = super().sums_of(logits, features)
        return {"cross_entropy": found["cross_entropy"], "accuracy": found["in_batch_accuracy"]}


class EmbeddingObjective(VectorObjective):
    """The in-batch loss, or that of TSDAE, if that is how single texts are learnt."""

    @classmethod
    def of_data(cls, data: VectorData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective for the examples of a task."""
        if not data.denoises:
            return super().of_data(data, lengths)
        vocabulary = data.text_features.vocabulary
        return DenoisingObjective(lengths, data.task, data.longest_first, vocabulary)


class TokenVectors(NamedTuple):
    """The vectors of a batch.

    Attributes:
      queries: float32 [B, Q, H].
      documents: float32 [B, S - 1, L, H].
      counts: whether a token of a document counts, bool [B, S - 1, L].
    """

    queries: tf.Tensor
    documents: tf.Tensor
    counts: tf.Tensor


class InteractionObjective(VectorObjective):
    """The in-batch loss of the scores of documents.

    Each query must find its document among all documents of the batch, hard negatives included. The
    paper has one negative for each query (section 3.3), and ColBERTv2 adds those of the batch
    (Santhanam et al. 2022, arXiv 2112.01488, section 3.2).
    """

    def __init__(
        self, lengths: Sequence[int], task: LateInteraction, text_features: InteractionFeatures
    ):
        """Takes the lengths, see `TaskObjective`, the task and the converter of its texts."""
        super().__init__(lengths, task, text_features.query_length)
        self._text_features = text_features

    @classmethod
    def of_data(cls, data: InteractionData, lengths: Sequence[int]) -> TaskObjective:
        """Returns the objective for the examples of a task."""
        return cls(lengths, data.task, data.text_features)

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> TokenVectors:
        """Returns the vectors of the tokens."""
        given = {name: features[name] for name in ID_INPUTS}
        length = given["input_ids"].shape[2]
        size = self._text_features.query_length
        missing = [[0, 0], [0, 0], [0, max(size - length, 0)]]
        first = {name: tf.pad(each[:, :1, :size], missing) for name, each in given.items()}
        others = {name: each[:, 1:] for name, each in given.items()}
        seed = part_seed(dropout_seed, FIRST_TEXTS)
        queries = self._encoded(model, self._text_features.expanded(first), seed)
        documents = self._encoded(model, others, dropout_seed)
        return TokenVectors(queries[:, 0], documents, self._text_features.counting(others))

    def sums_of(self, logits: TokenVectors, features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of the texts that are found."""
        rows = example_weights(features)
        _, _, length, width = logits.documents.shape
        # The right documents of all examples come first, then the first negatives of all.
        documents = tf.reshape(tf.transpose(logits.documents, [1, 0, 2, 3]), [-1, length, width])
        counts = tf.reshape(tf.transpose(logits.counts, [1, 0, 2]), [-1, length])
        scores = max_sim(logits.queries, documents, counts)
        losses, is_found = contrast(scores / self._task.temperature, features["text_ids"], rows)
        return {
            "cross_entropy": tf.reduce_sum(rows * losses),
            "in_batch_accuracy": tf.reduce_sum(rows * is_found),
        }

    def outputs_of(self, logits: TokenVectors) -> dict[str, tf.Tensor]:
        """Returns the vectors by name, as 16 bits, and which of them count.

        Those of documents are padded to the greatest length, as all ways return equal shapes.
        """
        spare = [[0, 0], [0, 0], [0, self.lengths[-1] - logits.counts.shape[2]]]
        return {
            "queries": tf.cast(logits.queries, KEPT),
            "documents": tf.pad(tf.cast(logits.documents, KEPT), [*spare, [0, 0]]),
            "counts": tf.pad(logits.counts, spare),
        }
