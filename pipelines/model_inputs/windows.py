"""Questions -> windows of [CLS] question [SEP] context [SEP], as the original's run_squad.py.

Pure numpy; windows of different lengths lie end to end.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.ragged import ranges, starts_of
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.wordpiece.vocabulary import CLASSIFY, SEPARATE

if TYPE_CHECKING:  # Its module imports TensorFlow.
    from beambert.pipelines.wordpiece.offsets import OffsetPieces, OffsetTokenizer

# run_squad.py, convert_examples_to_features: [CLS] and two [SEP].
SPECIAL_TOKENS = 3
# Position of [CLS], where a window without the answer has its start and end.
NO_ANSWER = 0


@dataclasses.dataclass(frozen=True)
class WindowParameters:
    """What shapes windows; the names and defaults are the original script's flags.

    Attributes:
      max_seq_length: most tokens of a window.
      doc_stride: pieces from the start of one window of a context to that of the next.
      max_query_length: most pieces of a question; the rest is cut off.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self) -> None:
        """Refuses windows that have no room for a context.

        Raises:
          InputError: they are too short.
          ValueError: another field is less than 1.
        """
        if min(self.max_query_length, self.doc_stride) < 1:
            raise ValueError(f"{self}: max_query_length and doc_stride must be at least 1")
        least = self.max_query_length + SPECIAL_TOKENS + 1
        if self.max_seq_length < least:
            raise InputError(
                f"--max_seq_length={self.max_seq_length} has no room for a context beside a "
                f"question of {self.max_query_length} tokens: give {least} or more."
            )

    @classmethod
    def of_length(cls, max_seq_length: int) -> "WindowParameters":
        """Returns the original's, or smaller ones where windows are shorter than its."""
        third = max_seq_length // 3
        return cls(max_seq_length, min(cls.doc_stride, third), min(cls.max_query_length, third))


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of questions, those of a question next to each other.

    Attributes:
      input_ids: int32 [tokens].
      segment_ids: int32 [tokens], 0 up to the first [SEP], then 1.
      lengths: int64 [windows], tokens of each.
      start_positions: int64 [windows], the answer's first token in the window, or `NO_ANSWER`
        where the window doesn't have all of it.
      end_positions: int64 [windows], its last token.
      question_index: int64 [windows].
      context_positions: int64 [windows], the token that is the context's first in the window.
      first_pieces: int64 [windows], which piece that is.
      piece_starts: int32 [pieces], the first character of each piece in its context, for all
        contexts.
      piece_ends: int32 [pieces], the character after its last.
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
        """Pieces of the context in each window, int64 [windows]."""
        return self.lengths - self.context_positions - 1

    def characters(
        self, windows: np.ndarray, starts: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns what tokens of windows are in their contexts.

        Args:
          windows: indices of windows, any shape.
          starts: the first token, a position in the window's context; the same shape.
          ends: the last token, likewise.

        Returns:
          The first characters, and the characters after the last.
        """
        shifts = self.first_pieces[windows] - self.context_positions[windows]
        return self.piece_starts[starts + shifts], self.piece_ends[ends + shifts]


def make_windows(
    questions: Sequence[Question], tokenizer: "OffsetTokenizer", parameters: WindowParameters
) -> Windows:
    """Returns the windows of all questions: at least one each, in their order."""
    numbers: dict[str, int] = {}
    context_of = np.array(
        [numbers.setdefault(question.context, len(numbers)) for question in questions], np.int64
    )
    contexts = tokenizer.tokenize_batch(list(numbers))
    queries = tokenizer.tokenize_batch([question.question for question in questions])

    query_lengths = np.minimum(queries.lengths, parameters.max_query_length)
    room = parameters.max_seq_length - SPECIAL_TOKENS - query_lengths
    steps = np.minimum(room, parameters.doc_stride)
    beyond = np.maximum(contexts.lengths[context_of] - room, 0)
    counts = 1 + -(-beyond // steps)
    owner = np.repeat(np.arange(len(questions)), counts)
    skipped = ranges(np.zeros_like(counts), counts) * steps[owner]
    taken = np.minimum(room[owner], contexts.lengths[context_of[owner]] - skipped)
    first_pieces = starts_of(contexts.lengths)[context_of[owner]] + skipped
    context_positions = query_lengths[owner] + 2
    lengths = context_positions + taken + 1

    starts = starts_of(lengths)
    vocabulary = tokenizer.vocabulary
    input_ids = np.full(lengths.sum(), vocabulary.id_of(SEPARATE), np.int32)
    input_ids[starts] = vocabulary.id_of(CLASSIFY)
    query_pieces = ranges(starts_of(queries.lengths)[owner], query_lengths[owner])
    input_ids[ranges(starts + 1, query_lengths[owner])] = queries.ids[query_pieces]
    input_ids[ranges(starts + context_positions, taken)] = contexts.ids[ranges(first_pieces, taken)]
    segment_lengths = np.stack([context_positions, taken + 1], axis=1).ravel()
    segment_ids = np.repeat(np.tile(np.array([0, 1], np.int32), len(owner)), segment_lengths)

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
    """Returns the first and last pieces of the answers to learn, int64 [2, questions].

    The original has one answer a question. Of several it is the first that begins and ends with a
    piece, if there is one, or else the first. Without an answer the last piece is before the first.
    """
    found = np.tile(np.array([[0], [-1]]), len(questions))
    places = [
        (number, answer.start, answer.start + len(answer.text))
        for number, question in enumerate(questions)
        for answer in question.answers
        if answer.start is not None
    ]
    owners, starts, ends = np.array(places, np.int64).reshape(-1, 3).T
    # Contexts as one text, so that all answers can be looked up at once; it ends with a piece that
    # no answer has.
    text_starts = starts_of(np.array([len(text) for text in texts], np.int64))
    shifts = np.repeat(text_starts, contexts.lengths)
    piece_starts = np.append(contexts.starts + shifts, np.iinfo(np.int64).max)
    piece_ends = np.append(contexts.ends + shifts, np.iinfo(np.int64).max)
    starts, ends = (of + text_starts[context_of[owners]] for of in (starts, ends))
    first = np.searchsorted(piece_ends, starts, side="right")
    last = np.searchsorted(piece_starts, ends, side="left") - 1
    is_exact = (piece_starts[first] == starts) & (piece_ends[last] == ends)
    order = np.lexsort((~is_exact, owners))
    learned, chosen = np.unique(owners[order], return_index=True)
    found[:, learned] = np.stack([first, last])[:, order[chosen]]
    return found


def has_most_context(windows: Windows, indices: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Whether no other window of the question has more context around a token.

    As run_squad.py's _check_is_max_context: the lesser of the tokens to its left and right counts,
    and 0.01 times the window's length; of equals the first window has it.

    Args:
      windows: all windows.
      indices: the tokens' windows, of any shape.
      positions: where the tokens are in them, inside the context; the same shape.
    """
    pieces = windows.first_pieces[indices] + positions - windows.context_positions[indices]
    own = _context_scores(windows, indices, pieces)
    result = np.ones(np.shape(indices), bool)
    # Windows are as far apart, so that one which has more context than the next on either side has
    # more than those beyond.
    for distance in (-1, 1):
        others = np.clip(indices + distance, 0, len(windows) - 1)
        scores = _context_scores(windows, others, pieces)
        is_better = scores >= own if distance < 0 else scores > own
        # At the ends a window would be its own neighbour.
        is_other = (others == indices + distance) & (
            windows.question_index[others] == windows.question_index[indices]
        )
        result &= ~(is_other & is_better)
    return result


def _context_scores(windows: Windows, indices: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """Returns how much context windows give to pieces; -inf where they don't have them."""
    left = pieces - windows.first_pieces[indices]
    lengths = windows.context_lengths[indices]
    right = lengths - 1 - left
    scores = np.minimum(left, right) + 0.01 * lengths
    return np.where((left >= 0) & (right >= 0), scores, -np.inf)


@dataclasses.dataclass(frozen=True)
class LostAnswer:
    """A question none of whose answers the features give back.

    Attributes:
      id: of the question.
      text: its first answer.
      found: what the features give instead, or None where no window has the answer.
    """

    id: str
    text: str
    found: str | None


def lost_answers(questions: Sequence[Question], windows: Windows) -> list[LostAnswer]:
    """Returns what cannot be learned exactly; white space around an answer does not count.

    Most are part of a word that is one piece, such as "Japan" in "Japanese".
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
