"""Turns questions into windows: [CLS] question [SEP] context [SEP], as the original run_squad.py.

Everything is NumPy; windows of different lengths lie end to end in one array.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.pretraining.documents import ranges, starts_of
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import TaskFeatures

if TYPE_CHECKING:
    from beambert.pipelines.tokenizers.encoding import SubwordOffsets
    from beambert.pipelines.tokenizers.word_pieces import OffsetPieces, OffsetTokenizer

# Number of special tokens in a window, [CLS] and two [SEP]; see run_squad.py,
# convert_examples_to_features. RoBERTa has one [SEP] more behind the question.
SPECIAL_TOKENS = 3
# Start and end position in a window without the answer: the position of [CLS].
NO_ANSWER = 0
# Defaults of the original script's flags: number of word pieces from the start of one window to the
# start of the next, and greatest number of those of a question, of which the rest is cut off.
DOC_STRIDE, MAX_QUERY_LENGTH = 128, 64
# And number of starts and of ends that are considered in a window, and of answers in an n-best
# list; and greatest number of word pieces in an answer.
N_BEST_SIZE, MAX_ANSWER_LENGTH = 20, 30


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of questions; the windows of one question follow each other.

    Attributes:
      input_ids: int32 [tokens], ids of all windows end to end.
      segment_ids: int32 [tokens], 0 up to the context, then the vocabulary's `second_segment`.
      lengths: int64 [windows], number of tokens in each window.
      start_positions: int64 [windows], position of the answer's first token in the window, or
        `NO_ANSWER` if the window lacks a part of the answer.
      end_positions: int64 [windows], position of the answer's last token, or `NO_ANSWER`.
      question_index: int64 [windows], index of the window's question.
      context_positions: int64 [windows], position of the first token of the context.
      first_pieces: int64 [windows], index of that token among the word pieces of all contexts.
      piece_starts: int32 [pieces], first character of each word piece in its context; the pieces
        of all contexts lie end to end.
      piece_ends: int32 [pieces], character after the last of each word piece.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray
    lengths: np.ndarray
    start_positions: np.ndarray
    end_positions: np.ndarray
    question_index: np.ndarray
    context_positions: np.ndarray
    first_pieces: np.ndarray
    piece_starts: np.ndarray
    piece_ends: np.ndarray

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.lengths)

    @property
    def context_lengths(self) -> np.ndarray:
        """Number of word pieces of the context in each window, int64 [windows]."""
        return self.lengths - self.context_positions - 1

    def characters(
        self, windows: np.ndarray, starts: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns which characters of the contexts some spans of tokens are.

        Args:
          windows: indices of windows, any shape.
          starts: position of each span's first token in its window, inside the context; the same
            shape.
          ends: position of each span's last token; the same shape.

        Returns:
          The first characters, and the characters after the last, of the same shape.
        """
        shifts = self.first_pieces[windows] - self.context_positions[windows]
        return self.piece_starts[starts + shifts], self.piece_ends[ends + shifts]


def make_windows(
    questions: Sequence[Question],
    tokenizer: "OffsetTokenizer | SubwordOffsets",
    max_seq_length: int,
    doc_stride: int | None = None,
    max_query_length: int | None = None,
) -> Windows:
    """Returns the windows of all questions in order; each question has at least one.

    Args:
      questions: the questions.
      tokenizer: cuts texts into word pieces.
      max_seq_length: greatest number of tokens in a window.
      doc_stride, max_query_length: see `DOC_STRIDE`; None for the defaults, of which each is at
        most a third of a window.
    """
    third = max_seq_length // 3
    doc_stride = doc_stride or min(DOC_STRIDE, third)
    max_query_length = max_query_length or min(MAX_QUERY_LENGTH, third)
    numbers: dict[str, int] = {}
    context_of = np.array(
        [numbers.setdefault(question.context, len(numbers)) for question in questions], np.int64
    )
    contexts = tokenizer.tokenize_batch(list(numbers))
    queries = tokenizer.tokenize_batch([question.question for question in questions])

    query_lengths = np.minimum(queries.lengths, max_query_length)
    vocabulary = tokenizer.vocabulary
    more = vocabulary.separators - 1
    room = max_seq_length - SPECIAL_TOKENS - more - query_lengths
    steps = np.minimum(room, doc_stride)
    beyond = np.maximum(contexts.lengths[context_of] - room, 0)
    counts = 1 + -(-beyond // steps)
    owner = np.repeat(np.arange(len(questions)), counts)
    skipped = ranges(np.zeros_like(counts), counts) * steps[owner]
    taken = np.minimum(room[owner], contexts.lengths[context_of[owner]] - skipped)
    first_pieces = starts_of(contexts.lengths)[context_of[owner]] + skipped
    context_positions = query_lengths[owner] + 2 + more
    lengths = context_positions + taken + 1

    starts = starts_of(lengths)
    input_ids = np.full(lengths.sum(), vocabulary.special.separate, np.int32)
    input_ids[starts] = vocabulary.special.classify
    query_pieces = ranges(starts_of(queries.lengths)[owner], query_lengths[owner])
    input_ids[ranges(starts + 1, query_lengths[owner])] = queries.ids[query_pieces]
    input_ids[ranges(starts + context_positions, taken)] = contexts.ids[ranges(first_pieces, taken)]
    segment_lengths = np.stack([context_positions, taken + 1], axis=1).ravel()
    segments = np.array([0, vocabulary.second_segment], np.int32)
    segment_ids = np.repeat(np.tile(segments, len(owner)), segment_lengths)

    first, last = _answer_pieces(questions, context_of, list(numbers), contexts)[:, owner]
    has_answer = (first <= last) & (first >= first_pieces) & (last < first_pieces + taken)
    shifts = context_positions - first_pieces
    return Windows(
        input_ids=input_ids,
        segment_ids=segment_ids,
        lengths=lengths,
        start_positions=np.where(has_answer, first + shifts, NO_ANSWER),
        end_positions=np.where(has_answer, last + shifts, NO_ANSWER),
        question_index=owner,
        context_positions=context_positions,
        first_pieces=first_pieces,
        piece_starts=contexts.starts,
        piece_ends=contexts.ends,
    )


def span_features(windows: Windows) -> TaskFeatures:
    """Returns the features of windows; each window counts as an example."""
    targets = {
        "start_positions": windows.start_positions.astype(np.int32),
        "end_positions": windows.end_positions.astype(np.int32),
    }
    return TaskFeatures(windows.input_ids, windows.segment_ids, windows.lengths, targets, {})


def _answer_pieces(
    questions: Sequence[Question],
    context_of: np.ndarray,
    texts: Sequence[str],
    contexts: "OffsetPieces",
) -> np.ndarray:
    """Returns the first and the last piece of the answers to learn, int64 [2, questions].

    A question has one answer to learn: the first whose ends are ends of word pieces or, if there is
    none, the first. For a question without an answer the last piece is before the first.
    """
    found = np.tile(np.array([[0], [-1]]), len(questions))
    places = [
        (number, answer.start, answer.start + len(answer.text))
        for number, question in enumerate(questions)
        for answer in question.answers
        if answer.start is not None
    ]
    owners, starts, ends = np.array(places, np.int64).reshape(-1, 3).T
    # All contexts are treated as one text, so that one search finds all answers. A last piece
    # beyond all answers keeps the indices in range.
    text_starts = starts_of(np.array([len(text) for text in texts], np.int64))
    shifts = np.repeat(text_starts, contexts.lengths)
    piece_starts = np.append(contexts.starts + shifts, np.iinfo(np.int64).max)
    piece_ends = np.append(contexts.ends + shifts, np.iinfo(np.int64).max)
    starts, ends = (each + text_starts[context_of[owners]] for each in (starts, ends))
    first = np.searchsorted(piece_ends, starts, side="right")
    last = np.searchsorted(piece_starts, ends, side="left") - 1
    is_exact = (piece_starts[first] == starts) & (piece_ends[last] == ends)
    order = np.lexsort((~is_exact, owners))
    learned, chosen = np.unique(owners[order], return_index=True)
    found[:, learned] = np.stack([first, last])[:, order[chosen]]
    return found


def has_most_context(windows: Windows, indices: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Whether no other window of the question has more context around a token.

    This equals _check_is_max_context of run_squad.py. The score of a window is the lesser of the
    numbers of context tokens to the left and right, plus 0.01 times the length of its context.
    Among equal windows the first wins.

    Args:
      windows: all windows.
      indices: indices of the tokens' windows, any shape.
      positions: positions of the tokens in their windows, inside the context; the same shape.
    """
    pieces = windows.first_pieces[indices] + positions - windows.context_positions[indices]
    own = _context_scores(windows, indices, pieces)
    result = np.ones(np.shape(indices), bool)
    # Windows have equal distances, so that it is enough to compare with the nearest on both sides.
    for distance in (-1, 1):
        others = np.clip(indices + distance, 0, len(windows) - 1)
        scores = _context_scores(windows, others, pieces)
        is_better = scores >= own if distance < 0 else scores > own
        # Clipping makes the first and the last window their own neighbours.
        is_other = (others == indices + distance) & (
            windows.question_index[others] == windows.question_index[indices]
        )
        result &= ~(is_other & is_better)
    return result


def _context_scores(windows: Windows, indices: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """Returns the scores of pieces in windows; -inf where the window lacks the piece."""
    left = pieces - windows.first_pieces[indices]
    lengths = windows.context_lengths[indices]
    right = lengths - 1 - left
    scores = np.minimum(left, right) + 0.01 * lengths
    return np.where((left >= 0) & (right >= 0), scores, -np.inf)


# Number of questions that are decoded at a time: all pairs of starts and ends must fit in memory.
_QUESTIONS_AT_A_TIME = 1000
# Null odds of a question without any candidate answer; JSON has no infinity.
CERTAIN = float(np.finfo(np.float32).max)


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
    n_best_size: int = N_BEST_SIZE,
    max_answer_length: int = MAX_ANSWER_LENGTH,
) -> SquadPredictions:
    """Chooses the answers to questions.

    Args:
      questions: the questions.
      windows: their windows, see `make_windows`.
      start_logits: logits of each token being the first of the answer, float [windows, at least
        the length of the longest window]; values behind the end of a window do not matter.
      end_logits: logits of each token being the last of the answer, of the same shape.
      allows_no_answer: whether "no answer" is an answer (v2.0). Its score is that of [CLS] in the
        window where this score is least. The answer is "" if its score is greater than that of the
        best answer.
      n_best_size, max_answer_length: see `N_BEST_SIZE`.

    Raises:
      InputError: the logits are not finite.
    """
    logits = tuple(_without_padding(given, windows) for given in (start_logits, end_logits))
    answers, n_best, null_odds, places, scores = {}, {}, {}, {}, {}
    for first in range(0, len(questions), _QUESTIONS_AT_A_TIME):
        some = range(first, min(first + _QUESTIONS_AT_A_TIME, len(questions)))
        bounds = np.searchsorted(windows.question_index, [*some, some.stop])
        indices = np.arange(bounds[0], bounds[-1])
        ranked = _rank(windows, indices, logits, n_best_size, max_answer_length)
        for number, (start, end) in zip(some, itertools.pairwise(bounds), strict=True):
            question = questions[number]
            if number not in ranked:
                # None of the best starts fits one of the best ends, so that all are tried.
                own, most = np.arange(start, end), logits[0].shape[1]
                ranked |= _rank(windows, own, logits, most, max_answer_length)
            candidates = ranked.get(number, ([], [], [], []))
            best = next(map(_Candidate, *candidates), None)
            null = _null(logits, start, end) if allows_no_answer else None
            listed = _list_best(question.context, map(_Candidate, *candidates), null, n_best_size)
            n_best[question.id] = _with_probabilities(listed)
            places[question.id] = (best.start, best.end) if best else (0, 0)
            scores[question.id] = best.score if best else -math.inf
            if null is not None:
                odds = null.score - best.start_logit - best.end_logit if best else CERTAIN
                null_odds[question.id] = odds
                if odds > 0:
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
    max_answer_length: int,
) -> dict[int, tuple[list, ...]]:
    """Returns the candidate answers of some windows by question, the best first.

    They are columns, one for each field of `_Candidate`, because only few of them become objects.

    Args:
      windows: all windows.
      indices: int [some], indices of the windows to look at.
      logits: logits of starts and of ends of all windows, -inf in the padding.
      most: number of starts and of ends to consider in each window.
      max_answer_length: greatest number of word pieces in an answer.
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
    is_answer &= (pieces >= 1) & (pieces <= max_answer_length)

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
