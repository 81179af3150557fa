"""Dealing: what batches promise each other, for any lengths, batches, parts and hosts."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beambert.trainer.pretraining.batches import deal, shares_of, steps_dealt

exact = settings(derandomize=True, max_examples=25, deadline=None, database=None)
LONGEST = 40


@st.composite
def dealings(draw):
    """Lengths of sequences, batches, parts of a batch, and shares of one host."""
    batches, parts, shares = (
        draw(st.integers(1, 6)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
    )
    count = batches * parts * shares * draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, LONGEST), min_size=count, max_size=count))
    return lengths, batches, parts, shares


def features(lengths, first=0):
    """Features of sequences of these lengths; `row` numbers them."""
    mask = (np.arange(LONGEST) < np.array(lengths)[:, None]).astype(np.int32)
    rows = np.arange(first, first + len(lengths), dtype=np.int32)
    return {"input_mask": tf.constant(mask), "row": tf.constant(rows)}


def dealt(lengths, batches, parts=1, shares=(0,), all_shares=1):
    """Returns the numbers of the rows, [batches, parts, rows]."""
    found = deal(features(lengths), batches, parts, shares, all_shares)
    assert found["input_mask"].shape == (*found["row"].shape, LONGEST)
    assert (tf.reduce_sum(found["input_mask"], -1).numpy() == np.array(lengths)[found["row"]]).all()
    return found["row"].numpy()


def test_cards_go_there_and_back():
    """Eight sequences of 8 to 1 tokens in two batches of 18 tokens, the longest first."""
    lengths = np.array([3, 8, 1, 6, 5, 2, 7, 4])
    assert lengths[dealt(lengths, 2)].tolist() == [[[8, 5, 4, 1]], [[7, 6, 3, 2]]]
    assert lengths[dealt(lengths, 2, 2)].tolist() == [[[8, 1], [5, 4]], [[7, 2], [6, 3]]]


@exact
@given(dealings())
def test_every_sequence_is_in_one_part_of_one_batch(case):
    lengths, batches, parts, shares = case
    rows = dealt(lengths, batches, parts, range(shares), shares)
    assert rows.shape == (batches, parts, len(lengths) // batches // parts)
    assert sorted(rows.ravel()) == list(range(len(lengths)))


@exact
@given(dealings())
def test_totals_differ_by_no_more_than_two_sequences_do(case):
    """Batches by the spread of each share, parts of a batch by the spread of the batch."""
    lengths, batches, parts, shares = case
    rows = dealt(lengths, batches, parts, range(shares), shares)
    tokens = np.array(lengths)[rows]
    spread = sum(np.ptp(lengths[share::shares]) for share in range(shares))
    assert np.ptp(tokens.sum(axis=(1, 2))) <= spread
    for batch in tokens:
        assert np.ptp(batch.sum(axis=1)) <= np.ptp(batch)


@exact
@given(dealings())
def test_the_parts_of_a_batch_do_not_change_what_is_in_it(case):
    """Training on another number of devices, or in more parts, sees the same batches."""
    lengths, batches, parts, shares = case
    many, one = (dealt(lengths, batches, n, range(shares), shares) for n in (parts, 1))
    for a, b in zip(many, one, strict=True):
        assert sorted(a.ravel()) == sorted(b.ravel())


@pytest.mark.parametrize("hosts", [2, 4])
def test_hosts_together_deal_what_one_deals(hosts):
    """Each reads its shares; a batch of all hosts has the rows that one host gives it."""
    shares, batches, rounds = 4, 8, 6
    lengths = np.random.default_rng(0).integers(1, LONGEST, shares * batches * rounds)
    whole = dealt(lengths, batches, 1, range(shares), shares).reshape(batches, -1)
    number = np.arange(len(lengths))
    together = []
    for host in np.split(np.arange(shares), hosts):
        mine = number[np.isin(number % shares, host)]
        rows = dealt(lengths[mine], batches, 2, host.tolist(), shares)
        together.append(mine[rows].reshape(batches, -1))
    together = np.concatenate(together, axis=1)
    assert np.sort(together).tolist() == np.sort(whole).tolist()


def test_a_batch_has_not_the_longest_of_every_share():
    """Of four shares with the same lengths, a batch gets four different piles."""
    shares, batches = 4, 8
    lengths = np.repeat(np.arange(1, 2 * batches + 1), shares)  # each length in every share
    found = lengths[dealt(lengths, batches, 1, range(shares), shares)].reshape(batches, -1)
    assert all(len(set(batch)) == len(batch) for batch in found)
    # From all over the pack: the best batch is hardly better off than the worst.
    assert set(found.max(axis=1)) == {15, 16} and set(found.min(axis=1)) == {1, 2}


@exact
@given(st.integers(1, 10_000))
@example(4096)
def test_enough_steps_are_dealt_together(sequences_a_step):
    """At least 4,096 sequences, and not a step more."""
    steps = steps_dealt(sequences_a_step)
    assert steps * sequences_a_step >= 4096 > (steps - 1) * sequences_a_step


@pytest.mark.parametrize(
    ("batch_size", "shares"),
    [(256, 16), (64, 16), (32, 8), (16, 4), (8, 2), (4, 1), (2, 1), (1, 1), (40, 2), (10_240, 16)],
)
def test_shares_have_four_rows_of_a_batch_or_more(batch_size, shares):
    """As many as divide it and leave four rows a share, up to 16."""
    assert shares_of(batch_size, 1) == shares


@exact
@given(st.integers(1, 64), st.sampled_from([1, 2, 3, 4, 8, 16, 32]))
def test_shares_divide_the_batch_among_the_hosts(rows_a_host, hosts):
    """Where one host's shares can't be divided among the hosts, each host gets one of its own."""
    shares, of_one = shares_of(rows_a_host * hosts, hosts), shares_of(rows_a_host * hosts, 1)
    assert rows_a_host * hosts % shares == 0 and shares % hosts == 0
    assert shares == (hosts if of_one % hosts else of_one)
