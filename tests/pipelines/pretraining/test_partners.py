"""Where a random B comes from: neither A's own document nor, if so wanted, another source."""

from random import Random

import numpy as np
import pytest

from beambert.pipelines.pretraining.documents import CompactDocuments
from beambert.pipelines.pretraining.instances import (
    DocumentCounts,
    InstanceCounts,
    InstanceParameters,
    count_sources,
    find_partners,
    order_documents,
    pair_documents,
)
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.contract import RANDOM_NEXT

# Document, source and piece of each.
ROWS = [(7, 1, 0), (3, 0, 0), (7, 1, 1), (9, 2, 0), (5, 0, 0), (7, 1, 2), (4, 1, 0), (5, 0, 0)]


@pytest.fixture
def ids(vocabulary):
    return TokenIds.of(vocabulary)


def documents(rows=ROWS) -> CompactDocuments:
    """Documents of 40 sentences of 3 tokens; every token is 100 times the document, plus source."""
    numbers = np.array(rows, np.uint32)
    hashes = np.array([(number, number) for number, _, _ in rows], "<u8")
    tokens = [100 * number + source for number, source, _ in rows]
    return CompactDocuments(
        np.frombuffer(hashes.tobytes(), "V16"),
        numbers[:, 1],
        numbers[:, 2],
        np.full(len(rows), 40, np.uint32),
        np.full(40 * len(rows), 3, np.uint32),
        np.repeat(np.array(tokens, np.uint16), 120),
    )


def ordered(ids, by_source, **options):
    counts = DocumentCounts()
    return order_documents(documents(), ids, counts, by_source=by_source, **options), counts


def drawn(found, **parameters):
    """A's and B's token of every random next pair, and the counts."""
    counts = InstanceCounts()
    settings = InstanceParameters(max_seq_length=24, dupe_factor=4, **parameters)
    pairs = pair_documents(found, settings, 0, counts)
    pairs = pairs[pairs[:, 4] == RANDOM_NEXT]
    return found.tokens[pairs[:, 0]].astype(int), found.tokens[pairs[:, 2]].astype(int), counts


@pytest.mark.parametrize("pairs", ["next", "reference"])
def test_b_of_another_document_and_of_any_source(ids, pairs):
    a, b, counts = drawn(ordered(ids, by_source=False)[0], pairs=pairs)
    # The copies of document 5 are two documents, but the pieces of document 7 are one.
    is_own = (a // 100 == b // 100) & (a // 100 != 5)
    assert is_own.mean() < (0.02 if pairs == "reference" else 1e-9)
    assert counts.random_next_other_source == (a % 100 != b % 100).sum() > 0.3 * len(a)
    assert set(b // 100) == {3, 4, 5, 7, 9}


@pytest.mark.parametrize("pairs", ["next", "reference"])
def test_b_of_the_same_source(ids, pairs):
    a, b, counts = drawn(ordered(ids, by_source=True)[0], pairs=pairs, random_next="source")
    # Document 9 is the only one of its source, so that any other may follow it.
    assert np.array_equal((a % 100)[a // 100 != 9], (b % 100)[a // 100 != 9])
    assert len(set(b[a // 100 == 9])) > 2
    assert counts.random_next_other_source == (a // 100 == 9).sum() > 0


def test_without_pieces_and_sources_all_others_are_partners(ids):
    whole, _ = ordered(ids, by_source=False)
    assert find_partners(whole.take(np.array([0, 1, 2])), by_source=False) is None
    first, end, own, own_end = zip(*find_partners(whole, by_source=False), strict=True)
    assert (set(first), set(end)) == ({0}, {len(ROWS)})
    assert own == (0, 1, 2, 3, 4, 4, 4, 7) and own_end == (1, 2, 3, 4, 7, 7, 7, 8)


def test_the_order_does_not_depend_on_that_of_arrival(ids):
    shuffled = documents().take(np.array(Random(1).sample(range(len(ROWS)), len(ROWS))))
    for by_source in (False, True):
        again = order_documents(shuffled, ids, DocumentCounts(), by_source=by_source)
        assert again.pack() == ordered(ids, by_source)[0].pack()


def test_a_divided_document_counts_once(ids):
    found, counts = ordered(ids, by_source=True, drop_duplicates=True)
    assert (counts.documents, counts.duplicates, counts.tokens) == (5, 1, 7 * 120)
    marked = documents().hashes[:1]
    found, counts = ordered(ids, by_source=False, near_duplicates=marked)
    assert (counts.documents, counts.near_duplicates) == (5, 1)
    assert 700 not in found.tokens // 100 * 100


def test_counts_of_sources(ids):
    assert count_sources(ordered(ids, by_source=False)[0], 4) == [
        (3, 360),
        (2, 480),
        (1, 120),
        (0, 0),
    ]
    assert count_sources(CompactDocuments.empty(), 2) == [(0, 0), (0, 0)]
