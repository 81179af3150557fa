"""Pairs in order and swapped ones: by construction, and beside ALBERT's algorithm on lists."""

import functools
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import pair_corpora
from support.pair_corpora import corpora, exact

IN_ORDER, SWAPPED = 0, 1
pairs_of = functools.partial(pair_corpora.pairs_of, swaps=True)


def owners(corpus) -> np.ndarray:
    """Each token's document."""
    return np.repeat(np.arange(len(corpus)), [sum(document) for document in corpus])


class TestConstruction:
    @exact
    @given(corpora, st.integers(8, 64), st.sampled_from([0.0, 0.1, 0.9]), st.integers(0, 9))
    def test_the_label_tells_which_comes_first(self, corpus, length, short, seed):
        """A pair of one document is in order or swapped, as its label says, and B meets A."""
        pairs, counts = pairs_of(corpus, length, short, seed)
        owner, forced = owners(corpus), 0
        for a_start, a_end, b_start, b_end, label in pairs:
            assert a_start < a_end and b_start < b_end
            assert (a_end - a_start) + (b_end - b_start) <= length - 3
            a_owner, b_owner = set(owner[a_start:a_end]), set(owner[b_start:b_end])
            assert len(a_owner) == len(b_owner) == 1
            if a_owner != b_owner:
                assert label == SWAPPED
                forced += 1
            elif label == IN_ORDER:
                assert a_end <= b_start
            else:
                assert b_end <= a_start
        assert counts.forced_random_next == forced
        assert counts.random_next == sum(pairs[:, 4] == SWAPPED)
        assert counts.is_next == sum(pairs[:, 4] == IN_ORDER)

    @exact
    @given(corpora.filter(lambda corpus: len(corpus) > 1), st.integers(0, 9))
    def test_every_sentence_is_used_once(self, corpus, seed):
        """Where nothing is cut, the two segments of a chunk lie end to end, whichever is first."""
        pairs, _ = pairs_of(corpus, 1000, 0.0, seed)
        owner, seen = owners(corpus), np.zeros(sum(map(sum, corpus)), int)
        for a_start, a_end, b_start, b_end, label in pairs:
            seen[a_start:a_end] += 1
            if owner[a_start] == owner[b_start]:
                seen[b_start:b_end] += 1
                assert (a_end == b_start) if label == IN_ORDER else (b_end == a_start)
        assert seen.tolist() == [1] * len(seen)

    def test_a_single_document_has_both_labels(self):
        """No other document is needed to swap."""
        pairs, counts = pairs_of([[5] * 4000], 64, 0.0)
        assert counts.forced_random_next == 0 and counts.without_partner <= 1
        assert counts.random_next / len(pairs) == pytest.approx(0.5, abs=0.05)

    def test_a_sentence_alone_is_left_out(self):
        pairs, counts = pairs_of([[10]])
        assert len(pairs) == 0 and counts.without_partner == 1


class TestLabels:
    def test_half_and_half_by_a_fair_coin(self):
        """Without chunks of one sentence: within five standard errors, and no label tells the next.

        Of two draws in a row a quarter has each of the four pairs of labels.
        """
        corpus = [[10] * 40 for _ in range(3000)]
        pairs, counts = pairs_of(corpus, 123, 0.0)
        assert counts.forced_random_next == 0 and len(pairs) > 9000
        labels = pairs[:, 4]
        assert labels.mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(len(labels)))
        runs = np.bincount(2 * labels[:-1] + labels[1:], minlength=4) / (len(labels) - 1)
        assert runs == pytest.approx([0.25] * 4, abs=5 * np.sqrt(0.25 * 0.75 / len(labels)))

    @pytest.mark.parametrize("length", [64, 128])
    def test_the_coin_makes_up_for_chunks_of_one_sentence(self, length):
        """A fifth of them or so; the rest is swapped so much less often."""
        draw = random.Random(1)
        corpus = [[draw.randint(5, 45) for _ in range(draw.randint(1, 14))] for _ in range(6000)]
        pairs, counts = pairs_of(corpus, length)
        forced = counts.forced_random_next / len(pairs)
        assert forced > 0.08
        assert counts.random_next / len(pairs) == pytest.approx(0.5, abs=0.005)
        own = owners(corpus)[pairs[:, 0]] == owners(corpus)[pairs[:, 2]]
        assert pairs[own, 4].mean() == pytest.approx((0.5 - forced) / (1 - forced), abs=0.01)


def albert(corpus, max_seq_length, short_seq_prob, generator):
    """Number of tokens of A and of B of each pair, its label, and whether B is of its document.

    This is what create_instances_from_document of google-research/albert does with
    random_next_sentence=False, on lengths.
    """
    limit, rows = max_seq_length - 3, []
    for number, document in enumerate(corpus):
        target = limit
        if generator.random() < short_seq_prob:
            target = generator.randint(2, limit)
        chunk = []
        for place, sentence in enumerate(document):
            chunk.append(sentence)
            if place < len(document) - 1 and sum(chunk) < target:
                continue
            end = generator.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
            a, b, label = sum(chunk[:end]), sum(chunk[end:]), IN_ORDER
            is_own = len(chunk) > 1
            if not is_own:
                label, other = SWAPPED, number
                while other == number:
                    other = generator.randint(0, len(corpus) - 1)
                wanted, sentences = target - a, corpus[other]
                for following in sentences[generator.randint(0, len(sentences) - 1) :]:
                    b += following
                    if b >= wanted:
                        break
            elif generator.random() < 0.5:
                a, b, label = b, a, SWAPPED
            while a + b > limit:
                a, b = (a - 1, b) if a > b else (a, b - 1)
            rows.append((a, b, label, is_own))
            chunk = []
    return np.array(rows)


@pytest.mark.parametrize("length", [64, 128])
def test_beside_alberts_algorithm(length):
    """As many pairs as ALBERT's, as long, and as many of one sentence; only the labels differ."""
    draw = random.Random(2)
    corpus = [[draw.randint(3, 40) for _ in range(draw.randint(1, 20))] for _ in range(400)]
    owner, ours, theirs = owners(corpus), [], []
    for seed in range(40):
        pairs, _ = pairs_of(corpus, length, 0.1, seed)
        is_own = owner[pairs[:, 0]] == owner[pairs[:, 2]]
        columns = (pairs[:, 1] - pairs[:, 0], pairs[:, 3] - pairs[:, 2], pairs[:, 4], is_own)
        ours.append(np.column_stack(columns))
        theirs.append(albert(corpus, length, 0.1, random.Random(1000 + seed)))
    both = [[len(rows) for rows in side] for side in (ours, theirs)]
    assert differ(*both) < 5
    # Swapping changes neither the sum of the lengths nor their distance.
    for figure in (
        lambda rows: rows[:, 0] + rows[:, 1],
        lambda rows: abs(rows[:, 0] - rows[:, 1]),
        lambda rows: rows[:, 3],
        *(lambda rows, n=n: (rows[:, :2] * 8 // length == n).mean(axis=1) for n in range(8)),
    ):
        assert differ(*([figure(rows).mean() for rows in side] for side in (ours, theirs))) < 5
    labels = [np.concatenate([rows[:, 2] for rows in side]).mean() for side in (ours, theirs)]
    assert labels[0] == pytest.approx(0.5, abs=0.005) and labels[1] > 0.53
    # What is swapped is as long as what is in order.
    totals = Counter()
    for rows in ours:
        for label in (IN_ORDER, SWAPPED):
            chosen = rows[(rows[:, 2] == label) & (rows[:, 3] == 1)]
            totals[label, "tokens"] += chosen[:, :2].sum()
            totals[label, "pairs"] += len(chosen)
    means = [totals[label, "tokens"] / totals[label, "pairs"] for label in (IN_ORDER, SWAPPED)]
    assert means[0] == pytest.approx(means[1], rel=0.01)


def differ(ours, theirs) -> float:
    """The difference of two means in standard errors."""
    ours, theirs = np.array(ours, float), np.array(theirs, float)
    error = np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / len(ours))
    return abs(ours.mean() - theirs.mean()) / max(error, 1e-9)
