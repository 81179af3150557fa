"""Full sentences: nothing is lost or cut without need, as a slow packer of plain lists has it."""

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pair_corpora import compact

from beambert.pipelines.pretraining.documents import CompactDocuments
from beambert.pipelines.pretraining.instances import (
    DocumentCounts,
    InstanceCounts,
    InstanceParameters,
    build_instances,
    order_documents,
    pair_documents,
)
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.pretraining.pairs import PackedRows, assemble_packed, pack_documents
from beambert.pipelines.records.contract import feature_shapes
from beambert.pipelines.records.statistics import restore_ids

PARAMETERS = InstanceParameters(32, 5, dupe_factor=3, pairs="none", short_seq_prob=0.0)

# Lengths of the sentences of each document; some are longer than the shortest records.
corpora = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), max_size=8)
exact = settings(derandomize=True, max_examples=150, deadline=None, database=None)


@pytest.fixture(scope="module")
def ids(vocabulary):
    return TokenIds.of(vocabulary)


def numbered(lengths) -> list[list[list[int]]]:
    """Documents whose tokens are 1000, 1001, … in the order of the text."""
    following, documents = 1000, []
    for document in lengths:
        documents.append([])
        for length in document:
            documents[-1].append(list(range(following, following + length)))
            following += length
    return documents


def packed(lengths, max_seq_length, seed=0) -> PackedRows:
    return pack_documents(
        np.array([length for document in lengths for length in document], np.uint32),
        np.array([len(document) for document in lengths], np.uint32),
        max_seq_length=max_seq_length,
        random=random.Random(seed),
    )


def rows_of(lengths, max_seq_length, ids, seed=0) -> list[list[int]]:
    """The ids of each record, without padding."""
    tokens = np.array([t for each in numbered(lengths) for s in each for t in s], np.uint16)
    rows = assemble_packed(tokens, packed(lengths, max_seq_length, seed), max_seq_length, ids)
    return [
        row[mask == 1].tolist()
        for row, mask in zip(rows["input_ids"], rows["input_mask"], strict=True)
    ]


def slow_packer(documents, max_seq_length, classify, separate) -> list[list[int]]:
    """FULL-SENTENCES as section 4.1 describes them, a sentence at a time."""
    records, record, last_document = [], [classify], None
    for number, document in enumerate(documents):
        for sentence in document:
            between = [separate] if last_document not in (None, number) else []
            if len(record) + len(between) + len(sentence) + 1 > max_seq_length:
                if len(record) > 1:
                    records.append([*record, separate])
                    record, between = [classify], []
                while len(sentence) > max_seq_length - 2:
                    records.append([classify, *sentence[: max_seq_length - 2], separate])
                    sentence = sentence[max_seq_length - 2 :]
            record += between + sentence
            last_document = number
    if len(record) > 1:
        records.append([*record, separate])
    return records


def in_order(lengths, seed=0):
    """The documents in the order of a pass."""
    documents = numbered(lengths)
    order = list(range(len(documents)))
    random.Random(seed).shuffle(order)
    return [documents[number] for number in order]


class TestPacking:
    @exact
    @given(corpora, st.integers(8, 64), st.integers(0, 9))
    def test_a_slow_packer_makes_the_same_records(self, ids, lengths, max_seq_length, seed):
        found = rows_of(lengths, max_seq_length, ids, seed)
        documents = in_order(lengths, seed)
        assert found == slow_packer(documents, max_seq_length, ids.classify, ids.separate)

    def test_every_order_of_the_documents_is_as_likely(self, ids):
        """Six orders of three documents; chi-square with 5 degrees of freedom, p = 1e-4."""
        found = {}
        for seed in range(1200):
            (row,) = rows_of([[3], [4], [5]], 32, ids, seed)
            found[tuple(row)] = found.get(tuple(row), 0) + 1
        assert len(found) == 6
        assert sum((count - 200) ** 2 / 200 for count in found.values()) < 25.7


@pytest.fixture(scope="module")
def corpus():
    """60 documents; a token's number of the text is unknown to the vocabulary of the tests."""
    draw = np.random.default_rng(0)
    return [
        [draw.integers(5, 90, draw.integers(3, 15)).tolist() for _ in range(size)]
        for size in draw.integers(1, 9, 60)
    ]


def instances(packed, ids, parameters=PARAMETERS, stream=0, made=None):
    ordered = order_documents(packed, ids, DocumentCounts())
    made = made or InstanceCounts()
    rows = pair_documents(ordered, parameters, stream, made)
    batches = list(build_instances(ordered.tokens, rows, ids, parameters, stream, made))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


class TestInstances:
    def test_contract(self, corpus, ids):
        made = InstanceCounts()
        found = instances(compact(corpus), ids, made=made)
        shapes = feature_shapes(32, 5, has_label=False)
        assert "next_sentence_labels" not in shapes
        assert {name: array.shape[1] for name, array in found.items()} == {
            name: length for name, (length, _) in shapes.items()
        }
        assert not found["segment_ids"].any()
        assert made.instances == len(found["input_ids"]) and made.truncated_tokens == 0
        assert made.filled_tokens == found["input_mask"].sum()
        assert made.predictions == found["masked_lm_weights"].sum()

    @pytest.mark.parametrize("given", [{}, {"masks": "whole_word"}, {"masks": "span"}])
    def test_every_pass_has_every_token_and_other_masks(self, corpus, ids, given):
        parameters = dataclasses.replace(PARAMETERS, **given)
        found = instances(compact(corpus), ids, parameters)
        restored = restore_ids(found)
        text = restored[restored > ids.mask]
        assert len(text) == 3 * sum(len(s) for document in corpus for s in document)
        expected = np.bincount([t for document in corpus for s in document for t in s])
        assert np.array_equal(np.bincount(text), 3 * expected)
        # Some records are the same before masking, and none is after.
        assert len(np.unique(found["input_ids"], axis=0)) > 0.98 * len(restored)
        used = found["masked_lm_weights"] == 1
        hidden = found["masked_lm_ids"][used]
        assert not np.isin(hidden, [ids.classify, ids.separate, ids.padding]).any()
        wanted = np.clip(np.rint(found["input_mask"].sum(axis=1) * 0.15), 1, 5)
        count = used.sum(axis=1)
        assert (count <= wanted).all() and (given or np.array_equal(count, wanted))

    def test_neighbours_differ_from_pass_to_pass(self, corpus, ids):
        """Which tokens stand on both sides of a [SEP]: hardly ever the same in two passes."""
        found = restore_ids(instances(compact(corpus), ids))
        rows, places = np.nonzero(found[:, 1:-1] == ids.separate)
        beside = list(zip(found[rows, places], found[rows, places + 2], strict=True))
        beside = [pair for pair in beside if pair[1] > ids.mask]
        assert len(beside) > 80 and len(set(beside)) > 0.95 * len(beside)

    def test_order_of_arrival_and_batches_dont_matter(self, corpus, ids):
        order = np.random.default_rng(1).permutation(len(corpus))
        parts = [compact([corpus[i] for i in part]) for part in np.array_split(order, 7)]
        one, other = (
            instances(each, ids) for each in (compact(corpus), CompactDocuments.concatenate(parts))
        )
        assert all(np.array_equal(one[name], other[name]) for name in one)

    def test_an_empty_shard(self, ids):
        none = pair_documents(CompactDocuments.empty(), PARAMETERS, 0, InstanceCounts())
        batches = build_instances(np.zeros(0, np.uint16), none, ids, PARAMETERS, 0, None)
        assert len(none) == 0 and list(batches) == []
