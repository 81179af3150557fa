"""ELECTRA: a discriminator that finds the tokens that a small generator has replaced.

Clark et al. 2020 (arXiv 2003.10555). The discriminator is a `BertEncoder`, so it serves wherever
one does. The generator reads the discriminator's embeddings, as in the original's
run_pretraining.py.

Shape suffixes: B batch, L sequence length, T = B * L, H hidden size, G that of the generator, P
predictions per sequence, K predictions, V vocabulary size; R rows for tokens, T of them, or fewer
without padding.
"""

import math

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.families.family import generator_config
from beambert.model.families.table import family_of
from beambert.model.layers import (
    BertDense,
    BertLayer,
    bert_layer_norm,
    finalize,
    fold_seed,
    random_bits,
    score_bias,
)
from beambert.model.objectives import GENERATOR_SIZE
from beambert.model.pretrainer import flat_positions, tied_logits
from beambert.model.unpadding import Capacity, Packing

# The sites of draws in a model count dropouts from 0, far below this one.
_SAMPLING_SITE = 1 << 20


class ElectraGenerator(keras.layers.Layer):
    """The layers of the generator, on top of the discriminator's embeddings."""

    def __init__(
        self, config: EncoderConfig, embedding_size: int, seed: int, name: str = "generator"
    ):
        """Creates the layers without their variables.

        Args:
          config: configuration of the generator.
          embedding_size: width of the embeddings, H.
          seed: seed of the pre-training model.
          name: name of the layer.
        """
        super().__init__(name=name)
        seed = fold_seed(seed, name)
        self.embedding_size = embedding_size
        self.embeddings_project = None
        if embedding_size != config.hidden_size:
            name = "embeddings_project"
            self.embeddings_project = BertDense(config.hidden_size, config, seed, name)
        self.encoder_layers = [
            BertLayer(config, fold_seed(seed, "encoder"), index)
            for index in range(config.num_hidden_layers)
        ]

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the projection and the layers."""
        if self.embeddings_project:
            self.embeddings_project.build((None, self.embedding_size))
        with keras.name_scope("encoder"):
            for layer in self.encoder_layers:
                layer.build()

    def call(self, x_RH, score_bias_B11L, dropout_seed=None, packing=None):
        """Returns x_RG, the output of the last layer, of embeddings x_RH."""
        x_RG = self.embeddings_project(x_RH) if self.embeddings_project else x_RH
        for layer in self.encoder_layers:
            x_RG = layer(x_RG, score_bias_B11L, dropout_seed=dropout_seed, packing=packing)
        return x_RG


class GeneratorHead(keras.layers.Layer):
    """Scores the vocabulary at the masked positions; its matrix is the word embedding table."""

    def __init__(
        self,
        config: EncoderConfig,
        embedding_size: int,
        seed: int,
        name: str = "generator_predictions",
    ):
        """Creates the layer without its variables; the arguments are `ElectraGenerator`'s."""
        super().__init__(name=name)
        self.config = config
        self.embedding_size = embedding_size
        # ElectraGeneratorPredictions of transformers has this activation whatever hidden_act is.
        seed = fold_seed(seed, name)
        self.dense = BertDense(embedding_size, config, seed, "dense", activation="gelu")
        self.layer_norm = bert_layer_norm(config)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the transform and the output bias."""
        self.dense.build((None, self.config.hidden_size))
        self.layer_norm.build((None, self.embedding_size))
        self.output_bias_V = self.add_weight(
            name="output_bias", shape=(self.config.vocab_size,), initializer="zeros", autocast=False
        )

    def call(self, x_KG, word_embeddings_VH):
        """Returns float32 logits [K, V] of the vectors at the predicted positions."""
        return tied_logits(self, self.layer_norm(self.dense(x_KG)), word_embeddings_VH)


class ReplacedTokenHead(keras.layers.Layer):
    """Scores every token: the more, the likelier it was replaced."""

    def __init__(self, config: EncoderConfig, seed: int, name: str = "discriminator_predictions"):
        """Creates the layer without its variables."""
        super().__init__(name=name)
        seed = fold_seed(seed, name)
        self.width = config.hidden_size
        self.dense = BertDense(self.width, config, seed, "dense", activation=config.hidden_act)
        self.dense_prediction = BertDense(1, config, seed, "dense_prediction")

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the two layers."""
        self.dense.build((None, self.width))
        self.dense_prediction.build((None, self.width))

    def call(self, x_RH):
        """Returns float32 logits [R]."""
        return ops.cast(self.dense_prediction(self.dense(x_RH))[:, 0], "float32")


def sample(logits_KV: keras.KerasTensor, seed: keras.KerasTensor) -> keras.KerasTensor:
    """Draws a token from the softmax of each row, int32 [K].

    A first number chooses a block of the vocabulary by the sums of the blocks, and a second one a
    token of the block. The noise of Gumbel at every token, as in `sample_from_softmax` of the
    original's pretrain_helpers.py, draws from the same distribution and takes half of a step of
    tiny. The numbers are a function of the seed and the place, as dropout is, so a repeated step
    draws the same tokens.

    Args:
      logits_KV: float32 [K, V].
      seed: integer [2], another for every step and replica.
    """
    rows, size = logits_KV.shape
    # As many blocks as tokens in each, [K, N, M].
    width = math.isqrt(size - 1) + 1
    spare = -size % width
    weights_KV = ops.exp(logits_KV - ops.max(logits_KV, axis=-1, keepdims=True))
    weights_KNM = ops.reshape(ops.pad(weights_KV, ((0, 0), (0, spare))), (rows, -1, width))
    # In a million draws the bits of dropout show slight dependencies; another round removes them.
    bits_K2 = finalize(random_bits((rows, 2), seed, _SAMPLING_SITE))
    uniform_K2 = ops.cast(bits_K2, "float32") * (2.0**-32 - 2.0**-56)  # at most 1 - 2**-24
    blocks_K = _place_of(ops.sum(weights_KNM, axis=-1), uniform_K2[:, 0])
    weights_KM = ops.take_along_axis(weights_KNM, blocks_K[:, None, None], axis=1)[:, 0]
    tokens_K = blocks_K * width + _place_of(weights_KM, uniform_K2[:, 1])
    return ops.minimum(tokens_K, size - 1)


def _place_of(weights_KN: keras.KerasTensor, uniform_K: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the first place at which the sum of weights so far exceeds a share, int32 [K]."""
    sums_KN = ops.cumsum(weights_KN, axis=-1)
    is_before_KN = sums_KN <= uniform_K[:, None] * sums_KN[:, -1:]
    places_K = ops.sum(ops.cast(is_before_KN, "int32"), axis=-1)
    return ops.minimum(places_K, sums_KN.shape[-1] - 1)


def put(values_T, positions_K, new_K, is_used_K):
    """Returns integers [T] with new ones at some positions [K]; unused ones change nothing."""
    old_K = ops.take(values_T, positions_K)
    # Several unused places may name one position, so that differences are added up.
    changes_K = ops.where(is_used_K, new_K - old_K, ops.zeros_like(old_K))
    return values_T + ops.segment_sum(changes_K, positions_K, num_segments=values_T.shape[0])


class ReplacedTokenPretrainer(keras.Model):
    """The generator's and the discriminator's logits.

    Subclasses create `encoder`, `generator_head` and `replaced_token_head`, and define how the
    generator reads a batch.

    Attributes:
      encoder: the discriminator's encoder.
      masked_lm_head, pair_task: None; the encoder has neither the head nor a task of pairs.
    """

    masked_lm_head = None
    pair_task = None

    def call(self, features, dropout_seed=None, capacity: Capacity | None = None):
        """Computes the logits of a batch, in which the generator replaces the masked tokens.

        Args:
          features: `input_ids`, `input_mask` and `segment_ids` [B, L] as in `BertEncoder`, with
            [MASK] at every chosen position; `masked_lm_positions`, `masked_lm_ids` and
            `masked_lm_weights` [B, P], the weights 0 for padding. Other keys are ignored; B and L
            are static.
          dropout_seed: integer [2] of numbers that are not negative, another for every step and
            replica. None switches dropout off; what is drawn then follows from the batch.
          capacity: numbers of rows without the padding of sequences and of predictions, at least
            the tokens and predictions of the batch; None computes the padding too.

        Returns:
          `masked_lm_logits` float32 [K, V], and `prediction_slots` int32 [K], the slot b * P + p of
          each row; `replaced_token_logits` float32 [R], and for the same rows `is_replaced` and
          `is_token`, int32 [R], which is 0 for padding.
        """
        ids_BL, mask_BL, segments_BL = (
            ops.cast(features[name], "int32") for name in ("input_ids", "input_mask", "segment_ids")
        )
        length = ids_BL.shape[1]
        is_used_BP = features["masked_lm_weights"] > 0
        packing = None
        slots_K = ops.arange(is_used_BP.shape[0] * is_used_BP.shape[1], dtype="int32")
        if capacity:
            packing = Packing.of(mask_BL, capacity.tokens)
            slots_K = Packing.of(is_used_BP, capacity.predictions).positions_C
        positions_K = ops.take(flat_positions(features["masked_lm_positions"], length), slots_K)
        is_used_K, labels_K = (
            ops.take(ops.reshape(each, (-1,)), slots_K)
            for each in (is_used_BP, ops.cast(features["masked_lm_ids"], "int32"))
        )

        # The generator's embeddings and layers drop other elements than the discriminator's.
        generator_seed = None if dropout_seed is None else seed_of_generator(dropout_seed)
        x_RG = self._generated(ids_BL, mask_BL, segments_BL, generator_seed, packing)
        rows_K = ops.take(packing.rows_T, positions_K) if packing else positions_K
        table_VH = ops.convert_to_tensor(self.encoder.word_embeddings)
        logits_KV = self.generator_head(ops.take(x_RG, rows_K, axis=0), table_VH)

        sampling_seed = _seed_of_batch(ids_BL) if generator_seed is None else generator_seed
        sampled_K = self.sample(logits_KV, sampling_seed)
        ids_T = put(ops.reshape(ids_BL, (-1,)), positions_K, sampled_K, is_used_K)
        # A draw of the token itself is not a replacement (section 2 of the paper).
        is_other_K = ops.logical_and(is_used_K, sampled_K != labels_K)
        is_replaced_T = put(ops.zeros_like(ids_T), positions_K, 1, is_other_K)

        ids_BL = ops.reshape(ids_T, (-1, length))
        x_RH = self.encoder.encode(ids_BL, mask_BL, segments_BL, dropout_seed, packing)
        is_token_T = ops.reshape(mask_BL, (-1,))
        is_replaced_R, is_token_R = (
            ops.take(each, packing.positions_C) if packing else each
            for each in (is_replaced_T, is_token_T)
        )
        return {
            "masked_lm_logits": logits_KV,
            "prediction_slots": slots_K,
            "replaced_token_logits": self._detected(x_RH, length, packing),
            "is_replaced": is_replaced_R,
            "is_token": is_token_R,
        }

    def sample(self, logits_KV, seed):
        """Returns the generator's tokens, int32 [K], see `sample`."""
        return sample(ops.stop_gradient(logits_KV), seed)

    def _generated(self, ids_BL, mask_BL, segments_BL, dropout_seed, packing):
        """Returns the output of the generator's last layer, [R, G]."""
        raise NotImplementedError

    def _detected(self, x_RH, length: int, packing):
        """Returns the scores of the tokens, float32 [R], of the discriminator's output."""
        return self.replaced_token_head(x_RH)


class ElectraPretrainer(ReplacedTokenPretrainer):
    """A pre-training model whose generator has layers of BERT; the constructor creates it whole."""

    def __init__(
        self, config: EncoderConfig, generator_size: float = GENERATOR_SIZE, seed: int = 0
    ):
        """Creates the model and its variables.

        Args:
          config: configuration of the discriminator.
          generator_size: width of the generator as a share of the discriminator's.
          seed: seed of every initial weight; the encoder is as `BertEncoder(config, seed)`.

        Raises:
          ValueError: no generator has that size.
        """
        super().__init__(name="electra_pretrainer")
        self.config = config
        self.encoder = family_of(config).encoder(config, seed, has_pooler=False)
        generator, width = generator_config(config, generator_size), config.embedding_width
        self.generator = ElectraGenerator(generator, width, seed)
        self.generator_head = GeneratorHead(generator, width, seed)
        self.replaced_token_head = ReplacedTokenHead(config, seed)
        # In `build` the variables' paths would start with this model's name.
        self.generator.build()
        self.generator_head.build()
        self.replaced_token_head.build()
        self.built = True

    def _generated(self, ids_BL, mask_BL, segments_BL, dropout_seed, packing):
        x_RH = self.encoder.embeddings(
            ids_BL, segments_BL, dropout_seed=dropout_seed, packing=packing
        )
        bias_B11L = score_bias(mask_BL, ids_BL.shape[1])
        return self.generator(x_RH, bias_B11L, dropout_seed=dropout_seed, packing=packing)


def seed_of_generator(dropout_seed: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the seed, int32 [2], of the generator's dropout and of its draws.

    Seeds of dropout have no negative numbers, so no other step has it. Only the first number meets
    the sites of dropout, and could be that of another site, if it were negative.

    Args:
      dropout_seed: integer [2] of numbers that are not negative: the discriminator's.
    """
    seed = ops.cast(dropout_seed, "int32")
    return ops.stack([seed[0], -1 - seed[1]])


def _seed_of_batch(ids_BL) -> keras.KerasTensor:
    """Returns a seed, int32 [2], that is the same in all evaluations of a batch."""
    place_L = ops.arange(1, ids_BL.shape[1] + 1, dtype="int32")
    return ops.stack([ops.sum(ids_BL), ops.sum(ids_BL * place_L)])
