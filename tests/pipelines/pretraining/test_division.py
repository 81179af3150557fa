"""The held-out split: by segments of long documents, so that it has its share of every genre."""

import numpy as np
import pytest

from beambert.pipelines.pretraining.documents import (
    SEGMENT_TOKENS,
    CompactDocuments,
    divide,
    is_held_out,
)
from beambert.pipelines.pretraining.run import (
    held_out_lines,
)
from beambert.pipelines.records.contract import RecordsInfo


def corpus(generator, sizes) -> CompactDocuments:
    """Documents of about so many tokens, in sentences of 5 to 40; the tokens count up."""
    sentences = [generator.integers(5, 41, max(1, size // 22)) for size in sizes]
    count, lengths = len(sizes), np.concatenate(sentences).astype(np.uint32)
    return CompactDocuments(
        np.frombuffer(generator.bytes(16 * count), "V16"),
        np.arange(count, dtype=np.uint32),
        np.zeros(count, np.uint32),
        np.array([len(sentence) for sentence in sentences], np.uint32),
        lengths,
        np.arange(lengths.sum(), dtype=np.uint32),
    )


def tokens_of(documents) -> np.ndarray:
    """Number of tokens of each document."""
    owner = np.repeat(np.arange(len(documents.hashes)), documents.document_sentences)
    return np.bincount(owner, documents.sentence_lengths).astype(int)


@pytest.fixture(scope="module")
def mixed():
    """As many tokens in 30 books as in 4,000 articles, nearly all of which are short."""
    generator = np.random.default_rng(0)
    articles = np.minimum(generator.lognormal(5.7, 1, 4000), 900).astype(int)
    return corpus(generator, [*[articles.sum() // 30] * 30, *articles])


@pytest.mark.parametrize("fraction", [0.02, 0.1, 0.5])
def test_every_genre_has_its_share(mixed, fraction):
    pieces, is_eval = divide(mixed, fraction)
    sizes = tokens_of(pieces)
    for is_genre in (pieces.sources < 30, pieces.sources >= 30):
        share = sizes[is_genre & is_eval].sum() / sizes[is_genre].sum()
        assert share == pytest.approx(fraction, rel=0.25)


def test_pieces_are_the_documents(mixed):
    pieces, is_eval = divide(mixed, 0.1)
    assert np.array_equal(pieces.tokens, mixed.tokens)
    assert np.array_equal(pieces.sentence_lengths, mixed.sentence_lengths)
    for number in (0, 17, 29, 30, 1000):
        mine = np.flatnonzero(pieces.sources == number)
        assert pieces.pieces[mine].tolist() == list(range(len(mine)))
        assert pieces.document_sentences[mine].sum() == mixed.document_sentences[number]
        assert set(pieces.hashes[mine].tolist()) == {mixed.hashes[number].tolist()}
        # Neighbours are on different sides, or they would be one piece.
        assert not (is_eval[mine][1:] == is_eval[mine][:-1]).any()


def test_short_documents_are_held_out_whole(mixed):
    pieces, is_eval = divide(mixed, 0.3)
    sizes = tokens_of(mixed)
    assert 0 < (sizes > SEGMENT_TOKENS).sum() < 60
    is_short = np.isin(pieces.sources, np.flatnonzero(sizes <= SEGMENT_TOKENS))
    assert not pieces.pieces[is_short].any()
    assert np.array_equal(is_eval[is_short], is_held_out(pieces.hashes[is_short], 0.3))


def test_a_document_is_divided_alike_beside_any_others(mixed):
    alone = mixed.take(np.array([5]))
    pieces, is_eval = divide(mixed, 0.1)
    mine = pieces.sources == 5
    found, held_out = divide(alone, 0.1)
    assert np.array_equal(found.document_sentences, pieces.document_sentences[mine])
    assert np.array_equal(held_out, is_eval[mine])


def test_a_larger_share_holds_out_the_same_and_more(mixed):
    """Nobody's held-out text is trained on when the share is raised."""
    less, more = (
        np.repeat(is_eval, tokens_of(p)) for p, is_eval in (divide(mixed, 0.1), divide(mixed, 0.2))
    )
    assert less.any() and not (less & ~more).any()


def test_nothing_is_divided_without_a_split(mixed):
    pieces, is_eval = divide(mixed, 0.0)
    assert pieces is mixed and not is_eval.any()
    assert divide(CompactDocuments.empty(), 0.1)[1].tolist() == []


def info(documents, tokens, instances, **sources) -> RecordsInfo:
    of_sources = {name: {"documents": 1, "tokens": n} for name, n in sources.items()}
    counts = {"documents": {"used": documents}, "tokens": tokens, "instances": instances}
    return RecordsInfo({}, {}, [], [], counts | {"sources": of_sources}, {})


def test_shares():
    training = info(98, 9750, 970, wiki=5000, books=4750)
    line, warning = held_out_lines(training, info(2, 250, 30, wiki=250, books=0), 0.025)
    for part in ("2.50% of the tokens,", "4.76% of the tokens of wiki", "0.00% of the tokens of b"):
        assert part in line
    assert "warning" in warning
    one = info(98, 980, 98, wiki=980), info(2, 20, 2, wiki=20)
    assert held_out_lines(*one, 0.02) == ["  held out: 2.00% of the tokens (--eval_fraction=0.02)"]
    assert "of the tokens of wiki" in held_out_lines(*one, 0.02, "wiki")[0]
