"""Pairs of a text and its noisy copy: by construction, and the shares of what the noise does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pair_corpora import corpora, exact

from beambert.pipelines.pretraining.pairs import add_noise, build_copies

COPY, OTHER = 0, 1


def copies_of(corpus, max_seq_length=32, short_seq_prob=0.1, seed=0, **given):
    """Returns what `build_copies` does with the documents of a corpus."""
    return build_copies(
        [length for document in corpus for length in document],
        [len(document) for document in corpus],
        max_seq_length=max_seq_length,
        short_seq_prob=short_seq_prob,
        seed=seed,
        **given,
    )


class TestConstruction:
    @exact
    @given(corpora, st.integers(5, 64), st.sampled_from([0.0, 0.1, 0.9]), st.integers(0, 9))
    def test_every_token_is_in_one_first_segment(self, corpus, length, short, seed):
        """B is A itself, or text of another document that is no longer."""
        pairs, counts = copies_of(corpus, length, short, seed)
        owner = np.repeat(np.arange(len(corpus)), [sum(document) for document in corpus])
        seen = np.zeros(len(owner), int)
        for a_start, a_end, b_start, b_end, label in pairs:
            seen[a_start:a_end] += 1
            assert 0 < b_end - b_start <= a_end - a_start
            assert 2 * (a_end - a_start) + 3 <= length
            a_owner, b_owner = set(owner[a_start:a_end]), set(owner[b_start:b_end])
            assert len(a_owner) == len(b_owner) == 1
            assert (label == COPY) == ((a_start, a_end) == (b_start, b_end)) == (a_owner == b_owner)
        assert seen.tolist() == [1] * len(seen)
        assert counts.is_next == (pairs[:, 4] == COPY).sum()
        assert counts.random_next == (pairs[:, 4] == OTHER).sum()
        assert counts.truncated_tokens == counts.forced_random_next == 0

    def test_segments_have_whole_sentences_if_these_fit(self):
        """Of 13 tokens at most 5 are A; only the sentence of 7 is divided, its rest goes on."""
        pairs, _ = copies_of([[2, 3, 4, 7, 1, 2]], 13, 0.0)
        assert pairs[:, :2].tolist() == [[0, 5], [5, 9], [9, 14], [14, 19]]

    def test_short_segments_have_whole_sentences_too(self):
        """Where 2 to 61 tokens are aimed at, a segment ends with the sentence that reaches them."""
        sizes = set()
        for seed in range(50):
            ends = copies_of([[6] * 60, [6]], 64, 1.0, seed)[0][:, 1]
            assert set(ends) <= set(range(6, 367, 6))
            sizes.add(ends[0])
        assert sizes == {6, 12, 18, 24, 30}

    def test_the_label_is_a_fair_coin(self):
        labels = copies_of([[9] * 500] * 40, 32, 0.0)[0][:, 4]
        assert len(labels) == 20_000
        assert labels.mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(len(labels)))
        both = (labels[1:] == labels[:-1]).mean()
        assert both == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(len(labels)))

    def test_a_single_document_has_copies_only(self):
        pairs, counts = copies_of([[5, 6, 7] * 20])
        assert set(pairs[:, 4]) == {COPY} and counts.random_next == 0

    def test_partners_and_those_not_walked(self):
        """B comes from the documents that are named, and no A from those behind `walked`."""
        corpus = [[8] * 30 for _ in range(4)]
        partners = [(2, 4, 2, 2), (2, 4, 2, 2)]
        pairs, _ = copies_of(corpus, partners=partners, walked=2)
        drawn = pairs[pairs[:, 4] == OTHER]
        assert pairs[:, 1].max() == 480 and set(drawn[:, 2] // 240) == {2, 3}

    def test_another_text_begins_with_any_sentence(self):
        pairs, _ = copies_of([[8] * 4000, [5, 9, 4, 8]], 32, 0.0, walked=1)
        begins = pairs[pairs[:, 4] == OTHER, 2] - 32_000
        assert set(begins) == {0, 5, 14, 18}
        shares = np.unique(begins, return_counts=True)[1] / len(begins)
        assert np.allclose(shares, 0.25, atol=5 * 0.43 / np.sqrt(len(begins)))


# A corpus of words of three tokens: 300, 301, 302 is the hundredth.
WORDS = 20_000
TOKENS = np.arange(3 * WORDS, dtype=np.int32)


def starts_word(tokens):
    return tokens % 3 == 0


def noisy(a, b):
    """Returns the segments of pairs of words' numbers, [start, end), after noise, and swaps."""
    pairs = np.concatenate([3 * np.array(a), 3 * np.array(b)], axis=1)
    label = (pairs[:, 0] != pairs[:, 2])[:, None]
    pairs = np.concatenate([pairs, label], axis=1).astype(np.int32)
    tokens, found = add_noise(TOKENS, pairs, starts_word, np.random.Generator(np.random.PCG64(1)))
    assert found.dtype == np.int32 and (found[:, 4:] == label).all()
    segments = []
    for row, before in zip(found, pairs, strict=True):
        first, second = tokens[row[0] : row[1]], tokens[row[2] : row[3]]
        untouched = np.arange(before[0], before[1])
        is_swapped = not np.array_equal(first, untouched)
        assert np.array_equal(second if is_swapped else first, untouched)
        segments.append((first if is_swapped else second, is_swapped))
    return segments


class TestNoise:
    def test_shares(self):
        """Of the words 30 % are missing, of the tokens 10 % are others; half are swapped."""
        rows = [(first, first + 10) for first in range(0, WORDS, 10)]
        segments = noisy(rows, rows)
        own = [np.arange(3 * first, 3 * end) for first, end in rows]
        left = sum(len(copy) for copy, _ in segments) / len(TOKENS)
        assert left == pytest.approx(0.7, abs=5 * np.sqrt(0.21 / WORDS))
        kept = sum(np.isin(copy, mine).sum() for (copy, _), mine in zip(segments, own, strict=True))
        assert kept / len(TOKENS) == pytest.approx(0.7 * 0.9, abs=0.01)
        swapped = np.mean([is_swapped for _, is_swapped in segments])
        assert swapped == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(len(rows)))

    def test_words_move_by_one_place_and_stay_whole(self):
        rows = [(first, first + 20) for first in range(0, WORDS, 20)]
        moved, words = 0, 0
        for (copy, _), (first, _) in zip(noisy(rows, rows), rows, strict=True):
            number = copy.reshape(-1, 3) // 3 - first
            # A random token of the corpus stands in a word, but hardly ever two in one.
            of_word = np.median(number, axis=1)
            is_own = (number == of_word[:, None]).sum(axis=1) >= 2
            order = of_word[is_own & (of_word >= 0) & (of_word < 20)]
            behind = order[1:] < order[:-1]
            assert (np.maximum.accumulate(order) - order <= 1).all()
            moved, words = moved + behind.sum(), words + len(order)
        # A word passes its neighbour where the draw is larger by half of its range: 1 in 8.
        assert 0.05 < moved / words < 0.15

    def test_a_word_is_always_left_and_the_other_text_is_noisy_too(self):
        ones = [(word, word + 1) for word in range(1000)]
        assert all(len(copy) == 3 for copy, _ in noisy(ones, ones))
        others = [(first + 5000, first + 5020) for first in range(0, 1000, 20)]
        segments = noisy([(first, first + 20) for first in range(0, 1000, 20)], others)
        assert np.mean([len(copy) for copy, _ in segments]) == pytest.approx(42, abs=3)

    def test_a_copy_that_begins_inside_a_word(self):
        """Its first tokens are a word by themselves, and none is of the row before."""
        pairs = np.array([[0, 4, 0, 4, 0], [4, 9, 4, 9, 0]], np.int32)
        for seed in range(50):
            random_source = np.random.Generator(np.random.PCG64(seed))
            tokens, found = add_noise(TOKENS[:9], pairs, starts_word, random_source)
            assert (found[:, 1] > found[:, 0]).all() and (found[:, 3] > found[:, 2]).all()
            assert len(tokens) == (found[:, 1] - found[:, 0] + found[:, 3] - found[:, 2]).sum()
