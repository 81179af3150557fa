"""Reads questions from SQuAD's official JSON (Rajpurkar et al. 2016, 2018), v1.1 and v2.0.

No question is dropped. An answer that is not where the file says is moved to its nearest occurrence
or reported. A file that cannot be read stops the job with an error that names the question.
"""

import collections
import dataclasses
import json
import pathlib
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beambert.errors import InputError

_TYPE_NAMES = {str: "string", list: "list", dict: "object", int: "whole number"}


@dataclasses.dataclass(frozen=True)
class Answer:
    """A right answer.

    Attributes:
      text: the answer as the file has it.
      start: position of its first character in the context, or None if the context lacks it.
    """

    text: str
    start: int | None


@dataclasses.dataclass(frozen=True)
class Question:
    """A question on a paragraph.

    Attributes:
      id: key of the question in the files of predictions.
      question: text of the question.
      context: the paragraph.
      answers: the right answers; empty if the question is impossible.
      is_impossible: whether the context does not answer the question (v2.0).
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    is_impossible: bool

    @property
    def truth(self) -> tuple[Answer, ...]:
        """The right answers."""
        return self.answers

    @property
    def columns(self) -> dict[str, str]:
        """Always empty; it exists because the examples of tables have columns."""
        return {}

    def texts(self) -> dict[str, str]:
        """Returns the texts by the names of a SavedModel's inputs."""
        return {"question": self.question, "context": self.context}


@dataclasses.dataclass(frozen=True)
class QuestionFile:
    """The questions of a file.

    Attributes:
      path: path of the file.
      questions: all questions, in the order of the file.
      moved: id of the question for each answer that is not at its `answer_start` but elsewhere in
        the context. The occurrence nearest to `answer_start` was taken.
      rejected: ids of the questions that have answers, but none that is in the context. A model
        can answer them and be scored on them, but not learn from them.
    """

    path: pathlib.Path
    questions: tuple[Question, ...]
    moved: tuple[str, ...]
    rejected: tuple[str, ...]

    def learnable(self) -> list[Question]:
        """Returns the questions without the rejected ones.

        Raises:
          InputError: no question is left.
        """
        rejected = set(self.rejected)
        found = [question for question in self.questions if question.id not in rejected]
        if not found:
            raise InputError(
                f"{self.path}: none of the answers is in its context, so there is nothing to "
                "learn from; correct them"
            )
        return found

    def notes(self) -> list[str]:
        """Returns a sentence on moved answers and one on rejected questions, if there are any."""
        sentences = []
        if self.moved:
            sentences.append(
                f"{self.path}: {len(self.moved)} answers are not at their answer_start and were "
                f"found elsewhere in their contexts; the first belongs to question "
                f"{self.moved[0]!r}."
            )
        if self.rejected:
            sentences.append(
                f"{self.path}: {len(self.rejected)} questions have no answer that is in their "
                f"contexts and are left out of training: {', '.join(self.rejected)}."
            )
        return sentences


def read_questions(path: pathlib.Path, allows_no_answer: bool = True) -> QuestionFile:
    """Reads a file of questions; a byte order mark does not matter.

    Args:
      path: path of the file.
      allows_no_answer: whether questions may be impossible (v2.0).

    Raises:
      InputError: the file cannot be read or does not have SQuAD's layout, two questions have the
        same id, a question without answers is not marked as impossible, a question with answers
        is, an answer is empty, or a question is impossible though none may be.
    """
    articles = _get(_load(path), "data", list, str(path))
    questions: dict[str, Question] = {}
    moved: list[str] = []
    for number, article in enumerate(articles, 1):
        for question, moved_answers in _read_article(article, f"{path}: article {number}"):
            if question.id in questions:
                raise InputError(
                    f"{path}: two questions have the id {question.id!r}; give each question an id "
                    "of its own"
                )
            questions[question.id] = question
            moved += [question.id] * moved_answers
    if not questions:
        raise InputError(f'{path}: has no questions; put at least one under "data"')
    impossible = [question.id for question in questions.values() if question.is_impossible]
    if impossible and not allows_no_answer:
        raise InputError(
            f"{path}: {len(impossible)} of {len(questions)} questions are impossible, the first is "
            f"{impossible[0]!r}; take the task squad2.0, or leave them out"
        )
    return QuestionFile(
        path=path,
        questions=tuple(questions.values()),
        moved=tuple(moved),
        rejected=tuple(
            question.id
            for question in questions.values()
            if question.answers and all(answer.start is None for answer in question.answers)
        ),
    )


def _load(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text (byte {error.start}); convert it, or name SQuAD's JSON"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); name a file of SQuAD's layout") from error


def _get(parent: Any, key: str, kind: type, where: str) -> Any:
    """Returns the value of a key that must exist.

    Raises:
      InputError: the key is missing, or its value has another type.
    """
    value = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(
            f'{where}: has no {_TYPE_NAMES[kind]} under "{key}"; SQuAD\'s layout is data, '
            "paragraphs, context and qas, question, id and answers, text and answer_start"
        )
    # A lone surrogate (half a character, from a broken escape) could not be written to any file.
    return value.encode("utf-8", "replace").decode() if kind is str else value


def _read_article(article: Any, where: str) -> Iterator[tuple[Question, int]]:
    """Yields an article's questions, each with the number of its answers that were moved."""
    paragraphs = _get(article, "paragraphs", list, where)
    for number, paragraph in enumerate(paragraphs, 1):
        place = f"{where}, paragraph {number}"
        context = _get(paragraph, "context", str, place)
        for entry in _get(paragraph, "qas", list, place):
            yield _read_question(entry, context, place)


def _read_question(entry: Any, context: str, place: str) -> tuple[Question, int]:
    identifier = _get(entry, "id", str, f"{place}, a question")
    where = f"{place}, question {identifier!r}"
    text = _get(entry, "question", str, where)
    answers = _get(entry, "answers", list, where)
    is_impossible = entry.get("is_impossible", False)
    if not isinstance(is_impossible, bool):
        raise InputError(f'{where}: has neither true nor false under "is_impossible"; write one')
    if is_impossible == bool(answers):
        raise InputError(
            f"{where}: is marked as impossible and has answers; remove one or the other"
            if answers
            else f'{where}: has no answers; add one, or mark it with "is_impossible": true'
        )
    found, moved = [], 0
    for answer in answers:
        answer_text = _get(answer, "text", str, f"{where}, an answer")
        stated = _get(answer, "answer_start", int, f"{where}, an answer")
        if not answer_text.strip():
            raise InputError(f"{where}: has an empty answer; fill it in, or remove it")
        start = _nearest(context, answer_text, stated)
        moved += start is not None and start != stated
        found.append(Answer(answer_text, start))
    return Question(identifier, text, context, tuple(found), is_impossible), moved


def _nearest(context: str, text: str, stated: int) -> int | None:
    """Returns the start of the occurrence nearest to the stated start; None without one."""
    stated = max(stated, 0)
    if context.startswith(text, stated):
        return stated
    before, after = context.rfind(text, 0, stated + len(text)), context.find(text, stated)
    found = [start for start in (before, after) if start >= 0]
    return min(found, key=lambda start: abs(start - stated), default=None)


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

    The rules are those of evaluate-v1.1.py and evaluate-v2.0.py.

    Args:
      questions: the questions, see `read_questions`.
      predictions: id of each question -> its answer. For v2.0, the null odds have already decided
        which answers are "".
      allows_no_answer: whether questions may have no answer, see `Task`.
      null_odds: id of each question -> its null odds (v2.0). They serve only to find the best
        thresholds, while the official scorer also replaces answers by "" according to them.

    Returns:
      Scores with the metrics `exact_match` and `f1` of v1.1; of v2.0 `exact`, `f1`, `total`, with
      `HasAns_…` for the questions with answers and `NoAns_…` for the others. With null odds there
      are also `best_exact` and `best_f1`, the best scores that a threshold on the odds gives, and
      these thresholds, `best_exact_thresh` and `best_f1_thresh`.
    """
    has_answer = np.array([bool(question.answers) for question in questions])
    exact, f1 = np.zeros(len(questions)), np.zeros(len(questions))
    for number, question in enumerate(questions):
        prediction = normalize_answer(predictions.get(question.id, ""))
        truths = {normalize_answer(answer.text) for answer in question.answers}
        if allows_no_answer:
            # Answers that consist only of articles and punctuation do not count.
            truths = truths - {""} or {""}
        exact[number] = prediction in truths
        f1[number] = max(
            prediction == truth
            if allows_no_answer and not (prediction and truth)
            else word_f1(prediction, truth)
            for truth in truths
        )
    if not allows_no_answer:
        return Scores(exact, f1, {"exact_match": 100 * exact.mean(), "f1": 100 * f1.mean()})
    metrics = _means("", exact, f1)
    for prefix, mask in (("HasAns_", has_answer), ("NoAns_", ~has_answer)):
        if mask.any():
            metrics |= _means(prefix, exact[mask], f1[mask])
    if null_odds is not None:
        is_given = np.array([predictions[question.id] != "" for question in questions])
        odds = np.array([null_odds[question.id] for question in questions])
        # Questions with equal odds stay in the order of the null odds file.
        places = {identifier: place for place, identifier in enumerate(null_odds)}
        order = np.lexsort(([places[question.id] for question in questions], odds))
        for name, raw in (("exact", exact), ("f1", f1)):
            gains = np.where(has_answer, raw, -1.0 * is_given)[order]
            metrics |= _best_threshold(name, gains, odds[order], np.count_nonzero(~has_answer))
    return Scores(exact, f1, metrics)


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
