"""Words that a line's end divides are told; hyphens of other kinds are not."""

import shutil
import subprocess

import pytest

from beambert.pipelines.text.sentences import divided_word_notes

SCANNED = "The ship came to the moun-\ntains of ice, and its cap-\ntain stood on the deck.\n"


def test_divided_words_are_told_with_an_example():
    (note,) = divided_word_notes([SCANNED, SCANNED.replace("\n", " "), SCANNED])
    assert "divide 6 words" in note and "“moun- tains”" in note


@pytest.mark.parametrize(
    "text",
    [
        "a two- or three-year plan, the pre- and post-war years, ein Haupt- und Nebensatz; ",
        "a well-known man -\nas he said -- went 5-\nfold; ",
        "the well- @-@ known man; ",
        "South-\nAfrica and North-\nAmerica; ",
    ],
)
def test_other_hyphens_are_not(text):
    assert divided_word_notes([text] * 20) == []


def test_a_few_among_many_words_are_not():
    assert divided_word_notes(["The ship left. " * 5000 + SCANNED * 3]) == []
    assert divided_word_notes([]) == divided_word_notes([""]) == []


@pytest.mark.skipif(not shutil.which("perl"), reason="the advice names perl")
def test_the_advice_joins_them():
    (note,) = divided_word_notes([SCANNED] * 3)
    program = note.partition("-pe '")[2].removesuffix("'")
    command = ["perl", "-CSD", "-0777", "-pe", program]
    joined = subprocess.run(
        command, input="Gebir-\nge moun-\r\ntains", capture_output=True, text=True
    )
    assert joined.stdout == "Gebirge mountains"
