"""The masks of a typed text."""

import numpy as np
import pytest

from beambert.explore.instances import (
    PAPER,
    SPANS,
    TOKENS,
    WORDS,
    MaskingSettings,
    frame,
    mask_text,
    mean_counts,
)
from beambert.pipelines.pretraining.masks import TokenIds


@pytest.fixture(scope="module")
def ids(vocabulary):
    return TokenIds.of(vocabulary)


def test_a_text_is_framed_and_cut(ids):
    assert frame([7, 8], ids, 10).tolist() == [ids.classify, 7, 8, ids.separate]
    assert frame(list(range(7, 27)), ids, 5).tolist() == [ids.classify, 7, 8, 9, ids.separate]


def test_only_chosen_tokens_change(ids):
    framed = frame(list(range(40, 90)), ids, 64)
    masked = mask_text(framed, ids, PAPER)
    assert len(masked.positions) == round(0.15 * len(framed))
    others = np.delete(np.arange(len(framed)), masked.positions)
    assert (masked.shown[others] == framed[others]).all()
    assert not {0, len(framed) - 1} & set(masked.positions.tolist())
    assert len(masked.ways(ids)) == len(masked.positions)


def test_the_seed_decides(ids):
    framed = frame(list(range(40, 90)), ids, 64)
    again = mask_text(framed, ids, PAPER)
    assert (mask_text(framed, ids, PAPER).shown == again.shown).all()
    other = mask_text(framed, ids, MaskingSettings(0.15, 0.8, 0.1, TOKENS, 2))
    assert (other.shown != again.shown).any()


@pytest.mark.parametrize("shares", [(0.8, 0.1), (0.0, 1.0), (1.0, 0.0), (0.3, 0.3), (0.5, 0.9)])
def test_the_mean_is_what_the_shares_say(ids, shares):
    """Random tokens of 100 or so are now and then the hidden one, which then stays the same."""
    framed = frame(list(range(40, 90)), ids, 64)
    settings = MaskingSettings(0.2, *shares, TOKENS, 3)
    mean = mean_counts(framed, ids, settings)
    chosen = round(0.2 * len(framed))
    assert sum(mean.values()) == pytest.approx(chosen)
    for way, share in settings.shares.items():
        assert mean[way] / chosen == pytest.approx(share, abs=0.03)


def test_whole_words_are_hidden_whole(ids, vocabulary):
    letters = [vocabulary.id_of(token) for token in ("a", "##b", "##c", "d", "##e", ".")]
    framed = frame(letters * 5, ids, 64)
    settings = MaskingSettings(0.4, 1.0, 0.0, WORDS, 1)
    masked = mask_text(framed, ids, settings)
    is_hidden = masked.shown == ids.mask
    for place in np.flatnonzero(ids.is_continuation[framed]):
        assert is_hidden[place] == is_hidden[place - 1]


def test_spans_are_hidden_in_a_row(ids):
    framed = frame(list(range(40, 90)), ids, 64)
    lengths = []
    for seed in range(40):
        places = mask_text(framed, ids, MaskingSettings(0.2, 1.0, 0.0, SPANS, seed)).positions
        lengths += [len(run) for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)]
    # Tokens that are chosen alone would make runs of 1.25 in the mean.
    assert np.mean(lengths) > 2.5
