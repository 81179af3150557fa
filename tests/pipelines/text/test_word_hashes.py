"""Words and their hashes, beside a regular expression; phrases, beside sets of tuples."""

import random
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.text import phrases
from beambert.pipelines.text.phrases import Phrases, compose, find_words, ngram_hashes

CHARACTERS = "aBé.-_ \n1Ωß'’东日り\u200b\u00ad\u0301ż٣कि"


def plain_words(text: str) -> list[str]:
    """Letters, marks and digits in lower case; single characters of Chinese and Japanese."""
    text = re.sub("[\u200b\u00ad]", "", unicodedata.normalize("NFC", text))
    letters = "".join(c.lower() if unicodedata.category(c)[0] in "LMN" else " " for c in text)
    return re.sub("([东日り])", r" \1 ", letters).split()


def words_of(text: str) -> list[str]:
    (text,) = compose([text])
    words = find_words(text)
    found = [text[start:end] for start, end in zip(words.starts, words.ends, strict=True)]
    return [re.sub("[\u200b\u00ad]", "", word).lower() for word in found]


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(st.text(CHARACTERS, max_size=40), st.text(CHARACTERS, max_size=40))
def test_words_and_their_hashes(one, other):
    assert words_of(one) == plain_words(one)
    hashes = find_words(*compose([f"{one} {other}"])).hashes.tolist()
    words = plain_words(f"{one} {other}")
    assert len(hashes) == len(words)
    assert len(set(hashes)) == len(set(words)) == len(set(zip(words, hashes, strict=True)))


def test_tokenized_text_has_the_words_of_running_text():
    running = find_words(*compose(["It's “a\u00adlive”—e.g. CAFÉ!"])).hashes
    tokenized = find_words(*compose(["it 's `` alive '' -- e.g. cafe\u0301 !"])).hashes
    assert running.tolist() == tokenized.tolist() and len(running) == 6


def test_hashes_are_polynomials():
    """By integers without a limit, modulo 2 ** 64; so they are the same on every machine."""
    golden, bits = 0x9E3779B97F4A7C15, (1 << 64) - 1

    def mix(number):
        number = (number ^ (number >> 32)) * golden & bits
        return number ^ (number >> 29)

    def plain(word):
        return mix(sum(ord(c) * pow(golden, place, 1 << 64) for place, c in enumerate(word)) & bits)

    words = ["the", "river", "東", "été"]
    hashes = find_words(" ".join(words)).hashes
    assert hashes.tolist() == [plain(word) for word in words]
    pair = mix((plain("the") * golden + plain("river")) & bits)
    assert ngram_hashes(hashes, 2)[0] == pair


def test_a_phrase_is_of_whole_words_in_one_text():
    found = Phrases.of_list(["river bank", "Zebra", "东日", "a b c"])
    texts = ["The River-Bank.", "riverbank", "zebras", "a ZEBRA", "x东日x", "东 x 日", "a b", "c"]
    assert {n: (m.words, m.source) for n, m in found.find(texts).items()} == {
        0: ("River-Bank", 0),
        3: ("ZEBRA", 1),
        4: ("东日", 2),
    }
    assert found.find([]) == {} and len(found) == 4


def shared(texts, others, n) -> set[int]:
    def runs(text):
        words = plain_words(text)
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    of_others = set().union(*map(runs, others))
    return {number for number, text in enumerate(texts) if runs(text) & of_others}


@pytest.mark.parametrize("window", [None, 64])
def test_runs_are_found_as_by_sets(window, monkeypatch):
    """Also where the words of a text are found in many parts."""
    if window:
        monkeypatch.setattr(phrases, "MOST_CHARACTERS", window)
    draw = random.Random(5)
    for _ in range(20):
        texts = [" ".join(draw.choices(["ab", "c", "dé", "E."], k=40)) for _ in range(8)]
        others = [" ".join(draw.choices(["ab", "c", "dé", "e"], k=40)) for _ in range(2)]
        found = Phrases.of_runs(enumerate(others), 6).find(texts)
        assert {*found} == shared(texts, others, 6)
        for number, match in found.items():
            assert match.words in unicodedata.normalize("NFC", texts[number])
            assert shared([match.words], [others[match.source]], 6) == {0}


def test_every_planted_run_is_found(monkeypatch):
    """At any place, also across the parts in which words are found."""
    monkeypatch.setattr(phrases, "MOST_CHARACTERS", 1 << 16)
    draw = random.Random(6)
    names = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 9))) for _ in range(5000)]
    test = [draw.choices(names, k=13) for _ in range(200)]
    found = Phrases.of_runs([(n, " ".join(each)) for n, each in enumerate(test)], 13)
    words = draw.choices(names, k=40_000)
    assert found.find([" ".join(words)]) == {}
    assert len(" ".join(words)) > 2 << 16
    # A run that lies across the end of the first part.
    before = len(" ".join(words)[: 1 << 16].split())
    for at in (0, before - 13, before - 6, before, len(words)):
        planted = [*words[:at], *test[at % 200], *words[at:]]
        match = found.find(["x", " ".join(planted)])[1]
        assert (match.source, match.words.split()) == (at % 200, test[at % 200])
        less = [*words[:at], *test[at % 200][:6], "x", *test[at % 200][6:], *words[at:]]
        assert found.find([" ".join(less)]) == {}


def test_runs_of_scripts_without_spaces_are_twice_as_long():
    """A passage of 26 characters is found, and the 25 of an official name are not."""
    draw = random.Random(8)
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 2000)]
    test = "".join(draw.choices(characters, k=60))
    found = Phrases.of_runs([(0, test)], 13)
    rest = "".join(draw.choices(characters, k=200))
    planted = [rest[:90] + test[20 : 20 + n] + rest[90:] for n in (13, 25, 26)]
    assert {*found.find(planted)} == {2}
    assert found.find(planted)[2].words == test[20:46]
    # Among characters, 13 words of another script are a run, as they are alone.
    names = ["".join(draw.choices("abcdefghij", k=6)) for _ in range(30)]
    mixed = Phrases.of_runs([(0, test[:30] + " ".join(names[:13]) + test[30:])], 13)
    texts = [" ".join(names[:n]) + rest for n in (12, 13)]
    assert {*mixed.find(texts)} == {1}
    # What is half of both is found in one way or the other.
    both = [part for pair in zip(names, test, strict=False) for part in pair]
    half = Phrases.of_runs([(0, " ".join(both))], 13)
    assert {*half.find([" ".join(both[3:29]), " ".join(both[3:15])])} == {0}
