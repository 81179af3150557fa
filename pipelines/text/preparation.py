"""Cleans and filters documents, and splits them into sentences; and the flags for that. Pure."""

import dataclasses
from collections import Counter
from collections.abc import Mapping

from beambert.flags import FlagGroup
from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.text.cleaning import normalize_text
from beambert.pipelines.text.filters import (
    NO_FILTER,
    QUALITY_FILTERS,
    FilterSettings,
    blocked,
    drop_reason,
)
from beambert.pipelines.text.languages import MIN_PROBABILITY
from beambert.pipelines.text.scrubbing import DEFAULT_REGIONS, PLACEHOLDERS, scrub
from beambert.pipelines.text.sentences import (
    NO_SEGMENTER,
    SplitText,
    find_unspaced,
    split_sentences,
)

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
      segmenter: how words are found in scripts without spaces, see `sentences.mark_words`.
      scrub, phone_regions, scrub_model: what is replaced in the documents that are kept, see
        `scrubbing.scrub`.
      finds_unspaced: whether to find which sentences have no space before them, see `SplitText`. It
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
        reason = drop_reason(text, options.filters) if text else "empty"
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


def add_text_flags(group: FlagGroup) -> None:
    """Adds the flags for splitting documents into sentences and for dropping documents."""
    add = group.add_argument
    add("--language", default="en", help="ISO 639-1 code for the sentence splitter (default: en)")
    add(
        "--language_column",
        default="",
        metavar="NAME",
        help="column of JSON Lines, Parquet, CSV and TSV that names the language of each document, "
        "such as de, zh-Hant or tha_Thai, instead of --language; a null means --language",
    )
    add(
        "--sentences",
        choices=[SENTENCEX, LINE],
        default=SENTENCEX,
        help="how to split documents into sentences; sentencex: with the library of that name; "
        "line: each line is a sentence already, but --format=text joins hard-wrapped lines first, "
        "and --format=lines does not (default: sentencex)",
    )
    add(
        "--min_document_characters",
        type=int,
        default=0,
        metavar="N",
        help="least number of characters; shorter documents are dropped (default: 0)",
    )
    add(
        "--quality_filter",
        choices=[*QUALITY_FILTERS],
        default=NO_FILTER,
        help="filter for poor documents; gopher: the rules of Rae et al. 2021 that fit any "
        "language, against symbols in place of words, repeated passages and the like (default: "
        "none)",
    )
    add(
        "--duplicates",
        choices=[KEEP, EXACT, NEAR],
        default=KEEP,
        help="what to do with duplicates; keep: use all documents; exact: use one of several equal "
        "documents; near: also use one of several that share 80 %% of their phrases (default: "
        "keep)",
    )
    add(
        "--keep_languages",
        type=parse_names,
        default=(),
        metavar="CODE[,CODE]",
        help="ISO 639 codes of the languages to keep; documents in others are dropped, as a model "
        "of 176 languages finds (default: all; needs beambert[language])",
    )
    add(
        "--min_language_probability",
        type=float,
        default=MIN_PROBABILITY,
        metavar="P",
        help="least probability of the languages to keep (default: %(default)s)",
    )
    add(
        "--blocklist",
        default="",
        metavar="FILE",
        help="text file with a word or phrase on each line; documents that hold one are dropped",
    )
    add(
        "--decontaminate",
        nargs="+",
        action="extend",
        default=[],
        metavar="GLOB",
        help="evaluation files (JSON, JSON Lines, TSV, CSV, Parquet, CoNLL, text); documents that "
        "share 13 words in a row with one are dropped and listed",
    )
    add(
        "--scrub",
        type=parse_names,
        default=(),
        metavar="NAME[,NAME]",
        help=f"what to replace by a placeholder such as [email], among {', '.join(PLACEHOLDERS)} "
        "(default: nothing; phone, iban and card need beambert[scrub]); with --scrub_model also "
        "person, location, organization, us_ssn and others that presidio has",
    )
    add(
        "--scrub_model",
        default="",
        metavar="NAME",
        help="installed model of spaCy, or the folder of one, by which presidio finds names of "
        "persons and places in all documents (needs beambert[recognizer])",
    )
    add(
        "--phone_regions",
        type=parse_names,
        default=DEFAULT_REGIONS,
        metavar="CODE[,CODE]",
        help="ISO 3166 codes of the countries whose telephone numbers may stand without the "
        f"country's code (default: {','.join(DEFAULT_REGIONS)})",
    )


def describe_scrubbing(scrubbed: Mapping[str, int]) -> str:
    """Returns the part of a summary about what was replaced, by name; "" if nothing was."""
    counts = (f"{name} {count:,}" for name, count in scrubbed.items())
    return f"; replaced: {', '.join(counts)}" if scrubbed else ""


def parse_names(text: str) -> tuple[str, ...]:
    """Returns the names in a text with commas between them, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))
