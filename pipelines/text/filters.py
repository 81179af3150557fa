"""Decides which documents are dropped, and why. Pure; works on one document at a time.

To add a filter, write a function. Its argument is the text of a
document after `cleaning.normalize_text`. It returns the reason to drop the document (a word or two,
under which info.json counts it) or None. Then add it to `QUALITY_FILTERS` under a name, which
becomes a value of --quality_filter.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from beambert.compression import decompressed
from beambert.errors import InputError
from beambert.pipelines.text.cleaning import UNSPACED_CHARACTER, split_words
from beambert.pipelines.text.languages import language_probability
from beambert.pipelines.text.phrases import MULTIPLIER, Phrases

if TYPE_CHECKING:
    from beambert.pipelines.text.preparation import TextSettings

# The value of --quality_filter that means no filter.
NO_FILTER = "none"
# Number of characters that count as a word in scripts without spaces; see above.
UNSPACED_CHARACTERS_PER_WORD = 4
_LETTER = re.compile(r"[^\W\d_]")
_ELLIPSES = ("...", "…")
# Dashes are missing here, because in many languages they open the lines of a dialogue.
_BULLETS = ("•", "‣", "◦", "▪", "●", "*", "- ")
# Thresholds of the rules, from Rae et al. 2021, A.1.1 and Table A1, except where noted.
# A.1.1, "between 50 and 100,000 words". Shorter documents are not judged here. Longer ones are
# kept, because they are books.
_MIN_WORDS = 50
# A.1.1 has 3 and 10 characters for English. Here it is 2 because Korean words are short, and 16
# from FineWeb-2's configuration for Greenlandic (huggingface/fineweb-2, configs/kal_Latn.yml).
_MIN_MEAN_WORD_LENGTH, _MAX_MEAN_WORD_LENGTH = 2, 16
# A.1.1, "symbol-to-word ratio greater than 0.1 for either the hash symbol or the ellipsis".
_MAX_SYMBOLS_PER_WORD = 0.1
# A.1.1, "more than 90% of lines starting with a bullet point, or more than 30% ending with an
# ellipsis".
_MAX_BULLET_LINES, _MAX_ELLIPSIS_LINES = 0.9, 0.3
# A.1.1, "80% of words in a document contain at least one alphabetic character", of any alphabet.
_MIN_ALPHABETIC_WORDS = 0.8
# Table A1, duplicate line (and paragraph) fraction, and character fraction.
_MAX_REPEATED_LINES, _MAX_REPEATED_LINE_CHARACTERS = 0.3, 0.2
# Table A1, number of words -> top n-gram character fraction, and duplicate n-gram one.
_MAX_TOP_NGRAM = {2: 0.20, 3: 0.18, 4: 0.16}
_MAX_REPEATED_NGRAMS = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}


def reject_reason(text: str) -> str | None:
    """Returns the rule of Gopher's corpus MassiveText that a document breaks first, or None.

    They are from Rae et al. 2021, "Scaling Language Models: Methods, Analysis & Insights from
    Training Gopher", appendix A.1.1. The rules for English only (stop words) and for web pages only
    are left out. The rules drop lists of symbols, cut-off teasers, menus and text that repeats
    itself. Documents of fewer than 50 words are not judged, because shares of so few words say
    little. Another flag limits the length of documents.

    Words are separated by white space. In scripts written without spaces (Chinese, Japanese, Thai
    …), four characters count as a word. Thai words are about that long and Chinese words are
    shorter, so the rules are a little milder there.

    Args:
      text: a document after `cleaning.normalize_text`; line feeds separate paragraphs or sentences.

    Returns:
      The name of the rule: word_length, symbols, bullets, ellipses, not_words, repeated_lines,
      repeated_phrase or repeated_passages.
    """
    words = split_words(text)
    spaced = words if text.isascii() else text.split()
    starts = np.zeros(len(words) + 1, np.int64)
    np.fromiter(map(len, words), np.int64, len(words)).cumsum(out=starts[1:])
    characters = int(starts[-1])
    is_unspaced = False
    # Only then do two characters of such a script stand side by side.
    if len(words) > len(spaced):
        is_unspaced = len(UNSPACED_CHARACTER.findall(text)) > characters / 2
    size = UNSPACED_CHARACTERS_PER_WORD if is_unspaced else 1
    if len(words) < _MIN_WORDS * size:
        return None
    mean_length = characters / len(spaced)
    if not (is_unspaced or _MIN_MEAN_WORD_LENGTH <= mean_length <= _MAX_MEAN_WORD_LENGTH):
        return "word_length"
    most_symbols = _MAX_SYMBOLS_PER_WORD * len(words) / size
    if text.count("#") > most_symbols or sum(map(text.count, _ELLIPSES)) > most_symbols:
        return "symbols"
    lines = [line for line in text.split("\n") if line]
    if sum(line.startswith(_BULLETS) for line in lines) > _MAX_BULLET_LINES * len(lines):
        return "bullets"
    if sum(line.endswith(_ELLIPSES) for line in lines) > _MAX_ELLIPSIS_LINES * len(lines):
        return "ellipses"
    odd = [word for word in spaced if not word.isalpha()]
    if len(spaced) - len(odd) < _MIN_ALPHABETIC_WORDS * len(spaced):
        # Punctuation that stands alone, as in tokenized corpora, counts as no word.
        punctuation = sum(len(word) == 1 and not word.isalnum() for word in odd)
        without_letter = sum(not _LETTER.search(word) for word in odd) - punctuation
        judged = len(spaced) - punctuation
        if judged - without_letter < _MIN_ALPHABETIC_WORDS * judged:
            return "not_words"
    distinct = set(lines)
    repeated = sum(map(len, lines)) - sum(map(len, distinct))
    if (
        len(lines) - len(distinct) > _MAX_REPEATED_LINES * len(lines)
        or repeated > _MAX_REPEATED_LINE_CHARACTERS * characters
    ):
        return "repeated_lines"
    return _repetition_reason(words, starts, size)


def _repetition_reason(words: list[str], starts: np.ndarray, size: int) -> str | None:
    """Returns the rule for repeated n-grams that a document breaks first, or None.

    Args:
      words: words of the document; in scripts without spaces, its characters.
      starts: int64 [words + 1], number of characters before each word.
      size: number of items in `words` that count as a word.
    """
    number = {word: index for index, word in enumerate(dict.fromkeys(words))}
    ids = np.fromiter(map(number.__getitem__, words), np.uint64, len(words))
    characters = int(starts[-1])
    ngrams, n = ids, 1
    for length, share in _MAX_TOP_NGRAM.items():
        ngrams, n = _lengthen(ngrams, n, ids, length * size), length * size
        most = share * characters
        if _top_ngram_characters(ngrams, starts, n, most) > most:
            return "repeated_phrase"
    # A repeated n-gram also repeats all shorter n-grams in it. So the number of repeated characters
    # falls with n, and the search can end early.
    least = min(_MAX_REPEATED_NGRAMS.values()) * characters
    for length, share in _MAX_REPEATED_NGRAMS.items():
        ngrams, n = _lengthen(ngrams, n, ids, length * size), length * size
        repeated = _repeated_characters(ngrams, starts, n, least)
        if repeated > share * characters:
            return "repeated_passages"
        if repeated <= least:
            break
    return None


def _lengthen(ngrams: np.ndarray, n: int, ids: np.ndarray, length: int) -> np.ndarray:
    """Returns the hashes of all n-grams of `length` words, uint64 [words - length + 1].

    Args:
      ngrams: uint64 [words - n + 1], hashes of the n-grams of n words.
      n: number of words in each of `ngrams`.
      ids: uint64 [words], a number for each word.
      length: number of words in each n-gram of the result.
    """
    for last in range(n, length):
        ngrams = ngrams[:-1] * MULTIPLIER + ids[last:]
    return ngrams


def _top_ngram_characters(ngrams: np.ndarray, starts: np.ndarray, n: int, enough: float) -> int:
    """Returns the characters of the most frequent n-gram, times its count.

    Args:
      ngrams: uint64 [n-grams], a hash of each n-gram.
      starts: int64 [words + 1], number of characters before each word.
      n: number of words in an n-gram.
      enough: the result is 0 if it cannot be greater than this, which is much faster.
    """
    sizes = starts[n:] - starts[:-n]
    # For a result above `enough` an n-gram must occur in at least so many other places.
    others = max(1, int(enough / sizes.max(initial=1)))
    ordered = np.sort(ngrams)
    if not (ordered[others:] == ordered[:-others]).any():
        return 0
    _, first, counts = np.unique(ngrams, return_index=True, return_counts=True)
    # Among several equally frequent n-grams the longest counts.
    return int(counts.max() * sizes[first[counts == counts.max()]].max())


def _repeated_characters(ngrams: np.ndarray, starts: np.ndarray, n: int, enough: float) -> int:
    """Returns the number of characters in n-grams that occurred before, each counted once.

    The arguments are those of `_top_ngram_characters`.
    """
    longest = (starts[n:] - starts[:-n]).max(initial=0)
    ordered = np.sort(ngrams)
    if np.count_nonzero(ordered[1:] == ordered[:-1]) * longest <= enough:
        return 0
    _, first = np.unique(ngrams, return_index=True)
    is_repeat = np.zeros(len(starts), bool)
    is_repeat[: len(ngrams)] = True
    is_repeat[first] = False
    # A word is covered if a repeat starts at it or at one of the n - 1 words before it.
    repeats = np.cumsum(is_repeat)
    covered = repeats.copy()
    covered[n:] -= repeats[:-n]
    return int(np.diff(starts)[covered[:-1] > 0].sum())


# The filters by the value of --quality_filter. A filter returns the reason to drop a text, or None.
QUALITY_FILTERS: dict[str, Callable[[str], str | None]] = {
    NO_FILTER: lambda text: None,
    "gopher": reject_reason,
}


def drop_reason(text: str, options: "TextSettings") -> str | None:
    """Returns the reason to drop a document, or None.

    Args:
      text: a document after `cleaning.normalize_text`; line feeds separate paragraphs or sentences.
      options: settings of the job.
    """
    if len(text) < options.min_document_characters:
        return "too_short"
    if options.keep_languages and not text.isspace():
        probability = language_probability(text, options.keep_languages)
        if probability < options.min_language_probability:
            return "other_language"
    return QUALITY_FILTERS[options.quality_filter](text)


def blocked(texts: Sequence[str], phrases: tuple[str, ...]) -> set[int]:
    """Returns the numbers of the texts that hold one of some phrases.

    It looks at many texts at once, which takes much less time than one by one.
    """
    return {*_phrases(phrases).find(texts)} if phrases else set()


def read_blocklist(content: bytes, path: str) -> tuple[str, ...]:
    """Returns the phrases of a blocklist, one on each line that isn't blank.

    Args:
      content: content of the file, as stored.
      path: its path, for messages; by its ending, the content is decompressed.

    Raises:
      InputError: it is not UTF-8, has no phrase, or has a line without a word.
    """
    try:
        lines = decompressed(path, content).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"--blocklist={path}: is not UTF-8; convert it") from error
    for number, line in enumerate(lines, start=1):
        if line.strip() and not len(Phrases.of_list([line])):
            raise InputError(
                f"--blocklist={path}: line {number} has neither a letter nor a digit, so that it "
                "cannot be found; take it out"
            )
    phrases = tuple(line.strip() for line in lines if line.strip())
    if not phrases:
        raise InputError(
            f"--blocklist={path}: is empty; write a word or a phrase on each line, or leave the "
            "flag out"
        )
    return phrases


@functools.lru_cache(1)
def _phrases(blocklist: tuple[str, ...]) -> Phrases:
    return Phrases.of_list(blocklist)
