"""`--pairs=reference` against the original's own pairs and masks, whose statistics are golden.

See make_golden.py. Passes are independent of each other, so the difference of two means has a
standard error that the passes themselves tell; bounds are 5 of these.
"""

import json
import pathlib
import runpy

import numpy as np
import pytest

from beambert.pipelines.pretraining.kernels import draw_as_the_original
from beambert.pipelines.pretraining.masks import TokenIds, mask_rows
from beambert.pipelines.pretraining.pairs import build_pairs, random_state
from beambert.pipelines.records.contract import RANDOM_NEXT
from beambert.pipelines.tokenizers.vocabulary import Vocabulary

GOLDEN_FOLDER = pathlib.Path(__file__).parents[2] / "golden"
MAKE_GOLDEN = runpy.run_path(str(GOLDEN_FOLDER / "make_golden.py"))
PAIRS = json.loads((GOLDEN_FOLDER / "pairs.json").read_text())
MASKS = json.loads((GOLDEN_FOLDER / "masks.json").read_text())


class TestPairs:
    """Counts of as many passes."""

    @pytest.fixture(scope="class", params=sorted(PAIRS))
    def statistics(self, request):
        """What is counted, a pass a row: (ours, theirs)."""
        corpus, size = (
            MAKE_GOLDEN["make_corpus"](**MAKE_GOLDEN["PAIR_CORPORA"][request.param]),
            MAKE_GOLDEN["BIN"],
        )
        theirs = {key: np.array(values) for key, values in PAIRS[request.param].items()}
        ours: dict[str, list] = {key: [] for key in theirs}
        owner = np.repeat(np.arange(len(corpus)), [sum(lengths) for lengths in corpus])
        for seed in range(MAKE_GOLDEN["PASSES"]):
            pairs, counts = build_pairs(
                [length for document in corpus for length in document],
                [len(document) for document in corpus],
                max_seq_length=MAKE_GOLDEN["MAX_SEQ_LENGTH"],
                short_seq_prob=MAKE_GOLDEN["SHORT_SEQ_PROB"],
                balance=None,
                seed=1000 + seed,
            )
            is_random = pairs[:, 4] == RANDOM_NEXT
            filled = pairs[:, 1] - pairs[:, 0] + pairs[:, 3] - pairs[:, 2] + 3
            ours["pairs"].append(len(pairs))
            ours["random_next"].append(is_random.sum())
            ours["filled"].append(filled.sum())
            wanted = np.rint(filled * 0.15).clip(1, 20)  # the original's rule, a fact of its code
            ours["predictions"].append(wanted.sum())
            is_own = owner[pairs[:, 0]] == owner[pairs[:, 2]]
            ours["from_own_document"].append((is_random & is_own).sum())
            ours["lengths"].append(np.bincount(filled // size, minlength=128 // size + 1))
            assert counts.random_next == is_random.sum() and counts.without_partner == 0
        return {key: (np.array(ours[key]), theirs[key]) for key in theirs}

    def differ(self, ours, theirs):
        """Returns the difference of the means in standard errors; 0 where both never vary."""
        error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / len(ours))
        difference = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
        return np.where(difference > 0, difference / np.maximum(error, 1e-9), 0)

    @pytest.mark.parametrize("key", ["pairs", "random_next", "filled", "predictions"])
    def test_a_pass(self, statistics, key):
        assert self.differ(*statistics[key]) < 5

    @pytest.mark.parametrize("key", ["random_next", "filled", "predictions"])
    def test_a_pair(self, statistics, key):
        """The share of NotNext, and mean lengths: much tighter than their sums."""
        ours, theirs = (
            total / count for total, count in zip(statistics[key], statistics["pairs"], strict=True)
        )
        assert self.differ(ours, theirs) < 5
        if statistics["pairs"][1].sum() > 10_000:
            assert ours.mean() == pytest.approx(theirs.mean(), rel=0.03)

    def test_histogram_of_lengths(self, statistics):
        """Bins of 8 tokens; a bin of few pairs, maybe all of one document, tells nothing."""
        ours, theirs = statistics["lengths"]
        is_told = theirs.sum(axis=0) >= 100
        assert is_told.any()
        assert np.all(self.differ(ours, theirs)[is_told] < 5)

    def test_b_of_the_same_document(self, statistics):
        """The original gives up looking for another document after ten draws."""
        ours, theirs = (counts.sum() for counts in statistics["from_own_document"])
        assert abs(ours - theirs) <= 5 * np.sqrt(ours + theirs + 1)
        if theirs > 100:  # a single document: all of them
            assert ours == statistics["random_next"][0].sum()

    def test_after_ten_draws_the_same_document_is_taken(self):
        """Of two documents each draw takes the wrong one half of the time: once in 2^10."""
        state, draws, both = random_state(0), 300_000, np.array([[0, 2, 0, 1]])
        own = sum(draw_as_the_original(state, both, 0) == 0 for _ in range(draws))
        expected = draws / 2**10
        assert abs(own - expected) < 5 * np.sqrt(expected)


class TestMasks:
    """Counts of as many passes over the same rows."""

    vocabulary = Vocabulary(MAKE_GOLDEN["MASK_VOCABULARY"])
    ids = TokenIds.of(vocabulary, is_reference=True)

    def rows(self):
        rows = MAKE_GOLDEN["make_mask_rows"]()
        input_ids = np.full((len(rows), 64), self.ids.padding, np.int32)
        for i, row in enumerate(rows):
            input_ids[i, : len(row)] = [self.vocabulary.id_of(token) for token in row]
        lengths = np.array([len(row) for row in rows])
        return input_ids, (np.arange(64) < lengths[:, None]).astype(np.int32)

    @pytest.fixture(scope="class", params=sorted(MASKS))
    def statistics(self, request):
        input_ids, input_mask = self.rows()
        ours: dict[str, list] = {key: [] for key in MASKS[request.param]}
        replacements = np.zeros(len(self.vocabulary), int)
        for seed in range(MAKE_GOLDEN["MASK_PASSES"]):
            found = mask_rows(
                input_ids,
                input_mask,
                max_predictions_per_seq=MAKE_GOLDEN["MAX_PREDICTIONS"],
                masked_lm_prob=0.15,
                do_whole_word_mask=request.param == "words",
                ids=self.ids,
                random=np.random.Generator(np.random.PCG64(seed)),
            )
            row, slot = np.nonzero(found["masked_lm_weights"])
            labels = found["masked_lm_ids"][row, slot]
            shown = found["input_ids"][row, found["masked_lm_positions"][row, slot]]
            ours["predictions"].append(len(labels))
            ours["unknown"].append((labels == self.ids.unknown).sum())
            ours["continuations"].append(self.ids.is_continuation[labels].sum())
            ours["masked"].append((shown == self.ids.mask).sum())
            ours["kept"].append((shown == labels).sum())
            others = shown[(shown != self.ids.mask) & (shown != labels)]
            replacements += np.bincount(others, minlength=len(self.vocabulary))
            assert not np.isin(labels, [self.ids.classify, self.ids.separate]).any()
            assert not np.isin(labels, self.ids.padding).any()
        ours["replacements"] = replacements
        theirs = MASKS[request.param]
        return {key: (np.array(ours[key]), np.array(theirs[key])) for key in theirs}

    @pytest.mark.parametrize("key", ["predictions", "unknown", "continuations", "masked", "kept"])
    def test_a_pass(self, statistics, key):
        ours, theirs = statistics[key]
        error = np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / len(ours))
        assert abs(ours.mean() - theirs.mean()) <= 5 * error

    def test_unknown_tokens_are_predicted(self, statistics):
        ours, theirs = statistics["unknown"]
        assert theirs.sum() > 1000 and ours.sum() == pytest.approx(theirs.sum(), rel=0.15)

    def test_replacements(self, statistics):
        """Any token of the vocabulary, but [MASK], which counts as masked: special, unused, all."""
        ours, theirs = (counts.astype(float) for counts in statistics["replacements"])
        is_possible = np.arange(len(self.vocabulary)) != self.ids.mask
        assert (ours[is_possible] > 0).all() and (theirs[is_possible] > 0).all()
        assert ours[~is_possible] == theirs[~is_possible] == 0
        # Two samples of about the same size; 38 degrees of freedom.
        ours, theirs = ours[is_possible], theirs[is_possible]
        degrees = len(ours) - 1
        chi_square = ((ours - theirs) ** 2 / (ours + theirs)).sum()
        assert chi_square < degrees + 5 * np.sqrt(2 * degrees)
