"""Which language a corpus seems to have, on sentences of several languages."""

import pytest

from beambert.pipelines.text.languages import language_notes

GERMAN = "Die Entscheidung ist nicht mit der Klage, sondern mit einer Rüge auf dem Weg."
ENGLISH = "The decision of the court was not in the file, and it is for that reason with him."
FRENCH = "La décision est dans le dossier, et elle est pour les parties une surprise."
RUSSIAN = "Решение суда не было в деле, и поэтому оно стало для сторон неожиданностью."
CHINESE = "法院的判决不在案卷之中,因此双方都感到意外。"
JAPANESE = "裁判所の判決は記録になく、当事者にとって意外なものであった。"
THAI = "คำพิพากษาของศาลไม่อยู่ในสำนวน"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((RUSSIAN, "ru"), ("यह है। वह नहीं है।", "hi")),
        *((CHINESE, "zh"), (JAPANESE, "ja"), (THAI, "th")),
        *((GERMAN * 3, "CODE"), (FRENCH * 3, "CODE")),
    ],
)
def test_another_language_is_told(text, code):
    (note,) = language_notes([text] * 3, "en")
    assert f"--language={code}," in note


@pytest.mark.parametrize(
    "texts",
    [
        [ENGLISH] * 30,
        ["모든 인간은 태어날 때부터 자유롭다."] * 3,
        [ENGLISH, GERMAN],
        [GERMAN],
        [ENGLISH, FRENCH, RUSSIAN],
        ["River, city."],
        [""],
        [],
    ],
)
def test_english_mixed_and_silent_texts_tell_nothing(texts):
    assert language_notes(texts, "en") == []


def test_a_language_that_is_given_is_right():
    assert language_notes([RUSSIAN], "ru") == language_notes([RUSSIAN], "uk") == []
