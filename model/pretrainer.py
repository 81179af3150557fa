"""An encoder with its pre-training heads (Devlin et al. 2019, section 3.1).

Shape suffixes: B batch, L sequence length, T = B * L, H hidden size, E width of the embeddings,
P predictions per sequence, V vocabulary size; C rows for tokens and K rows for predictions, both
without padding, or K = B * P.
"""

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.families.table import family_of
from beambert.model.layers import BertDense, bert_layer_norm, fold_seed
from beambert.model.objectives import BERT, PAIR_TASKS
from beambert.model.unpadding import Capacity, Packing


def flat_positions(positions_BP: keras.KerasTensor, length: int) -> keras.KerasTensor:
    """Returns b * L + l for the positions l in each sequence b of length L, int32 [B * P]."""
    positions_BP = ops.cast(positions_BP, "int32")
    starts_B1 = ops.arange(ops.shape(positions_BP)[0], dtype="int32")[:, None] * length
    return ops.reshape(positions_BP + starts_B1, (-1,))


class MaskedLMHead(keras.layers.Layer):
    """Scores the vocabulary at the masked positions; its matrix is the word embedding table."""

    def __init__(self, config: EncoderConfig, seed: int, name: str = "predictions"):
        """Creates the layer without its variables."""
        super().__init__(name=name)
        self.config = config
        seed = fold_seed(fold_seed(seed, name), "transform")
        activation = config.head_act or config.hidden_act
        self.dense = BertDense(config.embedding_width, config, seed, "dense", activation)
        self.layer_norm = bert_layer_norm(config)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the transform and the output bias."""
        with keras.name_scope("transform"):
            self.dense.build((None, self.config.hidden_size))
            self.layer_norm.build((None, self.config.embedding_width))
        self.output_bias_V = self.add_weight(
            name="output_bias", shape=(self.config.vocab_size,), initializer="zeros", autocast=False
        )

    def call(self, x_KH, word_embeddings_VE):
        """Returns float32 logits [K, V] of the vectors at the predicted positions."""
        return tied_logits(self, self.layer_norm(self.dense(x_KH)), word_embeddings_VE)


def tied_logits(head, x_KE, word_embeddings_VE):
    """Returns float32 logits [K, V]: products with the embeddings, and the head's output bias."""
    table_EV = ops.transpose(ops.cast(word_embeddings_VE, head.compute_dtype))
    return ops.cast(ops.matmul(x_KE, table_EV), "float32") + head.output_bias_V


class NextSentenceHead(BertDense):
    """Scores "is next" (0) against "random" (1), or "in order" against "swapped", for a pair."""

    def __init__(self, config: EncoderConfig, seed: int, name: str = "seq_relationship"):
        """Creates the layer without its variables."""
        super().__init__(2, config, seed, name=name)

    def call(self, pooled_BH):
        """Returns float32 logits [B, 2]."""
        return ops.cast(super().call(pooled_BH), "float32")


class BertPretrainer(keras.Model):
    """Masked-LM and next-sentence logits; the constructor creates every variable.

    Attributes:
      encoder: the encoder.
      masked_lm_head: head of masked LM.
      pair_task: what is predicted of a record's two segments, one of the values of `PAIR_TASKS`;
        None of an objective without.
      pair_head: head of it, as that of next sentence prediction; None likewise.

    Example:

    ```python
    model = BertPretrainer(BertConfig(30522, **BERT_SIZES["tiny"]), seed=1)
    logits = model(features, dropout_seed=keras.ops.convert_to_tensor([step, replica]))
    model.encoder.save_weights("encoder.weights.h5")
    ```
    """

    def __init__(self, config: EncoderConfig, seed: int = 0, objective: str = BERT):
        """Creates the model and its variables.

        Args:
          config: sizes, activation and dropout rates of an encoder of any family.
          seed: seed of every initial weight; the encoder is as `BertEncoder(config, seed)`.
          objective: one of the family's, but not `RTD`. `MLM` has no pooler and no head but that of
            masked LM (Liu et al. 2019, arXiv 1907.11692, section 4.2).
        """
        super().__init__(name="bert_pretrainer")
        self.config = config
        family = family_of(config)
        self.pair_task = PAIR_TASKS.get(objective)
        self.encoder = family.encoder(config, seed, has_pooler=bool(self.pair_task))
        heads_seed = fold_seed(seed, "cls")
        self.masked_lm_head = family.masked_lm_head(config, heads_seed)
        self.pair_head = None
        if self.pair_task:
            # The original release's name of the head.
            name = "seq_relationship" if objective == BERT else self.pair_task
            self.pair_head = NextSentenceHead(config, heads_seed, name)
        # In `build` the variables' paths would start with this model's name.
        with keras.name_scope("cls"):
            self.masked_lm_head.build()
            if self.pair_head:
                self.pair_head.build((None, config.hidden_size))
        self.built = True

    def call(self, features, dropout_seed=None):
        """Computes the logits of a batch of pre-training records.

        Args:
          features: `input_ids`, `input_mask` and `segment_ids` [B, L] as in `BertEncoder`, and
            `masked_lm_positions` [B, P], all int32 or int64; other keys are ignored.
          dropout_seed: integer [2], another for every step and replica; None switches dropout off.

        Returns:
          `masked_lm_logits` float32 [B, P, V]; of an objective with a pair task,
          `<pair_task>_logits` float32 [B, 2]; and `hidden_states` [T, H], the encoder's output.
        """
        inputs = (features["input_ids"], features["input_mask"], features["segment_ids"])
        positions_BP = features["masked_lm_positions"]
        length, predictions = inputs[0].shape[1], positions_BP.shape[1]
        x_TH = self.encoder.encode(*inputs, dropout_seed)
        logits = self._logits(x_TH, flat_positions(positions_BP, length), x_TH[::length])
        logits_KV = logits["masked_lm_logits"]
        shape = (-1, predictions, self.config.vocab_size)
        return logits | {"masked_lm_logits": ops.reshape(logits_KV, shape)}

    def packed_logits(self, features, capacity: Capacity, dropout_seed=None):
        """Computes the same logits without the padding of sequences and of predictions.

        Args:
          features: as in `call`, and `masked_lm_weights` [B, P], 0 for padding; B is static.
          capacity: numbers of rows, at least the tokens and predictions of the batch.
          dropout_seed: as in `call`.

        Returns:
          `masked_lm_logits` float32 [K, V], where K is `Capacity.predictions`; `prediction_slots`
          int32 [K], the slot b * P + p of each row, with the unused slots last;
          `<pair_task>_logits` float32 [B, 2], if there is the head; and `hidden_states` [C, H].
        """
        inputs = (features["input_ids"], features["input_mask"], features["segment_ids"])
        batch, length = inputs[0].shape
        packing = Packing.of(inputs[1], capacity.tokens)
        is_used_BP = ops.cast(features["masked_lm_weights"] > 0, "int32")
        slots_K = Packing.of(is_used_BP, capacity.predictions).positions_C
        x_CH = self.encoder.encode(*inputs, dropout_seed, packing)
        positions_K = ops.take(flat_positions(features["masked_lm_positions"], length), slots_K)
        first_CH = ops.take(x_CH, packing.rows_T[: batch * length : length], axis=0)
        logits = self._logits(x_CH, ops.take(packing.rows_T, positions_K), first_CH)
        return logits | {"prediction_slots": slots_K}

    def masked_lm_logits(self, x_TH, rows_K):
        """Returns the logits of tokens, float32 [K, V], for some rows of the encoder's output."""
        table_VH = ops.convert_to_tensor(self.encoder.word_embeddings)
        x_KH = self.encoder.of_tokens(ops.take(x_TH, rows_K, axis=0))
        return self.masked_lm_head(x_KH, table_VH)

    def _logits(self, x_TH, rows_K, first_BH):
        """Applies the masked-LM head to some rows, and the other head to each sequence's first."""
        logits = {"masked_lm_logits": self.masked_lm_logits(x_TH, rows_K), "hidden_states": x_TH}
        if self.pair_head:
            logits[f"{self.pair_task}_logits"] = self.pair_head(self.encoder.pooler(first_BH))
        return logits
