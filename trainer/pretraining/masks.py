"""The masks that a training draws, new ones each time a record is read.

This is the dynamic masking of RoBERTa (arXiv 1907.11692, section 4.1). Records hold the text, or
masked ids and their labels, so that the text before masking can be restored. New positions are then
chosen by the rules of `pipelines.pretraining.masks`, in the graph of the input pipeline.

Legend: N rows, L max_seq_length, P prediction slots of the rules, S slots in use (the lesser of P
and L), W words, at most L in a row.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from beambert.errors import InputError
from beambert.pipelines.pretraining.instances import REFERENCE
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.contract import MASK_SHARE, MASKED_LM_PROB, RANDOM_SHARE
from beambert.trainer.loop.config import DYNAMIC, STATIC
from beambert.trainer.pretraining.job import MASK_REPLACEMENTS, PretrainingJob
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
      mask_share: share of the chosen tokens that become [MASK].
      random_share: share of the chosen tokens that become a random token.
    """

    rates: tuple[float, float]
    slots: int
    do_whole_word_mask: bool
    ids: TokenIds
    last_step: int = 0
    mask_share: float = MASK_SHARE
    random_share: float = RANDOM_SHARE

    @classmethod
    def of(
        cls,
        records: Records,
        rates: tuple[float, float] | None = None,
        replacements: Sequence[float] = MASK_REPLACEMENTS,
        do_whole_word_mask: bool | None = None,
        steps: int = 1,
    ) -> "MaskingRules":
        """Returns the rules for a folder's records.

        Args:
          records: the folder.
          rates: see above; None for the share by which the records were masked, and for that of
            the paper where they have no masks.
          replacements: percentages of [MASK], of random tokens and of tokens that stay.
          do_whole_word_mask: see above; None for the rule by which the records were masked.
          steps: number of steps in which the share changes.

        Raises:
          InputError: the records hide spans.
        """
        parameters = records.info.parameters
        if parameters.get("do_span_mask"):
            raise InputError(
                "--masking=dynamic: cannot hide spans, as these records do; leave the flag out, or "
                "make the records with another `beambert data --masks`"
            )
        own = own_rates(records)
        is_own = rates is None and records.info.has_masks
        rates = rates or own
        slots = slots_for(max(rates), records.max_seq_length)
        return cls(
            rates,
            records.max_predictions_per_seq if is_own else slots,
            own_words(records) if do_whole_word_mask is None else do_whole_word_mask,
            TokenIds.of(records.vocabulary, is_reference=parameters.get("pairs") == REFERENCE),
            steps - 1,
            replacements[0] / 100,
            replacements[1] / 100,
        )


def own_rates(records: Records) -> tuple[float, float]:
    """Returns the rates by which records were masked; those of the paper if they are not."""
    rate = records.info.parameters.get("masked_lm_prob", MASKED_LM_PROB)
    return rate, rate


def own_words(records: Records) -> bool:
    """Returns whether records were masked by whole words; False if they are not masked."""
    return bool(records.info.parameters.get("do_whole_word_mask"))


def slots_for(rate: float, length: int) -> int:
    """Returns the number of prediction slots that a rate needs, as `beambert data` counts them."""
    return min(max(1, math.ceil(length * rate)), length)


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
    without = [folder.folder for folder in folders if not folder.info.has_masks]
    is_drawn = job.masking == DYNAMIC
    is_drawn |= job.masking is None and len(without) == len(folders)
    if without and not is_drawn:
        flag = f"--masking={job.masking}" if job.masking else "--masking"
        raise InputError(
            f"{flag}: the records in {without[0]} have no masks; give --masking=dynamic, or make "
            "records with `beambert data --masks=static`"
        )
    if is_drawn:
        given = job.mask_rate, job.mask_replacements, job.do_whole_word_mask
        return [MaskingRules.of(each, *given, steps) for each in folders]
    for name, value in job.drawn_mask_flags().items():
        raise InputError(
            f"--{name}={value}: the masks are those of the records; give --masking=dynamic too, or "
            "leave it out"
        )
    return [None] * len(folders)


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
    is_drawn = job.masking == DYNAMIC or not has_masks
    return {"masking": DYNAMIC if is_drawn else STATIC, **found}


Features = Mapping[str, tf.Tensor]
# This is folded into the seed, so that the order of the files and the dropout get other numbers.
_STREAM = 0x6D61736B
_LOWEST = tf.int32.min


def restore_ids(features: Features) -> tf.Tensor:
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
    random_seed: int, step: tf.Tensor, batch_size: int, length: int, rules: MaskingRules
) -> tf.Tensor:
    """Draws the random bits for `redraw_masks`, which depend on the seed and the step alone.

    Args:
      random_seed: seed of the training.
      step: int64 scalar, number of the batch since the start of training.
      batch_size: number of rows over all hosts. Every host draws for all rows and uses its own, so
        that a row's masks do not depend on the number of hosts.
      length: L.
      rules: rules by which masks are drawn.

    Returns:
      int32 [batch_size, L + 2 S], with all 2**32 values equally likely.
    """
    seed = tf.random.experimental.stateless_fold_in([random_seed, _STREAM], step)
    shape = [batch_size, length + 2 * min(rules.slots, length)]
    # The default, "auto_select", would take another generator on an accelerator.
    return tf.random.stateless_uniform(shape, seed, None, None, tf.int32, alg="philox")


def rates_at(rules: MaskingRules, steps_B: tf.Tensor) -> tf.Tensor:
    """Returns the shares of the tokens to predict at steps of the training, float64 [B].

    Args:
      rules: rules by which masks are drawn.
      steps_B: int64 [B], numbers of steps, from 0.
    """
    first, last = rules.rates
    done_B = tf.cast(steps_B, tf.float64) / max(rules.last_step, 1)
    is_over_B = (steps_B >= rules.last_step) & (rules.last_step > 0)
    return tf.where(is_over_B, tf.constant(last, tf.float64), first + (last - first) * done_B)


def redraw_masks(
    features: Features, bits_NB: tf.Tensor, rules: MaskingRules, rate_N: tf.Tensor | float
) -> Features:
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
    key_NL, roll_NS, choice_NS = tf.split(bits_NB, [length, slots, slots], axis=1)
    # numpy computes the number of predictions in float64 too, so both round alike.
    share_N = tf.cast(tf.reduce_sum(features["input_mask"], axis=1), tf.float64)
    wanted_N = tf.cast(tf.round(share_N * rate_N), tf.int32)
    fixed_NL = tf.gather(rules.ids.is_fixed, ids_NL)
    free_N = tf.math.count_nonzero(~fixed_NL, axis=1, dtype=tf.int32)
    wanted_N = tf.minimum(tf.clip_by_value(wanted_N, 1, slots), free_N)
    if rules.do_whole_word_mask:
        is_continuation_NL = tf.gather(rules.ids.is_continuation, ids_NL)
        position_NS = choose_words(key_NL, is_continuation_NL, fixed_NL, wanted_N, slots)
    else:
        position_NS = choose_tokens(key_NL, fixed_NL, wanted_N, slots)
    is_used_NS = position_NS < length
    position_NS = tf.where(is_used_NS, position_NS, 0)

    label_NS = tf.gather(ids_NL, position_NS, batch_dims=1)
    hidden_NS = _hide(label_NS, roll_NS, choice_NS, rules)
    padding = [[0, 0], [0, rules.slots - slots]]
    return {
        **features,
        "input_ids": _with_values(ids_NL, position_NS, hidden_NS, is_used_NS),
        "masked_lm_positions": tf.pad(position_NS, padding),
        "masked_lm_ids": tf.pad(tf.where(is_used_NS, label_NS, 0), padding),
        "masked_lm_weights": tf.pad(tf.cast(is_used_NS, tf.float32), padding),
    }


def choose_tokens(
    key_NL: tf.Tensor, fixed_NL: tf.Tensor, wanted_N: tf.Tensor, slots: int
) -> tf.Tensor:
    """Chooses the tokens with the largest keys: a uniform choice without replacement.

    Args:
      key_NL: int32 [N, L], random.
      fixed_NL: bool [N, L], true for tokens that may not be chosen.
      wanted_N: int32 [N], number of tokens to choose: at most S, and no more than may be chosen.
      slots: S.

    Returns:
      int32 [N, S], the chosen positions in ascending order, filled up with L.
    """
    length = key_NL.shape[1]
    key_NL = tf.where(fixed_NL, _LOWEST, tf.maximum(key_NL, _LOWEST + 1))
    position_NS = tf.math.top_k(key_NL, slots).indices
    is_used_NS = tf.range(slots)[None] < wanted_N[:, None]
    return tf.sort(tf.where(is_used_NS, position_NS, length), axis=1)


def choose_words(
    key_NL: tf.Tensor,
    is_continuation_NL: tf.Tensor,
    fixed_NL: tf.Tensor,
    wanted_N: tf.Tensor,
    slots: int,
) -> tf.Tensor:
    """Chooses whole words in the order of their first token's key, the largest first.

    A word that does not fit is skipped.

    Args:
      key_NL: int32 [N, L], random.
      is_continuation_NL: bool [N, L], true for pieces that continue the word before them.
      fixed_NL: bool [N, L], true for tokens that may not be chosen; each is a separate word.
      wanted_N: int32 [N], largest number of tokens to choose, at most S.
      slots: S.

    Returns:
      int32 [N, S], the chosen positions in ascending order, filled up with L.
    """
    rows, length = key_NL.shape
    # A piece after a fixed token starts a word too: the document was cut inside a word there.
    follows_fixed_NL = tf.pad(fixed_NL, [[0, 0], [1, 0]], constant_values=True)[:, :-1]
    is_start_NL = ~is_continuation_NL | fixed_NL | follows_fixed_NL
    word_NL = tf.cumsum(tf.cast(is_start_NL, tf.int32), axis=1) - 1
    first_word_N1 = length * tf.range(rows)[:, None]

    def by_word(combine, value_NL: tf.Tensor, word_NL: tf.Tensor) -> tf.Tensor:
        words = combine(value_NL, word_NL + first_word_N1, rows * length)
        return tf.reshape(words, [rows, length])

    is_key_NL = is_start_NL & ~fixed_NL
    key_NL = tf.where(is_key_NL, tf.maximum(key_NL, _LOWEST + 1), _LOWEST)
    key_NW = by_word(tf.math.unsorted_segment_max, key_NL, word_NL)
    size_NW = by_word(tf.math.unsorted_segment_sum, tf.ones_like(word_NL), word_NL)
    key_NW, order_NW = tf.math.top_k(key_NW, length)
    size_NW = tf.gather(size_NW, order_NW, batch_dims=1)
    taken_NW = _take_fitting(size_NW, key_NW > _LOWEST, wanted_N)

    taken_NW = by_word(tf.math.unsorted_segment_max, tf.cast(taken_NW, tf.int32), order_NW)
    is_chosen_NL = tf.gather(taken_NW, word_NL, batch_dims=1) > 0
    # The positions with the S largest distances from the end are the S first ones.
    distance_NL = tf.where(is_chosen_NL, length - tf.range(length)[None], 0)
    return length - tf.math.top_k(distance_NL, slots).values


def _take_fitting(size_NW: tf.Tensor, is_free_NW: tf.Tensor, left_N: tf.Tensor) -> tf.Tensor:
    """Goes through each row's words in turn and takes every word that still fits.

    A turn takes all words up to the first that does not fit. The number that is left is then
    smaller than that word. So there is at most one turn more than the longest word has pieces.

    Args:
      size_NW: int32 [N, W], number of tokens of each word.
      is_free_NW: bool [N, W], true for words that may be taken.
      left_N: int32 [N], largest number of tokens of all words taken.

    Returns:
      bool [N, W], true for the words taken.
    """

    def fitting(free_NW: tf.Tensor, left_N: tf.Tensor) -> tf.Tensor:
        return free_NW & (size_NW <= left_N[:, None])

    def turn(
        free_NW: tf.Tensor, taken_NW: tf.Tensor, left_N: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        fits_NW = fitting(free_NW, left_N)
        sizes_NW = tf.where(fits_NW, size_NW, 0)
        new_NW = fits_NW & (tf.cumsum(sizes_NW, axis=1) <= left_N[:, None])
        left_N -= tf.reduce_sum(tf.where(new_NW, size_NW, 0), axis=1)
        return fits_NW & ~new_NW, taken_NW | new_NW, left_N

    _, taken_NW, _ = tf.while_loop(
        lambda free_NW, _, left_N: tf.reduce_any(fitting(free_NW, left_N)),
        turn,
        (is_free_NW, tf.zeros_like(is_free_NW), left_N),
    )
    return taken_NW


def _hide(
    label_NS: tf.Tensor, roll_NS: tf.Tensor, choice_NS: tf.Tensor, rules: MaskingRules
) -> tf.Tensor:
    """Returns the ids that replace tokens: [MASK], random ones or the tokens themselves."""
    roll_NS = tf.cast(roll_NS, tf.float64) / 2**32 + 0.5
    others = rules.ids.replacements
    other_NS = tf.gather(others, choice_NS % len(others))
    rest_NS = tf.where(roll_NS < rules.mask_share + rules.random_share, other_NS, label_NS)
    return tf.where(roll_NS < rules.mask_share, rules.ids.mask, rest_NS)


def _with_values(
    ids_NL: tf.Tensor, position_NS: tf.Tensor, value_NS: tf.Tensor, is_used_NS: tf.Tensor
) -> tf.Tensor:
    """Returns the ids with other values at some positions; unused slots point at position 0."""
    # Unused slots write the id that is at position 0 already: [CLS], which is never chosen.
    value_NS = tf.where(is_used_NS, value_NS, ids_NL[:, :1])
    row_NS = tf.zeros_like(position_NS) + tf.range(tf.shape(position_NS)[0])[:, None]
    indices_NS2 = tf.stack([row_NS, position_NS], axis=-1)
    return tf.tensor_scatter_nd_update(ids_NL, indices_NS2, value_NS)
