"""Cleans and filters documents, and splits them into sentences; and the settings of that. Pure."""

import dataclasses
from collections import Counter
from typing import Any

from beambert.config import setting
from beambert.errors import InputError
from beambert.pipelines.corpus.documents import DEFAULT_LANGUAGE, Document, check_language
from beambert.pipelines.text.cleaning import normalize_text
from beambert.pipelines.text.filters import (
    NO_FILTER,
    QUALITY_FILTERS,
    blocked,
    drop_reason,
)
from beambert.pipelines.text.languages import MIN_PROBABILITY, check_languages
from beambert.pipelines.text.scrubbing import (
    DEFAULT_REGIONS,
    PLACEHOLDERS,
    check_scrubbing,
    scrub,
)
from beambert.pipelines.text.sentence_model import SentenceModel
from beambert.pipelines.text.sentences import (
    NO_SEGMENTER,
    SplitText,
    find_unspaced,
    split_sentences,
)

# Values of --duplicates.
KEEP, EXACT, NEAR = "keep", "exact", "near"
# Values of --sentences.
SENTENCEX, SAT = "sentencex", "sat"


def parse_names(text: str) -> tuple[str, ...]:
    """Returns the names in a string with commas between them, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSettings:
    """How documents are filtered and split into sentences; a base for the job's dataclass."""

    language: str = setting(
        DEFAULT_LANGUAGE, group="text", help="ISO 639-1 code for the sentence splitter"
    )
    language_column: str = setting(
        "",
        metavar="NAME",
        help="column of JSON Lines, Parquet, CSV and TSV that names the language of each document, "
        "such as de, zh-Hant or tha_Thai, instead of --language; a null means --language",
    )
    sentences: str = setting(
        SENTENCEX,
        choices=[SENTENCEX, SAT],
        help="how to split documents into sentences; sentencex: with the library of that name; "
        "sat: with the model of --sentence_model, also where no marks end the sentences (needs "
        "the extra sat)",
    )
    sentence_model: str = setting(
        "",
        metavar="DIR",
        help="SaT model of --sentences=sat: a folder with model_optimized.onnx, config.json and "
        "tokenizer.json",
    )
    min_document_characters: int = setting(
        0,
        minimum=0,
        metavar="N",
        help="least number of characters; shorter documents are dropped",
    )
    quality_filter: str = setting(
        NO_FILTER,
        choices=QUALITY_FILTERS,
        help="filter for poor documents; gopher: the rules of Rae et al. 2021 that fit any "
        "language, against symbols in place of words, repeated passages and the like",
    )
    duplicates: str = setting(
        KEEP,
        choices=[KEEP, EXACT, NEAR],
        help="what to do with duplicates; keep: use all documents; exact: use one of several equal "
        "documents; near: also use one of several that share 80 %% of their phrases",
    )
    keep_languages: tuple[str, ...] = setting(
        (),
        parse=parse_names,
        metavar="CODE[,CODE]",
        help="ISO 639 codes of the languages to keep; documents in others are dropped, as a model "
        "of 176 languages finds (default: all; needs the extra language)",
    )
    min_language_probability: float = setting(
        MIN_PROBABILITY,
        minimum=0,
        below=1,
        metavar="P",
        help="least probability of the languages to keep",
    )
    blocklist: str = setting(
        "",
        metavar="FILE",
        help="text file with a word or phrase on each line; documents that hold one are dropped",
    )
    decontaminate: tuple[str, ...] = setting(
        (),
        metavar="GLOB",
        help="evaluation files (JSON, JSON Lines, TSV, CSV, Parquet, CoNLL, text); documents that "
        "share 13 words in a row with one are dropped and listed",
    )
    scrub: tuple[str, ...] = setting(
        (),
        parse=parse_names,
        metavar="NAME[,NAME]",
        help=f"what to replace by a placeholder such as [email], among {', '.join(PLACEHOLDERS)} "
        "(default: nothing; phone, iban and card need the extra `scrub`)",
    )
    phone_regions: tuple[str, ...] = setting(
        DEFAULT_REGIONS,
        parse=parse_names,
        metavar="CODE[,CODE]",
        help="ISO 3166 codes of the countries whose telephone numbers may stand without the "
        "country's code",
    )

    def check_text(self) -> None:
        """Checks what needs a package or several values.

        Raises:
          InputError: a language, a name or a region is unknown, a package is missing, or a
            value has no effect.
        """
        check_language(self.language)
        check_languages(self.keep_languages)
        if not self.keep_languages and self.min_language_probability != MIN_PROBABILITY:
            raise InputError(
                f"--min_language_probability={self.min_language_probability}: has no effect "
                "without --keep_languages; leave it out or add that"
            )
        check_scrubbing(self.scrub, self.phone_regions)
        if self.sentences != SAT and self.sentence_model:
            raise InputError(
                f"--sentence_model={self.sentence_model}: has no effect with "
                f"--sentences={self.sentences}; leave it out or give --sentences={SAT}"
            )
        if self.sentences == SAT and not self.sentence_model:
            raise InputError(
                f"--sentences={SAT}: needs a model; name its folder with --sentence_model"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions(TextSettings):
    """What decides the sentences and tokens of documents: the settings, and what follows from them.

    Attributes:
      do_lower_case: True for uncased vocabularies.
      segmenter: how words are found in scripts without spaces, see `sentences.mark_words`.
      finds_unspaced: whether to find which sentences have no space before them, see `SplitText`. It
        is for tokenizers that mark words by spaces.
      keeps_invisible: see `normalize_text`.
      phrases: phrases of the file `blocklist`; documents with one are dropped.
      model: the model of `sentence_model`.
    """

    do_lower_case: bool = True
    segmenter: str = NO_SEGMENTER
    finds_unspaced: bool = False
    keeps_invisible: bool = False
    phrases: tuple[str, ...] = ()
    model: SentenceModel | None = None

    @classmethod
    def of(cls, settings: TextSettings, **others: Any) -> "TextOptions":
        """Returns the options of settings, and the values of the fields that are no settings."""
        names = [field.name for field in dataclasses.fields(TextSettings)]
        return cls(**{name: getattr(settings, name) for name in names}, **others)


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
    with_blocked = blocked([document.text for document in documents], options.phrases)
    count = len(documents)
    documents.reverse()
    while documents:
        document = documents.pop()
        is_split = document.is_split
        text = normalize_text(document.text, is_split, options.keeps_invisible)
        language = document.language or options.language
        del document
        if not text:
            counts["dropped empty"] += 1
            continue
        reason = drop_reason(text, options)
        if not reason and count - len(documents) - 1 in with_blocked:
            reason = "blocklist"
        if options.scrub and not reason:
            text, scrubbed = scrub(text, options.scrub, options.phone_regions)
            for name, number in scrubbed.items():
                counts["scrubbed " + name] += number
        whole = Document(text, is_split)
        sentences = [] if reason else split_sentences(whole, language, options.model)
        if sentences:
            # A line break stands between the sentences of a document that was split already.
            finds = options.finds_unspaced and not is_split
            prepared.append(SplitText(sentences, find_unspaced(text, sentences) if finds else ()))
        else:
            counts["dropped " + (reason or "empty")] += 1
    return prepared
