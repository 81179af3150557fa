"""Pairs -> masked, padded arrays, thousands of rows at a time. Pure numpy.

Legend: N rows, L max_seq_length, P max_predictions_per_seq.
"""

import dataclasses

import numpy as np

from beambert.pipelines.records.contract import MASK_SHARE, RANDOM_SHARE
from beambert.pipelines.tokenizers.vocabulary import NO_ID, Vocabulary

# The position takes 12 bits of a key of 32, so that 20 random bits are left; more in a row of more
# than 4,095 tokens, of which 18 or 19 are left.
_LEAST_POSITION_BITS = 12


@dataclasses.dataclass(frozen=True)
class TokenIds:
    """The properties of a vocabulary's ids that masking and counting need.

    Attributes:
      padding, classify, separate, mask, unknown: ids of the special tokens.
      is_reserved: bool [vocabulary], true for special and `[unused…]` tokens.
      is_fixed: bool [vocabulary], true for ids that are never chosen to be predicted.
      replacements: int32 [n], ids that a random replacement is drawn from.
      is_continuation: bool [vocabulary], true for tokens that continue a word, such as "##…".
      joins_segments: whether continuing pieces at the start of B belong to the last word of A. B
        starts with such pieces where its front was cut off inside a word.
    """

    padding: int
    classify: int
    separate: int
    mask: int
    unknown: int
    is_reserved: np.ndarray
    is_fixed: np.ndarray
    replacements: np.ndarray
    is_continuation: np.ndarray
    joins_segments: bool

    @classmethod
    def of(cls, vocabulary: Vocabulary, is_reference: bool = False) -> "TokenIds":
        """Looks the ids up.

        Args:
          vocabulary: the vocabulary.
          is_reference: whether to mask as the original does. It predicts [UNK], draws replacements
            from all tokens ([PAD] and unused ones too), and joins segments.
        """
        ids = vocabulary.special
        fixed = {ids.classify, ids.separate, ids.padding}
        fixed |= set() if is_reference else {ids.unknown}
        is_reserved = vocabulary.is_reserved
        is_fixed = np.zeros(len(vocabulary), bool)
        is_fixed[sorted(fixed - {NO_ID})] = True
        return cls(
            padding=ids.padding,
            classify=ids.classify,
            separate=ids.separate,
            mask=ids.mask,
            unknown=ids.unknown,
            is_reserved=is_reserved,
            is_fixed=is_fixed,
            replacements=np.flatnonzero(~is_reserved | is_reference).astype(np.int32),
            is_continuation=vocabulary.is_continuation,
            joins_segments=is_reference,
        )


def assemble_rows(
    tokens: np.ndarray, pairs: np.ndarray, max_seq_length: int, ids: TokenIds
) -> dict[str, np.ndarray]:
    """Lays pairs out as [CLS] A [SEP] B [SEP] and padding.

    Args:
      tokens: ids that the pairs' offsets point into.
      pairs: int32 [N, 5], see `pairs.build_pairs`; each fits into L tokens.
      max_seq_length: L.
      ids: ids of the special tokens.

    Returns:
      `input_ids` int32, `input_mask` and `segment_ids` uint8, each [N, L].
    """
    from beambert.pipelines.pretraining import kernels

    special = (ids.classify, ids.separate, ids.padding)
    rows = kernels.assemble(tokens, pairs, max_seq_length, *special)
    return dict(zip(("input_ids", "input_mask", "segment_ids"), rows, strict=True))


def mask_rows(
    input_ids: np.ndarray,
    input_mask: np.ndarray,
    *,
    max_predictions_per_seq: int,
    masked_lm_prob: float,
    do_whole_word_mask: bool,
    ids: TokenIds,
    random: np.random.Generator,
    do_span_mask: bool = False,
    begins_word: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Chooses positions to predict and hides them.

    The rules are those of the original's create_masked_lm_predictions. A row gets `masked_lm_prob`
    times its number of tokens (special ones included) as predictions, at least 1 and at most P. How
    a token is hidden is drawn for each by itself, or once for a span, see `choose_spans`. Unless
    `ids` are the reference's, there are two differences: [UNK] is never chosen, since nothing can
    be learned from it; and no special or unused token is taken as a replacement.

    Args:
      input_ids: int32 [N, L], without masks.
      input_mask: uint8 [N, L], 1 for tokens and 0 for padding.
      max_predictions_per_seq: P.
      masked_lm_prob: share of the tokens to predict; 0.15 in the paper.
      do_whole_word_mask: whether to choose all pieces of a word or none.
      ids: ids of the vocabulary.
      random: source of every draw.
      do_span_mask: whether to choose spans of whole words.
      begins_word: bool [N, L], whether each token begins a word; None for what `ids` say of it.

    Returns:
      `input_ids` int32 [N, L] with masks; `masked_lm_positions` and `masked_lm_ids`, int32 [N, P],
      in the order of the positions and padded with 0; `masked_lm_weights` float32 [N, P], 1 for a
      prediction and 0 for padding.
    """
    from beambert.pipelines.pretraining import kernels

    rows, length = input_ids.shape
    slots = min(max_predictions_per_seq, length)
    fixed_NL, free_N = kernels.find_fixed(input_ids, ids.is_fixed)
    wanted_N = np.rint(input_mask.sum(axis=1, dtype=np.int32) * masked_lm_prob).astype(np.int64)
    wanted_N = np.minimum(np.clip(wanted_N, 1, slots), free_N)
    # No two keys of a row are equal, so their order is the same on every processor.
    key_NL = random.integers(0, 1 << 32, (rows, length), np.uint32)
    key_NL &= ~position_bits(length)
    key_NL |= np.arange(length, dtype=np.uint32)
    span_NS = None
    if begins_word is None and (do_span_mask or do_whole_word_mask):
        begins_word = ~ids.is_continuation[input_ids]
    if do_span_mask:
        length_NS = draw_lengths(rows, slots, random)
        position_NS, span_NS = choose_spans(key_NL, begins_word, fixed_NL, wanted_N, length_NS)
    elif do_whole_word_mask:
        is_start_NL = begins_word
        if not ids.joins_segments:
            is_start_NL = begins_word | np.pad(fixed_NL, ((0, 0), (1, 0)))[:, :-1]
        position_NS = kernels.choose_words(key_NL, is_start_NL, fixed_NL, wanted_N, slots)
    else:
        position_NS = kernels.choose_tokens(key_NL, fixed_NL, wanted_N, slots)
    roll_NS = random.random((rows, slots), np.float32)
    if span_NS is not None:
        roll_NS = np.take_along_axis(roll_NS, span_NS, axis=1)
    replacement_NS = ids.replacements.take(random.integers(0, len(ids.replacements), (rows, slots)))
    changed_share = np.float32(MASK_SHARE + RANDOM_SHARE)
    names = ("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
    hidden = kernels.hide(
        input_ids,
        position_NS,
        roll_NS,
        replacement_NS,
        ids.mask,
        np.float32(MASK_SHARE),
        changed_share,
        max_predictions_per_seq,
    )
    return dict(zip(names, hidden, strict=True))


def position_bits(length: int) -> np.uint32:
    """Returns the low bits of a key that hold a position; no position has all of them."""
    return np.uint32((1 << max(_LEAST_POSITION_BITS, length.bit_length())) - 1)


# Chooses spans of words to predict, as SpanBERT does (Joshi et al. 2020, section 3.1). Pure numpy.
#
# Legend: N rows, L max_seq_length, S prediction slots.

# Lengths in words are geometric with p = 0.2 and at most 10; their mean is 3.8 (section 3.1).
SPAN_PROBABILITY, LONGEST_SPAN = 0.2, 10


def span_shares() -> np.ndarray:
    """Returns the share of each length from 1 to `LONGEST_SPAN` words, float64 with sum 1."""
    shares = SPAN_PROBABILITY * (1 - SPAN_PROBABILITY) ** np.arange(LONGEST_SPAN)
    return shares / shares.sum()


def draw_lengths(rows: int, slots: int, random: np.random.Generator) -> np.ndarray:
    """Draws span lengths, measured in words, int64 [rows, slots]."""
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
