"""The words of scripts without spaces: cases that a speaker can judge, and what is refused."""

from unittest import mock

import pytest

from beambert.errors import InputError
from beambert.pipelines.text import sentences
from beambert.pipelines.text.sentences import (
    BEGINS,
    BY_VOCABULARY,
    check_segmenter,
    mark_words,
    segmenter_notes,
)


def words(text: str, name: str) -> list[str]:
    """The text with a space before each word that a segmenter finds; others stay as they are."""
    codes = mark_words([text], name)
    pairs = zip(text, codes.tolist(), strict=True)
    shown = ("|" * (code == BEGINS) + character for character, code in pairs)
    return "".join(shown).removeprefix("|").split("|")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("icu", "我们|在|北京|大学|学习|自然|语言|处理"),
        ("icu", "我們|在|臺灣大學|學習"),
        ("icu", "ฉัน|ไป|ตลาด"),
        ("icu", "ຂ້ອຍ|ໄປ|ຕະຫຼາດ"),
        ("icu", "ខ្ញុំ|ទៅ|ផ្សារ"),
        ("sudachi", "私|は|東京|の|大学|で|日本|語|を|学ん|で|い|ます"),
        ("sudachi", "リンゴ|を|食べ|まし|た"),
    ],
)
def test_words(name, text):
    assert words(text.replace("|", ""), name) == text.split("|")


def test_other_scripts_are_left_to_the_vocabulary():
    text = "Tokyo 2020 は 😀東京 で。ok"
    codes = mark_words(["a b", text], "icu")
    assert (codes[:3] == BY_VOCABULARY).all()
    shown = "".join(c for c, code in zip(text, codes[3:], strict=True) if code != BY_VOCABULARY)
    assert shown == "は東京で"


@pytest.mark.parametrize("name", ["icu", "sudachi"])
def test_places_are_counted_in_characters(name):
    """Libraries count in halves of UTF-16 or in bytes; the words behind an emoji are the same."""
    plain, behind = mark_words(["東京に行く"], name), mark_words(["😀𠮷😀東京に行く"], name)
    assert behind[-5:].tolist() == plain.tolist()
    assert mark_words(["", "\ud800東京に行く", ""], name)[-5:].tolist() == plain.tolist()


def test_sudachi_takes_texts_of_any_length():
    text = "東京に行く。" * 4000
    with mock.patch.object(sentences, "_CHARACTERS_AT_A_TIME", 600):
        cut = mark_words([text], "sudachi")
    assert cut.tolist() == mark_words(["東京に行く。"], "sudachi").tolist() * 4000


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            ("icu", "en", "", True),
            "--segmenter=icu: knows the words of zh, ja, .* --language=en",
        ),
        (("icu", "zh", "", False), "--segmenter=icu: has an effect only on .* add --masks="),
    ],
)
def test_what_has_no_effect_is_refused(given, error):
    with pytest.raises(InputError, match=f"^{error}"):
        check_segmenter(*given)


def test_the_note_about_words_that_nobody_finds():
    chinese, german = "人人生而自由，在尊严和权利上一律平等。", "Alle Menschen sind frei geboren."
    (note,) = segmenter_notes([chinese, german[:9]], "none", True)
    assert note.startswith("masks: no spaces separate") and "--segmenter" in note
    assert segmenter_notes([german, chinese[:5]], "none", True) == []
    assert segmenter_notes([chinese], "none", False) == []
    assert segmenter_notes([chinese], "icu", True) == segmenter_notes([], "none", True) == []
