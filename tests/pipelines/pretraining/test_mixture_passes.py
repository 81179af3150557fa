"""Records of several sources: whose tokens they have, how many, and their labels.

The tokens of a source are numbers of its own, so that the rows themselves tell where they are from.
"""

import collections
import dataclasses
import random

import numpy as np
import pytest

from beambert.pipelines.pretraining.documents import CompactDocuments
from beambert.pipelines.pretraining.instances import InstanceCounts, InstanceParameters
from beambert.pipelines.pretraining.mixture import Amount, pair_sources
from beambert.pipelines.pretraining.pairs import PackedRows

# Number of documents of each source, and of sentences in each of them.
SHAPES = ((60, 8), (9, 70), (3, 40))
PARAMETERS = InstanceParameters(max_seq_length=48, dupe_factor=3, random_next="source")


@pytest.fixture(scope="module")
def documents():
    """Documents whose tokens are 1,000 * source + number of the document."""
    generator = random.Random(1)
    sources, counts, lengths, tokens = [], [], [], []
    for source, (number, sentences) in enumerate(SHAPES):
        for document in range(number):
            sources.append(source)
            counts.append(sentences)
            for _ in range(sentences):
                lengths.append(generator.randint(3, 20))
                tokens += [1000 * source + document] * lengths[-1]
    hashes = b"".join(n.to_bytes(16, "little") for n in range(1, len(sources) + 1))
    return CompactDocuments(
        np.frombuffer(hashes, "V16"),
        np.array(sources, np.uint32),
        np.zeros(len(sources), np.uint32),
        np.array(counts, np.uint32),
        np.array(lengths, np.uint32),
        np.array(tokens, np.uint16),
    )


def make(documents, amounts, **changes):
    parameters = dataclasses.replace(PARAMETERS, **changes)
    counts = InstanceCounts()
    rows, found = pair_sources(documents, parameters, 5, counts, amounts)
    return rows, found, counts


def sources_of(documents, rows, column):
    return documents.tokens[rows[:, column]] // 1000


def tokens_by_source(documents, rows):
    """Counts the tokens of the rows by what they are."""
    spans = (
        list(zip(rows.starts, rows.ends, strict=True))
        if isinstance(rows, PackedRows)
        else [(r[i], r[i + 1]) for r in rows for i in (0, 2)]
    )
    found = collections.Counter()
    for start, end in spans:
        found.update((documents.tokens[start:end] // 1000).tolist())
    return found


@pytest.mark.parametrize("pairs", ["next", "sop", "none", "reference"])
def test_the_amount_is_reached(documents, pairs):
    text = np.bincount(documents.sources, documents.document_tokens())
    wanted = [2.5, 0.3, 7.1]
    amounts = [Amount(None, each) for each in wanted]
    rows, found, counts = make(documents, amounts, pairs=pairs)
    by_token = tokens_by_source(documents, rows)
    for source, each in enumerate(wanted):
        assert found[source].record_tokens == by_token[source]
        # A record more or less.
        assert abs(by_token[source] - each * text[source]) <= 48
    assert sum(of.instances for of in found) == len(rows)
    if pairs != "none":
        assert counts.is_next == (rows[:, 4] == 0).sum() == sum(of.is_next for of in found)
        assert counts.random_next == (rows[:, 4] == 1).sum()


def test_a_span_is_of_one_document(documents):
    amounts = [Amount(None, 1.5)] * 3
    rows, *_ = make(documents, amounts)
    for a_start, a_end, b_start, b_end, _ in rows:
        assert len(set(documents.tokens[a_start:a_end].tolist())) == 1
        assert len(set(documents.tokens[b_start:b_end].tolist())) == 1
    packed, *_ = make(documents, amounts, pairs="none")
    for start, end in zip(packed.starts, packed.ends, strict=True):
        assert len(set(documents.tokens[start:end].tolist())) == 1


def test_a_random_b_is_of_the_same_source_and_another_document(documents):
    rows, _, counts = make(documents, [Amount(4)] * 3)
    is_random = rows[:, 4] == 1
    assert (sources_of(documents, rows, 0) == sources_of(documents, rows, 2)).all()
    assert (documents.tokens[rows[:, 0]] != documents.tokens[rows[:, 2]])[is_random].all()
    assert (documents.tokens[rows[:, 0]] == documents.tokens[rows[:, 2]])[~is_random].all()
    assert counts.random_next_other_source == 0


def test_a_random_b_may_be_of_any_source(documents):
    rows, _, counts = make(documents, [Amount(4)] * 3, random_next="corpus")
    other = sources_of(documents, rows, 0) != sources_of(documents, rows, 2)
    assert other.sum() == counts.random_next_other_source
    # Of the documents of the first source, 12 of 71 others are of other sources.
    mine = (sources_of(documents, rows, 0) == 0) & (rows[:, 4] == 1)
    assert other[mine].mean() == pytest.approx(12 / 71, abs=0.06)


def test_every_source_has_as_many_of_each_label(documents):
    rows, found, _ = make(documents, [Amount(12)] * 3)
    for source, each in enumerate(found):
        mine = rows[sources_of(documents, rows, 0) == source]
        # The coin's bias keeps the difference smaller than a fair coin would, of which 4 sigma.
        assert abs(each.is_next / each.instances - 0.5) < 4 * 0.5 / np.sqrt(each.instances)
        assert len(mine) == each.instances


def test_one_document_takes_its_b_from_another_source(documents):
    alone = documents.take(np.array([0, 1, 2, 60]))
    rows, *_ = make(alone, [Amount(6)] * 2)
    mine = rows[(sources_of(alone, rows, 0) == 1) & (rows[:, 4] == 1)]
    assert len(mine) and (sources_of(alone, mine, 2) == 0).all()


def test_passes_are_limited_and_sources_may_be_left_out(documents):
    rows, found, _ = make(documents, [Amount(0), Amount(2, 100.0), Amount(0)], pairs="none")
    text = np.bincount(documents.sources, documents.document_tokens())
    assert found[1].record_tokens == 2 * text[1]
    assert found[0].instances == found[2].instances == 0
    assert set(tokens_by_source(documents, rows)) == {1}


def test_nothing_is_made_of_nothing():
    for pairs in ("next", "none"):
        rows, found, _ = make(CompactDocuments.empty(), [Amount(None, 3.0)] * 2, pairs=pairs)
        assert len(rows) == 0 and [each.instances for each in found] == [0, 0]


def test_no_endless_passes_without_a_partner():
    """One document of one sentence: no pair can be made of it."""
    alone = CompactDocuments(
        np.frombuffer(bytes(16), "V16"),
        *(np.array([n], np.uint32) for n in (0, 0, 1, 5)),
        np.arange(5, dtype=np.uint16),
    )
    rows, found, counts = make(alone, [Amount(None, 3.0)])
    assert len(rows) == 0 and found[0].instances == 0 and counts.without_partner == 1
