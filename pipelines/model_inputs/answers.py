"""Turns logits of windows into answers, n-best lists and null odds, as the original run_squad.py.

Two things are better than in the original. Answers are cut out of the context by their characters,
while the original looks for text that is similar to the word pieces. Padding never counts, so that
answers do not depend on the other windows in the batch.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.model_inputs.windows import Windows, has_most_context
from beambert.pipelines.tasks.squad import Question

# Number of questions that are decoded at a time: all pairs of starts and ends must fit in memory.
_QUESTIONS_AT_A_TIME = 1000
# Null odds of a question without any candidate answer; JSON has no infinity.
CERTAIN = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class DecodingParameters:
    """How answers are chosen; names and defaults are those of the original script's flags.

    Attributes:
      n_best_size: number of starts and of ends that are considered in a window, and of answers in
        an n-best list.
      max_answer_length: greatest number of word pieces in an answer.
      null_score_diff_threshold: null odds above which the answer is "" (v2.0).
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    null_score_diff_threshold: float = 0.0


@dataclasses.dataclass(frozen=True)
class SquadPredictions:
    """The contents of the official files, by the ids of the questions.

    Attributes:
      answers: id -> answer; "" for no answer.
      n_best: id -> likeliest answers, each with `text`, `probability`, `start_logit` and
        `end_logit`.
      null_odds: id -> score of no answer minus score of the best answer; empty if every question
        has an answer (v1.1).
      places: id -> first character of the answer in its context, and the character behind it; 0
        and 0 for no answer.
      scores: id -> score of the best answer that is not "".
    """

    answers: dict[str, str]
    n_best: dict[str, list[dict[str, str | float]]]
    null_odds: dict[str, float]
    places: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    scores: dict[str, float] = dataclasses.field(default_factory=dict)

    def files(self) -> dict[str, str]:
        """Returns file name -> text, in the format of the original script."""
        contents = {"predictions.json": self.answers, "nbest_predictions.json": self.n_best}
        if self.null_odds:
            contents["null_odds.json"] = self.null_odds
        return {name: json.dumps(content, indent=4) + "\n" for name, content in contents.items()}


class _Candidate(NamedTuple):
    """A candidate answer by its characters in the context; 0 to 0 stands for no answer."""

    start: int
    end: int
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


def decode(
    questions: Sequence[Question],
    windows: Windows,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    allows_no_answer: bool,
    parameters: DecodingParameters,
) -> SquadPredictions:
    """Chooses the answers to questions.

    Args:
      questions: the questions.
      windows: their windows, see `make_windows`.
      start_logits: logits of each token being the first of the answer, float [windows, at least
        the length of the longest window]; values behind the end of a window do not matter.
      end_logits: logits of each token being the last of the answer, of the same shape.
      allows_no_answer: whether "no answer" is an answer (v2.0). Its score is that of [CLS] in the
        window where this score is least.
      parameters: how to choose.

    Raises:
      InputError: the logits are not finite.
    """
    logits = tuple(_without_padding(given, windows) for given in (start_logits, end_logits))
    answers, n_best, null_odds, places, scores = {}, {}, {}, {}, {}
    for first in range(0, len(questions), _QUESTIONS_AT_A_TIME):
        some = range(first, min(first + _QUESTIONS_AT_A_TIME, len(questions)))
        bounds = np.searchsorted(windows.question_index, [*some, some.stop])
        indices = np.arange(bounds[0], bounds[-1])
        ranked = _rank(windows, indices, logits, parameters.n_best_size, parameters)
        for number, (start, end) in zip(some, itertools.pairwise(bounds), strict=True):
            question = questions[number]
            if number not in ranked:
                # None of the best starts fits one of the best ends, so that all are tried.
                own, most = np.arange(start, end), logits[0].shape[1]
                ranked |= _rank(windows, own, logits, most, parameters)
            candidates = ranked.get(number, ([], [], [], []))
            best = next(map(_Candidate, *candidates), None)
            null = _null(logits, start, end) if allows_no_answer else None
            listed = _list_best(
                question.context, map(_Candidate, *candidates), null, parameters.n_best_size
            )
            n_best[question.id] = _with_probabilities(listed)
            places[question.id] = (best.start, best.end) if best else (0, 0)
            scores[question.id] = best.score if best else -math.inf
            if null is not None:
                odds = null.score - best.start_logit - best.end_logit if best else CERTAIN
                null_odds[question.id] = odds
                if odds > parameters.null_score_diff_threshold:
                    places[question.id] = (0, 0)
            answers[question.id] = question.context[slice(*places[question.id])]
    return SquadPredictions(answers, n_best, null_odds, places, scores)


def _null(logits: Sequence[np.ndarray], start: int, end: int) -> _Candidate:
    """Returns the candidate for no answer, scored on the windows from `start` to `end`."""
    pairs = zip(*(logit[start:end, 0].tolist() for logit in logits), strict=True)
    return min((_Candidate(0, 0, *pair) for pair in pairs), key=lambda pair: pair.score)


def _without_padding(logits: np.ndarray, windows: Windows) -> np.ndarray:
    """Returns logits as float64 [windows, longest window], -inf behind each window's end."""
    shape = len(windows), int(windows.lengths.max(initial=0))
    logits = np.asarray(logits, np.float64)[:, : shape[1]]
    if logits.shape != shape:
        raise ValueError(f"logits of shape {logits.shape} for windows of shape {shape}")
    is_token = np.arange(shape[1]) < windows.lengths[:, None]
    if not np.isfinite(logits[is_token]).all():
        raise InputError(
            "--model: gives logits that are not numbers; fine-tune it again, with a lower "
            "learning rate"
        )
    return np.where(is_token, logits, -np.inf)


def _rank(
    windows: Windows,
    indices: np.ndarray,
    logits: tuple[np.ndarray, np.ndarray],
    most: int,
    parameters: DecodingParameters,
) -> dict[int, tuple[list, ...]]:
    """Returns the candidate answers of some windows by question, the best first.

    They are columns, one for each field of `_Candidate`, because only few of them become objects.

    Args:
      windows: all windows.
      indices: int [some], indices of the windows to look at.
      logits: logits of starts and of ends of all windows, -inf in the padding.
      most: number of starts and of ends to consider in each window.
      parameters: how to choose.
    """
    start_logits, end_logits = (logit[indices] for logit in logits)
    # Among equal logits the original takes the first, here and in the order of answers.
    starts, ends = (
        np.argsort(-each, axis=1, kind="stable")[:, :most] for each in (start_logits, end_logits)
    )
    first = windows.context_positions[indices, None]
    behind = first + windows.context_lengths[indices, None]
    may_start = (starts >= first) & (starts < behind)
    may_start &= has_most_context(windows, np.broadcast_to(indices[:, None], starts.shape), starts)
    may_end = (ends >= first) & (ends < behind)
    pieces = ends[:, None, :] - starts[:, :, None] + 1
    is_answer = may_start[:, :, None] & may_end[:, None, :]
    is_answer &= (pieces >= 1) & (pieces <= parameters.max_answer_length)

    row, start_rank, end_rank = np.nonzero(is_answer)
    start, end = starts[row, start_rank], ends[row, end_rank]
    start_logit, end_logit = start_logits[row, start], end_logits[row, end]
    question = windows.question_index[indices[row]]
    order = np.lexsort((-(start_logit + end_logit), question))
    columns = (*windows.characters(indices[row], start, end), start_logit, end_logit)
    numbers, firsts = np.unique(question[order], return_index=True)
    divided = [np.split(column[order], firsts[1:]) for column in columns]
    return {
        number: tuple(column.tolist() for column in own)
        for number, *own in zip(numbers.tolist(), *divided, strict=False)
    }


def _list_best(
    context: str, candidates: Iterable[_Candidate], null: _Candidate | None, size: int
) -> dict[str, _Candidate]:
    """Returns the best candidates by text; no answer is always among them if `null` is given."""
    listed: dict[str, _Candidate] = {}
    for candidate in candidates:
        if null is not None and "" not in listed and null.score > candidate.score:
            listed[""] = null
        if len(listed) >= size:
            break
        listed.setdefault(context[candidate.start : candidate.end], candidate)
    if null is not None:
        listed.setdefault("", null)
    # A context without any word piece has no candidates.
    return listed or {"": _Candidate(0, 0, 0.0, 0.0)}


def _with_probabilities(listed: dict[str, _Candidate]) -> list[dict[str, str | float]]:
    scores = np.array([candidate.score for candidate in listed.values()])
    shares = np.exp(scores - scores.max())
    return [
        {
            "text": text,
            "probability": probability,
            "start_logit": candidate.start_logit,
            "end_logit": candidate.end_logit,
        }
        for (text, candidate), probability in zip(
            listed.items(), (shares / shares.sum()).tolist(), strict=True
        )
    ]
