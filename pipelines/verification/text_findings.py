"""Counts of a folder's text -> figures and warnings about what the text is. Pure functions."""

from collections.abc import Mapping
from typing import Any

from beambert.pipelines.records.artefacts import (
    ARTEFACTS,
    BROKEN_SHARE,
    PHRASE_TOKENS,
    UNKNOWN_WORD,
    ArtefactCounts,
)
from beambert.pipelines.records.contract import SOP, RecordsInfo, label_words
from beambert.pipelines.records.figures import MadeWith

# WikiExtractor leaves wiki markup in 0.15 % of the records of English Wikipedia. Entities that were
# not decoded are in 3.7 %.
MOST_ARTEFACTS = 0.005
# At most 0.15 % of the records of English Wikipedia are mainly of another script, or of words that
# an English vocabulary breaks up. Of German, French or Finnish records nearly all are.
MOST_FOREIGN = 0.01
# The commonest phrase of Wikipedia is in 0.9 % of the records ("he competed in the 2018 winter
# olympics") and that of novels in 0.1 %.
MOST_OF_A_PHRASE = 0.02
# A phrase of one document is in a record of every pass, and in those that draw their B from this
# document. So many times as many are not explained by that.
_BEYOND_CHANCE = 4
# Number of passes if it is unknown: the original's default.
_USUAL_PASSES = 10
# A model that does nothing but tell the sources apart recognises these random next pairs. If they
# are 10 %, it is right in 55 % of the cases, and a coin in 50 %.
MOST_FROM_ANOTHER_SOURCE = 0.1
_SCRIPTS_SHOWN = 4
# Tokens of a record for which `MOST_ARTEFACTS` and `MOST_OF_A_PHRASE` hold.
_USUAL_LENGTH = 128


def text_figures(counts: ArtefactCounts | None, info: RecordsInfo | None) -> dict[str, Any]:
    """Returns name -> shares of the records; None for what is not known."""
    shares: dict[str, Any] = {f"{kind}_share": None for kind in ARTEFACTS}
    shares |= dict.fromkeys(("broken_words_share", "scripts", "commonest_phrase"))
    shares["random_next_other_source_share"] = _other_source_share(info)
    if counts is None or not counts.records:
        return shares
    words = sum(counts.words.values())
    by_size = sorted(counts.words.items(), key=lambda item: (-item[1], item[0]))
    text, number = counts.commonest_phrase()
    return shares | {
        **{f"{kind}_share": _share(counts.having.get(kind, 0), counts) for kind in ARTEFACTS},
        "broken_words_share": _share(counts.broken, counts),
        "scripts": {name: round(n / words, 6) for name, n in by_size[:_SCRIPTS_SHOWN]},
        "commonest_phrase": {
            "text": text,
            "share": round(number / max(counts.phrase_records, 1), 6),
        },
    }


def _share(number: int, counts: ArtefactCounts) -> float:
    return round(number / counts.records, 6)


def _other_source_share(info: RecordsInfo | None) -> float | None:
    """Returns the share of random next pairs whose B is of another source than A."""
    counts = info.counts if info else {}
    if "random_next_other_source" not in counts or not counts.get("random_next"):
        return None
    return round(counts["random_next_other_source"] / counts["random_next"], 6)


def text_warnings(
    counts: ArtefactCounts | None, info: RecordsInfo | None, made_with: MadeWith, length: int
) -> list[str]:
    """Returns the warnings about the text of a folder's records of `length` tokens."""
    found = [_source_warning(info, made_with), _undecodable_warning(info)]
    if counts is not None and counts.records:
        found += [
            *(_artefact_warning(counts, kind, length) for kind in ARTEFACTS),
            _script_warning(counts),
            _broken_warning(counts),
            _phrase_warning(counts, info, made_with, length),
        ]
    return [text for text in found if text]


def _in_records(share: float, length: int) -> float:
    """Returns the share of longer records that have what a share of the usual ones has."""
    return 1 - (1 - share) ** max(1.0, length / _USUAL_LENGTH)


def _artefact_warning(counts: ArtefactCounts, kind: str, length: int) -> str:
    share = counts.having.get(kind, 0) / counts.records
    if share <= _in_records(MOST_ARTEFACTS, length):
        return ""
    return (
        f"{share:.1%} of the records contain {ARTEFACTS[kind]} (“{counts.examples[kind]}”), which "
        "the model would learn as text; check --format, or clean the input"
    )


def _script_warning(counts: ArtefactCounts) -> str:
    with_words = sum(counts.main_scripts.values())
    if not with_words:
        return ""
    main = max(counts.main_scripts, key=lambda name: (counts.main_scripts[name], name))
    others = {name: n for name, n in counts.main_scripts.items() if name != main}
    share = sum(others.values()) / with_words
    if share <= MOST_FOREIGN:
        return ""
    largest = max(others, key=lambda name: (others[name], name))
    of_them = others[largest] / with_words
    what = "words that are [UNK]" if largest == UNKNOWN_WORD else f"{largest} words"
    return (
        f"{share:.1%} of the records are not mainly of {main} words as the others are "
        f"({of_them:.1%} are of {what}); if the corpus should have one language, leave such "
        "documents out, and otherwise check that the vocabulary was learned from all of them"
    )


def _broken_warning(counts: ArtefactCounts) -> str:
    share = counts.broken / counts.records
    if share <= MOST_FOREIGN:
        return ""
    return (
        f"in {share:.1%} of the records more than {BROKEN_SHARE:.0%} of the tokens continue a "
        "word, as text of another language than the vocabulary's does, or with a small vocabulary "
        "that of a language with long words; leave documents of another language out, or learn a "
        "larger vocabulary from this text with `beambert vocab --vocab_size=`"
    )


def _phrase_warning(
    counts: ArtefactCounts, info: RecordsInfo | None, made_with: MadeWith, length: int
) -> str:
    text, number = counts.commonest_phrase()
    share = number / max(counts.phrase_records, 1)
    drawn = 0.0
    if info is not None and made_with.documents:
        # Where pairs are swapped, B is drawn only for those that had to be.
        draws = "forced_random_next" if made_with.pairs == SOP else "random_next"
        drawn = info.counts.get(draws, 0) / made_with.documents
    explained = (made_with.passes or _USUAL_PASSES) + drawn
    in_all = share * counts.records
    most = _in_records(MOST_OF_A_PHRASE, length)
    if share <= most or in_all <= _BEYOND_CHANCE * explained:
        return ""
    return (
        f"the same {PHRASE_TOKENS} tokens (“{text}”) are in {share:.1%} of the records, more than "
        "the passes over the corpus explain; remove boilerplate and repeated lines from the input"
    )


def _source_warning(info: RecordsInfo | None, made_with: MadeWith) -> str:
    share = _other_source_share(info) or 0.0
    is_remedied = info is not None and info.parameters.get("random_next") == "source"
    if share <= MOST_FROM_ANOTHER_SOURCE or is_remedied:
        return ""
    return (
        f"in {share:.1%} of the {label_words(made_with.pairs)[1]} pairs B is of another --input "
        "than A, so a model that only tells the sources apart is right in "
        f"{0.5 + share / 2:.1%} of the cases; if their texts differ in kind, make the records with "
        "--random_next=source"
    )


def _undecodable_warning(info: RecordsInfo | None) -> str:
    documents: Mapping[str, Any] = info.counts.get("documents", {}) if info else {}
    number, read = documents.get("with_replacement_characters", 0), documents.get("read", 0)
    if number <= MOST_ARTEFACTS * read:
        return ""
    return (
        f"{number:,} of {read:,} documents had U+FFFD in place of characters that could not be "
        "decoded, and these were dropped from their words; mend the encoding of the input"
    )
