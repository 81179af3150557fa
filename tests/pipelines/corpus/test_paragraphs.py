"""Hard-wrapped lines: Python's own textwrap undone, and real books."""

import re
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.corpus.encodings import decode
from beambert.pipelines.corpus.text_files import unwrap

exact = settings(derandomize=True, max_examples=100, deadline=None, database=None)
words = st.lists(st.sampled_from(["a", "the", "river", "of", "well-known", "Emma"]), min_size=1)
sentences = words.map(lambda some: " ".join(some).capitalize() + ".")
paragraphs = st.lists(sentences, min_size=3, max_size=12).map(" ".join)


def visible(text: str) -> str:
    return "".join(text.split())


@exact
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_nothing_is_lost(text):
    assert visible(unwrap(text)) == visible(text)


@pytest.mark.slow
@exact
@given(st.lists(paragraphs, min_size=2, max_size=4), st.integers(40, 80))
def test_wrapped_paragraphs_between_blank_lines(original, width):
    wrapped = "\n\n".join(textwrap.fill(p, width, break_long_words=False) for p in original)
    # At the ends of lines that happen to end a sentence a paragraph may be taken for two.
    found = unwrap(wrapped)
    assert found.replace("\n", " ") == " ".join(original)
    assert all(re.match("[A-Z]", line) and line.endswith(".") for line in found.split("\n"))
    assert set(" ".join(original).replace(". ", ".\n").split("\n")) >= {
        part for line in found.split("\n") for part in line.replace(". ", ".\n").split("\n")
    }


@pytest.mark.slow
@exact
@given(st.lists(paragraphs, min_size=2, max_size=4))
def test_wrapped_paragraphs_without_blank_lines(original):
    wrapped = "\n".join(textwrap.fill(f"{p} the end of it.", 60) for p in original)
    if sum(line[:1].islower() for line in wrapped.split("\n")) >= 0.3 * wrapped.count("\n"):
        assert all(line.endswith(".") for line in unwrap(wrapped).split("\n"))


def test_lines_without_blank_ones_are_paragraphs():
    assert unwrap("One\n  Two \nThree") == "One\nTwo\nThree"


def test_verse_without_blank_lines_stays_as_it_is():
    verse = "Of Man's first disobedience, and the fruit\nOf that forbidden tree\nBrought death"
    assert unwrap(verse) == verse


def test_long_lines_are_paragraphs():
    long = "word " * 40
    assert unwrap(f"{long}\n\n{long}\n{long}").count("\n") == 2


def test_windows_line_ends():
    assert unwrap("a\r\nb\r\n\r\nc\r\n") == "a b\nc"


def test_indented_first_lines_start_paragraphs():
    text = (
        "   It was a long line that had to be wrapped\nonce. And another that ends just here now.\n"
        "   The second paragraph begins with an indent\nand goes on.\n\nA third.\n"
    )
    assert [line[:8] for line in unwrap(text).split("\n")] == ["It was a", "The seco", "A third."]


def test_words_with_a_hyphen_at_the_end_of_a_line():
    text = "He was a well-\nknown man--\nand old.\n\nEnd."
    assert unwrap(text) == "He was a well-known man-- and old.\nEnd."


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n", "\f\f", "."])
def test_nothing_to_join(text):
    assert unwrap(text) == text.strip()


@pytest.mark.slow
def test_real_books_are_not_cut_within_sentences(shared_data):
    """Of the wrapped books, with and without blank lines, next to no line starts in lower case."""
    started, lines = 0, 0
    for folder in ("gutenberg_mixed_encodings", "novels"):
        for path in sorted((shared_data / folder).iterdir()):
            raw = "\n".join(decode(path.read_bytes(), ("utf-8", "cp1252"))[0].splitlines())
            if max(map(len, raw.split("\n"))) > 200:
                continue
            found = unwrap(raw).split("\n")
            started += sum(line[:1].islower() for line in found)
            lines += len(found)
            assert len(found) > 200, path.name
    assert lines > 90_000
    assert started < 0.0015 * lines
