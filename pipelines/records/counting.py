"""The loop that counts records and their faults, see `compiled` and `statistics`."""

import numpy as np

from beambert.pipelines.records.compiled import compiled

# Counts of `RecordStatistics` in the order of the result of `count_rows`.
TOTALS = (
    "random_next",
    "hidden_as_mask",
    "hidden_as_other",
    "hidden_as_same",
    "reserved_replacements",
    "unknown_tokens",
    "lowest_id",
    "highest_id",
)
# Faults that a row may have, and their places in the result of `count_rows`.
ROW_FAULTS = (
    "input_mask",
    "segment_ids",
    "padding",
    "classify_first",
    "separators",
    "ids",
    "weights",
    "unused_predictions",
    "positions_order",
    "positions_outside",
    "positions_special",
    "text",
    "labels",
)
(
    _INPUT_MASK,
    _SEGMENT_IDS,
    _PADDING,
    _CLASSIFY_FIRST,
    _SEPARATORS,
    _IDS,
    _WEIGHTS,
    _UNUSED,
    _ORDER,
    _OUTSIDE,
    _SPECIAL,
    _TEXT,
    _LABELS,
) = range(len(ROW_FAULTS))


@compiled
def count_rows(
    input_ids: np.ndarray,
    input_mask: np.ndarray,
    segment_ids: np.ndarray,
    positions: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    next_labels: np.ndarray,
    special: tuple[int, int, int, int, int],
    is_reserved: np.ndarray,
    histograms: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Counts records.

    Args:
      input_ids, input_mask, segment_ids: [N, L].
      positions, labels, weights: [N, P], the masked_lm_… features.
      next_labels: [N, 1], or [N, 0] of records without a label.
      special: ids of padding, [CLS], [SEP], [MASK] and [UNK].
      is_reserved: bool [vocabulary], see `TokenIds`; empty without a vocabulary, when only the
        padding of `special` is used.
      histograms: `filled`, `predictions`, `a_tokens`, `b_tokens` and `mask_positions` of
        `RecordStatistics`, to which the records are added.

    Returns:
      int64 [8], the `TOTALS`; and int64 [13], the number of records with each of `ROW_FAULTS`. What
      needs a vocabulary is 0 without one.
    """
    padding, classify, separate, mask, unknown = special
    filled, predictions, a_tokens, b_tokens, mask_positions = histograms
    (rows, length), slots = input_ids.shape, positions.shape[1]
    has_label, has_ids = next_labels.shape[1] > 0, len(is_reserved) > 0
    random_next = as_mask = as_other = as_same = reserved = unknowns = 0
    lowest = highest = np.int64(input_ids[0, 0])
    faults, text = np.zeros(len(ROW_FAULTS), np.int64), np.empty(length, np.int64)
    for row in range(rows):
        wrong = np.zeros(len(ROW_FAULTS), np.int64)
        fill = b = used = 0
        for place in range(length):
            text[place] = input_ids[row, place]
            fill += input_mask[row, place] != 0
            b += input_mask[row, place] != 0 and segment_ids[row, place] != 0
        for slot in range(slots):
            used += weights[row, slot] != 0
        a = fill - b if has_label else fill  # [CLS] and [SEP] counted
        least = most = text[0]

        for slot in range(slots):
            place, label = np.int64(positions[row, slot]), np.int64(labels[row, slot])
            least, most = min(least, label), max(most, label)
            wrong[_WEIGHTS] |= weights[row, slot] != (slot < used)
            if weights[row, slot] == 0:
                wrong[_UNUSED] |= place != 0 or label != 0
                continue
            wrong[_ORDER] |= slot > 0 and place <= positions[row, slot - 1]
            wrong[_OUTSIDE] |= place < 0 or place >= fill
            wrong[_SPECIAL] |= place == 0 or place == a - 1 or place == fill - 1
            wrong[_SPECIAL] |= has_ids and not has_label and label == separate
            if 0 <= place < length:
                mask_positions[place] += 1
                text[place] = label
                hidden = np.int64(input_ids[row, place])
                if not has_ids:
                    continue
                if hidden == label:
                    as_same += 1
                elif hidden == mask:
                    as_mask += 1
                else:
                    as_other += 1
                    reserved += 0 <= hidden < len(is_reserved) and is_reserved[hidden]

        separators = between = masks = 0
        bad_mask = bad_segment = bad_padding = False
        for place in range(length):
            token, segment = np.int64(input_ids[row, place]), segment_ids[row, place]
            is_filled, is_separator = input_mask[row, place] != 0, text[place] == separate
            least, most = min(least, token), max(most, token)
            bad_mask |= input_mask[row, place] != (place < fill)
            bad_segment |= is_filled & (segment != ((a <= place) & (place < fill)))
            bad_padding |= ~is_filled & ((segment != 0) | ((token != 0) & (token != padding)))
            unknowns += has_ids & is_filled & (text[place] == unknown)
            masks += text[place] == mask
            separators += is_separator
            between += is_separator & (place < fill - 1)
        wrong[_INPUT_MASK] = bad_mask | (fill == 0)
        wrong[_SEGMENT_IDS], wrong[_PADDING] = bad_segment, bad_padding
        if has_label:
            label, between = np.int64(next_labels[row, 0]), 0
            random_next += label == 1
            wrong[_LABELS] |= label != 0 and label != 1
            wrong[_SEGMENT_IDS] |= a == 0 or b == 0
        if has_ids:
            wrong[_SEPARATORS] |= separators != 2 and has_label
            for place in range(1, 1 if has_label else length):
                follows = place == 1 or text[place - 1] == separate
                wrong[_SEPARATORS] |= follows and text[place] == separate
            wrong[_SEPARATORS] |= text[a - 1] != separate or text[fill - 1] != separate
            wrong[_CLASSIFY_FIRST] |= input_ids[row, 0] != classify
            wrong[_IDS] |= least < 0 or most >= len(is_reserved)
            wrong[_TEXT] |= masks > 0 and slots == 0

        faults += wrong
        lowest, highest = min(lowest, least), max(highest, most)
        filled[fill] += 1
        predictions[used] += 1
        a_tokens[max(a - 2 - (between if has_ids else 0), 0)] += 1
        b_tokens[max(b - 1, 0) if has_label else 0] += 1
    totals = (random_next, as_mask, as_other, as_same, reserved, unknowns, lowest, highest)
    return np.array(totals, np.int64), faults
