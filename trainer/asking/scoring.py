"""How likely texts are to an encoder: pseudo-log-likelihood, and next sentence prediction."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from beambert.errors import InputError, check_list
from beambert.pipelines.records.contract import IS_NEXT
from beambert.pipelines.tokenizers.vocabulary import MASK
from beambert.trainer.asking.encoders import (
    MASKED_LM_HEAD,
    NEXT_SENTENCE_HEAD,
    AskedEncoder,
    Report,
    batches_of,
    log_softmax,
    no_report,
    open_encoder,
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
    model: str, texts: Sequence[str], report: Report = no_report, whole_words: bool = False
) -> list[TextScore]:
    """Returns how likely an encoder takes texts to be.

    Each token is masked once, so a text costs as many passes as it has tokens.

    Args:
      model: folder of an encoder, of this package or Hugging Face's, or a TF1 checkpoint.
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
    return score_texts(open_encoder(model, MASKED_LM_HEAD), texts, report, whole_words)


def score_texts(
    encoder: AskedEncoder, texts: Sequence[str], report: Report, whole_words: bool = False
) -> list[TextScore]:
    """Does what `score` does, with an encoder that is open."""
    for text in texts:
        if MASK in text or encoder.mask in text:
            raise InputError(f"{text[:60]!r}: has a {MASK}; `beambert fill` answers it")
    tokenized = encoder.tokenize(texts)
    framed = [encoder.framed(text, ids) for text, ids in zip(texts, tokenized, strict=True)]
    continues = encoder.vocabulary.is_continuation & whole_words
    likelihoods = np.zeros(len(texts))
    done, total = 0, sum(map(len, tokenized))
    for lot in _lots(tokenized):
        owners = [owner for owner in lot for _ in tokenized[owner]]
        rows, labels = [], []
        for owner in lot:
            for place in range(1, len(framed[owner]) - 1):
                masked, end = framed[owner].copy(), place + 1
                while continues[framed[owner][end]]:
                    end += 1
                masked[place:end] = encoder.ids.mask
                rows.append((masked, (place,)))
                labels.append(framed[owner][place])
        report_lot = functools.partial(_report_part, report, done, total)
        for number, logits_PV in encoder.masked_lm_logits(rows, report_lot):
            likelihoods[owners[number]] += log_softmax(logits_PV)[0, labels[number]]
        done += len(rows)
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


def _lots(tokenized: Sequence[np.ndarray]) -> Iterator[list[int]]:
    """Yields the numbers of texts whose masked copies are made at once, the shortest first."""
    lot: list[int] = []
    copies = 0
    for number in sorted(range(len(tokenized)), key=lambda number: len(tokenized[number])):
        lot.append(number)
        copies += len(tokenized[number])
        if copies >= COPIES_AT_ONCE:
            yield lot
            lot, copies = [], 0
    if lot:
        yield lot


def _report_part(report: Report, before: int, total: int, done: int, _: int) -> None:
    report(before + done, total)


def score_next(
    model: str, pairs: Sequence[tuple[str, str]], report: Report = no_report
) -> list[float]:
    """Returns the probability that the second text of each pair follows the first.

    Args:
      model: as in `score`.
      pairs: the pairs of texts.
      report: called after each batch with the numbers of pairs that are done and in all.

    Raises:
      InputError: the encoder has no next sentence head, or a pair has a text without tokens or
        more tokens than the encoder has positions.
    """
    return score_pairs(open_encoder(model, NEXT_SENTENCE_HEAD), pairs, report)


def score_pairs(
    encoder: AskedEncoder, pairs: Sequence[tuple[str, str]], report: Report
) -> list[float]:
    """Does what `score_next` does, with an encoder that is open."""
    firsts = encoder.tokenize([first for first, _ in pairs])
    seconds = encoder.tokenize([second for _, second in pairs])
    rows = [
        encoder.framed(f"{pair[0]} {pair[1]}", first, second)
        for pair, first, second in zip(pairs, firsts, seconds, strict=True)
    ]
    found = np.zeros(len(rows))
    done = 0
    for batch in batches_of([(row, (0,)) for row in rows]):
        features = encoder.features(
            [rows[number] for number in batch], [len(firsts[number]) + 2 for number in batch]
        )
        places = np.zeros((len(batch), 1), np.int32)
        logits = encoder.model({**features, "masked_lm_positions": places})["next_sentence_logits"]
        found[batch] = np.exp(log_softmax(np.array(logits)))[:, IS_NEXT]
        done += len(batch)
        report(done, len(rows))
    return found.tolist()
