"""DeBERTa-v3: disentangled attention, the encoder, and its replaced token detection.

He et al. 2020 (arXiv 2006.03654, section 3.1) with the buckets of the second version, and He et al.
2021 (arXiv 2111.09543, section 3; DeBERTa/apps/tasks/rtd_task.py and
DeBERTa/apps/models/replaced_token_detection_model.py of the original). In replaced token detection
the generator is a DeBERTa-v3 as wide as the discriminator and half as deep. Both have their own
distance embeddings and layer norms; they share the word embeddings E. Only masked LM trains E. The
discriminator reads E + delta, and only delta gets the gradient of its loss.

Shape suffixes: B batch, L sequence length, T = B * L tokens (with a packing the rows of tokens
without padding), H hidden size, N attention heads, D = H / N head size, C positions of a block,
S buckets of distances, R distances, or rows of tokens in replaced token detection, V vocabulary
size.
"""

import dataclasses
import functools
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from beambert.model.encoder import Encoder
from beambert.model.families.debertav2 import BLOCK, SUFFIX, DebertaV2, DebertaV2Config
from beambert.model.layers import (
    SITES_OF_LAYER,
    BertDense,
    BertLayer,
    BertSelfAttention,
    WordEmbeddings,
    attention_by,
    bert_layer_norm,
    dropout,
    fold_seed,
    look_up,
    score_bias,
    truncated_normal,
)
from beambert.model.pretrainer import MaskedLMHead
from beambert.model.replaced_tokens import ReplacedTokenPretrainer
from beambert.model.unpadding import Packing


def bucket_of(distances: np.ndarray, buckets: int, positions: int) -> np.ndarray:
    """Returns the buckets of distances, integers with the signs of these.

    Up to half of the buckets each distance has one to itself, and those beyond are logarithmic
    (`make_log_bucket_position` of the original's disentangled_attention.py).

    Args:
      distances: integers between -positions and positions.
      buckets: number of buckets to each side, at least 2.
      positions: number of positions, whose greatest distance has the last bucket.
    """
    near, size = buckets // 2, np.abs(distances)
    if size.max() <= near:
        return distances
    share = np.log(np.maximum(size, near) / near) / np.log((positions - 1) / near)
    far = near + np.ceil(share * (near - 1)).astype(np.int64)
    return np.where(size <= near, distances, np.sign(distances) * far)


@dataclasses.dataclass(frozen=True)
class Distances:
    """The distances within a sequence, from L - 1 down to 1 - L, in the table of the buckets.

    Attributes:
      first, end: the part of the table that has all of their buckets.
      row_R: int32 [R], their rows in that part. The last one is there twice, so that R is 2 L.
    """

    first: int
    end: int
    row_R: np.ndarray

    @classmethod
    @functools.cache
    def of(cls, length: int, buckets: int, positions: int) -> "Distances":
        """Returns the distances of a length; the table has twice as many rows as buckets.

        Args:
          length: tokens of a sequence, at most `positions`.
          buckets, positions: see `bucket_of`.
        """
        distances = np.maximum(np.arange(length - 1, -length - 1, -1), 1 - length)
        row_R = bucket_of(distances, buckets, positions) + buckets
        row_R = np.clip(row_R, 0, 2 * buckets - 1).astype(np.int32)
        first, end = int(row_R.min()), int(row_R.max()) + 1
        return cls(first, end, row_R - first)


def relative_scores(query_BNLD, key_BNLD, query_SH, key_SH, distances: Distances):
    """Returns the scores of contents with distances, [B, N, L, L].

    They are the products of queries with the keys of the distances, and those of keys with the
    queries of the distances (equation 4 of the paper).

    Args:
      query_BNLD, key_BNLD: float tensors with a static L.
      query_SH, key_SH: queries and keys of the buckets, heads side by side.
      distances: the rows of the buckets.
    """
    heads, width = query_BNLD.shape[1], query_BNLD.shape[3]

    def heads_of(x_SH, row_R):
        return ops.reshape(look_up(x_SH, row_R[None]), (len(row_R), heads, width))

    # A row of the second has one key and all queries, whose distances are from 1 - L up to L - 1.
    reversed_R = np.roll(distances.row_R[::-1], -1)
    to_position = _by_distance(query_BNLD, heads_of(key_SH, distances.row_R))
    from_position = _by_distance(key_BNLD, heads_of(query_SH, reversed_R))
    return to_position + ops.swapaxes(from_position, -1, -2)


def _by_distance(x_BNLD, y_RND):
    """Returns [B, N, L, L], the products of each position with the distances to all others.

    Element (i, j) is the product of position i with row j - i + L - 1. A block of C positions is
    multiplied with the L + C rows that it needs. No element is picked by an index, whose gradient
    would add elements one by one: rows of another length bring a block's elements to their places
    (Dai et al. 2019, arXiv 1901.02860, appendix B).
    """
    heads, length = x_BNLD.shape[1:3]
    blocks = []
    for first in range(0, length, BLOCK):
        block = x_BNLD[:, :, first : first + BLOCK]
        count = block.shape[2]
        rows = y_RND[length - first - count : 2 * length - first]
        product_NBCR = ops.einsum("bncd,rnd->nbcr", block, rows)
        # Element (i, j - i + C - 1) is at i * (L + C - 1) + j + C - 1 of the flat array.
        flat = ops.reshape(product_NBCR, (heads, -1, count * (length + count)))
        shorter = length + count - 1
        flat = flat[:, :, count - 1 : count - 1 + count * shorter]
        blocks.append(ops.reshape(flat, (heads, -1, count, shorter))[..., :length])
    return ops.transpose(ops.concatenate(blocks, axis=2), (1, 0, 2, 3))


def _distances(config: DebertaV2Config, length: int) -> Distances:
    return Distances.of(length, config.position_buckets, config.max_position_embeddings)


class RelativeEmbeddings(keras.layers.Layer):
    """Embeddings of the buckets of distances, normalized; all layers read them."""

    def __init__(self, config: DebertaV2Config, seed: int, name: str = "encoder"):
        """Creates the layer without its variables."""
        super().__init__(name=name)
        self.config = config
        self.seed = fold_seed(fold_seed(seed, name), "rel_embeddings")
        self.layer_norm = bert_layer_norm(config)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the table and the layer norm."""
        config = self.config
        self.embeddings = self.add_weight(
            name="rel_embeddings",
            shape=(2 * config.position_buckets, config.hidden_size),
            initializer=truncated_normal(config.initializer_range, self.seed),
            autocast=False,
        )
        self.layer_norm.build((None, config.hidden_size))

    def call(self, length: int):
        """Returns the normalized rows of the buckets that a sequence of a length needs, [S, H]."""
        distances = _distances(self.config, length)
        return self.layer_norm(self.embeddings[distances.first : distances.end])


class DebertaSelfAttention(BertSelfAttention):
    """Attention of contents to contents, of contents to distances and of distances to contents."""

    def __init__(self, config: DebertaV2Config, seed: int, site: int):
        """Creates the layer; `site` numbers the dropout of its weights."""
        super().__init__(config, seed, site)
        # The sites of all other dropouts are smaller, also that of a classifier.
        index = site // SITES_OF_LAYER
        self.site_of_positions = SITES_OF_LAYER * config.num_hidden_layers + 2 + index

    def _attended(self, query_BNLD, key_BNLD, value_BNLD, score_bias, dropout_seed, positions_SH):
        """Returns [B, N, L, D]; the buckets' queries and keys are made as those of the tokens."""
        distances = _distances(self.config, query_BNLD.shape[2])
        rate, site = self.config.hidden_dropout_prob, self.site_of_positions
        relative_SH = dropout(positions_SH, rate, dropout_seed, site)
        # A score is the sum of three products, so that it is divided by sqrt(3 D), of which
        # `attend` does sqrt(D).
        query_BNLD, query_SH = query_BNLD * 3**-0.5, self.query(relative_SH) * 3**-0.5
        score_BNLL = relative_scores(
            query_BNLD, key_BNLD, query_SH, self.key(relative_SH), distances
        )
        # In float32 under every policy, as in `attend`.
        score_BNLL = ops.cast(score_BNLL, "float32") * query_BNLD.shape[-1] ** -0.5
        bias = ops.cast(score_bias, "float32") + score_BNLL
        # Fused attention takes no scores.
        with attention_by(None):
            return super()._attended(query_BNLD, key_BNLD, value_BNLD, bias, dropout_seed)


class DebertaEncoder(Encoder):
    """The encoder of DeBERTa-v3 and its pooler."""

    def __init__(
        self,
        config: DebertaV2Config,
        seed: int = 0,
        has_pooler: bool = True,
        embeddings: WordEmbeddings | None = None,
        name: str | None = None,
    ):
        """Creates the encoder and its variables.

        Args:
          config, seed, has_pooler: see `BertEncoder`.
          embeddings: embeddings without their variables; None for a separate table.
          name: name of the encoder; None for that of the family.
        """
        super().__init__(name=name or config.family)
        self.config = config
        self.embeddings = embeddings or WordEmbeddings(
            config, seed, bert_layer_norm(config), config.hidden_dropout_prob
        )
        self.relative_embeddings = RelativeEmbeddings(config, seed)
        encoder_seed = fold_seed(seed, "encoder")
        self.encoder_layers = [
            BertLayer(config, encoder_seed, index, DebertaSelfAttention)
            for index in range(config.num_hidden_layers)
        ]
        self.pooler = self._make_pooler(config, seed) if has_pooler else None
        self.build()

    def _parts(self) -> list:
        return [*super()._parts(), (self.relative_embeddings, None)]

    def _outputs(
        self, x, input_mask, dropout_seed, packing: Packing | None, document_BL=None
    ) -> list:
        length = input_mask.shape[1]
        bias = score_bias(input_mask, length, document_BL=document_BL)
        positions = self.relative_embeddings(length=length)
        given = {"dropout_seed": dropout_seed, "packing": packing, "positions": positions}
        outputs = [x]
        for layer in self.encoder_layers:
            outputs.append(layer(outputs[-1], bias, **given))
        return outputs


class DisentangledEmbeddings(WordEmbeddings):
    """Word embeddings E + delta of the discriminator, through which no gradient reaches E."""

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates E, the delta, which is zero, and the layer norm."""
        super().build()
        self.delta_VH = self.add_weight(
            name=f"word_embeddings{SUFFIX}",
            shape=self.word_embeddings_VH.shape,
            initializer="zeros",
            autocast=False,
        )

    def _sums(self, input_ids_BL, segment_ids_BL):
        table_VH = ops.cast(self.word_embeddings_VH, "float32")
        own_BLH = look_up(ops.cast(self.delta_VH, "float32"), input_ids_BL)
        return ops.stop_gradient(ops.take(table_VH, input_ids_BL, axis=0)) + own_BLH


class GeneratorEmbeddings(WordEmbeddings):
    """Word embeddings of the generator: another layer's table E, and a separate layer norm."""

    def __init__(self, config: DebertaV2Config, table: Callable[[], keras.Variable]):
        """Creates the layer without its variables; `table` returns E."""
        super().__init__(config, 0, bert_layer_norm(config), config.hidden_dropout_prob)
        # A function, so that Keras doesn't count E among this layer's variables.
        self._shared = table

    @property
    def word_embeddings_VH(self) -> keras.Variable:
        """The table E."""
        return self._shared()

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the layer norm."""
        self.layer_norm.build((None, self.config.hidden_size))


class DebertaReplacedTokenHead(keras.layers.Layer):
    """Scores every token with the first one of its sequence; greater if more likely replaced.

    It is LMMaskPredictionHead of the original, and has its names.
    """

    def __init__(self, config: DebertaV2Config, seed: int, name: str = "mask_predictions"):
        """Creates the layer without its variables."""
        super().__init__(name=name)
        seed, self.width = fold_seed(seed, name), config.hidden_size
        self.layer_norm = bert_layer_norm(config)
        self.dense = BertDense(self.width, config, seed, "dense", activation=config.hidden_act)
        self.classifier = BertDense(1, config, seed, "classifier")

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the three layers."""
        for layer in (self.layer_norm, self.dense, self.classifier):
            layer.build((None, self.width))

    def call(self, x_RH, first_RH):
        """Returns float32 logits [R].

        Args:
          x_RH: output of the discriminator.
          first_RH: for each row the output of the first token of its sequence.
        """
        x_RH = self.dense(self.layer_norm(first_RH + x_RH))
        return ops.cast(self.classifier(x_RH)[:, 0], "float32")


class DebertaReplacedTokenPretrainer(ReplacedTokenPretrainer):
    """The pre-training model; the constructor creates every variable."""

    def __init__(self, config: DebertaV2Config, generator_size: float, seed: int = 0):
        """Creates the model and its variables.

        Args:
          config: configuration of the discriminator.
          generator_size: depth of the generator as a share of the discriminator's.
          seed: seed of every initial weight; the encoder computes what `DebertaEncoder(config,
            seed)` does, until delta is trained.
        """
        super().__init__(name="deberta_replaced_token_pretrainer")
        self.config = config
        rate = config.hidden_dropout_prob
        embeddings = DisentangledEmbeddings(config, seed, bert_layer_norm(config), rate)
        self.encoder = DebertaEncoder(config, seed, has_pooler=False, embeddings=embeddings)
        of_generator = DebertaV2.generator_config(config, generator_size)
        self.generator = DebertaEncoder(
            of_generator,
            fold_seed(seed, "generator"),
            has_pooler=False,
            embeddings=GeneratorEmbeddings(of_generator, lambda: embeddings.word_embeddings_VH),
            name="generator",
        )
        self.generator_head = MaskedLMHead(of_generator, seed, "generator_predictions")
        self.replaced_token_head = DebertaReplacedTokenHead(config, seed)
        # In `build` the variables' paths would start with this model's name.
        self.generator_head.build()
        self.replaced_token_head.build()
        self.built = True

    def _generated(self, ids_BL, mask_BL, segments_BL, dropout_seed, packing):
        return self.generator.encode(ids_BL, mask_BL, segments_BL, dropout_seed, packing)

    def _detected(self, x_RH, length: int, packing):
        if packing:
            starts_R = packing.positions_C // length * length
            rows_R = ops.take(packing.rows_T, starts_R)
        else:
            rows_R = ops.arange(x_RH.shape[0], dtype="int32") // length * length
        return self.replaced_token_head(x_RH, ops.take(x_RH, rows_R, axis=0))
