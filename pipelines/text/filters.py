"""Decides which documents are dropped, and why. Pure; works on one document at a time.

To add a filter, write a function, here or in a module of its own. Its argument is the text of a
document after `cleaning.normalize_text`. It returns the reason to drop the document (a word or two,
under which info.json counts it) or None. Then add it to `QUALITY_FILTERS` under a name, which
becomes a value of --quality_filter.
"""

import dataclasses
from collections.abc import Callable

from beambert.pipelines.text import gopher

# The value of --quality_filter that means no filter.
NONE = "none"
# The filters by the value of --quality_filter. A filter returns the reason to drop a text, or None.
QUALITY_FILTERS: dict[str, Callable[[str], str | None]] = {
    NONE: lambda text: None,
    "gopher": gopher.why_poor,
}


@dataclasses.dataclass(frozen=True)
class FilterSettings:
    """Settings for the documents that a job drops; the defaults drop none.

    Attributes:
      min_characters: least number of characters; shorter documents are dropped as `too_short`.
      quality: filter for all other documents, a key of `QUALITY_FILTERS`.
    """

    min_characters: int = 0
    quality: str = NONE


def why_dropped(text: str, settings: FilterSettings) -> str | None:
    """Returns the reason to drop a document, or None.

    Args:
      text: a document after `cleaning.normalize_text`; line feeds separate paragraphs or sentences.
      settings: settings of the job.
    """
    if len(text) < settings.min_characters:
        return "too_short"
    return QUALITY_FILTERS[settings.quality](text)
