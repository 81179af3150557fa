"""Records without masks, read by hand: their statistics, faults and features."""

import json

import numpy as np
import pytest
from support.record_files import IDS, PACKED, RECORD, changed, count, serialize

from beambert.errors import InputError
from beambert.pipelines.records.contract import (
    MASK_PARAMETERS,
    PREDICTION_FEATURES,
    RecordsInfo,
    feature_shapes,
)
from beambert.pipelines.records.encoding import encode_examples
from beambert.pipelines.records.figures import figures
from beambert.pipelines.records.reading import check_encoded, find_features
from beambert.pipelines.records.statistics import EVERY_HASH

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
    (mine,), (theirs,) = (encode_examples(each).to_pylist() for each in (rows | empty, rows))
    assert mine == theirs
    check_encoded(rows | empty, [mine], IDS)
    with pytest.raises(RuntimeError, match="differ"):
        check_encoded(rows | empty, [serialize(changed(PAIR, input_ids={1: 9}))] * 2, IDS)


def test_the_features_of_the_contract():
    assert feature_shapes(12, 0).keys() == feature_shapes(12, 4).keys() - set(PREDICTION_FEATURES)


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
