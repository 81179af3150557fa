"""When word pieces have no words to be learned from."""

import pytest
from support.languages import ARTICLE_1

from beambert.pipelines.wordpiece.long_stretches import long_stretch_notes


@pytest.mark.parametrize("language", ARTICLE_1)
def test_thai_alone_is_told(language):
    notes = long_stretch_notes([ARTICLE_1[language]] * 2)
    assert len(notes) == (language == "th") and all("--kind=unigram" in note for note in notes)


@pytest.mark.parametrize("text", ["ខ្ញុំទៅផ្សារ", "ຂ້ອຍໄປຕະຫຼາດ", "ကျွန်တော်သွားတယ်"])
def test_khmer_lao_and_burmese(text):
    assert long_stretch_notes([text]) and not long_stretch_notes([text, "A text. " * 20])
    assert long_stretch_notes([]) == []
