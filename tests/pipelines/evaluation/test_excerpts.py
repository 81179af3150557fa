"""Excerpts are short, begin and end with whole words, and say that words are left out."""

import pytest

from beambert.pipelines.tasks.kind import excerpt

TEXT = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("most", "start", "expected"),
    [
        (48, 30, TEXT),
        (20, 0, "one two three four …"),
        (20, 9, "… four five six seven …"),
        (20, 44, "… eight nine ten"),
    ],
)
def test_excerpts(most, start, expected):
    assert excerpt(TEXT, most, start) == expected


def test_a_text_without_spaces_is_cut_anywhere():
    assert excerpt("x" * 900, 100, 50) == f"… {'x' * 100} …"
