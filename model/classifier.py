"""An encoder with a layer for a task on its pooled output, or on every token's output.

Shape suffixes: B batch, L sequence length, T = B * L, H hidden size, C labels.
"""

import dataclasses

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.families.table import family_of
from beambert.model.layers import SITES_OF_LAYER, BertDense, dropout
from beambert.model.sentence_encoder import MEAN

# This rate does not depend on the encoder's (`create_model` in the original run_classifier.py).
CLASSIFIER_DROPOUT = 0.1
# Number of last layers whose outputs, side by side, are the features of a frozen encoder. Four are
# the best of those that the paper tried (table 7).
FEATURE_LAYERS = 4


@dataclasses.dataclass(frozen=True)
class Head:
    """What is on top of the encoder, before the layer that gives the logits.

    Attributes:
      freeze_encoder: whether to train only the head. Its input is then the outputs of the encoder's
        last layers.
      window_length: number of tokens in a window of a document; None if each document is one
        sequence.
      pooling: what is taken of the tokens for the vector of a document, `mean` or `cls`; other
        models do not read it.
    """

    freeze_encoder: bool = False
    window_length: int | None = None
    pooling: str = MEAN


PLAIN_HEAD = Head()


class _TaskModel(keras.Model):
    """An encoder and its head; the constructor creates every variable."""

    def __init__(self, name: str, config: EncoderConfig, num_labels: int, seed: int, head: Head):
        super().__init__(name=name)
        self.config = config
        self.encoder = family_of(config).encoder(config, seed)
        self.encoder.trainable = not head.freeze_encoder
        self.feature_layers = min(FEATURE_LAYERS, config.num_hidden_layers)
        width = config.hidden_size * (self.feature_layers if head.freeze_encoder else 1)
        self.classifier = BertDense(num_labels, config, seed, name="classifier")
        self.classifier.build((None, width))
        self.head_dropout = CLASSIFIER_DROPOUT
        self.built = True

    def _head_inputs(self, inputs, dropout_seed):
        """Returns what the last layer reads of every token, [B, L, width].

        Of a frozen encoder they are its last layers side by side, without dropout.
        """
        if self.encoder.trainable:
            x_TF = self.encoder.of_tokens(self.encoder.encode(*inputs, dropout_seed))
        else:
            x_TF = self.encoder.encode(*inputs, last_layers=self.feature_layers)
            x_TF = ops.stop_gradient(x_TF)
        return ops.reshape(x_TF, (-1, inputs[0].shape[1], x_TF.shape[-1]))

    def _logits(self, x, dropout_seed):
        # No encoder uses this site.
        site = SITES_OF_LAYER * self.config.num_hidden_layers + 1
        x = dropout(x, self.head_dropout, dropout_seed, site)
        return ops.cast(self.classifier(x), "float32")


def _inputs(features):
    return features["input_ids"], features["input_mask"], features["segment_ids"]


class BertClassifier(_TaskModel):
    """Logits of a sentence or a pair (Devlin et al. 2019, section 4.1).

    With one label, the logit is the value of a regression or the score of a choice (section 4.4).

    A document may have several windows. Its logits are then the mean of theirs, which is the layer
    on top of the mean of their pooled outputs: the hierarchical method with mean pooling of Sun et
    al. 2019 (How to fine-tune BERT for text classification, arXiv 1905.05583).
    """

    def __init__(
        self,
        config: EncoderConfig,
        num_labels: int,
        seed: int = 0,
        head: Head = PLAIN_HEAD,
    ):
        """Creates the model and its variables.

        Args:
          config: sizes, activation and dropout rates.
          num_labels: number of logits C.
          seed: seed of every initial weight; the encoder is as `BertEncoder(config, seed)`.
          head: what is on top of the encoder.
        """
        super().__init__("bert_classifier", config, num_labels, seed, head)
        self.window_length = head.window_length

    def call(self, features, dropout_seed=None):
        """Computes the logits of a batch.

        Args:
          features: `input_ids`, `input_mask` and `segment_ids`, int32 or int64 [B, L], as in
            `BertEncoder`; other keys are ignored. With a window length, the windows of a
            document are end to end in its row, all but the last full. L that is not static must be
            a multiple of the window length.
          dropout_seed: integer [2], another for every step and replica; None switches dropout off.

        Returns:
          float32 logits [B, C].
        """
        inputs, width = _inputs(features), self.window_length
        length = inputs[0].shape[1]
        if width is None or (length is not None and length <= width):
            return self._logits_of_sequences(inputs, dropout_seed)
        if length is not None and length % width:
            inputs = [ops.pad(x, [[0, 0], [0, -length % width]]) for x in inputs]
        # W is the number of windows of all documents.
        folded = [ops.reshape(x, (-1, width)) for x in inputs]
        logits_WC = self._logits_of_sequences(folded, dropout_seed)
        is_window = ops.cast(ops.any(folded[1] > 0, axis=1), "float32")
        documents = ops.shape(inputs[0])[0]
        weights = ops.reshape(is_window, (documents, -1, 1))
        logits = ops.reshape(logits_WC, (documents, -1, logits_WC.shape[-1]))
        return ops.sum(weights * logits, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1.0)

    def _logits_of_sequences(self, inputs, dropout_seed):
        if self.encoder.trainable:
            _, x_BH = self.encoder(*inputs, dropout_seed=dropout_seed)
        else:
            x_BH = self._head_inputs(inputs, dropout_seed)[:, 0]
        return self._logits(x_BH, dropout_seed)


class BertTokenClassifier(_TaskModel):
    """Logits of every token (Devlin et al. 2019, sections 4.2 and 5.3).

    For spans there are two labels, the start and the end.
    """

    def __init__(
        self,
        config: EncoderConfig,
        num_labels: int,
        seed: int = 0,
        head: Head = PLAIN_HEAD,
        head_dropout: float = CLASSIFIER_DROPOUT,
    ):
        """Creates the model and its variables.

        Args:
          config, num_labels, seed, head: as `BertClassifier`; there are no windows.
          head_dropout: dropout rate before the layer on top; 0 for spans (`create_model` in
            run_squad.py).
        """
        super().__init__("bert_token_classifier", config, num_labels, seed, head)
        self.head_dropout = head_dropout

    def call(self, features, dropout_seed=None):
        """Returns float32 logits [B, L, C]; arguments as `BertClassifier.call`."""
        return self._logits(self._head_inputs(_inputs(features), dropout_seed), dropout_seed)
