"""Extending a vocabulary: the pieces that save most, by the tokenizer's own count."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.create_vocabulary import main
from beambert.pipelines.tokenizers.pieces import cut, longest_of
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.tokenizers.word_pieces import Tokenizer
from beambert.pipelines.vocabulary_learning.learning import (
    choose_pieces,
    extend_vocabulary,
    tokens_of,
)

LETTERS = "abcd"
PIECES = [*LETTERS, *(f"##{letter}" for letter in LETTERS), "ab", "##cd", "abc"]
exact = settings(derandomize=True, max_examples=30, deadline=None, database=None)
words = st.dictionaries(st.text(LETTERS, min_size=1, max_size=9), st.integers(1, 20), max_size=12)


@pytest.mark.slow
@exact
@given(words)
def test_words_are_cut_as_by_the_tokenizer(counts):
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *PIECES))
    ids, lengths = Tokenizer(vocabulary, True).tokenize_batch(list(counts))
    for word, of_word in zip(counts, np.split(ids, np.cumsum(lengths)[:-1]), strict=False):
        assert cut(word, PIECES, longest_of(PIECES)) == [vocabulary.tokens[n] for n in of_word]


@exact
@given(words)
def test_one_piece_is_the_best_of_all_joins(counts):
    """Against trying each substring of each word."""
    candidates = {
        mark + word[start:end]
        for word in counts
        for start, end in itertools.combinations(range(len(word) + 1), 2)
        for mark in ("" if start == 0 else "##",)
    } - set(PIECES)
    before = tokens_of(PIECES, counts)
    chosen = choose_pieces(PIECES, counts, 1)
    saved = before - tokens_of([*PIECES, *chosen], counts)
    best = max((before - tokens_of([*PIECES, each], counts) for each in candidates), default=0)
    assert bool(chosen) == (saved > 0) == (best > 0)
    # A piece that is also found elsewhere may save more, or less, than where it was joined.
    assert saved >= 0.7 * best


TEXT = "The hepatitis of hepatocytes is a hepatic matter. Hepatitis is hepatitis."


@pytest.fixture
def old(tmp_path):
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters), ".", "the", "is"]
    (tmp_path / "old.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "old.txt"


def flags(old, **others) -> list[str]:
    values = {
        "input": old.with_name("text.txt"),
        "extend": old,
        "output": old.with_name("new.txt"),
    } | others
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def test_old_tokens_stay_and_new_ones_save_what_is_said(old, capsys):
    main(flags(old, add=3))
    lines = old.with_name("new.txt").read_text().splitlines()
    before = old.read_text().splitlines()
    assert lines[: len(before)] == before
    assert lines[len(before)] == "hepatitis" and len(lines) == len(before) + 3
    told = capsys.readouterr().out.splitlines()[-1]
    said = json.loads(old.with_name("new.txt.json").read_text())["counts"]
    for tokens, name in ((before, "tokens_before"), (lines, "tokens_after")):
        ids, _ = Tokenizer(Vocabulary(tuple(tokens)), True).tokenize_batch([TEXT])
        assert len(ids) == said[name]
    assert said["counted_words"] == 13
    assert f"3 of them new; {said['tokens_after'] / 13:.3f} tokens a word instead of" in told
    main(flags(old, add=3))
    assert "already finished by the same command" in capsys.readouterr().out
    with pytest.raises(InputError, match="--add there 3, here 4"):
        main(flags(old, add=4))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({}, "--extend=.*: needs --add, the number"),
        ({"add": 2, "vocab_size": 900}, "--vocab_size=900: --extend adds"),
    ],
)
def test_what_does_not_fit_is_refused(old, others, message):
    with pytest.raises(InputError, match=message):
        main(flags(old, **others))
    assert [*old.parent.glob("new.txt*")] == []


def test_more_pieces_than_the_text_has():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *PIECES))
    assert extend_vocabulary(vocabulary, {"dab": 2}, 1).tokens == (*vocabulary.tokens, "dab")
    with pytest.raises(InputError, match="^--add=9: only 1 new pieces would save a token of this"):
        extend_vocabulary(vocabulary, {"dab": 2}, 9)


def test_what_is_too_long_for_a_word_becomes_no_piece():
    assert choose_pieces(PIECES, {"d" * 51: 1000, "dab": 1}, 1) == ["dab"]
    assert choose_pieces(PIECES, {"d" * 50: 1000, "dab": 1}, 1) == ["d" * 50]
