"""Masks drawn anew every time a record is read (RoBERTa, arXiv 1907.11692, section 4.1).

The records hold masked ids and what was hidden, so the text before masking can be restored; then
positions are chosen by the rules of `pipelines.instances.masking`, in the graph of the input
pipeline.

Legend: N rows, L max_seq_length, P max_predictions_per_seq, S slots (the lesser of P and L),
W words, of which a row has L at most.
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from beambert.pipelines.instances.masking import MASK_SHARE, RANDOM_SHARE, TokenIds
from beambert.pipelines.instances.parameters import REFERENCE
from beambert.pipelines.records.contract import RecordsInfo
from beambert.pipelines.wordpiece.vocabulary import Vocabulary

Features = Mapping[str, tf.Tensor]
# Folded into the seed, so that the files' order and the dropout draw other numbers from it.
_STREAM = 0x6D61736B
_LOWEST = tf.int32.min


@dataclasses.dataclass(frozen=True)
class MaskingRules:
    """How a folder's records were masked, and are masked again.

    Attributes:
      masked_lm_prob: share of a row's tokens to predict; 0.15 in the paper.
      do_whole_word_mask: hide all pieces of a word or none.
      ids: of the vocabulary.
    """

    masked_lm_prob: float
    do_whole_word_mask: bool
    ids: TokenIds

    @classmethod
    def of(cls, info: RecordsInfo, vocabulary: Vocabulary) -> "MaskingRules":
        """Returns what the records were made by."""
        parameters = info.parameters
        ids = TokenIds.of(vocabulary, is_reference=parameters["pairs"] == REFERENCE)
        return cls(parameters["masked_lm_prob"], parameters["do_whole_word_mask"], ids)


def restore_ids(features: Features) -> tf.Tensor:
    """Returns `input_ids` before anything was hidden, int32 [N, L]."""
    return _with_values(
        features["input_ids"],
        features["masked_lm_positions"],
        features["masked_lm_ids"],
        features["masked_lm_weights"] > 0,
    )


def draw_bits(random_seed: int, step: tf.Tensor, batch_size: int, features: Features) -> tf.Tensor:
    """Draws all that `redraw_masks` needs, from nothing but the seed and the step.

    Args:
      random_seed: of the training.
      step: int64 scalar, number of the batch since the start of training.
      batch_size: rows over all hosts. Every host draws for all of them and uses its own, so that
        a row's masks don't depend on the number of hosts.
      features: tell the lengths.

    Returns:
      int32 [batch_size, L + 2 S], all 2**32 values equally likely.
    """
    seed = tf.random.experimental.stateless_fold_in([random_seed, _STREAM], step)
    length = features["input_ids"].shape[1]
    shape = [batch_size, length + 2 * _slots(features)]
    # Named, since "auto_select" would take another generator on an accelerator.
    return tf.random.stateless_uniform(shape, seed, None, None, tf.int32, alg="philox")


def redraw_masks(features: Features, bits_NB: tf.Tensor, rules: MaskingRules) -> Features:
    """Undoes the masks of records and draws others.

    Args:
      features: of N records.
      bits_NB: int32 [N, L + 2 S], see `draw_bits`.
      rules: that the records were made by.

    Returns:
      the features, of the same shapes and types; `masked_lm_positions` ascending.
    """
    ids_NL = restore_ids(features)
    length, slots = ids_NL.shape[1], _slots(features)
    key_NL, roll_NS, choice_NS = tf.split(bits_NB, [length, slots, slots], axis=1)
    # A float64, as numpy computes it.
    share_N = tf.cast(tf.reduce_sum(features["input_mask"], axis=1), tf.float64)
    wanted_N = tf.cast(tf.round(share_N * rules.masked_lm_prob), tf.int32)
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
    hidden_NS = _hide(label_NS, roll_NS, choice_NS, rules.ids)
    padding = [[0, 0], [0, features["masked_lm_ids"].shape[1] - slots]]
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
    """Chooses the tokens of the largest keys: a uniform choice without replacement.

    Args:
      key_NL: int32 [N, L], random.
      fixed_NL: bool [N, L], what may not be chosen.
      wanted_N: int32 [N], how many; no more than may be chosen, nor than `slots`.
      slots: S.

    Returns:
      int32 [N, S], the positions in ascending order, and L where there are no more.
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
    """Chooses whole words from the largest key of a first token down, passing over misfits.

    Args:
      key_NL: int32 [N, L], random.
      is_continuation_NL: bool [N, L], pieces that continue the word before them.
      fixed_NL: bool [N, L], what may not be chosen; each such token is a word of its own.
      wanted_N: int32 [N], how many tokens at most; no more than `slots`.
      slots: S.

    Returns:
      int32 [N, S], the positions in ascending order, and L where there are no more.
    """
    rows, length = key_NL.shape
    # A piece behind a fixed token (the text was cut inside a word) starts a word too.
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
    # The S largest distances from the end are the S first positions.
    distance_NL = tf.where(is_chosen_NL, length - tf.range(length)[None], 0)
    return length - tf.math.top_k(distance_NL, slots).values


def _take_fitting(size_NW: tf.Tensor, is_free_NW: tf.Tensor, room_N: tf.Tensor) -> tf.Tensor:
    """Goes through each row's words in turn and takes every one that still fits.

    At each turn all words up to the first that doesn't fit are taken at once. What is left then is
    less than that word's size, so there are no more turns than a word has pieces, and one.

    Args:
      size_NW: int32 [N, W].
      is_free_NW: bool [N, W], what may be taken.
      room_N: int32 [N], the most that the words taken may add up to.

    Returns:
      bool [N, W], the words taken.
    """

    def fitting(free_NW: tf.Tensor, room_N: tf.Tensor) -> tf.Tensor:
        return free_NW & (size_NW <= room_N[:, None])

    def turn(
        free_NW: tf.Tensor, taken_NW: tf.Tensor, room_N: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        fits_NW = fitting(free_NW, room_N)
        sizes_NW = tf.where(fits_NW, size_NW, 0)
        new_NW = fits_NW & (tf.cumsum(sizes_NW, axis=1) <= room_N[:, None])
        room_N -= tf.reduce_sum(tf.where(new_NW, size_NW, 0), axis=1)
        return fits_NW & ~new_NW, taken_NW | new_NW, room_N

    _, taken_NW, _ = tf.while_loop(
        lambda free_NW, _, room_N: tf.reduce_any(fitting(free_NW, room_N)),
        turn,
        (is_free_NW, tf.zeros_like(is_free_NW), room_N),
    )
    return taken_NW


def _slots(features: Features) -> int:
    return min(features["masked_lm_ids"].shape[1], features["input_ids"].shape[1])


def _hide(
    label_NS: tf.Tensor, roll_NS: tf.Tensor, choice_NS: tf.Tensor, ids: TokenIds
) -> tf.Tensor:
    """Returns what stands in the place of tokens: [MASK], any other or themselves."""
    roll_NS = tf.cast(roll_NS, tf.float64) / 2**32 + 0.5
    other_NS = tf.gather(ids.replacements, choice_NS % len(ids.replacements))
    rest_NS = tf.where(roll_NS < MASK_SHARE + RANDOM_SHARE, other_NS, label_NS)
    return tf.where(roll_NS < MASK_SHARE, ids.mask, rest_NS)


def _with_values(
    ids_NL: tf.Tensor, position_NS: tf.Tensor, value_NS: tf.Tensor, is_used_NS: tf.Tensor
) -> tf.Tensor:
    """Returns the ids with other values at some positions; slots not used point at position 0."""
    # Those write what stands there anyway: [CLS], which is never chosen.
    value_NS = tf.where(is_used_NS, value_NS, ids_NL[:, :1])
    row_NS = tf.zeros_like(position_NS) + tf.range(position_NS.shape[0])[:, None]
    indices_NS2 = tf.stack([row_NS, position_NS], axis=-1)
    return tf.tensor_scatter_nd_update(ids_NL, indices_NS2, value_NS)
