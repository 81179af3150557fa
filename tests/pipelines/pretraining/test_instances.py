"""Shards: the same documents give the same instances in whatever order and batches they come."""

import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pair_corpora import compact

from beambert.errors import InputError
from beambert.pipelines.pretraining import instances as module
from beambert.pipelines.pretraining.documents import (
    CompactDocuments,
    compact_documents,
    document_hash,
    shard_of,
)
from beambert.pipelines.pretraining.instances import (
    DocumentCounts,
    InstanceCounts,
    InstanceParameters,
    build_instances,
    order_documents,
    pair_documents,
)
from beambert.pipelines.pretraining.masks import TokenIds

PARAMETERS = InstanceParameters(max_seq_length=32, max_predictions_per_seq=5, dupe_factor=2)

# A document: its sentences, each its tokens.
sentences = st.lists(st.integers(5, 40_000), min_size=1, max_size=12)
documents = st.lists(st.lists(sentences, min_size=1, max_size=6), max_size=8)
exact = settings(derandomize=True, max_examples=60, deadline=None, database=None)


@pytest.fixture(scope="module")
def ids(vocabulary):
    return TokenIds.of(vocabulary)


def plain(packed: CompactDocuments) -> list:
    """The reverse of `compact`, without hashes."""
    tokens, lengths = packed.tokens.tolist(), packed.sentence_lengths.tolist()
    rows = []
    for count in packed.document_sentences.tolist():
        rows.append([])
        for _ in range(count):
            size = lengths.pop(0)
            rows[-1].append(tokens[:size])
            tokens = tokens[size:]
    return rows


def instances(packed, ids, parameters=PARAMETERS, stream=0, used=None, made=None):
    used, made = used or DocumentCounts(), made or InstanceCounts()
    ordered = order_documents(packed, ids, used)
    pairs = pair_documents(ordered, parameters, stream, made)
    batches = list(build_instances(ordered.tokens, pairs, ids, parameters, stream, made))
    if not batches:
        return {}
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.fixture(scope="module")
def corpus():
    random = np.random.default_rng(0)
    return [
        [random.integers(5, 90, random.integers(3, 15)).tolist() for _ in range(size)]
        for size in random.integers(1, 9, 40)
    ]


class TestCompactDocuments:
    @exact
    @given(documents, st.sampled_from([np.uint16, np.uint32]))
    def test_pack_and_unpack(self, rows, dtype):
        packed = compact(rows, dtype)
        found = CompactDocuments.unpack(packed.pack())
        for field in dataclasses.fields(packed):
            before, after = getattr(packed, field.name), getattr(found, field.name)
            assert np.array_equal(before, after)
            assert before.dtype == after.dtype or not len(before)

    @exact
    @given(documents, st.data())
    def test_take(self, rows, data):
        order = data.draw(st.permutations(range(len(rows))))
        order = order[: data.draw(st.integers(0, len(order)))]
        packed = compact(rows)
        found = packed.take(np.array(order, np.int64))
        assert plain(found) == [rows[i] for i in order]
        assert np.array_equal(found.hashes, packed.hashes[np.array(order, np.int64)])

    @pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
    def test_empty_parts_dont_change_the_type(self, dtype):
        nothing = CompactDocuments.unpack(CompactDocuments.empty().pack())
        joined = CompactDocuments.concatenate([nothing, compact([[[9]]], dtype)])
        assert joined.tokens.dtype == dtype and len(CompactDocuments.empty().hashes) == 0


class TestBuildInstances:
    @pytest.mark.parametrize("seed", range(4))
    def test_order_and_batches_dont_matter(self, corpus, ids, seed):
        random = np.random.default_rng(seed)
        order = random.permutation(len(corpus))
        parts = np.split(order, np.sort(random.integers(0, len(corpus), 5)))
        batches = [compact([corpus[i] for i in part]) for part in parts]
        through_shuffle = [CompactDocuments.unpack(batch.pack()) for batch in batches]
        assert same(
            instances(compact(corpus), ids),
            instances(CompactDocuments.concatenate(through_shuffle), ids),
        )

    def test_equal_documents(self, corpus, ids):
        twice = corpus + corpus[::-1]
        assert same(instances(compact(twice), ids), instances(compact(twice[::-1]), ids))

    def test_width_of_tokens_doesnt_matter(self, corpus, ids):
        wide = instances(compact(corpus, np.uint32), ids)
        assert same(instances(compact(corpus), ids), wide)

    @pytest.mark.parametrize(
        "other", [{"stream": 1}, {"parameters": dataclasses.replace(PARAMETERS, random_seed=1)}]
    )
    def test_seed_and_shard_change_the_draws(self, corpus, ids, other):
        first, second = instances(compact(corpus), ids), instances(compact(corpus), ids, **other)
        assert not same(first, second)

    def test_duplicates_differ(self, corpus, ids):
        """A second pass is no copy of the first: few rows stand there twice."""
        rows = instances(compact(corpus), ids)["input_ids"]
        assert len(np.unique(rows, axis=0)) > 0.95 * len(rows)

    def test_instances_are_shuffled(self, ids):
        """Rows of a document don't stand together."""
        rows = [[[10 + d] * 8 for _ in range(20)] for d in range(60)]
        found = instances(compact(rows), ids)["input_ids"]
        neighbours = (found[1:, 1] == found[:-1, 1]).mean()
        assert neighbours < 0.2

    def test_counts(self, corpus, ids):
        used, made = DocumentCounts(), InstanceCounts()
        found = instances(compact(corpus), ids, used=used, made=made)
        assert used.documents == len(corpus)
        assert used.sentences == sum(map(len, corpus))
        assert used.tokens == sum(len(s) for document in corpus for s in document)
        assert used.unknown_tokens == 0
        assert made.instances == len(found["input_ids"]) == made.is_next + made.random_next
        assert made.random_next == found["next_sentence_labels"].sum()
        assert made.filled_tokens == found["input_mask"].sum()
        assert made.predictions == found["masked_lm_weights"].sum()

    @pytest.mark.parametrize("rows", [[], [[[9, 9]]]])
    def test_nothing_to_pair(self, rows, ids):
        used, made = DocumentCounts(), InstanceCounts()
        assert instances(compact(rows), ids, used=used, made=made) == {}
        assert (used.documents, made.instances) == (len(rows), 0)


class TestOrderDocuments:
    def test_exact_duplicates(self, corpus, ids):
        counts = DocumentCounts()
        thrice = compact(corpus + corpus[:7] + corpus[:3])
        found = order_documents(thrice, ids, counts, drop_duplicates=True)
        assert (counts.documents, counts.duplicates) == (len(corpus), 10)
        assert plain(found) == plain(order_documents(compact(corpus), ids, DocumentCounts()))

    def test_near_duplicates(self, corpus, ids):
        packed, counts = compact(corpus), DocumentCounts()
        marked = packed.hashes[[3, 5, 5, 8]]
        found = order_documents(packed, ids, counts, near_duplicates=marked)
        assert (counts.documents, counts.near_duplicates) == (len(corpus) - 3, 3)
        assert not {h.tobytes() for h in found.hashes} & {h.tobytes() for h in marked}

    def test_unknown_tokens_are_counted(self, ids):
        counts = DocumentCounts()
        order_documents(compact([[[9, ids.unknown]], [[ids.unknown]]]), ids, counts)
        assert (counts.unknown_tokens, counts.tokens) == (2, 3)

    def test_a_shard_too_large_for_its_offsets_is_refused(self, ids, monkeypatch):
        """A pair ends at an offset of 32 bits, and a row looks a little beyond it."""
        assert 2**31 - 100 < module.MOST_TOKENS < 2**31 - 1
        monkeypatch.setattr(module, "MOST_TOKENS", 5)
        assert order_documents(compact([[[9] * 5]]), ids, DocumentCounts())
        with pytest.raises(InputError, match="--num_shards: a shard has 11 tokens"):
            order_documents(compact([[[9] * 6], [[8] * 5]]), ids, DocumentCounts())

    def test_a_shard_too_large_for_the_memory_is_refused(self):
        """The system would end the worker without a word, as often as the runner tries."""
        one = compact([[[9] * 500]])
        free = 500 * module.BYTES_PER_TOKEN
        module.check_size([one], free)
        module.check_size([one], None)
        with pytest.raises(InputError, match="--num_shards: a shard has 500 tokens"):
            module.check_size([one], free - 1)

    def test_copies_left_out_early_change_nothing(self, corpus, ids):
        """In any bundles, with any sources: the copy of the first source stays, as without them."""
        draw = np.random.default_rng(1)
        whole = compact(corpus * 3)
        numbers = draw.integers(0, 4, len(whole.hashes)).astype(np.uint32)
        whole = dataclasses.replace(whole, sources=numbers)
        expected = order_documents(whole, ids, DocumentCounts(), drop_duplicates=True)
        bundles = np.array_split(draw.permutation(len(whole.hashes)), 5)
        early = [whole.take(rows).without_copies() for rows in bundles]
        joined = CompactDocuments.concatenate(early)
        assert len(corpus) < len(joined.hashes) < len(whole.hashes)
        found = order_documents(joined, ids, DocumentCounts(), drop_duplicates=True)
        for one, other in zip(found.columns(), expected.columns(), strict=True):
            assert (one == other).all()
        assert len(whole.without_copies().hashes) == len(corpus)
        assert len(CompactDocuments.empty().without_copies().hashes) == 0


def test_all_batches_together_are_the_shard(corpus, ids, monkeypatch):
    """A batch of seven rows, or of all: the same pairs, each once."""
    ordered = order_documents(compact(corpus), ids, DocumentCounts())
    pairs = pair_documents(ordered, PARAMETERS, 0, InstanceCounts())
    labels = {}
    for rows in (7, len(pairs)):
        monkeypatch.setattr(module, "ROWS_AT_A_TIME", rows)
        made = InstanceCounts()
        batches = list(build_instances(ordered.tokens, pairs, ids, PARAMETERS, 0, made))
        assert {len(batch["input_ids"]) for batch in batches[:-1]} <= {rows}
        assert made.instances == len(pairs)
        assert made.predictions == sum(batch["masked_lm_weights"].sum() for batch in batches)
        labels[rows] = np.concatenate([batch["segment_ids"] for batch in batches])
    assert np.array_equal(*labels.values())


def test_documents_without_a_token_are_left_out():
    """Sentences too: of nothing but what the tokenizer drops, say."""
    sentences = [["a b", "\u200b", "c"], ["\u200b"], [], ["d"]]
    tokens, lengths = np.array([7, 8, 9, 10]), np.array([2, 0, 1, 0, 1])
    found = compact_documents(sentences, tokens, lengths, 100)
    assert plain(found) == [[[7, 8], [9]], [[10]]]
    hashes = [document_hash(sentences[0]), document_hash(sentences[3])]
    assert [value.tobytes() for value in found.hashes] == hashes


@pytest.mark.parametrize(("vocab_size", "width"), [(1 << 16, 2), ((1 << 16) + 1, 4)])
def test_an_id_takes_as_many_bytes_as_the_vocabulary_needs(vocab_size, width):
    """The last id of 65,536 still fits two."""
    tokens = np.array([vocab_size - 1, 0])
    found = compact_documents([["a b"]], tokens, np.array([2]), vocab_size)
    assert found.tokens.itemsize == width
    assert found.tokens.tolist() == tokens.tolist()
    assert CompactDocuments.unpack(found.pack()).tokens.tolist() == tokens.tolist()


@exact
@given(documents, st.integers(1, 5))
def test_pack_by_key(rows, num_keys):
    packed = compact(rows)
    keys = shard_of(packed.hashes, num_keys)
    found = {key: CompactDocuments.unpack(data) for key, data in packed.pack_by_key(keys)}
    assert set(found) == set(keys.tolist())
    for key, part in found.items():
        assert plain(part) == [row for row, k in zip(rows, keys, strict=True) if k == key]


def test_document_hash_of_lone_surrogates():
    assert document_hash(["\ud83d"]) != document_hash(["\ud83e"])


def test_document_hash_tells_where_no_space_stands():
    """Documents of which one has a space and the other has none have different tokens."""
    sentences = ["A.", "B.", "C."]
    hashes = [document_hash(sentences, unspaced) for unspaced in ((), (1,), (2,), (1, 2))]
    assert len(set(hashes)) == 4
    assert hashes[0] == hashlib.blake2b(b"A.\nB.\nC.", digest_size=16).digest()
