"""Pairs -> masked, padded arrays, thousands of rows at a time. Pure numpy.

Legend: N rows, L max_seq_length, P max_predictions_per_seq.
"""

import dataclasses

import numpy as np

from pipelines.records import (
    CLASSIFY,
    MASK,
    PADDING,
    SEPARATE,
    SPECIAL_TOKENS,
    UNKNOWN,
    Vocabulary,
)

# Paper, section 3.1, task 1: of the chosen positions 80 % become [MASK], 10 % a random token and
# 10 % stay.
MASK_SHARE, RANDOM_SHARE = 0.8, 0.1
# Of a random key 12 bits give way to the position; 20 random bits are left.
LONGEST_SEQUENCE = (1 << 12) - 1
POSITION_BITS = np.uint32(LONGEST_SEQUENCE)
# [CLS], [SEP] and [PAD]
FRAME_TOKENS = 3


@dataclasses.dataclass(frozen=True)
class TokenIds:
    """The vocabulary as masking needs it.

    Attributes:
      padding, classify, separate, mask, unknown: ids of the special tokens.
      fixed: ids that are never chosen to be predicted.
      replacements: int32, ids that a random replacement may take.
      is_continuation: bool [vocabulary], true for pieces that continue a word ("##…").
    """

    padding: int
    classify: int
    separate: int
    mask: int
    unknown: int
    fixed: tuple[int, ...]
    replacements: np.ndarray
    is_continuation: np.ndarray

    @classmethod
    def of(cls, vocabulary: Vocabulary, is_reference: bool = False) -> "TokenIds":
        """Looks the ids up.

        Args:
          vocabulary: to look in.
          is_reference: as the original, which predicts [UNK] and replaces tokens by any other,
            [PAD] and unused ones among them.
        """
        ids = {token: vocabulary.id_of(token) for token in SPECIAL_TOKENS}
        replacements = [
            index
            for index, token in enumerate(vocabulary.tokens)
            if is_reference or (token not in SPECIAL_TOKENS and not token.startswith("[unused"))
        ]
        frame = (ids[CLASSIFY], ids[SEPARATE], ids[PADDING])
        return cls(
            padding=ids[PADDING],
            classify=ids[CLASSIFY],
            separate=ids[SEPARATE],
            mask=ids[MASK],
            unknown=ids[UNKNOWN],
            fixed=frame if is_reference else (*frame, ids[UNKNOWN]),
            replacements=np.array(replacements, np.int32),
            is_continuation=np.array([token.startswith("##") for token in vocabulary.tokens]),
        )


def with_frame(tokens: np.ndarray, ids: TokenIds) -> np.ndarray:
    """Returns tokens and, behind them, [CLS], [SEP] and [PAD], so that one gather makes rows."""
    frame = (ids.classify, ids.separate, ids.padding)
    return np.concatenate([tokens, np.array(frame, tokens.dtype)])


def assemble_rows(
    tokens: np.ndarray, pairs: np.ndarray, max_seq_length: int
) -> dict[str, np.ndarray]:
    """Lays pairs out as [CLS] A [SEP] B [SEP] and padding.

    Args:
      tokens: what `with_frame` returned for the ids that the pairs' offsets point into.
      pairs: int32 [N, 5], see `pairs.build_pairs`; each fits the length.
      max_seq_length: L.

    Returns:
      `input_ids`, `input_mask`, `segment_ids`, each int32 [N, L].
    """
    classify, separate, padding = range(len(tokens) - FRAME_TOKENS, len(tokens))
    a_start, a_end, b_start, b_end, _ = (column[:, None] for column in pairs.T)
    position_L = np.arange(max_seq_length, dtype=np.int32)[None]
    first_separator_N1 = a_end - a_start + 1
    last_separator_N1 = first_separator_N1 + b_end - b_start + 1
    index_NL = np.where(
        position_L < first_separator_N1,
        a_start + position_L - 1,
        b_start + position_L - first_separator_N1 - 1,
    )
    index_NL[:, 0] = classify
    np.copyto(index_NL, separate, where=position_L == first_separator_N1)
    np.copyto(index_NL, padding, where=position_L >= last_separator_N1)
    np.copyto(index_NL, separate, where=position_L == last_separator_N1)
    mask_NL = position_L <= last_separator_N1
    return {
        "input_ids": tokens[index_NL].astype(np.int32),
        "input_mask": mask_NL.astype(np.int32),
        "segment_ids": (mask_NL & (position_L > first_separator_N1)).astype(np.int32),
    }


def mask_rows(
    input_ids: np.ndarray,
    input_mask: np.ndarray,
    *,
    max_predictions_per_seq: int,
    masked_lm_prob: float,
    do_whole_word_mask: bool,
    ids: TokenIds,
    random: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Chooses positions to predict and hides them.

    As the original's create_masked_lm_predictions: `masked_lm_prob` of the row's tokens, special
    ones counted, at least 1 and at most P, each with a roll of its own; but, unless `ids` say so,
    [UNK] is never chosen (it cannot be learned), nor taken as a replacement, nor any other special
    or unused token.

    Args:
      input_ids: int32 [N, L], without masks.
      input_mask: int32 [N, L], 1 where a token stands.
      max_predictions_per_seq: P.
      masked_lm_prob: 0.15 in the paper.
      do_whole_word_mask: choose all pieces of a word or none.
      ids: of the vocabulary; L is at most `LONGEST_SEQUENCE`.
      random: the source of every draw.

    Returns:
      `input_ids` int32 [N, L] with masks; `masked_lm_positions` and `masked_lm_ids`, int32 [N, P],
      ascending and padded with 0; `masked_lm_weights` float32 [N, P], 1 for a prediction.
    """
    rows, length = input_ids.shape
    slots = min(max_predictions_per_seq, length)
    fixed_NL = np.isin(input_ids, ids.fixed)
    wanted_N = np.rint(input_mask.sum(axis=1) * masked_lm_prob).astype(np.int64)
    wanted_N = np.clip(wanted_N, 1, slots)
    wanted_N = np.minimum(wanted_N, length - fixed_NL.sum(axis=1))
    # No two keys of a row are equal, so their order is the same on every processor.
    key_NL = random.integers(0, 1 << 32, (rows, length), np.uint32)
    key_NL = (key_NL & ~POSITION_BITS) | np.arange(length, dtype=np.uint32)
    if do_whole_word_mask:
        is_start_NL = ~ids.is_continuation[input_ids] | np.pad(fixed_NL, ((0, 0), (1, 0)))[:, :-1]
        chosen_NL = choose_words(key_NL, is_start_NL, fixed_NL, wanted_N)
    else:
        chosen_NL = choose_tokens(key_NL, fixed_NL, wanted_N, slots)
    row_K, position_K = np.nonzero(chosen_NL)
    count_N = chosen_NL.sum(axis=1)
    is_used_NS = np.arange(slots)[None] < count_N[:, None]
    position_NS = np.zeros((rows, slots), np.int64)
    position_NS[is_used_NS] = position_K

    label_NS = np.where(is_used_NS, np.take_along_axis(input_ids, position_NS, axis=1), 0)
    roll_NS = random.random((rows, slots), np.float32)
    replacement_NS = ids.replacements[random.integers(0, len(ids.replacements), (rows, slots))]
    hidden_NS = np.where(
        roll_NS < MASK_SHARE,
        ids.mask,
        np.where(roll_NS < MASK_SHARE + RANDOM_SHARE, replacement_NS, label_NS),
    )
    masked_NL = input_ids.copy()
    masked_NL[row_K, position_K] = hidden_NS[is_used_NS]

    pad = ((0, 0), (0, max_predictions_per_seq - slots))
    return {
        "input_ids": masked_NL,
        "masked_lm_positions": np.pad(position_NS.astype(np.int32), pad),
        "masked_lm_ids": np.pad(label_NS.astype(np.int32), pad),
        "masked_lm_weights": np.pad(is_used_NS.astype(np.float32), pad),
    }


def choose_tokens(
    key_NL: np.ndarray, fixed_NL: np.ndarray, wanted_N: np.ndarray, most: int
) -> np.ndarray:
    """Chooses tokens by the smallest keys: a uniform choice without replacement.

    Args:
      key_NL: uint32 [N, L], no two equal in a row.
      fixed_NL: bool [N, L], what may not be chosen.
      wanted_N: int [N], how many; no more than may be chosen, nor than `most`.
      most: the largest that `wanted_N` can be.

    Returns:
      bool [N, L].
    """
    key_NL = np.where(fixed_NL, np.uint32(0xFFFFFFFF), key_NL)
    nearest_NS = np.argpartition(key_NL, most - 1, axis=1)[:, :most]
    order_NS = np.argsort(np.take_along_axis(key_NL, nearest_NS, axis=1), axis=1)
    nearest_NS = np.take_along_axis(nearest_NS, order_NS, axis=1)
    chosen_NL = np.zeros(key_NL.shape, bool)
    is_wanted_NS = np.arange(most)[None] < wanted_N[:, None]
    np.put_along_axis(chosen_NL, nearest_NS, is_wanted_NS, axis=1)
    return chosen_NL


def choose_words(
    key_NL: np.ndarray, is_start_NL: np.ndarray, fixed_NL: np.ndarray, wanted_N: np.ndarray
) -> np.ndarray:
    """Chooses whole words in the order of their first token's key, passing over what doesn't fit.

    As the original's create_masked_lm_predictions with do_whole_word_mask, for all rows at once:
    round k looks at the k-th word of every row.

    Args:
      key_NL: uint32 [N, L], no two equal in a row.
      is_start_NL: bool [N, L], where a word starts.
      fixed_NL: bool [N, L], what may not be chosen; each such token is a word of its own.
      wanted_N: int [N], how many tokens at most.

    Returns:
      bool [N, L].
    """
    rows, length = key_NL.shape
    is_start_NL = is_start_NL | fixed_NL
    is_start_NL[:, 0] = True
    word_NL = np.cumsum(is_start_NL, axis=1) - 1
    flat_word = (word_NL + length * np.arange(rows)[:, None]).ravel()
    size_NW = np.bincount(flat_word, minlength=rows * length).reshape(rows, length)
    key_NW = np.full((rows, length), 0xFFFFFFFF, np.uint32)
    row_K, position_K = np.nonzero(is_start_NL & ~fixed_NL)
    key_NW[row_K, word_NL[row_K, position_K]] = key_NL[row_K, position_K]
    order_NW = np.argsort(key_NW, axis=1)
    left_N = wanted_N.copy()
    chosen_NW = np.zeros((rows, length), bool)
    most_words = int((key_NW != 0xFFFFFFFF).sum(axis=1).max(initial=0))
    row_N = np.arange(rows)
    for word_N in order_NW[:, :most_words].T:
        size_N = size_NW[row_N, word_N]
        fits_N = (size_N <= left_N) & (key_NW[row_N, word_N] != 0xFFFFFFFF)
        chosen_NW[row_N, word_N] = fits_N
        left_N -= size_N * fits_N
    return np.take_along_axis(chosen_NW, word_NL, axis=1)
