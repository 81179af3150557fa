"""Exact match and F1 of answers, as the official evaluate-v1.1.py and evaluate-v2.0.py score."""

import collections
import dataclasses
import math
import re
import string
from collections.abc import Mapping, Sequence

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.tasks.squad import Question

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of answers.

    Attributes:
      exact: float64 [questions], 1 if the answer equals a right one, else 0.
      f1: float64 [questions], F1 of the words that the answer shares with a right one, 0 to 1.
      metrics: the output of the official scorer by its names; exact and f1 in per cent.
    """

    exact: np.ndarray
    f1: np.ndarray
    metrics: dict[str, float]


def normalize_answer(text: str) -> str:
    """Returns a text in lower case, without ASCII punctuation, articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def word_f1(prediction: str, truth: str) -> float:
    """Returns the F1 of the bags of words of two normalized texts; 0 if they share no word."""
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
    """Scores answers by the rules of v2.0 if questions may have no answer, else by those of v1.1.

    Args:
      questions: the questions, see `read_questions`.
      predictions: id of each question -> its answer. For v2.0, the null odds have already decided
        which answers are "".
      allows_no_answer: whether questions may have no answer, see `Task`.
      null_odds: id of each question -> its null odds (v2.0). They serve only to find the best
        thresholds, while the official scorer also replaces answers by "" according to them.
    """
    if allows_no_answer:
        return score_v2(questions, predictions, null_odds, na_prob_thresh=math.inf)
    return score_v1(questions, predictions)


def score_v1(questions: Sequence[Question], predictions: Mapping[str, str]) -> Scores:
    """Scores answers as evaluate-v1.1.py does: a question without a prediction scores 0.

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
    """Scores answers as evaluate-v2.0.py does.

    Args:
      questions: the questions, see `read_questions`.
      predictions: id of each question -> its answer, "" for no answer.
      null_odds: id of each question -> a number that is the greater, the likelier the question has
        no answer.
      na_prob_thresh: threshold on the null odds; above it the answer counts as "". The default is
        that of the official script, which is meant for probabilities.

    Returns:
      Scores with the metrics `exact`, `f1`, `total`; `HasAns_…` are the same metrics of the
      questions with answers and `NoAns_…` those of the others. With null odds there are also
      `best_exact` and `best_f1`, the best scores that a threshold on the odds gives, and these
      thresholds, `best_exact_thresh` and `best_f1_thresh`.

    Raises:
      InputError: a question has no prediction or no null odds.
    """
    for given, what in ((predictions, "predictions"), (null_odds, "null odds")):
        missing = [q.id for q in questions if given is not None and q.id not in given]
        if missing:
            raise InputError(
                f"{what}: {len(missing)} of {len(questions)} questions have none, the first is "
                f"{missing[0]!r}; give one for each"
            )
    has_answer = np.array([bool(question.answers) for question in questions])
    exact, f1 = np.zeros(len(questions)), np.zeros(len(questions))
    for number, question in enumerate(questions):
        prediction = normalize_answer(predictions[question.id])
        # Answers that consist only of articles and punctuation do not count.
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
        # Questions with equal odds stay in the order of the null odds file.
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
      name: name of the score.
      gains: float64 [questions], in the order of the odds: how much the sum of the scores grows if
        the question gets its prediction instead of "".
      odds: float64 [questions], ascending null odds.
      impossible: number of questions for which "" is right.
    """
    sums = np.cumsum([impossible, *gains])
    best = int(sums.argmax())
    return {
        f"best_{name}": 100 * sums[best] / len(gains),
        f"best_{name}_thresh": odds[best - 1] if best else 0.0,
    }
