"""The languages that tags of corpora name."""

import pytest

from beambert.errors import InputError
from beambert.pipelines.corpus.documents import LANGUAGES, check_language, language_of


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("de", "de"),
        ("EN", "en"),
        ("zh-Hant-TW", "zh"),
        ("pt_BR", "pt"),
        # FineWeb-2 and HPLT write ISO 639-3 and the script, in which Mandarin and Standard Arabic
        # have codes of their own.
        ("tha_Thai", "th"),
        ("cmn_Hani", "zh"),
        ("arb_Arab", "ar"),
        ("deu", "de"),
        # Cebuano has no code of ISO 639-1.
        ("ceb", "ceb"),
    ],
)
def test_tags(tag, code):
    assert language_of(tag) == code


@pytest.mark.parametrize("tag", ["", "xx", "English", "klingon", "zh-", "12", "de,en", "русский"])
def test_what_is_no_tag(tag):
    assert language_of(tag) == ""


def test_every_language_has_a_code_of_its_own():
    """ISO 639-1 has 183 languages and no two of them share a code of ISO 639-3."""
    assert len(LANGUAGES) == 183 and all(language_of(code) == code for code in LANGUAGES)


@pytest.mark.parametrize("language", ["us", "english", "zh-Hant", "deu", ""])
def test_the_flag_takes_codes_alone(language):
    with pytest.raises(InputError, match=f"^--language={language}: is not an ISO 639-1 code; give"):
        check_language(language)
