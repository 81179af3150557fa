"""Cleaning against the tokenizer, over every character there is, generated text and real files."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.text.cleaning import normalize_text, split_words
from beambert.pipelines.tokenizers.word_pieces import words_of

# The stated exception: the tokenizer drops these, cleaning breaks lines at them.
LINE_BREAKS_THE_TOKENIZER_DROPS = "\x0b\x0c\x85"


def apart(text: str) -> str:
    return re.sub(f"[{LINE_BREAKS_THE_TOKENIZER_DROPS}]", " ", text)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("1\r\n2\r3\x854\x0b5\x0c6\u20287\u20298\n9", "1\n2\n3\n4\n5\n6\n7\n8\n9"),
        ("\ufeffA  b\u00a0\u2003c\td.  \n \n\u3000E.", "A b c d.\n\nE."),
        ("hy\u00adphen zero\u200bwide \u202dleft\u202c n\x00ul\ufffd", "hyphen zerowide left nul"),
        # Left as they are: accents apart, entities, wrongly decoded text, typography.
        ("e\u0301 &amp; Ã© “x” – …", "e\u0301 &amp; Ã© “x” – …"),
        ("", ""),
        (" \r\n\t", "\n"),
    ],
)  # fmt: skip
def test_cases(text, cleaned):
    assert normalize_text(text) == cleaned


def test_lines_of_split_documents_stay_lines():
    assert normalize_text("One\x0cx\u2028y.\r\nTwo\rz.\n", is_split=True) == "One x y.\nTwo z.\n"


@pytest.mark.parametrize(
    "text", ["می\u200cروم", "क्\u200dष", "👩\u200d👧", "\u202bאב\u202c", "a\ufeffb\ufffd"]
)
def test_invisible_characters_stay_for_a_tokenizer(text):
    assert normalize_text(f" {text}\xa0\t {text}\r\n", keeps_invisible=True) == f"{text} {text}\n"
    assert normalize_text(text) != text


@pytest.mark.slow
def test_every_character_is_treated_as_the_tokenizer_treats_it():
    # The planes that have characters other than Han and private ones.
    codes = (
        code for plane in (0x00000, 0x10000, 0xE0000) for code in range(plane, plane + 0x10000)
    )
    # Python's tables are older than those of `regex`.
    known = (code for code in codes if unicodedata.category(chr(code)) not in ("Cn", "Cs"))
    characters = [chr(code) for code in known]
    for character in characters:
        pieces = words_of(f"a{character}b", do_lower_case=False)
        if character in LINE_BREAKS_THE_TOKENIZER_DROPS:
            expected = ("a\nb",)
        elif pieces == ["ab"]:
            expected = ("ab",)
        elif pieces == ["a", "b"]:
            expected = ("a b", "a\nb")
        else:
            expected = (f"a{character}b",)
        assert normalize_text(f"a{character}b") in expected, f"U+{ord(character):04X}"


TEXTS = st.text(
    st.sampled_from(
        "aB. é\u0301\n\r\t\x0b\x0c\x85\u00a0\u2028\u2029\u200b\u00ad\ufeff\ufffd中ไ😀\x00"
    )
    | st.characters(exclude_categories=["Cs"]),
    max_size=60,
)


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(TEXTS, st.booleans(), st.booleans())
def test_words_and_lines_stay(text, do_lower_case, is_split):
    cleaned = normalize_text(text, is_split)
    assert words_of(cleaned, do_lower_case) == words_of(apart(text), do_lower_case)
    breaks = "\n" if is_split else "\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]"
    assert len(cleaned.split("\n")) == len(re.split(breaks, text))
    assert normalize_text(cleaned, is_split) == cleaned


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(TEXTS)
def test_words_hold_all_but_white_space(text):
    assert "".join(split_words(text)) == "".join(text.split())


def test_words_of_scripts_without_spaces():
    assert split_words("The 中文 text ไทย, かな한국어 ok") == [
        "The", "中", "文", "text", "ไ", "ท", "ย", ",", "か", "な", "한국어", "ok",
    ]  # fmt: skip
