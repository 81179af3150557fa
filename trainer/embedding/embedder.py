"""Embeddings: an encoder with its pooling, from any kind of folder."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from beambert import io
from beambert.console import Report, no_report
from beambert.errors import InputError, check_list
from beambert.io import check_names
from beambert.model.encoder import Encoder
from beambert.model.families.table import family_of
from beambert.model.sentence_encoder import CLS, MEAN, MODES, Pooling, pool, unit
from beambert.model_files import PRETRAINING, TRAINING_FILE, weights_sha256
from beambert.pipelines.tokenizers.encoding import SubwordTokenizer, make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_CONFIG_FILE, Vocabulary
from beambert.pipelines.tokenizers.word_pieces import Tokenizer
from beambert.trainer import model_folders
from beambert.trainer.loop.engine import Engine, make_engine
from beambert.trainer.loop.objectives import Tensor
from beambert.trainer.models import task_model
from beambert.trainer.weights.config_files import CONFIG_FILES
from beambert.trainer.weights.initial import open_initial
from beambert.trainer.weights.tokenizer_files import (
    read_list,
    read_optional_json,
    transformers_tokenizer,
)

# The modules in their order, and the settings of the encoder's, of all, and of a module.
MODULES_FILE, ENCODER_FILE = "modules.json", "sentence_bert_config.json"
SETTINGS_FILE, MODULE_FILE = "config_sentence_transformers.json", "config.json"
# Names of classes of sentence-transformers, without their modules.
TRANSFORMER, POOLING, NORMALIZE = "Transformer", "Pooling", "Normalize"
# Setting of the class Pooling -> what it is here; its other settings have no counterpart.
MODES_THERE = {"pooling_mode_mean_tokens": MEAN, "pooling_mode_cls_token": CLS}
# Number of tokens of a text of one token, with [CLS] and [SEP].
LEAST_LENGTH = 3


@dataclasses.dataclass(frozen=True)
class SentenceSettings:
    """How a folder makes embeddings of texts.

    Attributes:
      encoder: folder of the encoder.
      pooling: what is made of the tokens.
      max_seq_length: greatest number of tokens; None if the folder says nothing.
      lowers: whether texts and the prefix are lower-cased before the tokenizer gets them.
      prefix: what is put before each text.
      truncate_dim: number of first components that an embedding keeps; None for all.
      scales_cut: whether what it keeps gets the length 1, as --normalize asks; the module Normalize
        scales the whole embedding.
    """

    encoder: str
    pooling: Pooling = Pooling()
    max_seq_length: int | None = None
    lowers: bool = False
    prefix: str = ""
    truncate_dim: int | None = None
    scales_cut: bool = False


def read_settings(path: str, flag: str) -> SentenceSettings:
    """Reads the settings of a folder; one that says nothing of embeddings has the defaults.

    Raises:
      InputError: a file is damaged, or a module has no counterpart here.
    """
    path = path.rstrip("/")
    if not io.exists(f"{path}/{MODULES_FILE}"):
        return _own_settings(path)
    name = f"{flag}={path}"
    modules = read_list(f"{path}/{MODULES_FILE}")
    try:
        kinds = [module["type"].rpartition(".")[2] for module in modules]
        folders = [f"{path}/{module['path']}".rstrip("/") for module in modules]
        check_names(module["path"] for module in modules if module["path"])
    except ValueError as error:
        raise InputError(f"{path}/{MODULES_FILE}: {error}; take another model") from error
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path}/{MODULES_FILE}: has a module without its type or path; copy it again"
        ) from error
    if kinds not in ([TRANSFORMER, POOLING], [TRANSFORMER, POOLING, NORMALIZE]):
        raise InputError(
            f"{name}: has the modules {', '.join(kinds)}, and only {TRANSFORMER}, {POOLING} and "
            f"{NORMALIZE} are supported, in this order; take another model"
        )
    mode = _mode(read_optional_json(f"{folders[1]}/{MODULE_FILE}"), name)
    encoder = read_optional_json(f"{folders[0]}/{ENCODER_FILE}")
    tokenizer = read_optional_json(f"{folders[0]}/{TOKENIZER_CONFIG_FILE}")
    # Newer folders have the length in the tokenizer's settings only.
    length = encoder.get("max_seq_length") or tokenizer.get("model_max_length")
    if length is not None and (not isinstance(length, int) or length < LEAST_LENGTH):
        raise InputError(
            f"{name}: reads {length!r:.40} tokens at most, and a text has at least {LEAST_LENGTH}; "
            "copy its files again"
        )
    settings = read_optional_json(f"{path}/{SETTINGS_FILE}")
    if (width := settings.get("truncate_dim")) is not None and (
        type(width) is not int or width < 1
    ):
        raise InputError(
            f"{name}: cuts embeddings to {width!r:.40} components (truncate_dim), which is not a "
            "number from 1 on; copy its files again"
        )
    return SentenceSettings(
        folders[0],
        Pooling(mode, is_normalized=NORMALIZE in kinds),
        length,
        bool(encoder.get("do_lower_case")),
        _prefix(settings, name),
        width,
    )


def settings_notes(init: str) -> list[str]:
    """Returns a sentence for each setting of a fine-tuning's encoder that the new model lacks."""
    settings, notes = read_settings(init, "--init"), []
    if prefix := settings.prefix:
        notes.append(
            f"--init={init}: puts {prefix!r} before each text by default, and the new model does "
            "not; write it before the texts of train and dev if it shall stay, and give it to "
            "`beambert embed` as --prefix"
        )
    if settings.truncate_dim:
        notes.append(
            f"--init={init}: cuts embeddings to {settings.truncate_dim:,} components "
            "(truncate_dim), and the new model makes whole ones"
        )
    return notes


def _own_settings(path: str) -> SentenceSettings:
    """Returns the settings of an embedding or a similarity model, or the defaults."""
    training = read_optional_json(f"{path}/{TRAINING_FILE}")
    if training.get("pooling") not in MODES:
        return SentenceSettings(path)
    return SentenceSettings(path, Pooling(training["pooling"], is_normalized=True))


def _mode(settings: Mapping[str, Any], name: str) -> str:
    """Returns the pooling that a folder's settings ask for."""
    modes = [setting for setting, is_on in settings.items() if is_on is True]
    modes = [setting for setting in modes if setting.startswith("pooling_mode_")]
    if "pooling_mode" in settings:  # Newer folders have its name in place of a setting for each.
        named = settings["pooling_mode"]
        modes = named if isinstance(named, list) else [named]
    known = MODES_THERE | {MEAN: MEAN, CLS: CLS}
    if len(modes) != 1 or modes[0] not in known:
        raise InputError(
            f"{name}: pools by {' and '.join(map(str, modes)) or 'nothing'}, and only the mean of "
            "the tokens or the first token is supported; take another model"
        )
    if settings.get("include_prompt", True) is not True:
        raise InputError(
            f"{name}: leaves the prefix out of the pooling (include_prompt), which is not "
            "supported; take another model"
        )
    return known[modes[0]]


def _prefix(settings: Mapping[str, Any], name: str) -> str:
    """Returns the prompt that a folder puts before texts if nothing else is asked for."""
    prompts, default = settings.get("prompts") or {}, settings.get("default_prompt_name")
    if default is None:
        return ""
    if not isinstance(prompts, dict) or not isinstance(prompts.get(default), str):
        raise InputError(
            f"{name}: has no prompt {default!r}, which its {SETTINGS_FILE} names; copy it again"
        )
    return prompts[default]


# Greatest number of tokens that are computed at once. Of 512, 1,024, 2,048 and 4,096, the third was
# the fastest on two cores with an encoder 384 wide.
BATCH_TOKENS = 2048


@dataclasses.dataclass(frozen=True)
class Embedder:
    """An encoder with its tokenizer and its pooling.

    Attributes:
      path: path as it was given.
      sha256: hash of the encoder's weights.
      encoder: the encoder.
      engine: what computes.
      vocabulary: vocabulary of its ids.
      tokenizer: tokenizer that goes with it.
      settings: how it makes embeddings; `max_seq_length` is a number.
    """

    path: str
    sha256: str
    encoder: Encoder
    engine: Engine
    vocabulary: Vocabulary
    tokenizer: Tokenizer | SubwordTokenizer
    settings: SentenceSettings

    @property
    def width(self) -> int:
        """Number of components of an embedding."""
        width = self.encoder.config.hidden_size
        return min(self.settings.truncate_dim or width, width)

    def token_ids(self, texts: Sequence[str]) -> tuple[list[np.ndarray], int]:
        """Returns the ids of each text between [CLS] and [SEP], int32 [tokens] each.

        Texts that are too long are cut at the end.

        Returns:
          the ids, and the number of texts that were cut.
        """
        special, most = self.vocabulary.special, self.settings.max_seq_length - 2
        texts = [self.settings.prefix + text for text in texts]
        if self.settings.lowers:
            texts = [text.lower() for text in texts]
        ids, lengths = self.tokenizer.tokenize_batch(texts)
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
          InputError: an embedding has a component that is not a finite number.
        """
        rows, cut = self.token_ids(texts)
        return self._embed_all(rows, report), cut

    def of_tokens(self, ids: Sequence[int]) -> np.ndarray:
        """Returns the embeddings of single tokens between [CLS] and [SEP], float32 [tokens, H]."""
        special = self.vocabulary.special
        framed = [np.array([special.classify, id, special.separate], np.int32) for id in ids]
        return self._embed_all(framed, no_report)

    def _embed_all(self, rows: Sequence[np.ndarray], report: Report) -> np.ndarray:
        found = np.empty((len(rows), self.width), np.float32)
        done, most = 0, self.settings.max_seq_length
        lengths = [len(row) for row in rows]
        for batch, length in batches_by_length(lengths, self.engine, self.encoder, most):
            some = [rows[number] for number in batch]
            found[batch] = self._vectors(*padded(some, self.vocabulary.special.padding, length))
            done += len(batch)
            report(done, len(rows))
        if not np.isfinite(found).all():
            raise InputError(
                f"--model={self.path}: makes embeddings that are no finite numbers; copy its "
                "weights again or take others"
            )
        return found

    @functools.cached_property
    def _vectors(self) -> Callable[..., np.ndarray]:
        return self.engine.function(self.vectors, self.encoder, self.encoder.takes_any_length)

    def vectors(self, ids_BL: Tensor, mask_BL: Tensor) -> Tensor:
        """Returns the embeddings of ids and their mask, float32 [B, H]; int32 [B, L] each."""
        states = self.encoder.encode(ids_BL, mask_BL, ops.zeros_like(ids_BL))
        x_BLH = ops.reshape(states, (-1, ops.shape(ids_BL)[1], self.encoder.config.hidden_size))
        vectors_BH = pool(x_BLH, mask_BL, self.settings.pooling)[:, : self.width]
        return unit(vectors_BH) if self.settings.scales_cut else vectors_BH


def batches_by_length(
    lengths: Sequence[int], engine: Engine, encoder: Encoder, most: int
) -> Iterator[tuple[list[int], int]]:
    """Yields the numbers of the sequences of each batch, the longest first, and its length.

    Args:
      lengths: number of tokens of each sequence.
      engine: what computes.
      encoder: the encoder.
      most: greatest length of a batch.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable").tolist()
    while order:
        # The first one is the longest, which all others of its batch are padded to.
        length = min(engine.rounded_length(lengths[order[0]], encoder.takes_any_length), most)
        count = max(1, BATCH_TOKENS // length)
        yield order[:count], length
        order = order[count:]


def padded(
    rows: Sequence[Sequence[int] | np.ndarray], padding: int, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids filled up to a length, and 1 for each that is not padding, int32 [B, L] each."""
    ids_BL = np.full((len(rows), length), padding, np.int32)
    mask_BL = np.zeros_like(ids_BL)
    for number, row in enumerate(rows):
        ids_BL[number, : len(row)] = row
        mask_BL[number, : len(row)] = 1
    return ids_BL, mask_BL


def open_embedder(path: str) -> Embedder:
    """Opens a model folder, a folder of Hugging Face or sentence-transformers, or a TF1 checkpoint.

    Of a fine-tuned model, its encoder is taken.

    Args:
      path: path of the folder, or prefix of the checkpoint; the value of --model.

    Raises:
      InputError: the encoder cannot be read.
    """
    flag = "--model"
    engine, settings = make_engine(), read_settings(path, flag)
    where, own = settings.encoder, None
    if io.exists(f"{where}/{TRAINING_FILE}"):
        own = model_folders.open_model(where, flag)
    if own is not None and own.training["kind"] != PRETRAINING:
        encoder, longest = task_model(own).encoder, own.training["max_seq_length"]
        vocabulary, sha256 = own.vocabulary, weights_sha256(where)
        tokenizer = make_tokenizer(vocabulary, own.do_lower_case)
    else:
        initial = open_initial(where, flag)
        vocabulary, sha256 = initial.vocabulary, initial.sha256
        encoder = family_of(initial.config).encoder(initial.config, has_pooler=False)
        initial.load_into(encoder, flag)
        longest = initial.trained_positions or initial.config.longest_sequence
        is_of_transformers = io.exists(f"{where}/{CONFIG_FILES[1]}")
        make = transformers_tokenizer if is_of_transformers else make_tokenizer
        tokenizer = make(vocabulary, initial.do_lower_case)
        if is_of_transformers and not getattr(vocabulary, "has_frame", True):
            raise InputError(
                f"{flag}={path}: its tokenizer does not put special tokens around a text as BERT's "
                "does, so that others' vectors would differ; give its tokenizer.json the "
                "post_processor that it was trained with"
            )
    length = min(settings.max_seq_length or longest, encoder.config.longest_sequence)
    settings = dataclasses.replace(settings, max_seq_length=length)
    return Embedder(path, sha256, encoder, engine, vocabulary, tokenizer, settings)


def with_settings(
    embedder: Embedder,
    pooling: str | None = None,
    normalize: bool | None = None,
    prefix: str | None = None,
    max_seq_length: int | None = None,
) -> Embedder:
    """Returns an embedder with other settings; None keeps what the folder says.

    Raises:
      InputError: the encoder has not as many positions.
    """
    settings, most = embedder.settings, embedder.encoder.config.longest_sequence
    of_pooling = {"mode": pooling, "is_normalized": normalize}
    of_all = {"prefix": prefix, "max_seq_length": max_seq_length}
    given = {name: value for name, value in of_pooling.items() if value is not None}
    changed: dict[str, object] = {name: v for name, v in of_all.items() if v is not None}
    if max_seq_length is not None and not LEAST_LENGTH <= max_seq_length <= most:
        raise InputError(
            f"--max_seq_length={max_seq_length}: must be from {LEAST_LENGTH} to {most:,}, the "
            "number of positions of --model"
        )
    changed["scales_cut"] = bool(normalize) and settings.truncate_dim is not None
    changed["pooling"] = dataclasses.replace(settings.pooling, **given)
    return dataclasses.replace(embedder, settings=dataclasses.replace(settings, **changed))


def embed(
    model: str,
    texts: Sequence[str],
    *,
    pooling: str | None = None,
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
    embedder = with_settings(open_embedder(model), pooling, normalize, prefix, max_seq_length)
    return embedder.embed(texts, report)[0]
