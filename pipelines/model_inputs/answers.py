"""Logits of windows -> answers, n-best lists and null odds, as the original's run_squad.py.

Two things are better than there. Answers are cut out of the context by their characters, where the
original looks for something similar to the pieces. And padding never counts, so that answers don't
depend on what a window was batched with.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from beambert.pipelines.model_inputs.windows import Windows, has_most_context
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.squad import Question

# Questions at a time, so that the pairs of all their starts and ends fit into memory.
_QUESTIONS_AT_A_TIME = 1000
# Null odds where there is nothing to answer with: JSON has no infinity.
CERTAIN = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class DecodingParameters:
    """How answers are chosen; the names and defaults are the original script's flags.

    Attributes:
      n_best_size: starts and ends of a window that are considered, and answers that are listed.
      max_answer_length: most pieces of an answer.
      null_score_diff_threshold: null odds above which the answer is "" (v2.0).
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    null_score_diff_threshold: float = 0.0


@dataclasses.dataclass(frozen=True)
class SquadPredictions:
    """What the official files hold, by the questions' ids.

    Attributes:
      answers: the answer; "" for no answer.
      n_best: the likeliest answers, each with `text`, `probability`, `start_logit` and `end_logit`.
      null_odds: the score of no answer less that of the best answer; empty where every question
        has an answer (v1.1).
    """

    answers: dict[str, str]
    n_best: dict[str, list[dict[str, str | float]]]
    null_odds: dict[str, float]

    def files(self) -> dict[str, str]:
        """Returns the text of each file by its name, as the original writes them."""
        contents = {"predictions.json": self.answers, "nbest_predictions.json": self.n_best}
        if self.null_odds:
            contents["null_odds.json"] = self.null_odds
        return {name: json.dumps(content, indent=4) + "\n" for name, content in contents.items()}


class _Candidate(NamedTuple):
    """An answer, or with characters 0 to 0 no answer."""

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
    """Chooses the answers.

    Args:
      questions: those that the windows are of.
      windows: see `make_windows`.
      start_logits: float [windows, at least the longest window], of each token to be the answer's
        first; behind a window's end they may be anything.
      end_logits: likewise, to be its last.
      allows_no_answer: "no answer" is an answer (v2.0). It scores as [CLS] does, in the window
        where that is least.
      parameters: how to choose.

    Raises:
      InputError: the logits are not numbers.
    """
    logits = tuple(_without_padding(given, windows) for given in (start_logits, end_logits))
    answers, n_best, null_odds = {}, {}, {}
    for first in range(0, len(questions), _QUESTIONS_AT_A_TIME):
        some = range(first, min(first + _QUESTIONS_AT_A_TIME, len(questions)))
        bounds = np.searchsorted(windows.question_index, [*some, some.stop])
        indices = np.arange(bounds[0], bounds[-1])
        ranked = _rank(windows, indices, logits, parameters.n_best_size, parameters)
        for number, (start, end) in zip(some, itertools.pairwise(bounds), strict=True):
            question = questions[number]
            if number not in ranked:
                # None of the best starts goes with one of the best ends: all of them are tried.
                own, most = np.arange(start, end), logits[0].shape[1]
                ranked |= _rank(windows, own, logits, most, parameters)
            candidates = ranked.get(number, ([], [], [], []))
            best = next(map(_Candidate, *candidates), None)
            null = _null(logits, start, end) if allows_no_answer else None
            listed = _list_best(
                question.context, map(_Candidate, *candidates), null, parameters.n_best_size
            )
            n_best[question.id] = _with_probabilities(listed)
            answers[question.id] = question.context[best.start : best.end] if best else ""
            if null is not None:
                odds = null.score - best.start_logit - best.end_logit if best else CERTAIN
                null_odds[question.id] = odds
                if odds > parameters.null_score_diff_threshold:
                    answers[question.id] = ""
    return SquadPredictions(answers, n_best, null_odds)


def _null(logits: Sequence[np.ndarray], start: int, end: int) -> _Candidate:
    """Returns no answer as the question's windows from `start` to `end` score it."""
    pairs = zip(*(of[start:end, 0].tolist() for of in logits), strict=True)
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
            "the model gives logits that are not numbers: fine-tune it again, with a lower "
            "learning rate."
        )
    return np.where(is_token, logits, -np.inf)


def _rank(
    windows: Windows,
    indices: np.ndarray,
    logits: tuple[np.ndarray, np.ndarray],
    most: int,
    parameters: DecodingParameters,
) -> dict[int, tuple[list, ...]]:
    """Returns the answers that windows allow, by question, the best first.

    They are columns of the fields of `_Candidate`: there are many more than will be looked at.

    Args:
      windows: all windows.
      indices: int [some], of those to look at.
      logits: of all windows, without padding.
      most: starts and ends of a window to consider.
      parameters: how to choose.
    """
    start_logits, end_logits = (of[indices] for of in logits)
    # Of equals the original takes those that come first, here and in the order of answers.
    starts, ends = (
        np.argsort(-of, axis=1, kind="stable")[:, :most] for of in (start_logits, end_logits)
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
    """Returns the best answers of different texts; no answer is always among them if it is one."""
    listed: dict[str, _Candidate] = {}
    for candidate in candidates:
        if null is not None and "" not in listed and null.score > candidate.score:
            listed[""] = null
        if len(listed) >= size:
            break
        listed.setdefault(context[candidate.start : candidate.end], candidate)
    if null is not None:
        listed.setdefault("", null)
    # A context without a single piece.
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
