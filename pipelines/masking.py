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


@dataclasses.dataclass(frozen=True)
class TokenIds:
    """The vocabulary as masking needs it.

    Attributes:
      padding, classify, separate, mask, unknown: ids of the special tokens.
      replacements: int32, ids that a random replacement may take: all but special and unused ones.
    """

    padding: int
    classify: int
    separate: int
    mask: int
    unknown: int
    replacements: np.ndarray

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "TokenIds":
        """Looks the ids up."""
        ordinary = [
            index
            for index, token in enumerate(vocabulary.tokens)
            if token not in SPECIAL_TOKENS and not token.startswith("[unused")
        ]
        return cls(
            padding=vocabulary.id_of(PADDING),
            classify=vocabulary.id_of(CLASSIFY),
            separate=vocabulary.id_of(SEPARATE),
            mask=vocabulary.id_of(MASK),
            unknown=vocabulary.id_of(UNKNOWN),
            replacements=np.array(ordinary, np.int32),
        )


def assemble_rows(
    tokens: np.ndarray, pairs: np.ndarray, max_seq_length: int, ids: TokenIds
) -> dict[str, np.ndarray]:
    """Lays pairs out as [CLS] A [SEP] B [SEP] and padding.

    Args:
      tokens: the ids that the pairs' offsets point into.
      pairs: int32 [N, 5], see `pairs.build_pairs`; each fits the length.
      max_seq_length: L.
      ids: of the special tokens.

    Returns:
      `input_ids`, `input_mask`, `segment_ids`, each int32 [N, L].
    """
    # The special tokens stand behind the text's, so that one gather makes the rows.
    source = np.concatenate([tokens, [ids.classify, ids.separate, ids.padding]]).astype(np.int32)
    classify, separate, padding = len(tokens), len(tokens) + 1, len(tokens) + 2
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
        "input_ids": source[index_NL],
        "input_mask": mask_NL.astype(np.int32),
        "segment_ids": (mask_NL & (position_L > first_separator_N1)).astype(np.int32),
    }


def mask_rows(
    input_ids: np.ndarray,
    input_mask: np.ndarray,
    *,
    max_predictions_per_seq: int,
    masked_lm_prob: float,
    ids: TokenIds,
    random: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Chooses positions to predict and hides them.

    As the original's create_masked_lm_predictions: `masked_lm_prob` of the row's tokens, special
    ones counted, at least 1 and at most P, each with a roll of its own; but [UNK] is never chosen
    (it cannot be learned), nor taken as a replacement, nor any other special or unused token.

    Args:
      input_ids: int32 [N, L], without masks.
      input_mask: int32 [N, L], 1 where a token stands.
      max_predictions_per_seq: P.
      masked_lm_prob: 0.15 in the paper.
      ids: of the vocabulary.
      random: the source of every draw.

    Returns:
      `input_ids` int32 [N, L] with masks; `masked_lm_positions` and `masked_lm_ids`, int32 [N, P],
      ascending and padded with 0; `masked_lm_weights` float32 [N, P], 1 for a prediction.
    """
    rows, length = input_ids.shape
    slots = min(max_predictions_per_seq, length)
    fixed_NL = np.isin(input_ids, [ids.classify, ids.separate, ids.padding, ids.unknown])
    wanted_N = np.rint(input_mask.sum(axis=1) * masked_lm_prob).astype(np.int64)
    wanted_N = np.clip(wanted_N, 1, slots)
    wanted_N = np.minimum(wanted_N, length - fixed_NL.sum(axis=1))

    # The `wanted` smallest of random keys are a uniform choice without replacement.
    key_NL = random.random((rows, length), np.float32)
    key_NL[fixed_NL] = 2.0
    nearest_NS = np.argpartition(key_NL, slots - 1, axis=1)[:, :slots]
    order_NS = np.argsort(np.take_along_axis(key_NL, nearest_NS, axis=1), axis=1, kind="stable")
    chosen_NS = np.take_along_axis(nearest_NS, order_NS, axis=1)
    is_used_NS = np.arange(slots)[None] < wanted_N[:, None]
    position_NS = np.sort(np.where(is_used_NS, chosen_NS, length), axis=1)
    position_NS[~is_used_NS] = 0

    label_NS = np.where(is_used_NS, np.take_along_axis(input_ids, position_NS, axis=1), 0)
    roll_NS = random.random((rows, slots), np.float32)
    replacement_NS = ids.replacements[random.integers(0, len(ids.replacements), (rows, slots))]
    hidden_NS = np.where(
        roll_NS < MASK_SHARE,
        ids.mask,
        np.where(roll_NS < MASK_SHARE + RANDOM_SHARE, replacement_NS, label_NS),
    )
    masked_NL = input_ids.copy()
    row_N1 = np.broadcast_to(np.arange(rows)[:, None], (rows, slots))
    masked_NL[row_N1[is_used_NS], position_NS[is_used_NS]] = hidden_NS[is_used_NS]

    pad = ((0, 0), (0, max_predictions_per_seq - slots))
    return {
        "input_ids": masked_NL,
        "masked_lm_positions": np.pad(position_NS.astype(np.int32), pad),
        "masked_lm_ids": np.pad(label_NS.astype(np.int32), pad),
        "masked_lm_weights": np.pad(is_used_NS.astype(np.float32), pad),
    }
