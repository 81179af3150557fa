"""Exact match and F1 of answers, equal to the official evaluate-v1.1.py and evaluate-v2.0.py."""

import collections
import dataclasses
import math
import re
import string
from collections.abc import Mapping, Sequence

import numpy as np

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.squad import Question

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclasses.dataclass(frozen=True)
class Scores:
    """How good answers are.

    Attributes:
      exact: float64 [questions], 1 where the answer is a right one, else 0.
      f1: float64 [questions], of the words that the answer shares with a right one, 0 to 1.
      metrics: the official scorer's output by its names; exact and f1 in per cent.
    """

    exact: np.ndarray
    f1: np.ndarray
    metrics: dict[str, float]


def normalize_answer(text: str) -> str:
    """Lowers the case; drops ASCII punctuation, then articles; joins words by one space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def word_f1(prediction: str, truth: str) -> float:
    """Returns the F1 of two normalized texts' bags of words; 0 where they share none."""
    predicted, true = prediction.split(), truth.split()
    shared = sum((collections.Counter(predicted) & collections.Counter(true)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(true)
    return 2 * precision * recall / (precision + recall)


def score(
    questions: Sequence[Question],
    predictions: Mapping[str, str],
    allows_no_answer: bool,
    null_odds: Mapping[str, float] | None = None,
) -> Scores:
    """Scores as v2.0 does where a question may have no answer, otherwise as v1.1.

    Args:
      questions: see `read_questions`.
      predictions: the answer to each question by its id; of v2.0 chosen by the null odds already.
      allows_no_answer: see `Task`.
      null_odds: of v2.0, for the best thresholds on them alone; the official scorer empties
        answers by them, too.
    """
    if allows_no_answer:
        return score_v2(questions, predictions, null_odds, na_prob_thresh=math.inf)
    return score_v1(questions, predictions)


def score_v1(questions: Sequence[Question], predictions: Mapping[str, str]) -> Scores:
    """Scores as evaluate-v1.1.py: a question without a prediction has 0.

    Returns:
      Scores with the metrics `exact_match` and `f1`.
    """
    exact, f1 = np.zeros(len(questions)), np.zeros(len(questions))
    for number, question in enumerate(questions):
        if question.id in predictions:
            prediction = normalize_answer(predictions[question.id])
            truths = {normalize_answer(answer.text) for answer in question.answers}
            exact[number] = prediction in truths
            f1[number] = max(word_f1(prediction, truth) for truth in truths)
    return Scores(exact, f1, {"exact_match": 100 * exact.mean(), "f1": 100 * f1.mean()})


def score_v2(
    questions: Sequence[Question],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    na_prob_thresh: float = 1.0,
) -> Scores:
    """Scores as evaluate-v2.0.py.

    Args:
      questions: see `read_questions`.
      predictions: the answer to each question by its id, "" for no answer.
      null_odds: how likely each question has no answer: any number that is greater where that is
        likelier.
      na_prob_thresh: where the null odds are greater than this, the answer counts as "". The
        default is the official one, which is meant for probabilities.

    Returns:
      Scores with the metrics `exact`, `f1`, `total`; the same of the questions with answers under
      `HasAns_…` and of the others under `NoAns_…`; with null odds also `best_exact`, `best_f1`
      and the thresholds on the odds that give them, `best_exact_thresh` and `best_f1_thresh`.

    Raises:
      InputError: a question has no prediction or no null odds.
    """
    for given, what in ((predictions, "prediction"), (null_odds, "null odds")):
        missing = [q.id for q in questions if given is not None and q.id not in given]
        if missing:
            raise InputError(
                f"{len(missing)} of {len(questions)} questions have no {what}, the first is "
                f"{missing[0]!r}: give one for each."
            )
    has_answer = np.array([bool(question.answers) for question in questions])
    exact, f1 = np.zeros(len(questions)), np.zeros(len(questions))
    for number, question in enumerate(questions):
        prediction = normalize_answer(predictions[question.id])
        # An answer of nothing but articles and punctuation is none.
        truths = {normalize_answer(answer.text) for answer in question.answers} - {""} or {""}
        exact[number] = prediction in truths
        f1[number] = max(
            word_f1(prediction, truth) if prediction and truth else prediction == truth
            for truth in truths
        )
    thresholds = {}
    if null_odds is not None:
        is_given = np.array([predictions[question.id] != "" for question in questions])
        odds = np.array([null_odds[question.id] for question in questions])
        # Of equal odds, those that come first in their file come first.
        places = {identifier: place for place, identifier in enumerate(null_odds)}
        order = np.lexsort(([places[question.id] for question in questions], odds))
        for name, raw in (("exact", exact), ("f1", f1)):
            gains = np.where(has_answer, raw, -1.0 * is_given)[order]
            thresholds |= _best_threshold(name, gains, odds[order], np.count_nonzero(~has_answer))
        exact, f1 = (np.where(odds > na_prob_thresh, ~has_answer, raw) for raw in (exact, f1))
    metrics = _means("", exact, f1)
    for prefix, mask in (("HasAns_", has_answer), ("NoAns_", ~has_answer)):
        if mask.any():
            metrics |= _means(prefix, exact[mask], f1[mask])
    return Scores(exact, f1, metrics | thresholds)


def _means(prefix: str, exact: np.ndarray, f1: np.ndarray) -> dict[str, float]:
    return {
        f"{prefix}exact": 100 * exact.mean(),
        f"{prefix}f1": 100 * f1.mean(),
        f"{prefix}total": len(exact),
    }


def _best_threshold(
    name: str, gains: np.ndarray, odds: np.ndarray, impossible: int
) -> dict[str, float]:
    """Returns the best mean that a threshold on the odds gives, and the least such threshold.

    Args:
      name: of the score.
      gains: float64 [questions] in the order of their odds, what the sum of the scores gains where
        the question gets its prediction rather than "".
      odds: float64 [questions], ascending.
      impossible: how many questions "" is right for.
    """
    sums = np.cumsum([impossible, *gains])
    best = int(sums.argmax())
    return {
        f"best_{name}": 100 * sums[best] / len(gains),
        f"best_{name}_thresh": odds[best - 1] if best else 0.0,
    }
