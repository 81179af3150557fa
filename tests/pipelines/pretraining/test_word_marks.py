"""Marks of where words begin: they stay with their tokens, and masks follow them.

Chinese BERT with whole-word masks (Cui et al. 2019, arXiv 1906.08101, section 3.1) writes "##"
before the characters that continue a word, draws the masks by the original's rule, and takes the
"##" away again. That is the reference here.
"""

import dataclasses

import numpy as np
import pytest

from beambert.pipelines.pretraining.documents import CompactDocuments, compact_documents, divide
from beambert.pipelines.pretraining.instances import (
    DocumentCounts,
    InstanceCounts,
    InstanceParameters,
    build_instances,
    order_documents,
    pair_documents,
)
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

CHARACTERS = tuple(map(chr, range(0x4E00, 0x4E00 + 200)))
PLAIN = Vocabulary((*SPECIAL_TOKENS, *CHARACTERS))
# The same with each character once more, as one that continues a word.
WITH_HASHES = Vocabulary((*PLAIN.tokens, *(f"##{character}" for character in CHARACTERS)))
FIRST = len(SPECIAL_TOKENS)


def make(seed=0, documents=60, marked=True, vocab_size=1000) -> CompactDocuments:
    """Documents of random characters; a token begins a word unless its id is a multiple of 3."""
    random = np.random.default_rng(seed)
    lengths = [random.integers(3, 25, random.integers(1, 9)) for _ in range(documents)]
    tokens = random.integers(FIRST, len(PLAIN), sum(int(length.sum()) for length in lengths))
    sentences = [
        [f"{number} {n}" for n in range(len(length))] for number, length in enumerate(lengths)
    ]
    marks = tokens % 3 > 0 if marked else None
    flat = np.concatenate(lengths)
    return compact_documents(sentences, tokens, flat, vocab_size, None, marks)


def is_aligned(documents: CompactDocuments) -> bool:
    return np.array_equal(documents.begins_word, documents.tokens % 3 > 0)


@pytest.mark.parametrize("vocab_size", [1000, 100_000])
def test_marks_stay_with_their_tokens(vocab_size):
    documents = make(vocab_size=vocab_size)
    assert is_aligned(documents) and documents.tokens.itemsize == (2 if vocab_size < 2**16 else 4)
    found = CompactDocuments.unpack(documents.pack())
    for field in dataclasses.fields(documents):
        one, other = (getattr(each, field.name) for each in (documents, found))
        assert np.array_equal(one, other) and one.dtype == other.dtype
    order = np.random.default_rng(1).permutation(len(documents.hashes))[:40]
    assert is_aligned(documents.take(order))
    assert is_aligned(CompactDocuments.concatenate([documents, make(seed=2)]))
    pieces, _ = divide(documents, 0.5)
    by_key = pieces.pack_by_key(np.arange(len(pieces.hashes)) % 3)
    unpacked = [CompactDocuments.unpack(data) for _, data in by_key]
    assert len(unpacked) == 3 and all(map(is_aligned, unpacked))
    assert sum(len(each.tokens) for each in unpacked) == len(documents.tokens)


def instances(documents, vocabulary, **parameters):
    parameters = InstanceParameters(48, 7, dupe_factor=2, **parameters)
    ids, made = TokenIds.of(vocabulary), InstanceCounts()
    ordered = order_documents(documents, ids, DocumentCounts())
    pairs = pair_documents(ordered, parameters, 0, made)
    marks = ordered.begins_word
    batches = list(build_instances(ordered.tokens, pairs, ids, parameters, 0, made, marks))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


@pytest.mark.parametrize("pairs", ["next", "none"])
@pytest.mark.parametrize("form", ["whole_word", "span"])
def test_masks_are_those_of_tokens_with_hashes(form, pairs):
    documents = make()
    found = instances(documents, PLAIN, masks=form, pairs=pairs)
    hashed = np.where(documents.begins_word, documents.tokens, documents.tokens + len(CHARACTERS))
    reference = dataclasses.replace(
        documents, tokens=hashed.astype(np.uint16), begins_word=np.zeros(0, bool)
    )
    expected = instances(reference, WITH_HASHES, masks=form, pairs=pairs)
    assert found["masked_lm_weights"].sum() > 500
    for name in ("masked_lm_positions", "masked_lm_weights", "input_mask", "segment_ids"):
        assert np.array_equal(found[name], expected[name])
    labels = expected["masked_lm_ids"]
    without = np.where(labels >= len(PLAIN), labels - len(CHARACTERS), labels)
    assert np.array_equal(found["masked_lm_ids"], without)
    # The marks themselves never reach a record.
    assert found["input_ids"].max() < len(PLAIN)


def test_marks_change_nothing_without_masks_of_words():
    marked, plain = (instances(make(marked=marked), PLAIN) for marked in (True, False))
    assert all(np.array_equal(marked[name], plain[name]) for name in plain)
