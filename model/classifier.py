"""BERT with a classification layer on the pooled output.

Shape suffixes: B batch, L sequence length, H hidden size, C labels.
"""

import keras
from keras import ops

from model.config import BertConfig
from model.dropout import dropout
from model.encoder import BertDense, BertEncoder

# Fixed, whatever the encoder's rates (`create_model` in the original run_classifier.py).
CLASSIFIER_DROPOUT = 0.1


class BertClassifier(keras.Model):
    """Class logits of a sentence or a pair (Devlin et al. 2019, section 4.1).

    Every variable exists once constructed.
    """

    def __init__(self, config: BertConfig, num_labels: int, seed: int = 0):
        """Creates the model and its variables.

        Args:
          config: sizes, activation and dropout rates.
          num_labels: number of classes C, at least 2.
          seed: decides every initial weight; the encoder's are `BertEncoder(config, seed)`'s.

        Raises:
          ValueError: `num_labels` is less than 2.
        """
        if num_labels < 2:
            raise ValueError(f"num_labels must be at least 2, but is {num_labels}.")
        super().__init__(name="bert_classifier")
        self.config = config
        self.encoder = BertEncoder(config, seed)
        self.classifier = BertDense(num_labels, config, seed, name="classifier")
        self.classifier.build((None, config.hidden_size))
        self.built = True

    def call(self, features, dropout_seed=None):
        """Computes the logits of a batch.

        Args:
          features: `input_ids`, `input_mask` and `segment_ids`, int32 or int64 [B, L], as in
            `BertEncoder`; other keys are ignored.
          dropout_seed: integer [2], new for every step and replica; None switches dropout off.

        Returns:
          float32 logits [B, C].
        """
        _, pooled_BH = self.encoder(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
            dropout_seed=dropout_seed,
        )
        # The encoder's sites are 0 to 3 * layers.
        site = 3 * self.config.num_hidden_layers + 1
        pooled_BH = dropout(pooled_BH, CLASSIFIER_DROPOUT, dropout_seed, site)
        return ops.cast(self.classifier(pooled_BH), "float32")
