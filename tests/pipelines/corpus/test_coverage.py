"""The sum over parts tells whether each was read once; any other reading has another sum."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.corpus.base import (
    FilePart,
    coverage,
    expected_coverage,
    split_at,
    split_evenly,
    split_sections,
)
from beambert.pipelines.input_files import InputFile

exact = settings(derandomize=True, max_examples=60, deadline=None, database=None)
FILES = [InputFile("a", 40 << 20), InputFile("gs://b/a", 400 << 20), InputFile("a 1", 5)]
PARTS = [
    *split_evenly(FILES[0], "lines"),
    *split_sections(FILES[1], "parquet", [30 << 20] * 9),
    FilePart(FILES[2], "auto"),
]


def sum_of(parts) -> int:
    return sum(map(coverage, random.Random(1).sample(parts, len(parts))))


def test_each_part_once():
    assert len(PARTS) > 15
    assert sum_of(PARTS) == expected_coverage(FILES)
    cut = split_at(FILES[0], "mediawiki", [5 << 20, 6 << 20, 11 << 20])
    assert len(cut) == 3 and sum_of(cut) == expected_coverage(FILES[:1])
    assert sum_of([]) == expected_coverage([]) == 0


@exact
@given(st.lists(st.integers(0, 3), min_size=len(PARTS), max_size=len(PARTS)))
def test_other_numbers_of_readings(times):
    parts = [part for part, count in zip(PARTS, times, strict=True) for _ in range(count)]
    assert (sum_of(parts) == expected_coverage(FILES)) == (set(times) == {1})
