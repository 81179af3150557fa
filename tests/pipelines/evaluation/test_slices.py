"""How examples are parted."""

import pytest

from beambert.pipelines.evaluation import measures as slices
from beambert.pipelines.tasks.choice import ChoiceExample
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.table_task import TextExample
from beambert.pipelines.tasks.tagging import TaggedExample


@pytest.mark.parametrize(
    ("words", "bucket"),
    [(1, "1-8"), (8, "1-8"), (9, "9-16"), (32, "17-32"), (256, "129-256"), (257, "257+")],
)
def test_length_buckets(words, bucket):
    """Bounds are inclusive; a pair counts both texts, a choice its longest ending."""
    assert slices.length_bucket(TextExample("w " * words, None, None, {})) == bucket
    pair = TextExample("w", "w " * (words - 1), None, {})
    assert slices.length_bucket(pair) == bucket
    assert slices.length_bucket(TaggedExample(("w",) * words, None)) == bucket
    choice = ChoiceExample("", None, None, {}, ("w", "w " * words))
    assert slices.length_bucket(choice) == bucket
    question = Question("id", "w", "w " * (words - 1), (), True)
    assert slices.length_bucket(question) == bucket


def numbered(labels, columns=({},)):
    """Returns examples of these labels."""
    return [
        TextExample("w", None, str(label), columns[i % len(columns)])
        for i, label in enumerate(labels)
    ]


def found(kind, examples, labels=()):
    """Returns the ways by name."""
    return {one.name: one for one in slices.slicings(kind, examples, labels)}


def test_numbers_are_parted_into_quarters():
    """Of as many examples where they differ; equal ones stay together."""
    label = found("regression", numbered([5, 1, 2, 3, 4, 6, 8, 7]))["label"]
    assert label.order == ("1 to 2", "3 to 4", "5 to 6", "7 to 8")
    assert label.values[:2] == ("5 to 6", "1 to 2")
    label = found("regression", numbered([1, 1, 1, 1, 1, 1, 2, 9]))["label"]
    assert label.order == ("1 to 1", "2 to 9")


def test_columns_with_few_values_part():
    """Not one with a single value, nor one with more than 20."""
    columns = [
        {"source": "ab"[i % 2], "one": "x", "id": str(i), "length": "yn"[i % 2], "row": "yn"[i % 2]}
        for i in range(21)
    ]
    ways = found("classification", numbered("10" * 10 + "1", columns), ["1", "0"])
    assert set(ways) == {"length", "label", "source", "column length", "row"}
    assert ways["source"].order == ("a", "b")
    assert ways["label"].order == ("1", "0")
    assert set(ways["length"].values) == {"1-8"}


def test_a_named_column_may_have_more_values():
    """By itself a column with many values makes no slices, as each has its own bootstrap."""
    examples = [TextExample("w", None, "x", {"country": str(i % 21)}) for i in range(60)]
    by_itself, named = (
        [slicing.name for slicing in slices.slicings("classification", examples, ["x", "y"], names)]
        for names in (None, ["country"])
    )
    assert "country" not in by_itself
    assert "country" in named


def test_slices_have_all_candidates_of_a_query():
    """By the length of the query, and by columns that say something about it alone."""
    examples = [
        TextExample(
            "w " * words,
            "w " * (7 * number),
            str(number % 2),
            {"language": "ab"[words % 2], "place": str(number)},
        )
        for words in (1, 8, 9, 40)
        for number in range(1, 5)
    ]
    ways = found("rerank", examples)
    assert set(ways) == {"length", "language"}
    assert ways["length"].values == ("1-8",) * 8 + ("9-16",) * 4 + ("33-64",) * 4
    assert ways["language"].values == ("b",) * 4 + ("a",) * 4 + ("b",) * 4 + ("a",) * 4
