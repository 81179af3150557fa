"""Decides which documents are dropped, and why. Pure; works on one document at a time.

To add a filter, write a function, here or in a module of its own. Its argument is the text of a
document after `cleaning.normalize_text`. It returns the reason to drop the document (a word or two,
under which info.json counts it) or None. Then add it to `QUALITY_FILTERS` under a name, which
becomes a value of --quality_filter.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

from beambert.errors import InputError
from beambert.pipelines.text import gopher
from beambert.pipelines.text.language_identification import MIN_PROBABILITY, language_probability
from beambert.pipelines.text.phrases import Phrases

# The value of --quality_filter that means no filter.
NO_FILTER = "none"
# The filters by the value of --quality_filter. A filter returns the reason to drop a text, or None.
QUALITY_FILTERS: dict[str, Callable[[str], str | None]] = {
    NO_FILTER: lambda text: None,
    "gopher": gopher.why_poor,
}


@dataclasses.dataclass(frozen=True)
class FilterSettings:
    """Settings for the documents that a job drops; the defaults drop none.

    Attributes:
      min_characters: least number of characters; shorter documents are dropped as `too_short`.
      quality: filter for all other documents, a key of `QUALITY_FILTERS`.
      languages: codes of the languages to keep; none to keep all. Others are dropped as
        `other_language`.
      min_language_probability: least probability of these languages.
      blocklist: phrases; documents with one are dropped as `blocklist`.
    """

    min_characters: int = 0
    quality: str = NO_FILTER
    languages: tuple[str, ...] = ()
    min_language_probability: float = MIN_PROBABILITY
    blocklist: tuple[str, ...] = ()


def why_dropped(text: str, settings: FilterSettings) -> str | None:
    """Returns the reason to drop a document, or None.

    Args:
      text: a document after `cleaning.normalize_text`; line feeds separate paragraphs or sentences.
      settings: settings of the job.
    """
    if len(text) < settings.min_characters:
        return "too_short"
    if settings.languages and not text.isspace():
        probability = language_probability(text, settings.languages)
        if probability < settings.min_language_probability:
            return "other_language"
    return QUALITY_FILTERS[settings.quality](text)


def blocked(texts: Sequence[str], settings: FilterSettings) -> set[int]:
    """Returns the numbers of the texts that hold a phrase of the blocklist.

    It looks at many texts at once, which takes much less time than one by one.
    """
    return {*_phrases(settings.blocklist).find(texts)} if settings.blocklist else set()


def read_blocklist(content: bytes, path: str) -> tuple[str, ...]:
    """Returns the phrases of a blocklist, one on each line that isn't blank.

    Args:
      content: content of the file.
      path: its path, for messages.

    Raises:
      InputError: it is not UTF-8, has no phrase, or has a line without a word.
    """
    try:
        lines = content.decode("utf-8-sig").splitlines()
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
