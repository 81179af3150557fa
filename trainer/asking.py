"""Predictions of an encoder at [MASK], and pseudo-log-likelihoods of texts."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from beambert.console import Report, further, no_report
from beambert.errors import InputError, check_list
from beambert.model.families.table import family_of
from beambert.model.objectives import RTD
from beambert.model.pretrainer import BertPretrainer, flat_positions
from beambert.model.shapes import variable_shapes
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.tokenizers.encoding import SubwordTokenizer, make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import MASK, Vocabulary
from beambert.pipelines.tokenizers.word_pieces import Tokenizer
from beambert.trainer.embedding.embedder import batches_by_length, padded
from beambert.trainer.loop.engine import Engine, make_engine
from beambert.trainer.weights.initial import open_initial

# Beginning of the paths of the head's variables.
MASKED_LM_HEAD = "cls/predictions/"


@dataclasses.dataclass(frozen=True)
class AskedEncoder:
    """An encoder that can be asked.

    Attributes:
      model: the model with its head.
      engine: what computes.
      vocabulary: vocabulary of its ids.
      tokenizer: tokenizer that goes with it.
      ids: its special ids.
      longest: greatest number of tokens that it reads; positions behind them are untrained.
    """

    model: BertPretrainer
    engine: Engine
    vocabulary: Vocabulary
    tokenizer: Tokenizer | SubwordTokenizer
    ids: TokenIds
    longest: int

    def tokenize(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each text, int32 [tokens]; every "[MASK]" is the id of a mask.

        So is the mask of the encoder's own tokenizer, such as "<mask>".

        Raises:
          InputError: a text has no tokens.
        """
        if isinstance(self.tokenizer, SubwordTokenizer):
            masked = [text.replace(MASK, self.mask) for text in texts]
            found = [self.tokenizer.tokenize_with_masks(text) for text in masked]
        else:
            parts = [text.split(MASK) for text in texts]
            ids, lengths = self.tokenizer.tokenize_batch([part for all_ in parts for part in all_])
            pieces = iter(np.split(ids, np.cumsum(lengths)[:-1]))
            found = []
            for all_ in parts:
                joined = list(next(pieces))
                for _ in all_[1:]:
                    joined += [self.ids.mask, *next(pieces)]
                found.append(np.array(joined, np.int32))
        for text, tokens in zip(texts, found, strict=True):
            if not len(tokens):
                raise InputError(f"{text[:60]!r}: has no tokens; give a text")
        return found

    @property
    def mask(self) -> str:
        """The mask of the encoder's tokenizer, which is "[MASK]" of word pieces."""
        return self.vocabulary.tokens[self.ids.mask]

    def framed(self, text: str, tokens: np.ndarray) -> np.ndarray:
        """Returns the ids of a text between [CLS] and [SEP], int32 [tokens].

        Args:
          text: the text, for the message.
          tokens: its ids.

        Raises:
          InputError: they are more tokens than the encoder has trained positions.
        """
        ids = [self.ids.classify, *tokens, self.ids.separate]
        if len(ids) > self.longest:
            there = self.model.config.longest_sequence
            trained = "" if self.longest == there else f", of which {self.longest:,} were trained"
            raise InputError(
                f"{text[:60]!r}: has {len(ids):,} tokens with [CLS] and [SEP], but --model has "
                f"{there:,} positions{trained}; give a shorter text"
            )
        return np.array(ids, np.int32)

    def masked_lm_logits(
        self, rows: Sequence[tuple[np.ndarray, Sequence[int]]], report: Report
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the number of each row and the logits at its places, float32 [P, V].

        The rows come in another order: those of equal length are computed together.

        Args:
          rows: ids of each text, int32 [tokens], and the places to predict.
          report: called with the numbers of rows that are done and in all, after each batch.
        """
        done, most = 0, self.model.config.longest_sequence
        for batch, length in batches_by_length(
            [len(ids) for ids, _ in rows], self.engine, self.model.encoder, most
        ):
            ids, places = zip(*(rows[number] for number in batch), strict=True)
            ids_BL, mask_BL = padded(ids, self.ids.padding, length)
            places_BP, _ = padded(places, 0, max(map(len, places)))
            found = self._logits_at(ids_BL, mask_BL, places_BP)
            for number, its_places, logits_PV in zip(batch, places, found, strict=True):
                # A model may have more rows than its vocabulary has tokens.
                yield number, logits_PV[: len(its_places), : len(self.vocabulary)]
            done += len(batch)
            report(done, len(rows))

    @functools.cached_property
    def _logits_at(self) -> Callable[..., np.ndarray]:
        def logits(ids_BL: Any, mask_BL: Any, positions_BP: Any) -> Any:
            x_TH = self.model.encoder.encode(ids_BL, mask_BL, ops.zeros_like(ids_BL))
            _, length = ops.shape(ids_BL)
            rows_K = flat_positions(positions_BP, length)
            shape = (-1, ops.shape(positions_BP)[1], self.model.config.vocab_size)
            return ops.reshape(self.model.masked_lm_logits(x_TH, rows_K), shape)

        return self.engine.function(logits, self.model, self.model.encoder.takes_any_length)


def open_encoder(path: str) -> AskedEncoder:
    """Opens a model folder, a TF1 checkpoint or a Hugging Face folder.

    Args:
      path: its path, the value of --model.

    Raises:
      InputError: the encoder cannot be read, or it lacks the head.
    """
    engine = make_engine()
    found = open_initial(path, "--model")
    weights = found.read()
    needed = [name for name in variable_shapes(found.config) if name.startswith(MASKED_LM_HEAD)]
    if not needed or not weights.keys() >= set(needed):
        raise InputError(
            f"--model={path}: lacks the head {MASKED_LM_HEAD.rstrip('/')}; give the "
            "folder of an encoder that was pre-trained with it"
        )
    objectives = family_of(found.config).objectives
    model = BertPretrainer(
        found.config, objective=next(objective for objective in objectives if objective != RTD)
    )
    dataclasses.replace(found, read=lambda: weights).load_into(model, "--model")
    tokenizer = make_tokenizer(found.vocabulary, found.do_lower_case)
    longest = found.config.longest_sequence
    if found.config.has_position_table:
        longest = min(longest, found.trained_positions or longest)
    ids = TokenIds.of(found.vocabulary)
    return AskedEncoder(model, engine, found.vocabulary, tokenizer, ids, longest)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the logarithms of probabilities, float64 [..., n], of logits [..., n]."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@dataclasses.dataclass(frozen=True)
class Filled:
    """The answers to one text.

    Attributes:
      text: the text with its masks.
      answers: for each mask the likeliest tokens and their probabilities, the likeliest first.
        Each mask is answered by itself, while the others stay masks.
    """

    text: str
    answers: tuple[tuple[tuple[str, float], ...], ...]


def fill(
    model: str | AskedEncoder,
    texts: Sequence[str],
    top: int = 5,
    report: Report = no_report,
) -> list[Filled]:
    """Asks an encoder what stands at each [MASK] of texts.

    Args:
      model: folder of an encoder, of this package or Hugging Face's, or a TF1 checkpoint;
        or an encoder that is open.
      texts: texts with one "[MASK]" or several.
      top: number of answers for each mask.
      report: called after each batch with the numbers of texts that are done and in all.

    Returns:
      the answers, in the order of the texts.

    Raises:
      InputError: the encoder has no masked-LM head, a text has no mask or is longer than the
        encoder's positions.
    """
    check_list(texts, "texts")
    encoder = model if isinstance(model, AskedEncoder) else open_encoder(model)
    rows = []
    for text in texts:
        if MASK not in text and encoder.mask not in text:
            raise InputError(f"{text[:60]!r}: has no {MASK}; write one where a word is missing")
    for text, ids in zip(texts, encoder.tokenize(texts), strict=True):
        framed = encoder.framed(text, ids)
        rows.append((framed, np.flatnonzero(framed == encoder.ids.mask)))
    answers: list[tuple[tuple[tuple[str, float], ...], ...]] = [()] * len(texts)
    for number, logits_PV in encoder.masked_lm_logits(rows, report):
        answers[number] = tuple(_best(row, encoder, top) for row in log_softmax(logits_PV))
    return [Filled(text, found) for text, found in zip(texts, answers, strict=True)]


def _best(log_probabilities_V: np.ndarray, encoder: AskedEncoder, top: int) -> tuple:
    order = np.argsort(-log_probabilities_V, kind="stable")[:top]
    return tuple(
        (encoder.vocabulary.pieces[index], float(np.exp(log_probabilities_V[index])))
        for index in order
    )


# Masked copies of texts that are in memory at once: 32 MB at 512 tokens.
COPIES_AT_ONCE = 1 << 14


@dataclasses.dataclass(frozen=True)
class TextScore:
    """How likely a text is.

    Attributes:
      text: the text.
      tokens: number of its tokens, without [CLS] and [SEP].
      unknown: number of its tokens that are [UNK], which no encoder learns to predict.
      pseudo_log_likelihood: sum over the tokens of the natural logarithm of each one's probability
        if it alone is masked (Salazar et al. 2020, equation 1), or with it those of the same word
        that follow (Kauf and Ivanova 2023, arXiv 2305.10588, PLL-word-l2r).
      characters: number of characters of its tokens, without white space and [UNK].
    """

    text: str
    tokens: int
    unknown: int
    pseudo_log_likelihood: float
    characters: int

    @property
    def pseudo_perplexity(self) -> float:
        """The exponential of the mean loss of a token (Salazar et al. 2020, equation 4)."""
        return math.exp(-self.pseudo_log_likelihood / self.tokens)

    @property
    def loss_per_character(self) -> float | None:
        """Loss of each character in nats; None if there is none."""
        return -self.pseudo_log_likelihood / self.characters if self.characters else None


def score(
    model: str | AskedEncoder,
    texts: Sequence[str],
    report: Report = no_report,
    whole_words: bool = False,
) -> list[TextScore]:
    """Returns how likely an encoder takes texts to be.

    Each token is masked once, so a text costs as many passes as it has tokens.

    Args:
      model: folder of an encoder, of this package or Hugging Face's, or a TF1 checkpoint;
        or an encoder that is open.
      texts: the texts.
      report: called after each batch with the numbers of tokens that are done and in all.
      whole_words: whether those tokens of the same word that follow are masked, too. The score of
        a word is then that of its first piece, times that of its second one beside the first, and
        so on, so that encoders of different vocabularies compare by character.

    Raises:
      InputError: the encoder has no masked-LM head, or a text has a [MASK], no tokens, or more
        tokens than the encoder has positions.
    """
    check_list(texts, "texts")
    encoder = model if isinstance(model, AskedEncoder) else open_encoder(model)
    for text in texts:
        if MASK in text or encoder.mask in text:
            raise InputError(f"{text[:60]!r}: has a {MASK}; `beambert fill` answers it")
    tokenized = encoder.tokenize(texts)
    framed = [encoder.framed(text, ids) for text, ids in zip(texts, tokenized, strict=True)]
    continues = encoder.vocabulary.is_continuation & whole_words
    likelihoods, total = np.zeros(len(texts)), sum(map(len, tokenized))
    # The place of each token in its text, the shortest texts first.
    order = sorted(range(len(texts)), key=lambda number: len(tokenized[number]))
    owners = np.repeat(order, [len(tokenized[number]) for number in order])
    places = np.concatenate([1 + np.arange(len(tokenized[number])) for number in order])
    for start in range(0, total, COPIES_AT_ONCE):
        some = owners[start : start + COPIES_AT_ONCE].tolist()
        rows = []
        for owner, place in zip(some, places[start : start + len(some)].tolist(), strict=True):
            masked, end = framed[owner].copy(), place + 1
            while continues[framed[owner][end]]:
                end += 1
            masked[place:end] = encoder.ids.mask
            rows.append((masked, (place,)))
        for number, logits_PV in encoder.masked_lm_logits(rows, further(report, start, total)):
            label = framed[some[number]][rows[number][1][0]]
            likelihoods[some[number]] += log_softmax(logits_PV)[0, label]
    characters = encoder.vocabulary.characters
    return [
        TextScore(
            text,
            len(ids),
            int((ids == encoder.ids.unknown).sum()),
            float(likelihood),
            int(characters[ids].sum()),
        )
        for text, ids, likelihood in zip(texts, tokenized, likelihoods, strict=True)
    ]
