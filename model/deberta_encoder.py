"""The network of DeBERTa-v3 (He et al. 2020, arXiv 2006.03654, and 2021, arXiv 2111.09543).

Shape suffixes: B batch, L sequence length, T = B * L tokens, H hidden size, N attention heads,
D = H / N head size, S buckets of distances; with a packing, T stands for the rows of
tokens without padding.
"""

import keras
from keras import ops

from beambert.model.attention import attend
from beambert.model.dropout import dropout
from beambert.model.encoder import Encoder
from beambert.model.families.debertav2_config import DebertaV2Config
from beambert.model.initialization import fold_seed, truncated_normal
from beambert.model.layers import (
    SITES_OF_LAYER,
    BertDense,
    BertSelfAttention,
    BertSublayerOutput,
    WordEmbeddings,
    bert_layer_norm,
    score_bias,
)
from beambert.model.relative_positions import Distances, relative_scores
from beambert.model.unpadding import Packing


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

    def call(self, distances: Distances):
        """Returns the normalized rows of the buckets that distances have, [S, H]."""
        return self.layer_norm(self.embeddings[distances.first : distances.end])


class DebertaSelfAttention(BertSelfAttention):
    """Attention of contents to contents, of contents to distances and of distances to contents."""

    def __init__(self, config: DebertaV2Config, seed: int, index: int):
        """Creates the layer for the attention of layer `index`."""
        super().__init__(config, seed, 1 + SITES_OF_LAYER * index)
        # The sites of all other dropouts are smaller, also that of a classifier.
        self.site_of_positions = SITES_OF_LAYER * config.num_hidden_layers + 2 + index

    def call(self, x_TH, score_bias, relative_SH, distances, dropout_seed=None, packing=None):
        """Returns the weighted values, heads side by side, as [T, H].

        Args:
          x_TH: output of the layer before.
          score_bias: see `score_bias`.
          relative_SH: embeddings of the buckets, whose queries and keys are made as those of x_TH.
          distances: their rows.
          dropout_seed: see `dropout`.
          packing: see `Encoder.encode`.
        """
        config, length = self.config, score_bias.shape[-1]
        relative_SH = dropout(
            relative_SH, config.hidden_dropout_prob, dropout_seed, self.site_of_positions
        )
        query_BNLD, key_BNLD, value_BNLD = (
            self._heads(project(x_TH), length, packing)
            for project in (self.query, self.key, self.value)
        )
        # A score is the sum of three products, so that it is divided by sqrt(3 D), of which
        # `attend` does sqrt(D).
        query_BNLD, query_SH = query_BNLD * 3**-0.5, self.query(relative_SH) * 3**-0.5
        score_BNLL = relative_scores(
            query_BNLD, key_BNLD, query_SH, self.key(relative_SH), distances
        )
        # In float32 under every policy, as in `BertSelfAttention.attention_weights`.
        score_BNLL = ops.cast(score_BNLL, "float32") * query_BNLD.shape[-1] ** -0.5
        bias = ops.cast(score_bias, "float32") + score_BNLL
        rate = config.attention_probs_dropout_prob
        context_BNLD = attend(query_BNLD, key_BNLD, value_BNLD, bias, rate, dropout_seed, self.site)
        context_TH = ops.reshape(
            ops.transpose(context_BNLD, (0, 2, 1, 3)), (-1, config.hidden_size)
        )
        return packing.pack(context_TH) if packing else context_TH


class DebertaLayer(keras.layers.Layer):
    """One layer: attention, then the feed-forward network, with the variables of BERT's."""

    def __init__(self, config: DebertaV2Config, seed: int, index: int):
        """Creates layer `index`, counted from 0."""
        name = f"layer_{index}"
        super().__init__(name=name)
        self.config = config
        seed, rate = fold_seed(seed, name), config.hidden_dropout_prob
        of_attention, site = fold_seed(seed, "attention"), 1 + SITES_OF_LAYER * index
        self.self_attention = DebertaSelfAttention(config, of_attention, index)
        self.attention_output = BertSublayerOutput(
            config, of_attention, site + 1, config.hidden_size, rate
        )
        self.intermediate = BertDense(
            config.intermediate_size,
            config,
            fold_seed(seed, "intermediate"),
            name="dense",
            activation=config.hidden_act,
        )
        self.sublayer_output = BertSublayerOutput(
            config, seed, site + 2, config.intermediate_size, rate
        )

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables of the parts."""
        with keras.name_scope("attention"):
            self.self_attention.build()
            self.attention_output.build()
        with keras.name_scope("intermediate"):
            self.intermediate.build((None, self.config.hidden_size))
        self.sublayer_output.build()

    def call(self, x_TH, score_bias, relative_SH, distances, dropout_seed=None, packing=None):
        """Returns x_TH after the layer; see `DebertaSelfAttention.call`."""
        context_TH = self.self_attention(
            x_TH,
            score_bias,
            relative_SH,
            distances=distances,
            dropout_seed=dropout_seed,
            packing=packing,
        )
        x_TH = self.attention_output(context_TH, x_TH, dropout_seed=dropout_seed)
        x_TF = self.intermediate(x_TH)
        return self.sublayer_output(x_TF, x_TH, dropout_seed=dropout_seed)


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
          embeddings: embeddings without their variables; None for a table of its own.
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
            DebertaLayer(config, encoder_seed, index) for index in range(config.num_hidden_layers)
        ]
        self.pooler = self._make_pooler(config, seed) if has_pooler else None
        self.build()

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables; the constructor calls it."""
        self.embeddings.build()
        self.relative_embeddings.build()
        with keras.name_scope("encoder"):
            for layer in self.encoder_layers:
                layer.build()
        if self.pooler:
            with keras.name_scope("pooler"):
                self.pooler.build((None, self.config.hidden_size))

    def projected(self, name: str, x_RH):
        """Returns the queries, keys or values of the last layer, which reads x_RH."""
        return getattr(self.encoder_layers[-1].self_attention, name)(x_RH)

    def _outputs(
        self, x, input_mask, dropout_seed, packing: Packing | None, document_BL=None
    ) -> list:
        config, length = self.config, input_mask.shape[1]
        bias = score_bias(input_mask, length, document_BL=document_BL)
        distances = Distances.of(length, config.position_buckets, config.max_position_embeddings)
        relative_SH = self.relative_embeddings(distances=distances)
        outputs = [x]
        for layer in self.encoder_layers:
            outputs.append(
                layer(
                    outputs[-1],
                    bias,
                    relative_SH,
                    distances=distances,
                    dropout_seed=dropout_seed,
                    packing=packing,
                )
            )
        return outputs
