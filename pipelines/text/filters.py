"""Which documents are not worth learning from, and why. Pure; works on one document at a time.

To add a filter, write a function, here or in a module of its own, that takes the text of a document
after `cleaning.normalize_text` and returns why it should be dropped (a word or two, by which
info.json counts) or None. Then put it under a name into `QUALITY_FILTERS`: one line. The name is a
value of --quality_filter.
"""

import dataclasses
from collections.abc import Callable

from beambert.pipelines.text import gopher

# The value of --quality_filter for no filter.
NONE = "none"
# By the value of --quality_filter: text -> why it is dropped, or None.
QUALITY_FILTERS: dict[str, Callable[[str], str | None]] = {
    NONE: lambda text: None,
    "gopher": gopher.why_poor,
}


@dataclasses.dataclass(frozen=True)
class FilterSettings:
    """Which documents a job drops; as it stands, none.

    Attributes:
      min_characters: documents of fewer are `too_short`.
      quality: the filter of all others, a key of `QUALITY_FILTERS`.
    """

    min_characters: int = 0
    quality: str = NONE


def why_dropped(text: str, settings: FilterSettings) -> str | None:
    """Returns why a document should not be learned from, or None.

    Args:
      text: a document after `cleaning.normalize_text`; line feeds separate paragraphs or sentences.
      settings: those of the job.
    """
    if len(text) < settings.min_characters:
        return "too_short"
    return QUALITY_FILTERS[settings.quality](text)
