"""Cleaning against the tokenizer, over every character there is, generated text and real files."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.text.cleaning import normalize_text, split_words
from beambert.pipelines.tokenizers.wordpiece import word_splitter

# The stated exception: the tokenizer drops these, cleaning breaks lines at them.
LINE_BREAKS_THE_TOKENIZER_DROPS = "\x0b\x0c\x85"
SPLITTERS = {do_lower_case: word_splitter(do_lower_case) for do_lower_case in (False, True)}


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


@pytest.mark.slow
def test_every_character_is_treated_as_the_tokenizer_treats_it():
    # The planes that have characters other than Han and private ones.
    codes = (
        code for plane in (0x00000, 0x10000, 0xE0000) for code in range(plane, plane + 0x10000)
    )
    characters = [chr(code) for code in codes if not 0xD800 <= code < 0xE000 and code != 0x4E00]
    # The splitter gives the words of all texts end to end; U+4E00 is a word of its own.
    words = SPLITTERS[False]([f"\u4e00a{character}b" for character in characters])
    found = b" ".join(words).decode().split("\u4e00")[1:]
    for character, pieces in zip(characters, map(str.split, found), strict=True):
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
    splitter = SPLITTERS[do_lower_case]
    assert splitter([cleaned]) == splitter([apart(text)])
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
