"""Records drawn to be shown: the same ones however the files are cut, and readable."""

import numpy as np
import pytest
from support.record_files import PACKED, RECORD, changed, serialize

from beambert.pipelines.records.reading import decode_rows, find_features
from beambert.pipelines.records.statistics import (
    SAMPLE_RECORDS,
    decode_record,
    hash_records,
    merge_samples,
    restore_ids,
    sample_rows,
)
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS


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
