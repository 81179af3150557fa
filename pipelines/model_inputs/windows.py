"""Turns questions into windows: [CLS] question [SEP] context [SEP], as the original run_squad.py.

Everything is NumPy; windows of different lengths lie end to end in one array.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.tasks.squad import Question
from beambert.ragged import ranges, starts_of

if TYPE_CHECKING:  # This module imports TensorFlow.
    from beambert.pipelines.tokenizers.encoding import SubwordOffsets
    from beambert.pipelines.tokenizers.wordpiece import OffsetPieces, OffsetTokenizer

# Number of special tokens in a window, [CLS] and two [SEP]; see run_squad.py,
# convert_examples_to_features. RoBERTa has one [SEP] more behind the question.
SPECIAL_TOKENS = 3
# Start and end position in a window without the answer: the position of [CLS].
NO_ANSWER = 0


@dataclasses.dataclass(frozen=True)
class WindowParameters:
    """The size of windows; names and defaults are those of the original script's flags.

    Attributes:
      max_seq_length: greatest number of tokens in a window.
      doc_stride: number of word pieces from the start of one window to the start of the next.
      max_query_length: greatest number of word pieces of a question; the rest is cut off.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self) -> None:
        """Refuses windows that have no room for a context.

        Raises:
          InputError: the windows are too short.
          ValueError: another field is less than 1.
        """
        if min(self.max_query_length, self.doc_stride) < 1:
            raise ValueError(f"{self}: max_query_length and doc_stride must be at least 1")
        least = self.max_query_length + SPECIAL_TOKENS + 1
        if self.max_seq_length < least:
            raise InputError(
                f"--max_seq_length={self.max_seq_length}: leaves no room for a context beside a "
                f"question of {self.max_query_length} tokens; give {least} or more"
            )

    @classmethod
    def of_length(cls, max_seq_length: int) -> "WindowParameters":
        """Returns the original's defaults, with smaller values for short windows."""
        third = max_seq_length // 3
        return cls(max_seq_length, min(cls.doc_stride, third), min(cls.max_query_length, third))


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
    parameters: WindowParameters,
) -> Windows:
    """Returns the windows of all questions in order; each question has at least one."""
    numbers: dict[str, int] = {}
    context_of = np.array(
        [numbers.setdefault(question.context, len(numbers)) for question in questions], np.int64
    )
    contexts = tokenizer.tokenize_batch(list(numbers))
    queries = tokenizer.tokenize_batch([question.question for question in questions])

    query_lengths = np.minimum(queries.lengths, parameters.max_query_length)
    vocabulary = tokenizer.vocabulary
    more = vocabulary.separators - 1
    room = parameters.max_seq_length - SPECIAL_TOKENS - more - query_lengths
    steps = np.minimum(room, parameters.doc_stride)
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


@dataclasses.dataclass(frozen=True)
class LostAnswer:
    """A question whose features yield none of its answers exactly.

    Attributes:
      id: id of the question.
      text: first answer of the question.
      found: text that the features yield instead, or None if no window has the answer.
    """

    id: str
    text: str
    found: str | None


def lost_answers(questions: Sequence[Question], windows: Windows) -> list[LostAnswer]:
    """Returns the answers that cannot be learned exactly; white space around them does not count.

    Most of them are part of a word that is one word piece, such as "Japan" in "Japanese".
    """
    found: dict[int, str] = {}
    indices = np.flatnonzero(windows.start_positions != NO_ANSWER)
    starts, ends = windows.characters(
        indices, windows.start_positions[indices], windows.end_positions[indices]
    )
    owners = windows.question_index[indices]
    for owner, start, end in zip(owners.tolist(), starts.tolist(), ends.tolist(), strict=True):
        found[owner] = questions[owner].context[start:end]
    return [
        LostAnswer(question.id, question.answers[0].text, found.get(number))
        for number, question in enumerate(questions)
        if question.answers
        and found.get(number) not in {answer.text.strip() for answer in question.answers}
    ]
