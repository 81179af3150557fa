"""An encoder that makes embeddings of texts, in batches of about equal length.

Shape suffixes: B batch, L sequence length, H hidden size, K number of last layers.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from keras import ops

from beambert import storage
from beambert.errors import InputError, check_list
from beambert.model.encoder import Encoder
from beambert.model.families.table import family_of
from beambert.model.sentence_encoder import pool
from beambert.model_files import PRETRAINING, TRAINING_FILE, weights_sha256
from beambert.pipelines.tokenizers.encoding import SubwordTokenizer, make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.pipelines.tokenizers.wordpiece import Tokenizer
from beambert.trainer import model_folders
from beambert.trainer.embedding.sentence_folders import (
    LEAST_LENGTH,
    SentenceSettings,
    read_settings,
)
from beambert.trainer.models import task_model
from beambert.trainer.weights.initial import open_initial

# Greatest number of tokens that are computed at once. Of 512, 1,024, 2,048 and 4,096, the third was
# the fastest on two cores with an encoder 384 wide.
BATCH_TOKENS = 2048
# Lengths of sequences are multiples of this for an encoder that needs a graph for each length, so
# that there are few graphs and little padding.
LENGTH_STEP = 8

# Type of a function that is called after each batch with the numbers that are done and in all.
Report = Callable[[int, int], None]


def no_report(done: int, total: int) -> None:
    """Reports nothing."""


@dataclasses.dataclass(frozen=True)
class Embedder:
    """An encoder with its tokenizer and its pooling.

    Attributes:
      path: path as it was given.
      sha256: hash of the encoder's weights.
      encoder: the encoder.
      vocabulary: vocabulary of its ids.
      tokenizer: tokenizer that goes with it.
      settings: how it makes embeddings; `max_seq_length` is a number.
    """

    path: str
    sha256: str
    encoder: Encoder
    vocabulary: Vocabulary
    tokenizer: Tokenizer | SubwordTokenizer
    settings: SentenceSettings

    @property
    def width(self) -> int:
        """Number of components of an embedding."""
        return self.encoder.config.hidden_size

    def token_ids(self, texts: Sequence[str]) -> tuple[list[np.ndarray], int]:
        """Returns the ids of each text between [CLS] and [SEP], int32 [tokens] each.

        Texts that are too long are cut at the end.

        Returns:
          the ids, and the number of texts that were cut.
        """
        special, most = self.vocabulary.special, self.settings.max_seq_length - 2
        if self.settings.lowers:
            texts = [text.lower() for text in texts]
        ids, lengths = self.tokenizer.tokenize_batch([self.settings.prefix + t for t in texts])
        rows = []
        for start, length in zip(np.cumsum(lengths) - lengths, lengths, strict=True):
            row = np.empty(min(length, most) + 2, np.int32)
            row[0], row[-1] = special.classify, special.separate
            row[1:-1] = ids[start : start + min(length, most)]
            rows.append(row)
        return rows, int((lengths > most).sum())

    def embed(self, texts: Sequence[str], report: Report = no_report) -> tuple[np.ndarray, int]:
        """Returns the embeddings, float32 [texts, H], and the number of texts that were cut.

        Raises:
          InputError: an embedding has a component that is no finite number.
        """
        rows, cut = self.token_ids(texts)
        found = np.empty((len(rows), self.width), np.float32)
        done = 0
        for batch in batches_by_length([len(row) for row in rows]):
            found[batch] = self._embed_rows([rows[number] for number in batch])
            done += len(batch)
            report(done, len(rows))
        if not np.isfinite(found).all():
            raise InputError(
                f"--model={self.path}: makes embeddings that are no finite numbers; copy its "
                "weights again or take others"
            )
        return found, cut

    def _embed_rows(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        length = max(map(len, rows))
        if not self.encoder.takes_any_length:
            length = rounded_length(length, self.settings.max_seq_length)
        ids_BL = np.full((len(rows), length), self.vocabulary.special.padding, np.int32)
        mask_BL = np.zeros_like(ids_BL)
        for number, row in enumerate(rows):
            ids_BL[number, : len(row)] = row
            mask_BL[number, : len(row)] = 1
        return self._graph_of(length)(tf.constant(ids_BL), tf.constant(mask_BL)).numpy()

    @functools.cached_property
    def _graphs(self) -> dict[int | None, Callable[..., tf.Tensor]]:
        return {}

    def _graph_of(self, length: int) -> Callable[..., tf.Tensor]:
        """Returns the graph for sequences of a length, which takes batches of any size."""
        key = None if self.encoder.takes_any_length else length
        if key not in self._graphs:
            of_batch = tf.TensorSpec([None, key], tf.int32)
            function = tf.function(self.vectors, autograph=False)
            self._graphs[key] = function.get_concrete_function(of_batch, of_batch)
        return self._graphs[key]

    def vectors(self, ids_BL: tf.Tensor, mask_BL: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings of ids and their mask, float32 [B, H]; int32 [B, L] each."""
        pooling, length = self.settings.pooling, ops.shape(ids_BL)[1]
        states = self.encoder.encode(
            ids_BL, mask_BL, tf.zeros_like(ids_BL), last_layers=pooling.last_layers
        )
        states_BLKH = ops.reshape(states, (-1, length, pooling.last_layers, self.width))
        return pool(states_BLKH, mask_BL, pooling)


def batches_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yields the numbers of the sequences of each batch, the longest first.

    Args:
      lengths: number of tokens of each sequence.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable").tolist()
    while order:
        # The first one is the longest, which all others of its batch are padded to.
        count = max(1, BATCH_TOKENS // lengths[order[0]])
        yield order[:count]
        order = order[count:]


def rounded_length(length: int, most: int) -> int:
    """Returns the length that sequences are padded to: a multiple of `LENGTH_STEP`, or `most`."""
    return min(-(-length // LENGTH_STEP) * LENGTH_STEP, most)


def open_embedder(path: str, flag: str = "--model") -> Embedder:
    """Opens a model folder, a folder of Hugging Face or sentence-transformers, or a TF1 checkpoint.

    Of a fine-tuned model, its encoder is taken.

    Args:
      path: path of the folder, or prefix of the checkpoint.
      flag: name of the flag that gave the path, for messages.

    Raises:
      InputError: the encoder cannot be read, or reads text from left to right.
    """
    settings = read_settings(path, flag)
    where = settings.encoder
    if storage.exists(f"{where}/{TRAINING_FILE}"):
        found = model_folders.open_model(where, flag)
        if found.training["kind"] != PRETRAINING:
            encoder, longest = task_model(found).encoder, found.training["max_seq_length"]
            sha256, lower = weights_sha256(where), found.do_lower_case
            return _embedder(
                path, flag, sha256, encoder, found.vocabulary, lower, settings, longest
            )
    initial = open_initial(where, flag)
    encoder = family_of(initial.config).encoder(initial.config, has_pooler=False)
    initial.load_into(encoder, flag)
    longest = initial.trained_positions or initial.config.longest_sequence
    return _embedder(
        path,
        flag,
        initial.sha256,
        encoder,
        initial.vocabulary,
        initial.do_lower_case,
        settings,
        longest,
    )


def _embedder(
    path: str,
    flag: str,
    sha256: str,
    encoder: Encoder,
    vocabulary: Vocabulary,
    do_lower_case: bool,
    settings: SentenceSettings,
    longest: int,
) -> Embedder:
    if encoder.config.is_decoder:
        raise InputError(
            f"{flag}={path}: reads text from left to right, so no token of it has read a whole "
            "text but the last; give an encoder of another --objective"
        )
    length = min(settings.max_seq_length or longest, encoder.config.longest_sequence)
    settings = dataclasses.replace(settings, max_seq_length=length)
    tokenizer = make_tokenizer(vocabulary, do_lower_case)
    return Embedder(path, sha256, encoder, vocabulary, tokenizer, settings)


def with_settings(
    embedder: Embedder,
    pooling: str | None = None,
    last_layers: int | None = None,
    normalize: bool | None = None,
    prefix: str | None = None,
    max_seq_length: int | None = None,
) -> Embedder:
    """Returns an embedder with other settings; None keeps what the folder says.

    Raises:
      InputError: the encoder has not as many layers or positions.
    """
    settings, config = embedder.settings, embedder.encoder.config
    of_pooling = {"mode": pooling, "last_layers": last_layers, "is_normalized": normalize}
    of_all = {"prefix": prefix, "max_seq_length": max_seq_length}
    given = {name: value for name, value in of_pooling.items() if value is not None}
    changed: dict[str, object] = {name: v for name, v in of_all.items() if v is not None}
    for flag, value, least, most, what in (
        ("--last_layers", last_layers, 1, config.num_hidden_layers, "layers"),
        ("--max_seq_length", max_seq_length, LEAST_LENGTH, config.longest_sequence, "positions"),
    ):
        if value is not None and not least <= value <= most:
            raise InputError(
                f"{flag}={value}: must be from {least} to {most:,}, the number of {what} of --model"
            )
    changed["pooling"] = dataclasses.replace(settings.pooling, **given)
    return dataclasses.replace(embedder, settings=dataclasses.replace(settings, **changed))


def embed(
    model: str,
    texts: Sequence[str],
    *,
    pooling: str | None = None,
    last_layers: int | None = None,
    normalize: bool | None = None,
    prefix: str | None = None,
    max_seq_length: int | None = None,
    report: Report = no_report,
) -> np.ndarray:
    """Returns an embedding of each text, float32 [texts, hidden size].

    Args:
      model: folder of an encoder or a fine-tuned model of this package, of Hugging Face or of
        sentence-transformers, or a TF1 checkpoint.
      texts: the texts; one that is too long is cut at its end.
      pooling: `mean` or `cls` (default: what the folder says, or else mean).
      last_layers: number of last layers that are averaged (default: 1).
      normalize: whether embeddings have the length 1 (default: what the folder says, or else not).
      prefix: what is put before each text (default: the folder's default prompt, or nothing).
      max_seq_length: greatest number of tokens of a text with [CLS] and [SEP] (default: what the
        folder says, or else what the encoder was trained on).
      report: called after each batch with the numbers of texts that are done and in all.

    Raises:
      InputError: the model cannot be used, or a text is none or blank.
    """
    check_list(texts, "texts")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str) or not text.strip():
            what = "is blank" if isinstance(text, str) else "is no text"
            raise InputError(
                f"{text!r:.40}: {what}, and stands at place {number:,}; correct it or leave it out"
            )
    embedder = with_settings(
        open_embedder(model), pooling, last_layers, normalize, prefix, max_seq_length
    )
    return embedder.embed(texts, report)[0]
