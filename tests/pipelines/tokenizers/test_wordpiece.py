"""Words, word pieces and their offsets against the original's own output and its description.

`BasicWords` and `word_pieces` are written from the description of the original's tokenizer (clean,
set Chinese characters apart, lower and strip accents, split punctuation, greedy longest match),
on Python's own Unicode tables.
"""

import json
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from support.nasty_text import (
    GOLDEN,
    NASTY,
    NEW_CAPITALS,
    NOT_TEXT,
    basic_words,
)

from beambert.pipelines.tokenizers import compiled_pieces, wordpiece
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.tokenizers.word_pieces import OffsetTokenizer, Tokenizer, words_of


class GraphTokenizer:
    """TensorFlow's graph with the method of the others."""

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool):
        tokenizer = wordpiece.Tokenizer(vocabulary, do_lower_case)
        text = tf.TensorSpec([None], tf.string)
        self._graph = tf.function(tokenizer, input_signature=[text], autograph=False)

    def tokenize_batch(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        encoded = [text.encode("utf-8", "replace") for text in texts]
        found = self._graph(tf.constant(encoded, tf.string))
        return found.values.numpy(), found.row_lengths().numpy()


TOKENIZERS = {
    "graph": GraphTokenizer, "python": Tokenizer, "compiled": compiled_pieces.Tokenizer
}  # fmt: skip


def word_pieces(word: str, ids: dict[str, int]) -> list[int]:
    unknown = [ids["[UNK]"]]
    if len(word) > 200:
        return unknown
    found, rest, prefix = [], word, ""
    while rest:
        size = next((n for n in range(len(rest), 0, -1) if prefix + rest[:n] in ids), 0)
        if not size:
            return unknown
        found.append(ids[prefix + rest[:size]])
        rest, prefix = rest[size:], "##"
    return found


def reference_ids(text: str, ids: dict[str, int], lower: bool) -> list[int]:
    return [i for word in basic_words(text, lower) for i in word_pieces(word, ids)]


def tokenize(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    ids, lengths = tokenizer.tokenize_batch(texts)
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


def index(vocabulary: Vocabulary) -> dict[str, int]:
    return {token: i for i, token in enumerate(vocabulary.tokens)}


@pytest.fixture(scope="module")
def small():
    return Vocabulary(tuple(GOLDEN["vocabulary"]))


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizers(small, request):
    return {lower: TOKENIZERS[request.param](small, lower) for lower in (True, False)}


@pytest.mark.parametrize("lower", [True, False])
class TestOriginal:
    """`golden/tokenization.json` holds what the original's code gave (see make_golden.py)."""

    key = staticmethod(lambda lower: "uncased" if lower else "cased")

    def test_pieces(self, lower, small, tokenizers):
        cases = GOLDEN["cases"]
        found = tokenize(tokenizers[lower], [case["text"] for case in cases])
        for case, ids in zip(cases, found, strict=True):
            pieces = [small.tokens[i] for i in ids]
            assert pieces == case[self.key(lower)]["pieces"], ascii(case["text"])

    def test_words(self, lower):
        for case in GOLDEN["cases"]:
            found = words_of(case["text"], lower)
            assert found == case[self.key(lower)]["words"], ascii(case["text"])

    def test_the_reference_of_these_tests(self, lower, small):
        for case in GOLDEN["cases"]:
            expected = [small.id_of(piece) for piece in case[self.key(lower)]["pieces"]]
            assert reference_ids(case["text"], index(small), lower) == expected


def differing_characters(tokenizer: type, lower: bool, characters: list[str]) -> set[int]:
    """Those whose pieces differ from the reference's between two letters."""
    words = [basic_words(f"a{c}b", lower) for c in characters]
    letters = sorted({letter for of_text in words for word in of_text for letter in word})
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters)))
    ids = index(vocabulary)
    found = tokenize(tokenizer(vocabulary, lower), [f"a{c}b" for c in characters])
    return {
        ord(c)
        for c, of_text, row in zip(characters, words, found, strict=True)
        if row != [i for word in of_text for i in word_pieces(word, ids)]
    }


CHARACTERS = [
    chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in NOT_TEXT
]


@pytest.mark.slow
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_character(name, lower):
    """Each assigned character: dropped, a space, a word, or part of one."""
    new = NEW_CAPITALS if name == "graph" and lower else set()
    assert differing_characters(TOKENIZERS[name], lower, CHARACTERS) <= new


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_character_is_lowered(name):
    """But for the exception that the graph's docstring states."""
    changed = [c for c in CHARACTERS if c.lower() != c or unicodedata.decomposition(c)]
    new = NEW_CAPITALS if name == "graph" else set()
    assert differing_characters(TOKENIZERS[name], True, changed) <= new


@pytest.mark.slow
@pytest.mark.parametrize("lower", [True, False])
@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(
    st.text(
        st.sampled_from(NASTY)
        | st.characters(
            exclude_categories=NOT_TEXT, exclude_characters="".join(map(chr, NEW_CAPITALS))
        ),
        max_size=60,
    )
)
def test_generated_text(lower, small, tokenizers, text):
    words = basic_words(text, lower)
    assert words_of(text, lower) == words
    assert tokenize(tokenizers[lower], [text]) == [reference_ids(text, index(small), lower)]


def test_lone_surrogates_are_question_marks(tokenizers, small):
    broken = json.loads('"a \\ud83d b"')
    (ids,) = tokenize(tokenizers[True], [broken])
    assert [small.tokens[i] for i in ids] == ["a", "?", "b"]
    assert words_of(broken, True) == ["a", "?", "b"]


def test_many_texts_are_cut_as_each_alone(tokenizers):
    texts = ["", "a b", " ", "\u03a3 unaffable \u03a3a", "x" * 201, "Stra\u00dfe"] * 3
    alone = [row for text in texts for row in tokenize(tokenizers[True], [text])]
    assert tokenize(tokenizers[True], texts) == alone


def load_vocabulary(shared_data, name):
    return Vocabulary.parse((shared_data / "vocab" / name).read_bytes(), name)


def test_public_cases(shared_data):
    folder = shared_data / "tokenizer_golden"
    read = lambda ending: (folder / f"ggml-vocab-bert-bge.gguf.{ending}").read_text("utf-8")  # noqa: E731
    texts = read("inp").split("\n__ggml_vocab_test__\n")[:-1]
    expected = [[int(i) for i in line.split()] for line in read("out").split("\n")[: len(texts)]]
    vocabulary = load_vocabulary(shared_data, "bert-base-uncased-vocab.txt")
    assert len(texts) == 46
    for tokenizer in TOKENIZERS.values():
        assert tokenize(tokenizer(vocabulary, True), texts) == expected


LONG = "a" * 201


@pytest.fixture(scope="module")
def offset_tokenizers(small):
    return {lower: OffsetTokenizer(small, lower) for lower in (True, False)}


def cut_offsets(tokenizer: OffsetTokenizer, text: str) -> list[tuple[str, str]]:
    """Each piece with what it was cut from."""
    found = tokenizer.tokenize_batch([text])
    tokens = [tokenizer.vocabulary.tokens[i] for i in found.ids]
    spans = zip(found.starts, found.ends, strict=True)
    return list(zip(tokens, (text[start:end] for start, end in spans), strict=True))


def check_offsets(found, texts: list[str], tokenizer: OffsetTokenizer, plain: Tokenizer) -> int:
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
def test_offsets_by_hand(text, expected, offset_tokenizers):
    assert cut_offsets(offset_tokenizers[True], text) == expected


def test_several_pieces_of_one_character():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "ᄒ", "##ᅡ", "##ᆫ", "x", "##x"))
    tokenizer = OffsetTokenizer(vocabulary, True)
    assert cut_offsets(tokenizer, "한x") == [("ᄒ", "한"), ("##ᅡ", "한"), ("##ᆫ", "한"), ("##x", "x")]


def test_accents_of_the_next_text_are_its_own(offset_tokenizers):
    found = offset_tokenizers[True].tokenize_batch(["e\u0301e", "\u0301a", ""])
    assert found.ends.tolist() == [3, 2]
    assert found.lengths.tolist() == [1, 1, 0]


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
def test_offsets_of_generated_text(lower, offset_tokenizers, tokenizers, texts):
    tokenizer = offset_tokenizers[lower]
    check_offsets(tokenizer.tokenize_batch(texts), texts, tokenizer, tokenizers[lower])
