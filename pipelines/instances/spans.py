"""Chooses spans of words to predict, as SpanBERT does (Joshi et al. 2020, section 3.1). Pure numpy.

Legend: N rows, L max_seq_length, S prediction slots.
"""

import numpy as np

# Lengths in words are geometric with p = 0.2 and at most 10; their mean is 3.8 (section 3.1).
SPAN_PROBABILITY, LONGEST_SPAN = 0.2, 10


def span_shares() -> np.ndarray:
    """Returns the share of each length from 1 to `LONGEST_SPAN` words, float64 with sum 1."""
    shares = SPAN_PROBABILITY * (1 - SPAN_PROBABILITY) ** np.arange(LONGEST_SPAN)
    return shares / shares.sum()


def draw_lengths(rows: int, slots: int, random: np.random.Generator) -> np.ndarray:
    """Draws the length of each span in words, int64 [rows, slots]."""
    ends = np.cumsum(span_shares())[:-1]
    return 1 + np.searchsorted(ends, random.random((rows, slots)), side="right")


def choose_spans(
    key_NL: np.ndarray,
    is_start_NL: np.ndarray,
    fixed_NL: np.ndarray,
    wanted_N: np.ndarray,
    length_NS: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses spans of whole words until each row has what is wanted.

    A span begins with the word of a random token that isn't chosen yet, and ends before a token
    that may not be chosen. It may run into an earlier span. The last one ends where the row has
    enough tokens, which may be inside a word. All rows are computed at once: round k looks at the
    token of every row that has the k-th smallest key.

    Args:
      key_NL: uint32 [N, L], random; the keys of a row all differ.
      is_start_NL: bool [N, L], true where a word starts; the first token and those behind a fixed
        token start one anyway.
      fixed_NL: bool [N, L], true for tokens that may not be chosen and belong to no word.
      wanted_N: int [N], number of tokens to choose: no more than may be chosen, and at most S.
      length_NS: int [N, S], number of words of each span of a row, in order.

    Returns:
      The chosen positions, int64 [N, S], ascending and filled up with L; and the number of the span
      of each position, int64 [N, S].
    """
    rows, length = key_NL.shape
    slots = length_NS.shape[1]
    is_start_NL = is_start_NL | np.pad(fixed_NL, ((0, 0), (1, 0)), constant_values=True)[:, :-1]
    is_start_NL |= fixed_NL
    word_NL = np.cumsum(is_start_NL, axis=1) - 1
    # Place at which each word starts, and L behind the last of them.
    start_NW = np.full((rows, length + LONGEST_SPAN), length)
    row_K, place_K = np.nonzero(is_start_NL)
    start_NW[row_K, word_NL[row_K, place_K]] = place_K
    place_NL = np.where(fixed_NL, np.arange(length), length)
    # Place of the next token that may not be chosen.
    limit_NL = np.minimum.accumulate(place_NL[:, ::-1], axis=1)[:, ::-1]
    span_NL = np.where(fixed_NL, slots, -1)
    order_NL = np.argsort(np.where(fixed_NL, np.uint32(0xFFFFFFFF), key_NL), axis=1)
    left_N, spans_N = wanted_N.copy(), np.zeros(rows, np.int64)
    for anchor_N in order_NL.T:
        row_R = np.flatnonzero(left_N)
        if not len(row_R):
            break
        row_R = row_R[span_NL[row_R, anchor_N[row_R]] < 0]
        if not len(row_R):
            continue
        word_R = word_NL[row_R, anchor_N[row_R]]
        start_R = start_NW[row_R, word_R]
        number_R = spans_N[row_R]
        end_R = start_NW[row_R, word_R + length_NS[row_R, number_R]]
        end_R = np.minimum(end_R, limit_NL[row_R, start_R])
        place_RJ = start_R[:, None] + np.arange((end_R - start_R).max())
        is_inside_RJ = place_RJ < end_R[:, None]
        place_RJ = np.minimum(place_RJ, length - 1)
        is_new_RJ = is_inside_RJ & (span_NL[row_R[:, None], place_RJ] < 0)
        is_new_RJ &= np.cumsum(is_new_RJ, axis=1) <= left_N[row_R, None]
        new_K, column_K = np.nonzero(is_new_RJ)
        span_NL[row_R[new_K], place_RJ[new_K, column_K]] = number_R[new_K]
        left_N[row_R] -= is_new_RJ.sum(axis=1)
        spans_N[row_R] += 1
    is_chosen_NL = (span_NL >= 0) & ~fixed_NL
    position_NS = np.sort(np.where(is_chosen_NL, np.arange(length), length), axis=1)[:, :slots]
    number_NS = np.take_along_axis(span_NL, np.minimum(position_NS, length - 1), axis=1)
    return position_NS, np.clip(number_NS, 0, slots - 1)
