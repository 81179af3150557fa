"""Totals: those of any bundles are those of all elements, and no worker holds many."""

import random
from collections import Counter

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.corpus.reading import MOST_REJECTS, first_rejects
from beambert.pipelines.metrics import AT_A_TIME, Total, add_counts, total_of

exact = settings(derandomize=True, max_examples=50, deadline=None, database=None)


@exact
@given(st.lists(st.integers(-9, 9), max_size=200), st.integers(1, 9), st.booleans())
def test_any_division_has_the_same_total(numbers, bundles, compact):
    """Sums, and lists that are changed by nobody."""
    seen = []
    total = Total(lambda parts: seen.append(len(parts)) or sum(parts))
    accumulators = []
    for bundle in range(bundles):
        accumulator = total.create_accumulator()
        for number in numbers[bundle::bundles]:
            accumulator = total.add_input(accumulator, number)
            assert len(accumulator) < AT_A_TIME
        accumulators.append(total.compact(accumulator) if compact else accumulator)
    before = [list(one_accumulator) for one_accumulator in accumulators]
    assert total.extract_output(total.merge_accumulators(accumulators)) == sum(numbers)
    assert accumulators == before
    assert max(seen) < 2 * AT_A_TIME


def test_in_a_pipeline_and_of_nothing():
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        counts = pipeline | "Counts" >> beam.Create([Counter(a=1, b=-1)] * 100)
        none = pipeline | "None" >> beam.Create([])
        found = (
            pipeline
            | beam.Create([None])
            | beam.Map(
                lambda _, *totals: list(totals),
                total_of(counts, "Sum", add_counts),
                total_of(none, "SumNone", add_counts),
            )
        )
        assert_that(found, equal_to([[Counter(a=100, b=-100), Counter()]]))


def test_few_rejects_are_told_of_many():
    rows = [f"{i:06d}" for i in range(3 * MOST_REJECTS)]
    random.Random(1).shuffle(rows)
    halves = [first_rejects([[row] for row in rows[i::2]]) for i in range(2)]
    assert first_rejects(halves) == sorted(rows)[:MOST_REJECTS]
