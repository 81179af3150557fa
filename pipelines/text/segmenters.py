"""Finds the words of scripts that have no space between them, with libraries that know them.

ICU (the package icu4py) knows the words of Chinese, Japanese, Thai, Lao, Khmer and Burmese, and
chooses its dictionary by the script. Sudachi (SudachiPy and a dictionary) knows those of Japanese
better, with their inflected forms. docs/languages.md compares both with treebanks.
"""

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.text.cleaning import UNSPACED, UNSPACED_CHARACTER

# Values of --segmenter.
NO_SEGMENTER, ICU, SUDACHI = "none", "icu", "sudachi"
# Segmenter -> the languages whose words it finds.
LANGUAGES_OF = {ICU: ("zh", "ja", "th", "lo", "km", "my"), SUDACHI: ("ja",)}
SEGMENTERS = (NO_SEGMENTER, *LANGUAGES_OF)
# Segmenter -> the packages whose versions decide the words.
PACKAGES = {NO_SEGMENTER: (), ICU: ("icu4py",), SUDACHI: ("sudachipy", "sudachidict-small")}
# Codes of a character: whether it begins a word is told by the vocabulary, or here.
BY_VOCABULARY, CONTINUES, BEGINS = range(3)
# Number of characters for one call of Sudachi, which takes up to 49,149 bytes.
_CHARACTERS_AT_A_TIME = 10_000
# Finds where the words of a text begin, in characters from its first.
Segmenter = Callable[[str], Iterable[int]]


def check_segmenter(name: str, language: str, language_column: str, hides_words: bool) -> None:
    """Refuses a segmenter that has no effect, knows not the language, or isn't installed.

    Args:
      name: value of --segmenter.
      language: value of --language.
      language_column: value of --language_column; "" for none.
      hides_words: whether the masks hide whole words.

    Raises:
      InputError: it is refused.
    """
    if name == NO_SEGMENTER:
        return
    flag = f"--segmenter={name}"
    if name not in SEGMENTERS:
        raise InputError(f"{flag}: must be one of {', '.join(SEGMENTERS)}")
    if not hides_words:
        raise InputError(
            f"{flag}: has an effect only on the masks of whole words; add --masks=whole_word or "
            "--masks=span, or leave it out"
        )
    known = LANGUAGES_OF[name]
    if name == SUDACHI and language_column:
        raise InputError(
            f"{flag}: knows Japanese alone, and cannot be given beside "
            f"--language_column={language_column}; give --segmenter={ICU}, which goes by the script"
        )
    if language not in known and not language_column:
        raise InputError(
            f"{flag}: knows the words of {', '.join(known)}, and --language={language} is none of "
            "these; name the language of the text, or leave --segmenter out"
        )
    _make(name)


def mark_words(texts: Sequence[str], name: str) -> np.ndarray:
    """Returns the code of each character of texts, end to end, uint8 [characters].

    Args:
      texts: sentences.
      name: segmenter, a key of `LANGUAGES_OF`.
    """
    joined = "".join(texts)
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
    is_unspaced = _unspaced()[codes]
    begins = np.zeros(len(codes), bool)
    segmenter, start = _make(name), 0
    for text in texts:
        if is_unspaced[start : start + len(text)].any():
            # Half of a character of broken JSON is no text to a library.
            whole = text.encode("utf-8", "replace").decode()
            begins[[start + place for place in segmenter(whole)]] = True
        start += len(text)
    of_words = np.where(begins, np.uint8(BEGINS), np.uint8(CONTINUES))
    return np.where(is_unspaced, of_words, np.uint8(BY_VOCABULARY))


def segmenter_notes(texts: Iterable[str], name: str, hides_words: bool) -> list[str]:
    """Returns the line about masks of whole words in scripts whose words nobody finds; else none.

    Args:
      texts: texts from the corpus.
      name: value of --segmenter.
      hides_words: whether the masks hide whole words.
    """
    if name != NO_SEGMENTER or not hides_words:
        return []
    letters = unspaced = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        unspaced += len(UNSPACED_CHARACTER.findall(text))
    if 2 * unspaced <= letters or not letters:
        return []
    return [
        "masks: no spaces separate the words of this text, so that a single Chinese character and "
        "a whole stretch of kana or Thai count as words; --segmenter finds the words"
    ]


@functools.cache
def _make(name: str) -> Segmenter:
    return {ICU: _icu, SUDACHI: _sudachi}[name]()


def _icu() -> Segmenter:
    try:
        from icu4py.breakers import WordBreaker
    except ImportError as error:
        raise _missing(ICU, "icu4py") from error

    def starts(text: str) -> Iterable[int]:
        places = [start for start, _ in WordBreaker(text, "und").segments()]
        # ICU counts in halves of UTF-16, of which rare characters and emoji have two.
        if max(text) <= "\uffff":
            return places
        halves = np.cumsum([0, *(1 + (character > "\uffff") for character in text)])
        return np.searchsorted(halves, places)

    return starts


def _sudachi() -> Segmenter:
    try:
        import sudachidict_small  # noqa: F401  (SudachiPy finds the dictionary by its name)
        from sudachipy import Dictionary
    except ImportError as error:
        raise _missing(SUDACHI, "SudachiPy and sudachidict-small") from error
    tokenizer = Dictionary(dict="small").tokenizer()

    def starts(text: str) -> Iterable[int]:
        for first in range(0, len(text), _CHARACTERS_AT_A_TIME):
            part = text[first : first + _CHARACTERS_AT_A_TIME]
            yield from (first + word.begin() for word in tokenizer.tokenize(part))

    return starts


def _missing(name: str, packages: str) -> InputError:
    return InputError(
        f"--segmenter={name}: needs {packages}; install it with `pip install "
        "'beambert[segmenters]'`, also for workers elsewhere"
    )


@functools.cache
def _unspaced() -> np.ndarray:
    """Returns whether each character is of a script without spaces, bool [0x110000]."""
    found = np.zeros(0x110000, bool)
    ranges = UNSPACED.split("-")
    # "a-bc-d" is written for a to b and c to d.
    for first, last in zip(ranges[:-1], ranges[1:], strict=True):
        found[ord(first[-1]) : ord(last[0]) + 1] = True
    return found
