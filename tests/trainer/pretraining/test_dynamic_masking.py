"""Masks drawn anew: against the text before masking, a walk word by word, and the binomial."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import assert_binomial, assert_same

from beambert.errors import InputError
from beambert.pipelines.pretraining.masks import TokenIds, mask_rows
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.trainer.loop.engine import ONE_HOST
from beambert.trainer.pretraining import batches as batching
from beambert.trainer.pretraining.batches import training_batches
from beambert.trainer.pretraining.masks import (
    MaskingRules,
    choose_tokens,
    choose_words,
    draw_bits,
    redraw_masks,
    restore_ids,
)
from beambert.trainer.pretraining.records import open_records

LENGTH, PREDICTIONS, ROWS, SEED = 64, 10, 4096, 7
PARAMETERS = {"masked_lm_prob": 0.15, "do_whole_word_mask": False, "pairs": "balanced"}

WORDS = [f"w{i}" for i in range(60)]
PIECES = [f"##{i}" for i in range(40)]
# Special tokens not at the start, and unused ones around them.
VOCABULARY = Vocabulary(("[unused0]", *SPECIAL_TOKENS, *WORDS, *PIECES, "[unused1]"))
IDS = TokenIds.of(VOCABULARY)
FIRST_WORD = VOCABULARY.id_of("w0")
SPECIAL = [VOCABULARY.id_of(token) for token in (*SPECIAL_TOKENS, "[unused0]", "[unused1]")]


def plain_rows(rows: int = ROWS, length: int = LENGTH, seed: int = 1) -> dict[str, np.ndarray]:
    """Unmasked rows of random tokens, some unknown, some with room behind them."""
    random = np.random.default_rng(seed)
    ids = random.integers(FIRST_WORD, FIRST_WORD + 100, (rows, length)).astype(np.int32)
    ids[random.random(ids.shape) < 0.03] = IDS.unknown
    end = random.integers(5, length + 1, rows)
    middle = np.array([random.integers(2, n - 2) for n in end])
    position, row = np.arange(length)[None], np.arange(rows)
    ids[:, 0] = IDS.classify
    ids[row, middle] = ids[row, end - 1] = IDS.separate
    mask = position < end[:, None]
    ids[~mask] = IDS.padding
    return {
        "input_ids": ids,
        "input_mask": mask.astype(np.int32),
        "segment_ids": (mask & (position > middle[:, None])).astype(np.int32),
        "next_sentence_labels": np.zeros((rows, 1), np.int32),
    }


def mask_statically(plain, is_whole_words=False, predictions=PREDICTIONS, seed=2):
    """Records as the pipeline makes them."""
    masked = mask_rows(
        plain["input_ids"],
        plain["input_mask"],
        max_predictions_per_seq=predictions,
        masked_lm_prob=0.15,
        do_whole_word_mask=is_whole_words,
        ids=IDS,
        random=np.random.Generator(np.random.PCG64(seed)),
    )
    return plain | masked


def mask_again(features, step=0, is_whole_words=False, ids=IDS, prob=0.15):
    slots = features["masked_lm_ids"].shape[1]
    rules = MaskingRules((prob, prob), slots, is_whole_words, ids)
    rows, length = features["input_ids"].shape
    bits = draw_bits(SEED, step, rows, length, rules)
    return redraw_masks(features, bits, rules, prob)


def numpy_of(features) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in features.items()}


@pytest.fixture(scope="module")
def plain():
    return plain_rows()


@pytest.fixture(scope="module", params=[False, True], ids=["tokens", "words"])
def is_whole_words(request):
    return request.param


@pytest.fixture(scope="module")
def masked(plain, is_whole_words):
    return numpy_of(mask_again(mask_statically(plain, is_whole_words), 0, is_whole_words))


def used_slots(masked):
    """Row, position and label of every prediction."""
    row, slot = np.nonzero(masked["masked_lm_weights"])
    return row, masked["masked_lm_positions"][row, slot], masked["masked_lm_ids"][row, slot]


def test_the_text_before_masking_is_restored(plain, is_whole_words):
    features = mask_statically(plain, is_whole_words)
    assert (features["input_ids"] != plain["input_ids"]).any(axis=1).mean() > 0.8
    np.testing.assert_array_equal(restore_ids(features), plain["input_ids"])


def test_what_is_masked_again_can_be_restored(plain, masked):
    np.testing.assert_array_equal(
        restore_ids(masked),
        plain["input_ids"],
    )
    for name in ("input_mask", "segment_ids", "next_sentence_labels"):
        np.testing.assert_array_equal(masked[name], plain[name])


def test_slots_are_ascending_and_padded_with_zeros(masked):
    weights, positions = masked["masked_lm_weights"], masked["masked_lm_positions"]
    assert set(np.unique(weights)) == {0.0, 1.0}
    assert (np.diff(weights, axis=1) <= 0).all(), "a prediction behind an empty slot"
    both = weights[:, 1:] == 1
    assert (np.diff(positions, axis=1)[both] > 0).all()
    assert not positions[weights == 0].any() and not masked["masked_lm_ids"][weights == 0].any()


def test_labels_are_the_text_and_nothing_special_is_predicted(plain, masked):
    row, position, label = used_slots(masked)
    np.testing.assert_array_equal(label, plain["input_ids"][row, position])
    assert not np.isin(label, SPECIAL).any()
    changed = masked["input_ids"] != plain["input_ids"]
    changed[row, position] = False
    assert not changed.any(), "changed where nothing is predicted"


def test_15_percent_of_the_tokens_are_predicted(plain, masked, is_whole_words):
    # Special tokens counted, as the original does.
    wanted = np.round(0.15 * plain["input_mask"].sum(axis=1)).clip(1, PREDICTIONS)
    free = (~np.isin(plain["input_ids"], SPECIAL)).sum(axis=1)
    wanted = np.minimum(wanted, free)
    made = masked["masked_lm_weights"].sum(axis=1)
    assert wanted.max() == PREDICTIONS and wanted.min() <= 1
    if is_whole_words:
        assert (made <= wanted).all() and made.sum() > 0.9 * wanted.sum()
    else:
        np.testing.assert_array_equal(made, wanted)


def test_80_10_10(masked):
    row, position, label = used_slots(masked)
    shown = masked["input_ids"][row, position]
    # A random token is the same one by chance.
    same = 0.1 / len(IDS.replacements)
    assert_binomial((shown == IDS.mask).sum(), len(shown), 0.8)
    assert_binomial((shown == label).sum(), len(shown), 0.1 + same)
    others = shown[(shown != IDS.mask) & (shown != label)]
    assert not np.isin(others, SPECIAL).any()
    for token in range(FIRST_WORD, FIRST_WORD + 100):
        assert_binomial((others == token).sum(), len(others), 1 / 100)


def test_every_position_is_as_likely(plain):
    full = plain_rows(ROWS, 32)
    full["input_ids"][:] = FIRST_WORD
    full["input_mask"][:] = 1
    full["input_ids"][:, [0, 15, 31]] = IDS.separate
    again = numpy_of(mask_again(mask_statically(full)))
    _, position, _ = used_slots(again)
    counts = np.bincount(position, minlength=32)
    assert len(position) == ROWS * 5 and not counts[[0, 15, 31]].any()
    for at in np.flatnonzero(counts):
        # Five of a row's 29, without replacement: a row has a position once at most.
        assert_binomial(counts[at], ROWS, 5 / 29)


def test_steps_and_the_old_masks_are_independent(plain):
    features = mask_statically(plain)
    long = plain["input_mask"].sum(axis=1) == LENGTH
    draws = [features, *(mask_again(features, step) for step in (0, 1, 2**33))]
    hidden = []
    for draw in map(numpy_of, draws):
        row, position, _ = used_slots(draw)
        hidden.append(np.zeros((ROWS, LENGTH), bool))
        hidden[-1][row, position] = True
    free = (~np.isin(plain["input_ids"], SPECIAL)).sum(axis=1)[long]
    for one, other in itertools.combinations(hidden, 2):
        # Hypergeometric: of the free ones 10 are chosen twice.
        both, expected = (one & other)[long].sum(), (PREDICTIONS**2 / free).sum()
        assert abs(both - expected) < 5 * np.sqrt(expected)


def test_the_reference_rules_predict_unknown_tokens_and_replace_by_any(plain):
    reference = TokenIds.of(VOCABULARY, is_reference=True)
    again = numpy_of(mask_again(mask_statically(plain), ids=reference))
    row, position, label = used_slots(again)
    assert (label == IDS.unknown).any()
    assert np.isin(again["input_ids"][row, position], [SPECIAL[0], SPECIAL[-1]]).any()


@pytest.mark.parametrize("length", [8, 20])
def test_more_slots_than_a_row_has_tokens(length, is_whole_words):
    plain = plain_rows(50, length)
    features = mask_statically(plain, is_whole_words, predictions=24)
    again = mask_again(features, 3, is_whole_words, prob=1.0)
    np.testing.assert_array_equal(restore_ids(again), plain["input_ids"])
    free = ~np.isin(plain["input_ids"], SPECIAL)
    np.testing.assert_array_equal(numpy_of(again)["masked_lm_weights"].sum(axis=1), free.sum(1))


def test_a_row_of_unknown_tokens_has_no_prediction(is_whole_words):
    plain = plain_rows(3, 16)
    words = ~np.isin(plain["input_ids"], [IDS.classify, IDS.separate, IDS.padding])
    plain["input_ids"][words] = IDS.unknown
    again = numpy_of(mask_again(mask_statically(plain, is_whole_words), 0, is_whole_words))
    assert not again["masked_lm_weights"].any()
    np.testing.assert_array_equal(again["input_ids"], plain["input_ids"])


def choose_words_one_by_one(keys, kinds, wanted):
    """create_pretraining_data.py's create_masked_lm_predictions, whole words, for one row."""
    words = []
    for position, kind in enumerate(kinds):
        if kind == "fixed":
            continue
        if kind == "continues" and words and words[-1][-1] == position - 1:
            words[-1].append(position)
        else:
            words.append([position])
    chosen = []
    for word in sorted(words, key=lambda word: -keys[word[0]]):
        if len(chosen) + len(word) <= wanted:
            chosen += word
    return sorted(chosen)


@st.composite
def rows_of_words(draw):
    length = draw(st.integers(1, 12))
    kinds = st.lists(
        st.sampled_from(["starts", "continues", "continues", "fixed"]),
        min_size=length,
        max_size=length,
    )
    rows = draw(st.lists(kinds, min_size=1, max_size=4))
    limits = st.integers(-(2**31), 2**31 - 1)
    keys = st.lists(limits, min_size=length, max_size=length, unique_by=lambda k: max(k, 1 - 2**31))
    slots = draw(st.integers(1, length))
    wanted = [min(slots, draw(st.integers(0, length)), length - k.count("fixed")) for k in rows]
    return rows, [draw(keys) for _ in rows], wanted, slots


@pytest.mark.slow
@settings(deadline=None)
@given(rows_of_words())
def test_choices_against_a_walk_word_by_word(case):
    rows, keys, wanted, slots = case
    length = len(rows[0])
    fixed = np.array([[kind == "fixed" for kind in row] for row in rows])
    continues = np.array([[kind == "continues" for kind in row] for row in rows])
    key, most = np.array(keys, np.int32), np.array(wanted, np.int32)
    words = choose_words(key, continues, fixed, most, slots).tolist()
    tokens = choose_tokens(key, fixed, most, slots).tolist()
    for row in range(len(rows)):
        expected = choose_words_one_by_one(keys[row], rows[row], wanted[row])
        assert words[row] == expected + [length] * (slots - len(expected))
        free = [p for p in range(length) if rows[row][p] != "fixed"]
        expected = sorted(sorted(free, key=lambda p: -keys[row][p])[: wanted[row]])
        assert tokens[row] == expected + [length] * (slots - len(expected))


# In the input pipeline


@pytest.fixture(scope="module")
def records(records_folder):
    return with_parameters(open_records(str(records_folder), "--data"))


def with_parameters(records, **parameters):
    parameters = records.info.parameters | PARAMETERS | parameters
    info = dataclasses.replace(records.info, parameters=parameters)
    return dataclasses.replace(records, info=info)


def take(records, count, step=0, context=ONE_HOST, *, batch=8, is_dynamic=True, seed=SEED):
    rules = MaskingRules.of(records) if is_dynamic else None
    batches = training_batches(records, batch, seed, step, context, rules=rules)
    return [numpy_of(batch) for batch in itertools.islice(batches, count)]


def restored(batch) -> np.ndarray:
    ids = batch["input_ids"].copy()
    for row, position, label in zip(*used_slots(batch), strict=True):
        ids[row, position] = label
    return ids


@pytest.mark.slow
def test_epochs_differ(records):
    an_epoch = records.instances
    batches = take(records, 3 * an_epoch, batch=1)
    masks: dict[bytes, set[bytes]] = {}
    for batch in batches:
        text = restored(batch).tobytes() + batch["segment_ids"].tobytes()
        masks.setdefault(text, set()).add(batch["input_ids"].tobytes())
    # Three draws of a short row are sometimes two of the same.
    assert sum(map(len, masks.values())) > 0.9 * len(batches)


@pytest.mark.slow
def test_resumed_batches_are_the_same(records):
    records = with_parameters(records, do_whole_word_mask=True)
    an_epoch = records.instances // 8
    stream = take(records, 2 * an_epoch)
    for step in (1, an_epoch, an_epoch + 3):
        assert_same(take(records, 3, step), stream[step : step + 3])


def test_spans_are_not_drawn_anew(records):
    with pytest.raises(InputError, match="--masking=dynamic: cannot hide spans"):
        take(with_parameters(records, do_span_mask=True), 1)


@pytest.mark.slow
def test_hosts_share_the_masks_of_one(records):
    """The same rows with the same masks, dealt to the steps in another order."""
    steps = batching.steps_dealt(8)
    contexts = [tf.distribute.InputContext(2, host, 4) for host in range(2)]
    parts = [take(records, 2 * steps, context=context) for context in contexts]
    rows = [
        sorted(
            b"".join(batch[name][row].tobytes() for name in sorted(batch))
            for batch in batches
            for row in range(len(batch["input_ids"]))
        )
        for batches in (take(records, steps), parts[0] + parts[1])
    ]
    assert rows[0] == rows[1]
