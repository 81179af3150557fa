"""Statistics of records: the original's own, planted faults, sums, repeats, and the schema."""

import json
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from support.record_files import (
    GOLDEN,
    IDS,
    ORIGINAL,
    PACKED,
    RECORD,
    changed,
    count,
    read,
    serialize,
    statistics,
)

from beambert.errors import InputError
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.contract import (
    MASK_PARAMETERS,
    PREDICTION_FEATURES,
    RecordsInfo,
)
from beambert.pipelines.records.encoding import encode_examples
from beambert.pipelines.records.reading import (
    check_encoded,
    decode_rows,
    find_features,
)
from beambert.pipelines.records.statistics import (
    EVERY_HASH,
    FAULTS,
    SAMPLE_RECORDS,
    HashCounts,
    RecordStatistics,
    count_records,
    decode_record,
    figures,
    hash_limit,
    hash_records,
    merge_samples,
    restore_ids,
    sample_rows,
)
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

exact = settings(derandomize=True, max_examples=40, deadline=None, database=None)


def sparse(histogram) -> dict[str, int]:
    return {str(i): int(n) for i, n in enumerate(histogram) if n}


@pytest.fixture(scope="module")
def golden():
    """What the original's instances hold, counted before they became records."""
    return json.loads((GOLDEN / "original.json").read_text())


@pytest.fixture(scope="module")
def golden_ids(golden):
    return TokenIds.of(Vocabulary(tuple(golden["vocabulary"])))


def statistics_of_original(ids):
    features = find_features(read(ORIGINAL)[0], "a file")
    rows, _ = decode_rows(read(ORIGINAL), features)
    return count_records(rows, ids)


def test_what_was_encoded_is_read_back(golden_ids):
    features = find_features(read(ORIGINAL)[0], "a file")
    rows, _ = decode_rows(read(ORIGINAL), features)
    check_encoded(rows, read(ORIGINAL), golden_ids)
    with pytest.raises(RuntimeError, match="differ"):
        check_encoded(rows, read(ORIGINAL)[::-1][:3], golden_ids)


class TestCounts:
    def test_records_of_the_original_script(self, golden, golden_ids):
        found = statistics_of_original(golden_ids)
        assert found.faults == {}
        assert found.measured == found.with_vocabulary == golden["instances"]
        plain = {name: value for name, value in golden.items() if isinstance(value, int)}
        assert len(plain) == 7
        assert {name: getattr(found, name) for name in plain} == plain
        for name, histogram in golden["histograms"].items():
            assert sparse(getattr(found, name)) == histogram, name
        examples = map(tf.train.Example.FromString, read(ORIGINAL))
        ids = [
            value
            for example in examples
            for name in ("input_ids", "masked_lm_ids")
            for value in example.features.feature[name].int64_list.value
        ]
        assert (found.lowest_id, found.highest_id) == (min(ids), max(ids))

    def test_arrays_as_they_are_before_encoding(self, golden_ids):
        """int32 arrays give the same counts as the records read back."""
        features = find_features(read(ORIGINAL)[0], "a file")
        rows, _ = decode_rows(read(ORIGINAL), features)
        small = {n: v.astype(np.int32) if v.dtype == np.int64 else v for n, v in rows.items()}
        found = count_records(small, golden_ids)
        assert found.to_json() == statistics_of_original(golden_ids).to_json()

    def test_one_record_by_hand(self):
        found = statistics(RECORD, changed(next_sentence_labels=[0]))
        assert found.faults == {}
        assert (found.instances, found.random_next) == (2, 1)
        assert sparse(found.filled) == {"9": 2} and sparse(found.predictions) == {"3": 2}
        assert sparse(found.a_tokens) == {"3": 2} and sparse(found.b_tokens) == {"3": 2}
        assert sparse(found.mask_positions) == {"2": 2, "6": 2, "7": 2}
        assert found.hidden_as_mask == found.hidden_as_same == found.hidden_as_other == 2
        assert (found.lowest_id, found.highest_id) == (0, 20)
        shown = figures(found)
        assert shown["is_next_share"] == 0.5 and shown["filled_share"] == 0.75
        assert shown["predictions_per_text_token"] == 0.5
        assert shown["predictions_per_filled_position"] == round(3 / 9, 6)
        assert shown["predictions_at_maximum_share"] == 0.0

    def test_hidden_unknown_tokens_count(self):
        shown_and_hidden = changed(input_ids={1: 1}, masked_lm_ids={0: 1})
        found = statistics(shown_and_hidden)
        assert found.unknown_tokens == 2
        assert figures(found)["unknown_share"] == round(2 / 6, 6)

    @pytest.mark.parametrize("token, reserved", [(0, 1), (2, 1), (5, 1), (20, 0)])
    def test_reserved_replacements(self, token, reserved):
        assert statistics(changed(input_ids={7: token})).reserved_replacements == reserved

    def test_without_a_vocabulary(self):
        found = statistics(RECORD, changed(input_ids={0: 9}), vocabulary=None)
        assert found.faults == {} and found.with_vocabulary == 0
        assert figures(found)["unknown_share"] is None
        assert figures(found)["hidden_as_mask_share"] is None

    def test_json(self):
        found = statistics(RECORD, changed(next_sentence_labels=[2]))
        there_and_back = RecordStatistics.from_json(json.loads(json.dumps(found.to_json())))
        assert there_and_back.to_json() == found.to_json()
        assert (there_and_back + found).instances == 4


# Kind -> the changes that must be found as this kind and no other.
PLANTED = {
    "wrong_lengths": [
        {"segment_ids": None},
        {"masked_lm_ids": [11, 14, 15]},
        {"input_ids": [*RECORD["input_ids"], 0]},
        {"next_sentence_labels": [0, 1]},
    ],
    "not_an_example": [{"input_ids": [2.0] * 12}, {"masked_lm_weights": [1, 1, 1, 0]}],
    "input_mask": [{"input_mask": {1: 2}}],
    "segment_ids": [{"segment_ids": {5: 3}}, {"segment_ids": {8: 2}}],
    "padding": [{"input_ids": {10: 9}}, {"segment_ids": {11: 1}}],
    "classify_first": [{"input_ids": {0: 9}}],
    "separators": [{"input_ids": {4: 9}}, {"input_ids": {8: 9}}, {"input_ids": {1: 3}}],
    "ids": [
        {"input_ids": {1: 40}},
        {"input_ids": {1: -1}},
        {"masked_lm_ids": {0: 40}},
        {"input_ids": {3: 2**40}},
    ],
    "weights": [{"masked_lm_weights": {0: 0.5}}],
    "unused_predictions": [{"masked_lm_positions": {3: 8}}, {"masked_lm_ids": {3: 7}}],
    "positions_order": [
        {"masked_lm_positions": {0: 6, 1: 2}, "masked_lm_ids": {0: 14, 1: 11}},
        {"masked_lm_positions": {1: 7}, "masked_lm_ids": {1: 15}},
    ],
    "positions_outside": [
        {"masked_lm_positions": {2: 9}, "masked_lm_ids": {2: 0}},
        {"masked_lm_positions": {2: 12}},
        {"masked_lm_positions": {2: 4000}},
    ],
    "positions_special": [
        {"masked_lm_positions": {0: 0}, "masked_lm_ids": {0: 2}},
        {"masked_lm_positions": {0: 4}, "masked_lm_ids": {0: 3}},
        {"masked_lm_positions": {2: 8}, "masked_lm_ids": {2: 3}},
    ],
    "labels": [{"next_sentence_labels": [2]}, {"next_sentence_labels": [-1]}],
}


class TestFaults:
    def test_every_kind_is_planted(self):
        # test_without_masks.py has the one of records without masks.
        assert PLANTED.keys() == FAULTS.keys() - {"text"}

    @pytest.mark.parametrize(
        "kind, change", [(kind, change) for kind, changes in PLANTED.items() for change in changes]
    )
    def test_planted(self, kind, change):
        """Found in the two records that have it, counted as such, and as nothing else."""
        found = statistics(RECORD, changed(**change), RECORD, changed(**change))
        assert found.faults == {kind: 2}
        assert found.instances == 4

    @pytest.mark.parametrize(
        "change, kinds",
        [
            ({"input_mask": {3: 0}}, {"input_mask", "padding"}),
            ({"input_mask": [0] * 12}, {"input_mask", "positions_outside", "padding"}),
            ({"segment_ids": [0] * 12}, {"segment_ids"}),
            ({"segment_ids": [1] * 9 + [0] * 3}, {"segment_ids"}),
            ({"segment_ids": {6: 0}}, {"segment_ids"}),
            ({"masked_lm_weights": {1: 0.0}}, {"weights", "unused_predictions"}),
        ],
    )
    def test_faults_that_bring_others(self, change, kinds):
        found = statistics(RECORD, changed(**change)).faults
        assert kinds <= found.keys()

    def test_bytes_that_are_no_example(self):
        found = statistics(RECORD, b"\xff\xff nonsense", b"", RECORD)
        assert found.faults == {"not_an_example": 1, "wrong_lengths": 1}
        assert (found.instances, found.measured) == (4, 2)


@st.composite
def partitions(draw):
    """The golden records, shuffled and cut into parts."""
    records = read(ORIGINAL)
    order = draw(st.permutations(range(len(records))))
    cuts = sorted(draw(st.lists(st.integers(0, len(records)), max_size=5)))
    edges = [0, *cuts, len(records)]
    return [[records[i] for i in order[a:b]] for a, b in zip(edges, edges[1:], strict=False)]


class TestSums:
    @pytest.mark.slow
    @exact
    @given(partitions())
    def test_parts_add_up_to_the_whole(self, parts):
        whole, repeats = count(*[r for part in parts for r in part], limit=EVERY_HASH)
        counted = [count(*part, limit=EVERY_HASH) for part in parts if part]
        total = sum((c[0] for c in counted), RecordStatistics.empty(32, 5))
        assert total.to_json() == whole.to_json()
        for kind, expected in repeats.items():
            found = HashCounts.sum(c[1][kind] for c in counted)
            assert np.array_equal(found.hashes, expected.hashes)
            assert np.array_equal(found.counts, expected.counts)


class TestRepeats:
    @exact
    @given(*[st.lists(st.integers(0, 12), max_size=30)] * 2, st.integers(1, 4))
    def test_hash_counts(self, one, other, allowed):
        """As Python's Counter."""
        counts = [HashCounts.of(np.array(values, np.uint64)) for values in (one, other)]
        both, counters = HashCounts.sum(counts), [Counter(one), Counter(other)]
        total = counters[0] + counters[1]
        assert both.total == total.total()
        assert both.beyond(allowed) == sum(max(0, n - allowed) for n in total.values())
        expected = sum(n for value, n in counters[0].items() if value in counters[1])
        assert counts[0].also_in(counts[1]) == expected

    def test_what_counts_as_the_same(self):
        other_mask = changed(
            input_ids={2: 11, 1: 4}, masked_lm_positions={0: 1}, masked_lm_ids={0: 10}
        )
        other_text = changed(input_ids={1: 30})
        other_cut = changed(segment_ids={5: 0}, input_ids={4: 13, 5: 3})
        _, repeats = count(RECORD, RECORD, other_mask, other_text, other_cut, limit=EVERY_HASH)
        assert sorted(repeats["records"].counts.tolist()) == [1, 1, 1, 2]
        assert sorted(repeats["sequences"].counts.tolist()) == [1, 1, 3]
        assert repeats["openings"].total == 0  # A is shorter than 24 tokens

    def test_a_sample_tells_the_shares(self):
        """4,000 texts, a quarter of them twice; every tenth text kept."""
        random = np.random.default_rng(0)
        hashes = random.integers(0, 2**64, 4000, np.uint64)
        hashes = np.concatenate([hashes, hashes[:1000]])
        sample = HashCounts.of(hashes, EVERY_HASH // 10)
        assert 330 < len(sample.hashes) < 470  # 400, 3.7 standard errors
        share = sample.beyond(1) / sample.total
        assert abs(share - 0.2) < 4 * (0.2 * 0.8 / sample.total) ** 0.5
        assert hash_limit(1000) == EVERY_HASH and hash_limit(1 << 22) == EVERY_HASH // 4


class TestWithoutALabel:
    """Records of full sentences."""

    def test_one_record_by_hand(self):
        found = statistics(PACKED, PACKED)
        assert found.faults == {} and found.random_next == 0
        assert sparse(found.filled) == {"7": 2}
        assert sparse(found.a_tokens) == {"4": 2} and sparse(found.b_tokens) == {"0": 2}
        shown = figures(found, has_label=False)
        for name in ("is_next_share", "random_next_share", "b_tokens_average"):
            assert shown[name] is None
        assert shown["documents_average"] == 2.0 and shown["a_tokens_average"] == 4.0
        assert shown["predictions_per_text_token"] == 0.25

    def test_without_a_vocabulary_the_documents_are_unknown(self):
        found = statistics(PACKED, vocabulary=None)
        assert sparse(found.a_tokens) == {"5": 1} and found.faults == {}
        assert figures(found, has_label=False)["documents_average"] is None

    @pytest.mark.parametrize(
        ("changes", "faults"),
        [
            ({"segment_ids": {5: 1}}, {"segment_ids"}),
            ({"input_ids": {1: 3}}, {"separators"}),
            ({"input_ids": {4: 3}}, {"separators"}),
            ({"input_ids": {6: 17}}, {"separators"}),
            ({"input_ids": {0: 17}}, {"classify_first"}),
            ({"masked_lm_positions": {0: 3}, "masked_lm_ids": {0: 3}}, {"positions_special"}),
            ({"masked_lm_positions": {0: 6}, "masked_lm_ids": {0: 3}}, {"positions_special"}),
            ({"masked_lm_positions": {0: 0}, "masked_lm_ids": {0: 2}}, {"positions_special"}),
            ({"masked_lm_positions": {0: 7}}, {"positions_outside"}),
            ({"input_mask": {7: 1}}, {"separators"}),
            ({"segment_ids": {9: 1}}, {"padding"}),
        ],
    )
    def test_planted_faults(self, changes, faults):
        found = statistics(PACKED, changed(PACKED, **changes))
        assert found.faults.keys() == faults and set(found.faults.values()) == {1}


def rows_of(records):
    serialized = [serialize(record) for record in records]
    return decode_rows(serialized, find_features(serialized[0], "a file"))[0]


def draw(records, path="a", first=1):
    rows = rows_of(records)
    return sample_rows(rows, hash_records(rows, restore_ids(rows)), path, first)


@pytest.fixture(scope="module")
def records():
    return [changed(input_ids={1: 100 + number}) for number in range(200)]


def test_the_draw_is_of_the_records_alone(records):
    whole = merge_samples([draw(records)])
    first = {10: 1, 70: 11, 200: 71}
    parts = [draw(records[number - 1 : end], "a", number) for end, number in first.items()]
    assert merge_samples(parts[::-1]) == whole
    assert len(whole) == SAMPLE_RECORDS
    for record in whole:
        assert records[record.number - 1]["input_ids"][1] == record.ids[1]


def test_the_draw_is_uniform():
    """No part of a file is preferred, over many files."""
    numbers = []
    for file in range(60):
        records = [changed(input_ids={1: 100 + n, 2: file}) for n in range(50)]
        numbers += [record.number for record in draw(records)]
    assert np.mean(numbers) == pytest.approx(25.5, abs=4 * np.sqrt(50**2 / 12 / len(numbers)))


def test_equal_records_are_drawn_once(records):
    drawn = merge_samples([draw(records[:3] * 20), draw(records[:3] * 20, "b")])
    assert len(drawn) == 3


def test_text():
    (record,) = draw([RECORD], "folder/part-0", 7)
    words = ["the", "##se", "red", ",", "houses", "of", "##fer"]
    found = decode_record(record, [*SPECIAL_TOKENS, *"56789", *words, *"abcd"])
    assert found == {
        "file": "folder/part-0",
        "number": 7,
        "is_next": False,
        "filled": 9,
        "positions": 12,
        "predictions": 3,
        # hidden, left as it was, replaced by another
        "a": "the[MASK→##se] red",
        "b": ", [houses→houses] [d→of]",
    }
    without = decode_record(record, None)
    assert without["a"] == "2 10 [4→11] 12 3"


def test_text_of_a_record_without_a_label():
    """[SEP] stands where a document ends, but not at the end."""
    (record,) = draw([PACKED])
    words = ["the", "##se", "red", ",", "houses", "of", "##fer"]
    found = decode_record(record, [*SPECIAL_TOKENS, *"56789", *words, *"abcd"])
    assert (found["a"], found["b"]) == ("the [MASK→red] [SEP] houses of", "")
    assert found["is_next"] is None


GONE = dict.fromkeys(PREDICTION_FEATURES)


# The text of `RECORD` and of `PACKED` before masking.
PAIR = changed(RECORD, input_ids={2: 11, 6: 14, 7: 15}, **GONE)


SENTENCES = changed(PACKED, input_ids={2: 12}, **GONE)


@pytest.mark.parametrize(("without", "masked"), [(PAIR, RECORD), (SENTENCES, PACKED)])
@pytest.mark.parametrize("vocabulary", [IDS, None])
def test_the_counts_of_the_text_are_those_of_records_with_masks(without, masked, vocabulary):
    (mine, repeats), (theirs, their_repeats) = (
        count(record, record, vocabulary=vocabulary, limit=EVERY_HASH)
        for record in (without, masked)
    )
    assert mine.faults == theirs.faults == {} and mine.measured == 2
    for name in ("filled", "a_tokens", "b_tokens", "random_next", "unknown_tokens"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    assert mine.predictions.tolist() == [2] and not mine.mask_positions.any()
    for kind in ("sequences", "openings"):
        np.testing.assert_array_equal(repeats[kind].hashes, their_repeats[kind].hashes)
    assert repeats["records"].counts.tolist() == [2]
    shown = figures(mine, "next_sentence_labels" in without)
    of_masks = [name for name in shown if "predict" in name or "hidden" in name]
    assert len(of_masks) == 8
    assert {shown[name] for name in of_masks} == {None, 0}
    assert shown["filled_share"] == figures(theirs)["filled_share"]


@pytest.mark.parametrize(
    "kind, change",
    [
        ("text", {"input_ids": {2: 4}}),
        ("classify_first", {"input_ids": {0: 9}}),
        ("separators", {"input_ids": {4: 9}}),
        ("padding", {"input_ids": {10: 9}}),
        ("ids", {"input_ids": {1: 40}}),
        ("labels", {"next_sentence_labels": [2]}),
        ("wrong_lengths", {"segment_ids": None}),
        ("wrong_lengths", {"input_ids": [*PAIR["input_ids"], 0]}),
    ],
)
def test_planted_faults(kind, change):
    """Found in the two records that have it, and as nothing else."""
    wrong = changed(PAIR, **change)
    assert count(PAIR, wrong, PAIR, wrong)[0].faults == {kind: 2}


def test_a_mask_in_the_text_is_seen_with_the_vocabulary_only():
    assert count(changed(PAIR, input_ids={2: 4}), vocabulary=None)[0].faults == {}
    assert "text" not in count(RECORD)[0].faults


def test_examples_of_a_task_are_no_records_without_masks():
    """They have the same features of a text, and labels of their own."""
    example = changed(PAIR, next_sentence_labels=None, label_ids=[1])
    with pytest.raises(InputError, match="features input_ids, input_mask, label_ids, segment_ids"):
        find_features(serialize(example), "a file")


def test_encoding_leaves_out_what_has_no_values():
    rows = {name: np.array([values]) for name, values in PAIR.items()}
    empty = {name: np.zeros((1, 0), np.int32) for name in PREDICTION_FEATURES}
    mine, theirs = (encode_examples(each).tobytes()[12:-4] for each in (rows | empty, rows))
    assert mine == theirs
    check_encoded(rows | empty, [mine], IDS)
    with pytest.raises(RuntimeError, match="differ"):
        check_encoded(rows | empty, [serialize(changed(PAIR, input_ids={1: 9}))] * 2, IDS)


def info(**parameters) -> str:
    values = {"parameters": parameters, "vocabulary": {}, "inputs": [], "files": [], "counts": {}}
    return json.dumps({"format_version": 1, "versions": {}} | values)


def test_what_info_json_says():
    assert RecordsInfo.from_json(info(), "info.json").has_masks
    assert not RecordsInfo.from_json(info(masks="none"), "info.json").has_masks
    with pytest.raises(InputError, match="says masks is 'some', which must be 'static' or 'none'"):
        RecordsInfo.from_json(info(masks="some"), "info.json")
    for name in MASK_PARAMETERS:
        with pytest.raises(InputError, match=f"says masks is 'none', but names {name}; make"):
            RecordsInfo.from_json(info(masks="none", **{name: 1}), "info.json")
