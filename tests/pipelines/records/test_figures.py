"""Figures and warnings of records against counts made by hand."""

import dataclasses

import numpy as np
import pytest
from support.record_files import made_with

from beambert.pipelines.records.statistics import (
    HashCounts,
    RecordStatistics,
    figures,
    lost_predictions_share,
    overlap_shares,
    overlap_warning,
    repeat_shares,
    warn,
)


def histogram(length, **counts) -> np.ndarray:
    return np.array([counts.get(f"at_{i}", 0) for i in range(length)])


def small(**changes) -> RecordStatistics:
    """Statistics of four good records of ten positions, and of a faulty one."""
    counts = {"instances": 5, "measured": 4, "with_vocabulary": 4, "random_next": 1}
    counts |= {"hidden_as_mask": 6, "hidden_as_other": 2, "hidden_as_same": 1}
    counts |= {"reserved_replacements": 1, "unknown_tokens": 3, "lowest_id": 2, "highest_id": 17}
    counts |= {
        "filled": histogram(11, at_8=2, at_10=2),
        "predictions": histogram(4, at_1=1, at_2=1, at_3=2),
        "a_tokens": histogram(11, at_2=2, at_3=2),
        "b_tokens": histogram(11, at_3=2, at_4=2),
    }
    return dataclasses.replace(RecordStatistics.empty(10, 3), **counts | changes)


class TestFigures:
    def test_by_hand(self):
        """36 of 40 positions filled, 10 tokens of A, 14 of B, and 9 predictions."""
        assert figures(small()) == {
            "instances": 5,
            "max_seq_length": 10,
            "max_predictions_per_seq": 3,
            "is_next_share": 0.75,
            "random_next_share": 0.25,
            "filled_share": 0.9,
            "a_tokens_average": 2.5,
            "b_tokens_average": 3.5,
            "predictions_average": 2.25,
            "predictions_at_maximum_share": 0.5,
            "predictions_per_filled_position": 0.25,
            "predictions_per_text_token": 0.375,
            "hidden_as_mask_share": 0.666667,
            "hidden_as_other_share": 0.222222,
            "hidden_as_same_share": 0.111111,
            "reserved_replacement_share": 0.5,
            "unknown_share": 0.125,
            "lowest_id": 2,
            "highest_id": 17,
        }

    def test_nothing_is_made_up(self):
        """What no record and no vocabulary tells is left open."""
        unknown = {
            name for name, value in figures(RecordStatistics.empty(10, 3)).items() if value is None
        }
        known = {"instances", "max_seq_length", "max_predictions_per_seq"}
        assert unknown == figures(small()).keys() - known
        assert figures(small(with_vocabulary=0))["unknown_share"] is None
        assert figures(small(measured=1))["highest_id"] == 17
        assert figures(small(with_vocabulary=1))["unknown_share"] == 0.125

    def test_lost_predictions(self):
        """Half of 8 and of 10 positions are 4 and 5 predictions, of which 3 fit."""
        assert lost_predictions_share(small(), 0.5) == round(6 / 18, 6)
        assert lost_predictions_share(small(), 0.3) == 0
        # A record always gets one, however few positions it has.
        sparse = small(filled=histogram(11, at_3=1, at_10=1), predictions=histogram(2, at_1=2))
        assert lost_predictions_share(sparse, 0.15) == round(1 / 3, 6)
        assert lost_predictions_share(RecordStatistics.empty(10, 3), 0.15) is None
        without_masks = small(predictions=histogram(1, at_0=4))
        assert lost_predictions_share(without_masks, 0.15) is None


def balanced(**changes) -> RecordStatistics:
    """Statistics of 10,000 records of which nothing is to be said."""
    filled, predictions = np.zeros(129, int), np.zeros(21, int)
    filled[120], predictions[18] = 10_000, 10_000
    segments = np.zeros(129, int)
    segments[58] = 10_000
    counts = {"instances": 10_000, "measured": 10_000, "with_vocabulary": 10_000}
    counts |= {"random_next": 5_000, "hidden_as_mask": 144_000, "hidden_as_other": 18_000}
    counts |= {"hidden_as_same": 18_000, "filled": filled, "predictions": predictions}
    counts |= {"a_tokens": segments, "b_tokens": segments} | changes
    return dataclasses.replace(RecordStatistics.empty(128, 20), **counts)


class TestWarnings:
    @pytest.mark.parametrize(
        "changes, made_of, part",
        [
            ({"random_next": 9_900}, {}, "99.0%"),
            ({"random_next": 5_410}, {}, "54.1%"),
            # Of our own records nobody should be told to make them with our command.
            ({"random_next": 5_600}, {"used": 9}, "56.0%"),
            ({"random_next": 4_590}, {}, "45.9%"),
            ({}, {"used": 1}, "1 document"),
            # Half and half for pairs in order, too, and in their words.
            ({"random_next": 5_410}, {"pairs": "sop"}, "54.1%"),
            # 18,000 of 180,000 have a standard error of 127: 4 of them are 0.28 %.
            ({"hidden_as_other": 18_600, "hidden_as_same": 17_400}, {}, "10.33%"),
            # 144,000 have one of 170: 4 of them are 0.38 %.
            (
                {"hidden_as_mask": 144_700, "hidden_as_other": 17_650, "hidden_as_same": 17_650},
                {},
                "80.39%",
            ),
            # Of 40 tokens, one of 20 random ones is the same or [MASK], which explains 0.50 %.
            ({"hidden_as_other": 16_400, "hidden_as_same": 19_600}, {"vocab_size": 40}, "9.11%"),
            ({"unknown_tokens": 23_201}, {}, "2.0%"),
            ({"filled": histogram(129, at_51=8_001, at_52=1_999)}, {}, "40.0%"),
            (
                {"filled": histogram(129, at_102=10_000), "predictions": histogram(50, at_49=7)},
                {"masked_lm_prob": 0.5},
                "0.1%",
            ),
            ({"predictions": histogram(11, at_10=10_000)}, {}, "100.0%"),
            ({"predictions": histogram(21, at_0=101, at_18=9_899)}, {}, "1.0%"),
        ],
    )
    def test_each(self, changes, made_of, part):
        warnings = warn(balanced(**changes), {}, made_with(**made_of))
        assert len(warnings) == 1, warnings
        assert part in warnings[0]

    @pytest.mark.parametrize(
        "changes, made_of",
        [
            ({}, {"used": 2, "masked_lm_prob": 0.15, "dupe_factor": 10}),
            ({"random_next": 5_400}, {}),  # 2 % and 4 standard errors of 0.5 %
            ({"random_next": 5_400}, {"pairs": "sop", "used": 1}),
            ({"random_next": 0}, {"pairs": "none", "used": 1}),
            # Of 40 tokens, a random one is the same once in 40 times.
            ({"hidden_as_other": 17_000, "hidden_as_same": 19_000}, {"vocab_size": 40}),
            ({"unknown_tokens": 23_200}, {}),  # 2 % of 1,160,000
            ({"filled": histogram(129, at_51=8_000, at_52=2_000)}, {}),  # 40 %
            (
                {"filled": histogram(129, at_100=10_000), "predictions": histogram(50, at_49=7)},
                {"masked_lm_prob": 0.5},  # 1 of 50 is missing
            ),
            ({"predictions": histogram(21, at_0=100, at_18=9_900)}, {}),
            ({"predictions": histogram(1, at_0=10_000)}, {}),  # records without masks
        ],
    )
    def test_within_bounds(self, changes, made_of):
        assert warn(balanced(**changes), {}, made_with(**made_of)) == []

    def test_repeats(self):
        twice = {
            kind: HashCounts.of(np.repeat(np.arange(50, dtype=np.uint64), 2))
            for kind in ("records", "sequences", "openings")
        }
        records, text = warn(balanced(), twice, made_with(dupe_factor=1))
        assert "50.0%" in records and "50.0%" in text and "--duplicates=near" in text
        assert len(warn(balanced(), twice, made_with(dupe_factor=2))) == 1


class TestRepeats:
    def test_openings_and_passes(self):
        """An opening that occurs three times in two passes stands in the corpus twice."""
        repeats = dict.fromkeys(
            ("records", "sequences"), HashCounts.of(np.arange(6, dtype=np.uint64))
        )
        repeats["openings"] = HashCounts.of(np.array([7, 7, 7, 8, 8, 9], np.uint64))
        assert repeat_shares(repeats, made_with(dupe_factor=2))["repeated_text_share"] == round(
            1 / 6, 6
        )
        assert repeat_shares(repeats, made_with())["repeated_text_share"] is None

    def test_what_repeats(self):
        """A record that stands there three times repeats twice."""
        records, sequences = (
            np.array(values, np.uint64) for values in ([1, 1, 1, 2], [1, 1, 2, 2])
        )
        repeats = {"records": HashCounts.of(records), "sequences": HashCounts.of(sequences)}
        repeats["openings"] = HashCounts.of(np.zeros(0, np.uint64))
        assert repeat_shares(repeats, made_with(dupe_factor=1)) == {
            "repeated_records_share": 0.5,
            "repeated_sequences_share": 0.5,
            "repeated_text_share": None,
        }
        assert set(repeat_shares({}, made_with(dupe_factor=1)).values()) == {None}

    def test_overlap(self):
        def of(*values):
            kinds = ("records", "sequences", "openings")
            return dict.fromkeys(kinds, HashCounts.of(np.array(values, np.uint64)))

        shares = overlap_shares(of(1, 1, 2, 3), of(1, 3, 4, 5))
        assert shares["sequences_also_in_training"] == 0.75
        for held_out, training in ((of(1), {}), ({}, of(1)), ({}, {})):
            shares = overlap_shares(held_out, training)
            assert len(shares) == 2 and set(shares.values()) == {None}
            assert overlap_warning(shares, made_with()) == ""
