"""BERT with its two pre-training heads.

Shape suffixes: B batch, L sequence length, H hidden size, P predictions per sequence, V vocabulary.
"""

import keras
from keras import ops

from model.config import BertConfig
from model.encoder import BertEncoder
from model.heads import MaskedLMHead, NextSentenceHead
from model.initialization import fold_seed


class BertPretrainer(keras.Model):
    """Masked-LM and next-sentence logits; every variable exists once constructed.

    Example:

    ```python
    model = BertPretrainer(preset("tiny"), seed=1)
    logits = model(features, dropout_seed=keras.ops.convert_to_tensor([step, replica]))
    model.encoder.save_weights("encoder.weights.h5")
    ```
    """

    def __init__(self, config: BertConfig, seed: int = 0):
        """Creates the model and its variables.

        Args:
          config: sizes, activation and dropout rates.
          seed: decides every initial weight; the encoder's are `BertEncoder(config, seed)`'s.
        """
        super().__init__(name="bert_pretrainer")
        self.config = config
        self.encoder = BertEncoder(config, seed)
        heads_seed = fold_seed(seed, "cls")
        self.masked_lm_head = MaskedLMHead(config, heads_seed)
        self.next_sentence_head = NextSentenceHead(config, heads_seed)
        # Not in build, where the variables' paths would start with this model's name.
        with keras.name_scope("cls"):
            self.masked_lm_head.build()
            self.next_sentence_head.build((None, config.hidden_size))
        self.built = True

    def call(self, features, dropout_seed=None):
        """Computes the logits of a batch of pre-training records.

        Args:
          features: `input_ids`, `input_mask` and `segment_ids` [B, L] as in `BertEncoder`, and
            `masked_lm_positions` [B, P], all int32 or int64; other keys are ignored.
          dropout_seed: integer [2], new for every step and replica; None switches dropout off.

        Returns:
          `masked_lm_logits` float32 [B, P, V] and `next_sentence_logits` float32 [B, 2].
        """
        sequence_BLH, pooled_BH = self.encoder(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
            dropout_seed=dropout_seed,
        )
        return {
            "masked_lm_logits": self.masked_lm_head(
                sequence_BLH,
                features["masked_lm_positions"],
                ops.convert_to_tensor(self.encoder.word_embeddings),
            ),
            "next_sentence_logits": self.next_sentence_head(pooled_BH),
        }
