"""What stands at a [MASK]: the answers of the masked-LM head (Devlin et al. 2019, section 3.1)."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from beambert.errors import InputError, check_list
from beambert.pipelines.tokenizers.vocabulary import MASK
from beambert.trainer.asking.encoders import (
    MASKED_LM_HEAD,
    AskedEncoder,
    Report,
    log_softmax,
    no_report,
    open_encoder,
)


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
    model: str,
    texts: Sequence[str],
    top: int = 5,
    report: Report = no_report,
) -> list[Filled]:
    """Asks an encoder what stands at each [MASK] of texts.

    Args:
      model: folder of an encoder, of this package or Hugging Face's, or a TF1 checkpoint.
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
    return fill_texts(open_encoder(model, MASKED_LM_HEAD), texts, top, report)


def fill_texts(
    encoder: AskedEncoder, texts: Sequence[str], top: int, report: Report
) -> list[Filled]:
    """Does what `fill` does, with an encoder that is open."""
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
