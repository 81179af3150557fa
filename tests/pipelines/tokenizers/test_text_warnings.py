"""Warnings about lost marks and about scripts without spaces."""

import pytest
from support.languages import ARTICLE_1

from beambert.pipelines.tokenizers.text_warnings import warn_of_lost_marks, warn_of_unspaced_words

JAPANESE = "私はありがとうございますと言いました。名前はまだ無い。"


@pytest.mark.parametrize(
    ("text", "example"),
    [
        (JAPANESE, "“私はありがとうございます” becomes “私はありかとうこさいます”"),
        ("नदी के किनारे हिन्दी पुस्तक", "“के” becomes “क”"),
        ("ภาษาไทยเป็นภาษาที่มีระดับเสียง", "becomes"),
        ("Die zuständige Behörde entscheidet.", "“zuständige” becomes “zustandige”"),
        ("Съешь ещё этих мягких французских булок", "“ещё” becomes “еще”"),
    ],
)
def test_scripts_that_lose_letters(text, example):
    (warning,) = warn_of_lost_marks([text])
    assert warning.startswith("warning: uncased text loses marks that make other letters, on ")
    assert example in warning and "give --do_lower_case=False" in warning


@pytest.mark.parametrize(
    "text",
    [
        "שָׁלוֹם עֲלֵיכֶם",
        "كَتَبَ الوَلَدُ",
        "ひらかな と カタカナ",
        "",
        "The river " * 100 + "ざ café",  # Some names in a book.
    ],
)
def test_harmless_losses_are_no_warning(text):
    assert warn_of_lost_marks([text]) == []


@pytest.mark.parametrize("language", ARTICLE_1)
def test_only_thai_has_no_spaces(language):
    notes = warn_of_unspaced_words([ARTICLE_1[language]] * 2)
    assert len(notes) == (language == "th") and all("--kind=unigram" in note for note in notes)


@pytest.mark.parametrize("text", ["ខ្ញុំទៅផ្សារ", "ຂ້ອຍໄປຕະຫຼາດ", "ကျွန်တော်သွားတယ်"])
def test_khmer_lao_and_burmese(text):
    assert warn_of_unspaced_words([text]) and not warn_of_unspaced_words([text, "A text. " * 20])
    assert warn_of_unspaced_words([]) == []
