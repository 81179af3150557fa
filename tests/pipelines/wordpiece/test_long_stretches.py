"""When word pieces have no words to be learned from."""

import pytest
from support.languages import ARTICLE_1

from beambert.pipelines.tokenizers.text_warnings import warn_of_unspaced_words


@pytest.mark.parametrize("language", ARTICLE_1)
def test_thai_alone_is_told(language):
    notes = warn_of_unspaced_words([ARTICLE_1[language]] * 2)
    assert len(notes) == (language == "th") and all("--kind=unigram" in note for note in notes)


@pytest.mark.parametrize("text", ["ខ្ញុំទៅផ្សារ", "ຂ້ອຍໄປຕະຫຼາດ", "ကျွန်တော်သွားတယ်"])
def test_khmer_lao_and_burmese(text):
    assert warn_of_unspaced_words([text]) and not warn_of_unspaced_words([text, "A text. " * 20])
    assert warn_of_unspaced_words([]) == []
