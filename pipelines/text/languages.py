"""Tells which language a corpus seems to have. Pure."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from beambert.pipelines.corpus.documents import DEFAULT_LANGUAGE

# Least share of the texts that tell their language in which the same one must be found.
_MOST_TEXTS = 0.6
# First word of the Unicode names of a script's letters -> code of a language that has it and rules
# for its sentences.
_OF_SCRIPT = {
    **{"CYRILLIC": "ru", "GREEK": "el", "ARMENIAN": "hy", "GEORGIAN": "ka", "HEBREW": "he"},
    **{"ARABIC": "ar", "DEVANAGARI": "hi", "BENGALI": "bn", "TAMIL": "ta", "TELUGU": "te"},
    **{"CJK": "zh", "THAI": "th", "KHMER": "km"},
}
_KANA = ("HIRAGANA", "KATAKANA")
# Least share of kana among the letters of Japanese. Half of the letters of a text are kana; in
# Chinese there are those of a name at most.
_LEAST_KANA = 0.1
_BEYOND_LATIN = re.compile(r"[^\0-\u024f]")
# Number of characters of a text that are looked at.
_LOOKED_AT = 10_000


def language_notes(texts: Sequence[str], language: str) -> list[str]:
    """Returns a line if texts of another language would be split by the rules of the default one.

    Args:
      texts: texts from the corpus.
      language: value of --language.
    """
    if language != DEFAULT_LANGUAGE:
        return []
    counts = Counter(filter(None, (_language_of(text[:_LOOKED_AT]) for text in texts)))
    found, count = next(iter(counts.most_common(1)), ("", 0))
    if found in ("", DEFAULT_LANGUAGE) or count < _MOST_TEXTS * counts.total():
        return []
    return [
        f"sentences: split by the rules of --language={language}, but the text looks like another "
        f"language; give --language={found}, which takes the rules for that one, or general ones"
    ]


def _language_of(text: str) -> str:
    """Returns the code of a text's language; empty if it doesn't tell."""
    letters = sum(map(str.isalpha, text))
    beyond = Counter(
        unicodedata.name(character, "").partition(" ")[0]
        for character in _BEYOND_LATIN.findall(text)
        if character.isalpha()
    )
    if sum(beyond[script] for script in _KANA) > _LEAST_KANA * letters:
        return "ja"
    script, count = next(iter(beyond.most_common(1)), ("", 0))
    if count > letters / 2:
        return _OF_SCRIPT.get(script, "")
    return DEFAULT_LANGUAGE
