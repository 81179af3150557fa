"""Documents -> sentences worth learning from: cleaned, split, filtered. Pure."""

import dataclasses
from collections import Counter

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.text.cleaning import normalize_text
from beambert.pipelines.text.filters import FilterSettings, why_dropped
from beambert.pipelines.text.sentences import split_sentences

# Values of --duplicates.
KEEP, EXACT, NEAR = "keep", "exact", "near"
# Values of --sentences.
SENTENCEX, LINE = "sentencex", "line"


@dataclasses.dataclass(frozen=True)
class TextOptions:
    """How documents become sentences and tokens.

    Attributes:
      do_lower_case: for uncased vocabularies.
      language: for the sentence splitter.
      sentences: `SENTENCEX`, or `LINE` if each line is a sentence already.
      filters: which documents to drop.
      duplicates: `KEEP` them, or drop `EXACT` or also `NEAR` ones.
    """

    do_lower_case: bool = True
    language: str = "en"
    sentences: str = SENTENCEX
    filters: FilterSettings = FilterSettings()
    duplicates: str = KEEP


def prepare_documents(
    documents: list[Document], options: TextOptions, counts: Counter[str]
) -> list[list[str]]:
    """Returns the sentences of each document that is used.

    Args:
      documents: to prepare; emptied on the way, so that their text isn't held twice.
      options: of the job.
      counts: "dropped " and the reason is added to for every document that isn't used.
    """
    prepared = []
    documents.reverse()
    while documents:
        document = documents.pop()
        is_split = document.is_split or options.sentences == LINE
        text = normalize_text(document.text, is_split)
        del document
        reason = why_dropped(text, options.filters) if text else "empty"
        sentences = [] if reason else split_sentences(Document(text, is_split), options.language)
        if sentences:
            prepared.append(sentences)
        else:
            counts["dropped " + (reason or "empty")] += 1
    return prepared
