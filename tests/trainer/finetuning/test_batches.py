"""Which examples a batch has, and at which length."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.tasks.task import TaskFeatures
from beambert.trainer.finetuning import batches as task_batches
from beambert.trainer.finetuning.batches import (
    PaddedBatches,
    batch_rows,
    choose_lengths,
)


def positions(lengths, chosen) -> int:
    """What all examples take, each at the least chosen length that holds it."""
    return sum(min(c for c in chosen if c >= length) for length in lengths)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=40))
def test_no_other_lengths_leave_less_padding(lengths):
    chosen = choose_lengths(np.array(lengths), 64)
    multiples = range(8, 72, 8)
    assert list(chosen) == sorted(set(chosen)) and set(chosen) <= set(multiples)
    best = min(
        positions(lengths, others)
        for count in range(1, task_batches.MOST_LENGTHS + 1)
        for others in itertools.combinations(multiples, count)
        if others[-1] >= max(lengths)
    )
    assert positions(lengths, chosen) == best


def test_a_length_that_spares_too_little_is_not_compiled_for():
    lengths = np.array([8] * 100 + [64] * 100)
    assert choose_lengths(lengths, 64, 5600) == (8, 64)
    assert choose_lengths(lengths, 64, 5601) == (64,)


@pytest.fixture
def example_lengths():
    return np.random.default_rng(1).integers(1, 100, 250)


def test_every_epoch_has_every_example_but_for_less_than_a_batch(example_lengths):
    rows = batch_rows(example_lengths, (24, 48, 100), 16, steps=45, seed=3)
    assert rows.shape == (45, 16)
    orders = []
    for epoch in range(3):
        of_epoch = rows[15 * epoch :][:15].ravel()
        assert len(set(of_epoch)) == 240
        orders.append(of_epoch.tolist())
    assert orders[0] != orders[1] != orders[2]
    np.testing.assert_array_equal(rows, batch_rows(example_lengths, (24, 48, 100), 16, 45, seed=3))
    assert (rows != batch_rows(example_lengths, (24, 48, 100), 16, 45, seed=4)).any()


def test_like_lengths_stand_together(example_lengths):
    chosen = choose_lengths(example_lengths, 100)
    rows = batch_rows(example_lengths, chosen, 16, steps=15, seed=3)
    longest = example_lengths[rows].max(axis=1)
    computed = np.array(chosen)[np.searchsorted(chosen, longest)].sum() * 16
    assert computed < 0.75 * 100 * rows.size
    # The batches themselves are in no order: a run of one length would bias the training.
    assert np.abs(np.corrcoef(np.arange(15), longest)[0, 1]) < 0.8


def test_what_is_left_out_is_of_any_length(example_lengths):
    rows = batch_rows(example_lengths, (24, 48, 100), 16, steps=15 * 300, seed=3)
    used = np.bincount(rows.ravel(), minlength=250)
    # Ten of 250 are left out of an epoch: none of them always or never.
    assert used.min() > 0.85 * 300 and used.max() <= 300


def sequences(choices=1) -> TaskFeatures:
    lengths = np.array([3, 5, 2, 8, 4, 1])
    ids = np.arange(1, lengths.sum() + 1, dtype=np.int32)
    labels = np.arange(6 // choices, dtype=np.int32)
    return TaskFeatures(ids, ids % 2, lengths, {"label_ids": labels}, {"tags": ids}, choices)


def test_rows_are_padded():
    batch = PaddedBatches(sequences())(np.array([5, 0]), 4)
    assert batch["input_ids"].tolist() == [[23, 0, 0, 0], [1, 2, 3, 0]]
    assert batch["input_mask"].tolist() == [[1, 0, 0, 0], [1, 1, 1, 0]]
    assert batch["segment_ids"].tolist() == [[1, 0, 0, 0], [1, 0, 1, 0]]
    assert batch["tags"].tolist() == [[23, -1, -1, -1], [1, 2, 3, -1]]
    assert batch["label_ids"].tolist() == [5, 0]


def test_the_choices_of_an_example_stay_together():
    batch = PaddedBatches(sequences(choices=2))(np.array([2, 0]), 5)
    assert batch["input_ids"].tolist() == [
        [[19, 20, 21, 22, 0], [23, 0, 0, 0, 0]],
        [[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]],
    ]
    assert batch["label_ids"].tolist() == [2, 0]
