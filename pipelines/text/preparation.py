"""Cleans and filters documents, and splits them into sentences. Pure."""

import dataclasses
from collections import Counter

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.text.cleaning import normalize_text
from beambert.pipelines.text.filters import FilterSettings, blocked, why_dropped
from beambert.pipelines.text.scrubbing import DEFAULT_REGIONS, scrub
from beambert.pipelines.text.segmenters import NO_SEGMENTER
from beambert.pipelines.text.sentences import SplitText, find_unspaced, split_sentences

# Values of --duplicates.
KEEP, EXACT, NEAR = "keep", "exact", "near"
# Values of --sentences.
SENTENCEX, LINE = "sentencex", "line"


@dataclasses.dataclass(frozen=True)
class TextOptions:
    """Options for turning documents into sentences and tokens.

    Attributes:
      do_lower_case: True for uncased vocabularies.
      language: ISO 639-1 code for the sentence splitter, for documents that name no language.
      sentences: `SENTENCEX`, or `LINE` if each line is a sentence already.
      filters: settings for the documents to drop.
      duplicates: `KEEP`, or `EXACT` or `NEAR` to drop such duplicates.
      segmenter: how words are found in scripts without spaces, see `segmenters`.
      scrub, phone_regions, scrub_model: what is replaced in the documents that are kept, see
        `scrubbing.scrub`.
      finds_unspaced: whether to tell which sentences have no space before them, see `SplitText`. It
        is for tokenizers that mark words by spaces.
    """

    do_lower_case: bool = True
    language: str = "en"
    sentences: str = SENTENCEX
    filters: FilterSettings = FilterSettings()
    duplicates: str = KEEP
    scrub: tuple[str, ...] = ()
    phone_regions: tuple[str, ...] = DEFAULT_REGIONS
    scrub_model: str = ""
    segmenter: str = NO_SEGMENTER
    finds_unspaced: bool = False


def prepare_documents(
    documents: list[Document], options: TextOptions, counts: Counter[str]
) -> list[SplitText]:
    """Returns the sentences of each document that is not dropped.

    Args:
      documents: documents to prepare. The list is emptied on the way, to save memory.
      options: options of the job.
      counts: counts to add to; each dropped document adds 1 to "dropped " and its reason,
        and each placeholder 1 to "scrubbed " and its name.
    """
    prepared = []
    with_blocked = blocked([document.text for document in documents], options.filters)
    count = len(documents)
    documents.reverse()
    while documents:
        document = documents.pop()
        is_split = document.is_split or options.sentences == LINE
        text = normalize_text(document.text, is_split)
        language = document.language or options.language
        del document
        reason = why_dropped(text, options.filters) if text else "empty"
        if not reason and count - len(documents) - 1 in with_blocked:
            reason = "blocklist"
        if options.scrub and not reason:
            text, scrubbed = scrub(text, options.scrub, options.phone_regions, options.scrub_model)
            for name, number in scrubbed.items():
                counts["scrubbed " + name] += number
        sentences = [] if reason else split_sentences(Document(text, is_split), language)
        if sentences:
            # A line break stands between the sentences of a document that was split already.
            finds = options.finds_unspaced and not is_split
            prepared.append(SplitText(sentences, find_unspaced(text, sentences) if finds else ()))
        else:
            counts["dropped " + (reason or "empty")] += 1
    return prepared
