"""What pre-trained models answer."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from beambert.model.pretrainer import BertPretrainer

# Number of answers to show at a masked position.
ANSWERS = 5


@dataclasses.dataclass(frozen=True)
class TokenAnswer:
    """The answer of the masked-LM head at one position.

    Attributes:
      best: ids and probabilities of the likeliest tokens, the likeliest first.
      loss: minus the logarithm of the label's probability.
      rank: rank of the label among all tokens, from 1.
    """

    best: tuple[tuple[int, float], ...]
    loss: float
    rank: int


def single(ids: np.ndarray, segments: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Returns the features of one text without padding, int32 [1, tokens] each."""
    if segments is None:
        segments = np.zeros_like(ids)
    return {
        "input_ids": ids[None].astype(np.int32),
        "input_mask": np.ones((1, len(ids)), np.int32),
        "segment_ids": segments[None].astype(np.int32),
    }


def masked_answers(
    model: BertPretrainer, features: Mapping[str, np.ndarray], positions: np.ndarray, labels
) -> list[TokenAnswer]:
    """Returns the model's answer at each masked position.

    Args:
      model: model with the masked-LM head.
      features: features of one text, with masks.
      positions: int [predictions], positions of the masked tokens.
      labels: int [predictions], the ids before masking.
    """
    if not len(positions):
        return []
    given = {**features, "masked_lm_positions": np.asarray(positions, np.int32)[None]}
    logits = np.array(model(given)["masked_lm_logits"])[0]
    return [_answer(row, int(label)) for row, label in zip(logits, labels, strict=True)]


def next_probability(model: BertPretrainer, features: Mapping[str, np.ndarray]) -> float:
    """Returns the model's probability that B follows A, for one pair."""
    given = {**features, "masked_lm_positions": np.zeros((1, 1), np.int32)}
    return float(_softmax(np.array(model(given)["next_sentence_logits"])[0])[0])


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits.astype(np.float64) - logits.max())
    return raised / raised.sum()


def _answer(logits: np.ndarray, label: int) -> TokenAnswer:
    probabilities = _softmax(logits)
    order = np.argsort(-probabilities, kind="stable")[:ANSWERS].tolist()
    return TokenAnswer(
        tuple((index, float(probabilities[index])) for index in order),
        float(-np.log(max(probabilities[label], 1e-300))),
        int((probabilities > probabilities[label]).sum()) + 1,
    )
