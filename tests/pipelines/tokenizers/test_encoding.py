"""Ids, offsets and framed inputs beside those of the `tokenizers` library itself."""

import pathlib

import numpy as np
import pytest
from support.tokenizer_kinds import BERT, KINDS, MODERNBERT, ROBERTA
from tokenizers import Tokenizer

from beambert.pipelines.tasks.squad import Answer, Question
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.windows import make_windows
from beambert.pipelines.tokenizers.encoding import (
    make_offset_tokenizer,
    make_tokenizer,
)
from beambert.pipelines.tokenizers.folders import read_given

OTHERS = [kind for kind in KINDS if kind != BERT]


def vocabulary_of(folder: pathlib.Path):
    def read(path: str, flag: str) -> bytes:
        return pathlib.Path(path).read_bytes()

    return read_given(None, str(folder), None, read, lambda path: pathlib.Path(path).exists())


def reference_of(folder: pathlib.Path, of_special: bool = True) -> Tokenizer:
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference.encode_special_tokens = of_special
    return reference


def in_turn(ids: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize("kind", OTHERS)
def test_ids_are_those_of_the_library(folders, golden_texts, kind):
    vocabulary, lower = vocabulary_of(folders[kind])
    tokenizer, reference = make_tokenizer(vocabulary, lower), reference_of(folders[kind])
    found = in_turn(*tokenizer.tokenize_batch(golden_texts))
    special = vocabulary.special
    roles = {special.padding, special.classify, special.separate, special.mask}
    for text, ids in zip(golden_texts, found, strict=True):
        expected = reference.encode(text, add_special_tokens=False).ids
        # What Unigram takes for a special token in a text is unknown to us.
        assert ids == [special.unknown if one in roles else one for one in expected], text
        assert not roles.intersection(ids)


def test_half_a_character_is_a_question_mark(folders):
    tokenizer = make_tokenizer(*vocabulary_of(folders[ROBERTA]))
    assert (
        in_turn(*tokenizer.tokenize_batch(["a\ud83d b", "a? b"]))
        == [in_turn(*tokenizer.tokenize_batch(["a? b"]))[0]] * 2
    )


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_framed_as_the_library_frames_them(folders, texts, kind):
    vocabulary, lower = vocabulary_of(folders[kind])
    features = TextFeatures(vocabulary, lower, 128)
    firsts, seconds = texts[:20], texts[20:40]
    for columns in ((firsts,), (firsts, seconds)):
        found = features(*columns)
        for row, pair in enumerate(zip(*columns, strict=True)):
            expected = reference_of(folders[kind]).encode(*pair)
            length = len(expected.ids)
            assert length < 128
            assert found["input_ids"][row, :length].tolist() == expected.ids
            assert found["segment_ids"][row, :length].tolist() == expected.type_ids
            padding = found["input_ids"][row, length:]
            assert set(padding.tolist()) == {vocabulary.special.padding}
            assert found["input_mask"][row].sum() == length


@pytest.mark.parametrize("kind", [ROBERTA, MODERNBERT])
def test_long_pairs_are_cut_to_fit_with_all_separators(folders, texts, kind):
    vocabulary, lower = vocabulary_of(folders[kind])
    features = TextFeatures(vocabulary, lower, 16)
    found = features([" ".join(texts[:5])], [" ".join(texts[5:9])])
    ids = found["input_ids"][0]
    assert found["input_mask"].sum() == 16
    assert ids[-1] == vocabulary.special.separate
    assert (ids == vocabulary.special.separate).sum() == 1 + vocabulary.separators


@pytest.mark.parametrize("kind", OTHERS)
def test_words_have_the_tokens_that_they_have_in_their_sentence(folders, texts, kind):
    vocabulary, lower = vocabulary_of(folders[kind])
    features, first_pieces = TextFeatures(vocabulary, lower, 128).of_words(texts[:9])
    for row, text in enumerate(texts[:9]):
        expected = reference_of(folders[kind]).encode(text)
        starts = [0, *(place + 1 for place, character in enumerate(text) if character == " ")]
        # The space before a word may be a token of its own, with which the word begins.
        places = [expected.word_ids.index(expected.char_to_word(start)) for start in starts]
        ids = features["input_ids"][row]
        assert ids[: len(expected.ids)].tolist() == expected.ids
        found = first_pieces[row]
        assert found[found >= 0].tolist() == places


@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_questions(folders, kind):
    """A window is the library's pair; the answer's tokens have the answer's characters."""
    vocabulary, lower = vocabulary_of(folders[kind])
    context = "The river began in the north. It ended in the old city, where music was played."
    answer = "the old city"
    given = Question(
        "1",
        "Where did the river end?",
        context,
        (Answer(answer, context.index(answer)),),
        False,
    )
    tokenizer = make_offset_tokenizer(vocabulary, lower)
    windows = make_windows([given], tokenizer, 256, 64, 64)
    expected = reference_of(folders[kind]).encode(given.question, context)
    assert windows.input_ids.tolist() == expected.ids
    assert windows.segment_ids.tolist() == expected.type_ids
    start, end = windows.start_positions, windows.end_positions
    places = windows.characters(np.array([0]), start, end)
    assert context[places[0][0] : places[1][0]] == answer
    assert expected.sequence_ids[windows.context_positions[0]] == 1
    assert expected.sequence_ids[windows.context_positions[0] - 1] is None


@pytest.mark.parametrize("kind", OTHERS)
def test_masks_in_a_text_are_the_library_s(folders, kind):
    vocabulary, lower = vocabulary_of(folders[kind])
    tokenizer = make_tokenizer(vocabulary, lower)
    mask = vocabulary.tokens[vocabulary.special.mask]
    text = f"The river ended in {mask} city{mask}."
    reference = reference_of(folders[kind], of_special=False)
    expected = reference.encode(text, add_special_tokens=False).ids
    found = tokenizer.tokenize_with_masks(text).tolist()
    assert found == expected
    assert found.count(vocabulary.special.mask) == 2
    # Afterwards a mask in a text is text again.
    ids, _ = tokenizer.tokenize_batch([text])
    assert vocabulary.special.mask not in ids
