"""The masks that a training draws, new ones each time a record is read.

This is the dynamic masking of RoBERTa (arXiv 1907.11692, section 4.1). Records hold the text, or
masked ids and their labels, so that the text before masking can be restored. New positions are then
chosen by the rules of `pipelines.pretraining.masks`. Pure NumPy.

Legend: N rows, L max_seq_length, P prediction slots of the rules, S slots in use (the lesser of P
and L), W words, at most L in a row.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.pretraining.instances import REFERENCE
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.contract import MASK_SHARE, MASKED_LM_PROB, RANDOM_SHARE
from beambert.trainer.loop.config import DYNAMIC, STATIC
from beambert.trainer.pretraining.job import PretrainingJob
from beambert.trainer.pretraining.random_bits import folded_seed, uniform_bits
from beambert.trainer.pretraining.records import Records


@dataclasses.dataclass(frozen=True)
class MaskingRules:
    """The rules by which masks are drawn.

    Attributes:
      rates: shares of a row's tokens to predict, at the first step and from the last step on; in
        between the share changes linearly.
      slots: prediction slots of a row.
      do_whole_word_mask: whether to hide all pieces of a word or none.
      ids: ids of the vocabulary.
      last_step: number of the last step, from 0.
    """

    rates: tuple[float, float]
    slots: int
    do_whole_word_mask: bool
    ids: TokenIds
    last_step: int = 0

    @classmethod
    def of(
        cls,
        records: Records,
        rates: tuple[float, float] | None = None,
        do_whole_word_mask: bool | None = None,
        steps: int = 1,
    ) -> "MaskingRules":
        """Returns the rules for a folder's records.

        Args:
          records: the folder.
          rates: see above; None for the share by which the records were masked, and for that of
            the paper where they have no masks.
          do_whole_word_mask: see above; None for the rule by which the records were masked.
          steps: number of steps in which the share changes.

        Raises:
          InputError: the records hide spans.
        """
        parameters = records.info.parameters
        if parameters.get("do_span_mask"):
            raise InputError(
                f"--masking={DYNAMIC}: cannot hide spans, as these records do; give "
                f"--masking={STATIC}, or make the records with another `beambert data --masks`"
            )
        own = own_rates(records)
        is_own = rates is None and records.info.has_masks
        rates, length = rates or own, records.max_seq_length
        # As `beambert data` counts them.
        slots = min(max(1, math.ceil(length * max(rates))), length)
        return cls(
            rates,
            records.max_predictions_per_seq if is_own else slots,
            own_words(records) if do_whole_word_mask is None else do_whole_word_mask,
            TokenIds.of(records.vocabulary, is_reference=parameters.get("pairs") == REFERENCE),
            steps - 1,
        )


def own_rates(records: Records) -> tuple[float, float]:
    """Returns the rates by which records were masked; those of the paper if they are not."""
    rate = records.info.parameters.get("masked_lm_prob", MASKED_LM_PROB)
    return rate, rate


def own_words(records: Records) -> bool:
    """Returns whether records were masked by whole words; False if they are not masked."""
    return bool(records.info.parameters.get("do_whole_word_mask"))


def rules_for(
    job: PretrainingJob, folders: Sequence[Records], steps: int
) -> list[MaskingRules] | list[None]:
    """Returns the rules by which the masks of each folder's records are drawn; None if they aren't.

    Args:
      job: what is asked for.
      folders: all folders that the training reads.
      steps: number of steps in which the rate changes.

    Raises:
      InputError: a value has no effect, the masks of records that have none are
        asked for, or records hide spans.
    """
    if _draws(job, folders):
        given = job.mask_rate, job.do_whole_word_mask
        return [MaskingRules.of(each, *given, steps) for each in folders]
    if without := [folder.folder for folder in folders if not folder.info.has_masks]:
        flag = f"--masking={job.masking}" if job.masking else "--masking"
        raise InputError(
            f"{flag}: the records in {without[0]} have no masks; give --masking=dynamic, or make "
            "records with `beambert data --masks=static`"
        )
    for name, value in job.drawn_mask_flags().items():
        raise InputError(
            f"--{name}={value}: has no effect with --masking={STATIC}; leave one of them out"
        )
    return [None] * len(folders)


def _draws(job: PretrainingJob, folders: Sequence[Records]) -> bool:
    """Whether masks are drawn: this or a rule for them is asked for, or no records have masks."""
    if job.masking:
        return job.masking == DYNAMIC
    return bool(job.drawn_mask_flags()) or not any(each.info.has_masks for each in folders)


def mask_settings(job: PretrainingJob, folders: Sequence[Records]) -> dict[str, Any]:
    """Returns the settings of the masks for training.json; those at their defaults are left out.

    Args:
      job: what is asked for.
      folders: all folders that the training reads.
    """
    has_masks = any(folder.info.has_masks for folder in folders)
    found = job.drawn_mask_flags()
    # With the rate that they were masked at, records with masks keep their slots only if no rate is
    # given.
    if not has_masks and job.mask_rate == (MASKED_LM_PROB, MASKED_LM_PROB):
        del found["mask_rate"]
    if all(job.do_whole_word_mask == own_words(folder) for folder in folders):
        del found["do_whole_word_mask"]
    return {"masking": DYNAMIC if _draws(job, folders) else STATIC, **found}


Features = Mapping[str, np.ndarray]
# This is folded into the seed, so that the order of the files and the dropout get other numbers.
_STREAM = 0x6D61736B
_LOWEST = np.iinfo(np.int32).min


def restore_ids(features: Features) -> np.ndarray:
    """Returns `input_ids` before masking, int32 [N, L]."""
    if "masked_lm_ids" not in features:
        return features["input_ids"]
    return _with_values(
        features["input_ids"],
        features["masked_lm_positions"],
        features["masked_lm_ids"],
        features["masked_lm_weights"] > 0,
    )


def draw_bits(
    random_seed: int, step: int, batch_size: int, length: int, rules: MaskingRules
) -> np.ndarray:
    """Draws the random bits for `redraw_masks`, which depend on the seed and the step alone.

    Args:
      random_seed: seed of the training.
      step: number of the batch since the start of training.
      batch_size: number of rows over all hosts. Every host draws for all rows and uses its own, so
        that a row's masks do not depend on the number of hosts.
      length: L.
      rules: rules by which masks are drawn.

    Returns:
      int32 [batch_size, L + 2 S], with all 2**32 values equally likely.
    """
    words = length + 2 * min(rules.slots, length)
    bits = uniform_bits(folded_seed((random_seed, _STREAM), step), batch_size * words)
    return bits.view(np.int32).reshape(batch_size, words)


def rates_at(rules: MaskingRules, steps_B: np.ndarray) -> np.ndarray:
    """Returns the shares of the tokens to predict at steps of the training, float64 [B].

    Args:
      rules: rules by which masks are drawn.
      steps_B: int64 [B], numbers of steps, from 0.
    """
    first, last = rules.rates
    done_B = np.asarray(steps_B, np.float64) / max(rules.last_step, 1)
    is_over_B = (steps_B >= rules.last_step) & (rules.last_step > 0)
    return np.where(is_over_B, last, first + (last - first) * done_B)


def redraw_masks(
    features: Features, bits_NB: np.ndarray, rules: MaskingRules, rate_N: np.ndarray | float
) -> dict[str, np.ndarray]:
    """Replaces the masks of records by others, or gives some to records without masks.

    Args:
      features: features of N records.
      bits_NB: int32 [N, L + 2 S], see `draw_bits`.
      rules: rules by which masks are drawn.
      rate_N: float64 [N] or a number, share of each row's tokens to predict.

    Returns:
      the features, with the types of records with P slots; `masked_lm_positions` ascend.
    """
    ids_NL = restore_ids(features)
    length = ids_NL.shape[1]
    slots = min(rules.slots, length)
    key_NL, roll_NS, choice_NS = np.split(bits_NB, [length, length + slots], axis=1)
    # The pipeline computes the number of predictions in float64 too, so both round alike.
    share_N = features["input_mask"].sum(axis=1).astype(np.float64)
    wanted_N = np.round(share_N * rate_N).astype(np.int32)
    fixed_NL = rules.ids.is_fixed[ids_NL]
    free_N = np.count_nonzero(~fixed_NL, axis=1)
    wanted_N = np.minimum(np.clip(wanted_N, 1, slots), free_N)
    if rules.do_whole_word_mask:
        is_continuation_NL = rules.ids.is_continuation[ids_NL]
        position_NS = choose_words(key_NL, is_continuation_NL, fixed_NL, wanted_N, slots)
    else:
        position_NS = choose_tokens(key_NL, fixed_NL, wanted_N, slots)
    is_used_NS = position_NS < length
    position_NS = np.where(is_used_NS, position_NS, 0)

    label_NS = np.take_along_axis(ids_NL, position_NS, axis=1)
    hidden_NS = _hide(label_NS, roll_NS, choice_NS, rules)

    def padded(value_NS: np.ndarray, kind: type) -> np.ndarray:
        return np.pad(value_NS.astype(kind), [[0, 0], [0, rules.slots - slots]])

    return {
        **features,
        "input_ids": _with_values(ids_NL, position_NS, hidden_NS, is_used_NS),
        "masked_lm_positions": padded(position_NS, np.int32),
        "masked_lm_ids": padded(np.where(is_used_NS, label_NS, 0), np.int32),
        "masked_lm_weights": padded(is_used_NS, np.float32),
    }


def _largest_first(key: np.ndarray) -> np.ndarray:
    """Returns the places of int32 [N, n] in descending order, equal ones in theirs."""
    return np.argsort(-key.astype(np.int64), axis=1, kind="stable")


def choose_tokens(
    key_NL: np.ndarray, fixed_NL: np.ndarray, wanted_N: np.ndarray, slots: int
) -> np.ndarray:
    """Chooses the tokens with the largest keys: a uniform choice without replacement.

    Args:
      key_NL: int32 [N, L], random.
      fixed_NL: bool [N, L], true for tokens that may not be chosen.
      wanted_N: int32 [N], number of tokens to choose: at most S, and no more than may be chosen.
      slots: S.

    Returns:
      integer [N, S], the chosen positions in ascending order, filled up with L.
    """
    length = key_NL.shape[1]
    key_NL = np.where(fixed_NL, _LOWEST, np.maximum(key_NL, _LOWEST + 1))
    position_NS = _largest_first(key_NL)[:, :slots]
    is_used_NS = np.arange(slots)[None] < wanted_N[:, None]
    return np.sort(np.where(is_used_NS, position_NS, length), axis=1)


def choose_words(
    key_NL: np.ndarray,
    is_continuation_NL: np.ndarray,
    fixed_NL: np.ndarray,
    wanted_N: np.ndarray,
    slots: int,
) -> np.ndarray:
    """Chooses whole words in the order of their first token's key, the largest first.

    A word that does not fit is skipped.

    Args:
      key_NL: int32 [N, L], random.
      is_continuation_NL: bool [N, L], true for pieces that continue the word before them.
      fixed_NL: bool [N, L], true for tokens that may not be chosen; each is a separate word.
      wanted_N: int32 [N], largest number of tokens to choose, at most S.
      slots: S.

    Returns:
      integer [N, S], the chosen positions in ascending order, filled up with L.
    """
    rows, length = key_NL.shape
    # A piece after a fixed token starts a word too: the document was cut inside a word there.
    follows_fixed_NL = np.pad(fixed_NL, [[0, 0], [1, 0]], constant_values=True)[:, :-1]
    is_start_NL = ~is_continuation_NL | fixed_NL | follows_fixed_NL
    word_NL = np.cumsum(is_start_NL, axis=1) - 1
    is_key_NL = is_start_NL & ~fixed_NL
    key_NW = np.full((rows, length), _LOWEST, np.int32)
    row_K, column_K = np.nonzero(is_key_NL)  # a word has one key at most
    key_NW[row_K, word_NL[row_K, column_K]] = np.maximum(key_NL[is_key_NL], _LOWEST + 1)
    first_word_N1 = length * np.arange(rows)[:, None]
    sizes = np.bincount((word_NL + first_word_N1).ravel(), minlength=rows * length)
    order_NW = _largest_first(key_NW)
    size_NW = np.take_along_axis(sizes.reshape(rows, length), order_NW, axis=1)
    key_NW = np.take_along_axis(key_NW, order_NW, axis=1)
    taken_NW = np.zeros((rows, length), bool)
    np.put_along_axis(
        taken_NW, order_NW, _take_fitting(size_NW, key_NW > _LOWEST, wanted_N), axis=1
    )
    is_chosen_NL = np.take_along_axis(taken_NW, word_NL, axis=1)
    position_NL = np.where(is_chosen_NL, np.arange(length)[None], length)
    return np.sort(position_NL, axis=1)[:, :slots]


def _take_fitting(size_NW: np.ndarray, is_free_NW: np.ndarray, left_N: np.ndarray) -> np.ndarray:
    """Goes through each row's words in turn and takes every word that still fits.

    A turn takes all words up to the first that does not fit. The number that is left is then
    smaller than that word. So there is at most one turn more than the longest word has pieces.

    Args:
      size_NW: integer [N, W], number of tokens of each word.
      is_free_NW: bool [N, W], true for words that may be taken.
      left_N: int32 [N], largest number of tokens of all words taken.

    Returns:
      bool [N, W], true for the words taken.
    """
    taken_NW = np.zeros_like(is_free_NW)
    while (fits_NW := is_free_NW & (size_NW <= left_N[:, None])).any():
        sizes_NW = np.where(fits_NW, size_NW, 0)
        new_NW = fits_NW & (np.cumsum(sizes_NW, axis=1) <= left_N[:, None])
        left_N = left_N - np.where(new_NW, size_NW, 0).sum(axis=1)
        is_free_NW, taken_NW = fits_NW & ~new_NW, taken_NW | new_NW
    return taken_NW


def _hide(
    label_NS: np.ndarray, roll_NS: np.ndarray, choice_NS: np.ndarray, rules: MaskingRules
) -> np.ndarray:
    """Returns the ids that replace tokens: [MASK], random ones or the tokens themselves."""
    roll_NS = roll_NS / 2**32 + 0.5
    others = rules.ids.replacements
    other_NS = others[choice_NS % len(others)]
    rest_NS = np.where(roll_NS < MASK_SHARE + RANDOM_SHARE, other_NS, label_NS)
    return np.where(roll_NS < MASK_SHARE, rules.ids.mask, rest_NS)


def _with_values(
    ids_NL: np.ndarray, position_NS: np.ndarray, value_NS: np.ndarray, is_used_NS: np.ndarray
) -> np.ndarray:
    """Returns the ids with other values at some positions; unused slots point at position 0."""
    # Unused slots write the id that is at position 0 already: [CLS], which is never chosen.
    value_NS = np.where(is_used_NS, value_NS, ids_NL[:, :1])
    changed_NL = ids_NL.copy()
    np.put_along_axis(
        changed_NL, position_NS.astype(np.int64), value_NS.astype(ids_NL.dtype), axis=1
    )
    return changed_NL
