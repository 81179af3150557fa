"""The encoders: what all have, and BERT's embeddings and pooler around its layers.

RoBERTa, DistilBERT, ALBERT and ELECTRA are made of the same parts, as their configurations define.

Shape suffixes: B batch, L sequence length, T = B * L tokens, H hidden size, F intermediate size,
N attention heads, D = H / N head size, S segment types, V vocabulary size, E width of embeddings.

Activations travel between layers as matrices [T, H], so that every product with a weight is one
plain two-dimensional matrix multiplication. With a `Packing` they are [C, H], tokens without
padding. Variables have the names of the original release, with `layer_norm` for `LayerNorm`:
`bert/encoder/layer_0/attention/self/query/kernel`.
"""

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.layers import (
    SITES_OF_LAYER,
    BertDense,
    BertLayer,
    WordEmbeddings,
    bert_layer_norm,
    fold_seed,
    score_bias,
)
from beambert.model.unpadding import Packing


class BertEmbeddings(WordEmbeddings):
    """Sum of word, segment and position embeddings, normalized (Devlin et al. 2019, figure 2).

    Its width E is that of the layers, unless the configuration has an `embedding_size`. Without
    segments the first row of the table of segments counts for all tokens, if there is a table.
    """

    def __init__(self, config: EncoderConfig, seed: int):
        """Creates the layer without its variables."""
        super().__init__(config, seed, bert_layer_norm(config), config.hidden_dropout_prob)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the tables and the layer norm."""
        super().build()
        self.token_type_embeddings_SH = None
        if rows := getattr(self.config, "type_vocab_size", 0):
            self.token_type_embeddings_SH = self._table("token_type_embeddings", rows)
        rows = self.config.max_position_embeddings
        self.position_embeddings = self._table("position_embeddings", rows)

    def _sums(self, input_ids_BL, segment_ids_BL):
        x_BLE = super()._sums(input_ids_BL, segment_ids_BL)
        if self.config.segments:
            segment_BLS = ops.one_hot(segment_ids_BL, self.config.segments, dtype="float32")
            x_BLE = x_BLE + ops.matmul(segment_BLS, self.token_type_embeddings_SH)
        elif self.token_type_embeddings_SH is not None:
            x_BLE = x_BLE + self.token_type_embeddings_SH[0]
        first = self.config.first_position
        return x_BLE + self.position_embeddings[first : first + ops.shape(input_ids_BL)[1]]


class Encoder(keras.Model):
    """What the encoders of all families have; the constructor creates every variable.

    A family's encoder sets `config`, `embeddings`, `encoder_layers` and `pooler`, which is None
    without one, and defines how its layers follow each other.

    Attributes:
      separator: id of the token behind each document of a row, across which no token attends; None,
        the default, where every token attends to the whole row.
      takes_any_length: whether one graph can be traced for all lengths of sequences.
    """

    separator: int | None = None
    takes_any_length = False

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables; the constructor of a family's encoder calls it."""
        for part, width in self._parts():
            part.build((None, width))
        with keras.name_scope("encoder"):
            for layer in self.encoder_layers:
                layer.build()
        if self.pooler:
            with keras.name_scope("pooler"):
                self.pooler.build((None, self.config.hidden_size))

    def _parts(self) -> list[tuple[keras.layers.Layer, int | None]]:
        """Returns what comes before the layers, each with the width of its input."""
        return [(self.embeddings, None)]

    @property
    def word_embeddings(self) -> keras.Variable:
        """The word embedding table [V, E], to which the masked-LM decoder is tied."""
        return self.embeddings.word_embeddings_VH

    def call(self, input_ids, input_mask, segment_ids, dropout_seed=None):
        """Encodes a batch.

        Args:
          input_ids: int32 or int64 [B, L], ids of tokens in [0, V).
          input_mask: int32 or int64 [B, L], 1 for tokens and 0 for padding.
          segment_ids: int32 or int64 [B, L], 0 for sentence A and 1 for sentence B.
          dropout_seed: integer [2], another for every step and replica; None switches dropout off.

        Returns:
          sequence_output [B, L, H] and pooled_output [B, H], in the policy's compute dtype; the
          second is None without a pooler.

        Raises:
          ValueError: L is more than the configuration's `longest_sequence`, or isn't static though
            the encoder needs that.
        """
        x_TH = self.encode(input_ids, input_mask, segment_ids, dropout_seed)
        sequence_BLH = ops.reshape(x_TH, (-1, ops.shape(input_ids)[1], self.config.hidden_size))
        return sequence_BLH, self.pooled(sequence_BLH, input_mask) if self.pooler else None

    @staticmethod
    def _make_pooler(config: EncoderConfig, seed: int) -> BertDense:
        """Returns the dense layer of the first token, without variables yet."""
        pooler_seed = fold_seed(seed, "pooler")
        return BertDense(config.hidden_size, config, pooler_seed, "dense", config.pooler_act)

    def pooled(self, sequence_BLH, input_mask_BL):
        """Returns what a classifier reads of whole sequences, [B, H]."""
        return self.pooler(sequence_BLH[:, 0])

    def of_tokens(self, x_TH):
        """Returns what a classifier reads of single tokens, [T, H]."""
        return x_TH

    def encode(
        self,
        input_ids,
        input_mask,
        segment_ids,
        dropout_seed=None,
        packing: Packing | None = None,
        last_layers: int = 1,
    ):
        """Returns the output of the last layers.

        Args:
          input_ids, input_mask, segment_ids, dropout_seed: see `call`.
          packing: rows of the tokens without padding; None computes the padding too.
          last_layers: number of last layers, whose outputs are put side by side; the embeddings
            count as the layer before the first.

        Returns:
          [T, last_layers * H]; with a packing, [C, last_layers * H].
        """
        self._check_length(input_ids)
        x = self.embeddings(
            ops.cast(input_ids, "int32"),
            ops.cast(segment_ids, "int32"),
            dropout_seed=dropout_seed,
            packing=packing,
        )
        document_BL = None
        if self.separator is not None:
            is_separator_BL = ops.cast(ops.equal(input_ids, self.separator), "int32")
            # The separator belongs to the document that it ends.
            document_BL = ops.cumsum(is_separator_BL, axis=1) - is_separator_BL
        outputs = self._outputs(x, input_mask, dropout_seed, packing, document_BL)
        return outputs[-1] if last_layers == 1 else ops.concatenate(outputs[-last_layers:], axis=-1)

    def _outputs(
        self, x, input_mask, dropout_seed, packing: Packing | None, document_BL=None
    ) -> list:
        """Returns the input of the first layer and the outputs of all, [T, H] each.

        Args:
          x: output of the embeddings.
          input_mask, dropout_seed, packing: see `encode`.
          document_BL: int32, the number of each token's document in its row; None if every token
            attends to the whole row.
        """
        raise NotImplementedError

    def _check_length(self, input_ids) -> None:
        length = input_ids.shape[1]
        limit = self.config.longest_sequence
        if length is None and not self.takes_any_length:
            raise ValueError("the sequence length must be static, but is unknown")
        if length is not None and length > limit:
            raise ValueError(
                f"the sequence length {length} is more than max_position_embeddings {limit}"
            )


class BertEncoder(Encoder):
    """The encoder of Devlin et al. 2019 and its pooler.

    Example:

    ```python
    encoder = BertEncoder(BertConfig(30522, **BERT_SIZES["tiny"]), seed=1)
    sequence_output, pooled_output = encoder(input_ids, input_mask, segment_ids)
    ```
    """

    takes_any_length = True

    def __init__(self, config: EncoderConfig, seed: int = 0, has_pooler: bool = True):
        """Creates the encoder and its variables.

        Args:
          config: sizes, activation and dropout rates.
          seed: seed of every initial weight; Keras's global seed has no influence.
          has_pooler: whether there is a pooler. A model that reads no pooled output has none, since
            weight decay alone would wear it away.
        """
        super().__init__(name=config.family)
        self.config = config
        self.embeddings = BertEmbeddings(config, seed)
        self.embeddings_project = None
        if config.projects_embeddings:
            name = "embeddings_project"
            self.embeddings_project = BertDense(config.hidden_size, config, seed, name)
        encoder_seed = fold_seed(seed, "encoder")
        self.encoder_layers = [
            BertLayer(config, encoder_seed, index) for index in range(self._distinct_layers)
        ]
        self.pooler = self._make_pooler(config, seed) if has_pooler else None
        self.build()

    @property
    def _distinct_layers(self) -> int:
        """Number of layers with separate variables."""
        return self.config.num_hidden_layers

    def _parts(self) -> list:
        project, width = self.embeddings_project, self.config.embedding_width
        return [*super()._parts(), *([(project, width)] if project else [])]

    def _outputs(
        self, x, input_mask, dropout_seed, packing: Packing | None, document_BL=None
    ) -> list:
        score_bias_B11L = score_bias(input_mask, ops.shape(input_mask)[1], document_BL)
        outputs = [self.embeddings_project(x) if self.embeddings_project else x]
        for layer, seed in self._steps(dropout_seed):
            outputs.append(layer(outputs[-1], score_bias_B11L, dropout_seed=seed, packing=packing))
        return outputs

    def _steps(self, dropout_seed) -> list:
        """Returns each layer in its order, with the seed of its dropout."""
        return [(layer, dropout_seed) for layer in self.encoder_layers]


class SharedLayerEncoder(BertEncoder):
    """An encoder that applies one layer again and again (Lan et al. 2019, section 3.1)."""

    @property
    def _distinct_layers(self) -> int:
        return 1

    def _steps(self, dropout_seed) -> list:
        (layer,) = self.encoder_layers
        if dropout_seed is None:
            return [(layer, None)] * self.config.num_hidden_layers
        # Sites are added to the first word. So each application has the sites that a layer of its
        # own would have.
        first, second = ops.cast(dropout_seed[0], "int32"), ops.cast(dropout_seed[1], "int32")
        return [
            (layer, ops.stack([first + SITES_OF_LAYER * index, second]))
            for index in range(self.config.num_hidden_layers)
        ]
