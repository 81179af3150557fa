"""Pieces are the tokenizer's own; their offsets against Python's Unicode tables and by hand."""

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.nasty_text import GOLDEN, NASTY, NEW_CAPITALS, NOT_TEXT, basic_words

from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.tokenizers.wordpiece import OffsetTokenizer, Tokenizer

LONG = "a" * 201


@pytest.fixture(scope="module")
def small():
    return Vocabulary(tuple(GOLDEN["vocabulary"]))


@pytest.fixture(scope="module")
def tokenizers(small):
    return {lower: OffsetTokenizer(small, lower) for lower in (True, False)}


@pytest.fixture(scope="module")
def plain_tokenizers(small):
    return {lower: Tokenizer(small, lower) for lower in (True, False)}


def cut(tokenizer: OffsetTokenizer, text: str) -> list[tuple[str, str]]:
    """Each piece with what it was cut from."""
    found = tokenizer.tokenize_batch([text])
    tokens = [tokenizer.vocabulary.tokens[i] for i in found.ids]
    spans = zip(found.starts, found.ends, strict=True)
    return list(zip(tokens, (text[start:end] for start, end in spans), strict=True))


def check(found, texts: list[str], tokenizer: OffsetTokenizer, plain: Tokenizer) -> int:
    """Checks what holds of any text; returns how many pieces were compared with their text."""
    ids, lengths = plain.tokenize_batch(texts)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.lengths, lengths)
    tokens, compared, first = tokenizer.vocabulary.tokens, 0, 0
    for text, length in zip(texts, lengths.tolist(), strict=True):
        starts, ends, pieces = (
            column[first : first + length].tolist()
            for column in (found.starts, found.ends, found.ids)
        )
        first += length
        assert all(0 <= start < end <= len(text) for start, end in zip(starts, ends, strict=True))
        for number, piece in enumerate(pieces):
            start, end = starts[number], ends[number]
            if number and ends[number - 1] > start:
                # Pieces of one character, and nothing else, overlap.
                assert starts[number - 1] < ends[number - 1] == start + 1
                continue
            if number + 1 < length and starts[number + 1] < end:
                assert end - starts[number + 1] == 1
                continue
            (word,) = basic_words(text[start:end], tokenizer.do_lower_case)
            if tokens[piece] != "[UNK]":
                # Whether a sigma is final depends on what stands around it.
                normalized = tokens[piece].removeprefix("##").replace("ς", "σ")
                assert word.replace("ς", "σ") == normalized, (text, number)
            # What is left out between pieces has no letters, nor accents of the piece before.
            between = text[end : starts[number + 1] if number + 1 < length else len(text)]
            assert basic_words(between, tokenizer.do_lower_case) == []
            if tokenizer.do_lower_case and between:
                assert unicodedata.category(between[0]) != "Mn"
            compared += 1
    return compared


@pytest.mark.slow
@pytest.mark.parametrize("lower", [True, False])
def test_original_cases(lower, tokenizers, plain_tokenizers):
    """On texts whose pieces the original release's code gave."""
    texts = [case["text"] for case in GOLDEN["cases"]]
    found = tokenizers[lower].tokenize_batch(texts)
    pieces = [tokenizers[lower].vocabulary.tokens[i] for i in found.ids]
    key = "uncased" if lower else "cased"
    assert pieces == [piece for case in GOLDEN["cases"] for piece in case[key]["pieces"]]
    assert check(found, texts, tokenizers[lower], plain_tokenizers[lower]) > 300


CASES = [
    ("The unaffable", [("the", "The"), ("un", "un"), ("##aff", "aff"), ("##able", "able")]),
    # Composed and decomposed accents, and one that follows white space.
    ("Café Cafe\u0301!", [("cafe", "Café"), ("cafe", "Cafe\u0301"), ("!", "!")]),
    ("a \u0301b", [("a", "a"), ("b", "b")]),
    ("İ\u0307a", [("i", "İ\u0307"), ("##a", "a")]),
    # Controls are inside what they stand in, and not at its ends.
    ("\u200bun\u200baff\u00adable\u200b.", [
        ("un", "un"), ("##aff", "aff"), ("##able", "able"), (".", "."),
    ]),
    ("\u200bh\u200bello", [("hello", "h\u200bello")]),
    # Three letters in one character.
    ("한국", [("[UNK]", "한국")]),
    ("中文x", [("中", "中"), ("文", "文"), ("x", "x")]),
    ("(☃☃e\u0301)", [("(", "("), ("[UNK]", "☃☃e\u0301"), (")", ")")]),
    (f"a {LONG}.", [("a", "a"), ("[UNK]", LONG), (".", ".")]),
    # "Not equal" decomposes to a punctuation character and a stroke.
    ("b≠c", [("b", "b"), ("[UNK]", "≠"), ("c", "c")]),
    ("\ud83d?", [("?", "\ud83d"), ("?", "?")]),
    ("", []),
    (" \u200b\n", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_by_hand(text, expected, tokenizers):
    assert cut(tokenizers[True], text) == expected


def test_several_pieces_of_one_character():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "ᄒ", "##ᅡ", "##ᆫ", "x", "##x"))
    tokenizer = OffsetTokenizer(vocabulary, True)
    assert cut(tokenizer, "한x") == [("ᄒ", "한"), ("##ᅡ", "한"), ("##ᆫ", "한"), ("##x", "x")]


def test_accents_of_the_next_text_are_its_own(tokenizers):
    found = tokenizers[True].tokenize_batch(["e\u0301e", "\u0301a", ""])
    assert found.ends.tolist() == [3, 2]
    assert found.lengths.tolist() == [1, 1, 0]


def test_no_texts(tokenizers):
    found = tokenizers[True].tokenize_batch([])
    assert [len(column) for column in (found.ids, found.starts, found.ends, found.lengths)] == [
        0
    ] * 4


@pytest.mark.slow
@pytest.mark.parametrize("lower", [True, False])
def test_every_character(lower):
    """Each assigned character between two letters, of the scripts without case every 20th."""
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "a", "##a", "b", "##b", "A", "##A"))
    characters = [
        chr(code)
        for code in range(0x30000)
        if unicodedata.category(chr(code)) not in NOT_TEXT and code not in NEW_CAPITALS
        if unicodedata.category(chr(code)) != "Lo" or code % 20 == 0
    ]
    texts = ["a" + "b a".join(some) + "b" for some in np.array_split(characters, 500)]
    tokenizer = OffsetTokenizer(vocabulary, lower)
    found = tokenizer.tokenize_batch(texts)
    assert check(found, texts, tokenizer, Tokenizer(vocabulary, lower)) > 20_000


@pytest.mark.slow
@pytest.mark.parametrize("lower", [True, False])
@settings(derandomize=True, max_examples=200, deadline=None, database=None)
@given(
    st.lists(
        st.text(
            st.sampled_from(NASTY)
            | st.characters(
                exclude_categories=NOT_TEXT, exclude_characters="".join(map(chr, NEW_CAPITALS))
            ),
            max_size=30,
        ),
        max_size=4,
    )
)
def test_generated_text(lower, tokenizers, plain_tokenizers, texts):
    tokenizer = tokenizers[lower]
    check(tokenizer.tokenize_batch(texts), texts, tokenizer, plain_tokenizers[lower])


@pytest.mark.slow
@pytest.mark.parametrize("file", ["dev-v1.1.reconstructed.json", "dev-v2.0.reconstructed.json"])
@pytest.mark.parametrize(
    ("name", "lower"), [("bert-base-uncased-vocab.txt", True), ("bert-base-cased-vocab.txt", False)]
)
def test_squad(shared_data, file, name, lower):
    """All contexts and questions."""
    vocabulary = Vocabulary.parse((shared_data / "vocab" / name).read_bytes(), name)
    tokenizer = OffsetTokenizer(vocabulary, lower)
    texts = []
    for article in json.loads((shared_data / "squad" / file).read_text("utf-8-sig"))["data"]:
        for paragraph in article["paragraphs"]:
            texts += [paragraph["context"], *(qa["question"] for qa in paragraph["qas"])]
    found = tokenizer.tokenize_batch(texts)
    ids, lengths = Tokenizer(vocabulary, lower).tokenize_batch(texts)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.lengths, lengths)
    some = texts[::20]
    plain = Tokenizer(vocabulary, lower)
    compared = check(tokenizer.tokenize_batch(some), some, tokenizer, plain)
    assert compared > 10_000
