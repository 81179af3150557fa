"""An autoencoder that learns vectors of documents: TSDAE (Wang et al. 2021, arXiv 2104.06979).

A decoder must write a document again, of which it sees nothing but the vector that the encoder made
of some of its words. Its layers and embeddings are the encoder's.

Shape suffixes: B batch, L sequence length, T = B * L, H hidden size, V vocabulary size.
"""

import dataclasses

import keras
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.families.table import family_of
from beambert.model.layers import (
    SITES_OF_LAYER,
    BertDense,
    BertSublayerOutput,
    fold_seed,
    score_bias,
)
from beambert.model.sentence_encoder import SentenceEncoder

# The seeds of the decoder's dropout differ by this from the encoder's, which has the same sites.
_DECODER_SEED_STRIDE = 15_485_863


class SentenceAttention(keras.layers.Layer):
    """Attention of a decoder's tokens to one vector, with its output sublayer.

    The weight of the only key is 1 whatever the query is, so that there are neither queries nor
    keys.
    """

    def __init__(self, config: EncoderConfig, seed: int, index: int):
        """Creates the layer for layer `index` of the encoder, counted from 0."""
        super().__init__(name="crossattention")
        seed = fold_seed(fold_seed(seed, self.name), str(index))
        # No other dropout of the decoder has the site.
        site = SITES_OF_LAYER * config.num_hidden_layers + 2 + index
        rate = config.hidden_dropout_prob
        self.config = config
        self.value = BertDense(config.hidden_size, config, seed, name="value")
        self.sublayer_output = BertSublayerOutput(config, seed, site, config.hidden_size, rate)

    def build(self, input_shape: tuple | None = None) -> None:
        """Creates the variables of the parts."""
        with keras.name_scope("self"):
            self.value.build((None, self.config.hidden_size))
        self.sublayer_output.build()

    def call(self, x_TH, vectors_BH, length: int, dropout_seed=None):
        """Returns x_TH after the attention of each token to the vector of its document."""
        context_TH = ops.repeat(self.value(vectors_BH), length, axis=0)
        return self.sublayer_output(context_TH, x_TH, dropout_seed=dropout_seed)


class DenoisingAutoencoder(keras.Model):
    """A sentence encoder of BERT with a decoder around it, for the training alone.

    Attributes:
      sentence_encoder: the model that is kept.
    """

    def __init__(self, sentence_encoder: SentenceEncoder, seed: int = 0):
        """Creates the variables that the decoder has besides the encoder's.

        Args:
          sentence_encoder: encoder whose layers are the decoder's, too.
          seed: seed of every initial weight.
        """
        super().__init__(name="denoising_autoencoder")
        config = sentence_encoder.config
        self.sentence_encoder = sentence_encoder
        # The length of a vector may give the decoder information; see `SentenceEncoder.vectors`.
        self.pooling = dataclasses.replace(sentence_encoder.pooling, is_normalized=False)
        layers = range(config.num_hidden_layers)
        self.attentions = [SentenceAttention(config, seed, index) for index in layers]
        for index, attention in enumerate(self.attentions):
            with keras.name_scope("decoder"), keras.name_scope(f"layer_{index}"):
                attention.build()
        # Its weights may come from the pre-training.
        self.head = family_of(config).masked_lm_head(config, fold_seed(seed, "cls"))
        with keras.name_scope("cls"):
            self.head.build()
        self.built = True

    def call(self, features, dropout_seed=None):
        """Returns the vectors of documents, float32 [B, H], see `SentenceEncoder`."""
        return self.sentence_encoder(features, dropout_seed=dropout_seed)

    def logits(self, noisy, features, dropout_seed=None):
        """Returns the logits of the token behind each position, float32 [B, L, V].

        Args:
          noisy: features of what is left of the documents, which the encoder reads.
          features: `input_ids`, `input_mask` and `segment_ids` of the whole documents, int32 [B,
            L]; at each position the decoder has read the tokens up to it.
          dropout_seed: integer [2], another for every step and replica; None switches dropout off.
        """
        encoder = self.sentence_encoder.encoder
        vectors_BH = self.sentence_encoder.vectors(noisy, dropout_seed, self.pooling)
        vectors_BH = ops.cast(vectors_BH, encoder.compute_dtype)
        if dropout_seed is not None:
            dropout_seed = dropout_seed + ops.stack([_DECODER_SEED_STRIDE, 0])
        length = features["input_ids"].shape[1]
        bias = score_bias(features["input_mask"], length, is_decoder=True)
        ids, segments = features["input_ids"], features["segment_ids"]
        x_TH = encoder.embeddings(ids, segments, dropout_seed=dropout_seed)
        for layer, attention in zip(encoder.encoder_layers, self.attentions, strict=True):
            x_TH = layer.attention(x_TH, bias, dropout_seed=dropout_seed)
            x_TH = attention(x_TH, vectors_BH, length=length, dropout_seed=dropout_seed)
            x_TH = layer.feed_forward(x_TH, dropout_seed=dropout_seed)
        logits_TV = self.head(x_TH, ops.convert_to_tensor(encoder.word_embeddings))
        return ops.reshape(logits_TV, (-1, length, self.sentence_encoder.config.vocab_size))
